//! Mutual exclusion: no two processes certainly believe at the same instant that they hold the same key. Each
//! overlap of an earlier hold A and a later hold B is a finding, and says whose fault it is. Its class
//! follows from how A's grant can have ended for the service when B was granted the lock: see
//! [`judgement`](crate::ledger::judgement). Where nothing can have ended it, the lock was *granted twice*.
//! Where A's lease may have run out, A *overstayed*; where a fault may have ended its session or connection,
//! A was *cut off*. The service gets the benefit of every doubt: A's lease ends at the earliest moment of its
//! interval, and B is granted at its latest.
//!
//! A lease that was over and was prolonged all the same is a second grant: a renewal of A that was asked for
//! after B's grant succeeded while B still believed and its lease still ran.
//!
//! How many may hold a key at once is a matter of [`Claim`]: of the shared mode (`"mode": "shared"`) any
//! number, of a semaphore (`"capacity": 3`) that many. Two holds that do not fit together overlap; where each
//! two fit, and all that are believed in at once do not, the last grant overlaps with all, as one finding.

use super::checker::{Blame, Checker, FindingClass, NotJudged, not_judged_if};
use crate::claim::Claim;
use crate::figures::figures;
use crate::ledger::judgement::{Class, class, whose};
use crate::ledger::reasons::reason;
use crate::prose::seconds;
use crate::run_index::RunIndex;
use crate::verdict::{Finding, Outcome, Verdict};
use crate::whose::{Harm, Whose};
use fencepost_history::prose::and;
use rustc_hash::FxHashMap;

figures! {
    /// How often two held a lock.
    ExclusionFigures of "exclusion" {
        holds: u64,
        granted_twice: u64,
        overstayed: u64,
        cut_off: u64,
    }
}

/// Processes that all believed. `first`, `second` and those `beside` are places in [`RunIndex::holds`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    pub first: usize,
    pub second: usize,
    /// Of a lock that several may hold: the other earlier holds, which left no room for the second.
    pub beside: Vec<usize>,
    pub class: Class,
    /// The instants between which all certainly believed; equal if the second did so only at its acquire.
    pub from_ns: u64,
    pub until_ns: u64,
}

/// All overlaps, in order of the second acquisition. There are at most as many a hold as there are processes.
/// A grant that its client called over as it learned of it, and did nothing under, overlaps with none.
pub fn overlaps(run: &RunIndex) -> Vec<Overlap> {
    let mut found = Vec::new();
    // Per key, the holds whose certain belief may reach beyond the acquisition at hand.
    let mut believing: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for (second, hold) in run.excluding_holds().filter(|(_, hold)| !hold.was_over_at_once()) {
        let earlier = believing.entry(hold.key).or_default();
        earlier.retain(|&first| run.holds[first].until > hold.from);
        let before = found.len();
        let excluded = earlier.iter().filter(|&&first| run.holds[first].excludes(hold));
        found.extend(excluded.map(|&first| overlap(run, &[first], second)));
        if found.len() == before && !fit(run, earlier, second) {
            found.push(overlap(run, earlier, second));
        }
        earlier.push(second);
    }
    found
}

fn fit(run: &RunIndex, earlier: &[usize], second: usize) -> bool {
    Claim::fit(earlier.iter().chain([&second]).map(|&at| run.holds[at].claim))
}

/// The overlap of holds that certainly overlapped. Of several earlier ones those that overstayed, were cut
/// off or were lost may have ended for the service: it was right if the others leave room.
fn overlap(run: &RunIndex, earlier: &[usize], second: usize) -> Overlap {
    let b = &run.holds[second];
    let classes = earlier.iter().map(|&first| (first, class(run, &run.holds[first], b)));
    let (held, ended): (Vec<_>, Vec<_>) = classes.partition(|(_, class)| *class == Class::GrantedTwice);
    let held: Vec<usize> = held.into_iter().map(|(first, _)| first).collect();
    let (first, class) = match ended.first() {
        Some(ended) if fit(run, &held, second) => *ended,
        _ => (decisive(run, &held, second).unwrap_or(earlier[0]), Class::GrantedTwice),
    };
    let until_ns = earlier.iter().map(|&first| run.holds[first].until_ns).fold(b.until_ns, u64::min);
    let beside = earlier.iter().copied().filter(|&other| other != first).collect();
    Overlap { first, second, beside, class, from_ns: b.from_ns, until_ns: until_ns.max(b.from_ns) }
}

/// Of holds whose lock was granted twice the one that decides whose failure that is.
fn decisive(run: &RunIndex, held: &[usize], second: usize) -> Option<usize> {
    let is_lost = |first: &usize| {
        let (a, b) = (&run.holds[*first], &run.holds[second]);
        matches!(whose(run, Class::GrantedTwice, a, b), (Whose::Service, _))
    };
    let (lost, kept): (Vec<usize>, Vec<usize>) = held.iter().copied().partition(is_lost);
    if fit(run, &kept, second) { lost.first().copied() } else { kept.last().copied() }
}

/// What is wrong with the holds of an overlap, where the kind of the lock says more than that they are two.
pub fn too_many(run: &RunIndex, overlap: &Overlap) -> Option<String> {
    let holds = [overlap.first, overlap.second].into_iter().chain(overlap.beside.iter().copied());
    let claims: Vec<Claim> = holds.map(|at| run.holds[at].claim).collect();
    Claim::too_many(&claims, run.lock.kind)
}

pub(super) const EXCLUSION: Checker = Checker {
    classes: &[
        FindingClass {
            name: "granted-twice",
            meaning: "The lock service granted the lock while the lease of an earlier holder was still running.",
            advice: "Check how the service counts leases and which data survives a fault; a fencing token limits the damage.",
        },
        FindingClass {
            name: "overstayed",
            meaning: "The earlier holder went on after its lease had run out, which no lease can prevent.",
            advice: "Let the storage reject late writes by a fencing token.",
        },
        FindingClass {
            name: "cut-off",
            meaning: "The earlier holder went on after a fault that may have ended its session or connection, and with it \
                      the lock.",
            advice: "Let the holder watch the session or connection that keeps its lock, and the storage reject late \
                     writes by a fencing token.",
        },
    ],
    harm: Harm::GrantedTwice,
    blame: Blame::ByHolders,
    ..Checker::of::<ExclusionFigures>(
        "mutual exclusion: no two processes believe at the same time that they hold the same lock",
        check,
    )
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    not_judged_if!(
        !run.holds.is_empty() && run.excluding_holds().next().is_none(),
        "the lock does not claim to exclude anybody"
    );
    let overlaps = overlaps(run);
    let count = |class| overlaps.iter().filter(|overlap| overlap.class == class).count();
    let (twice, overstayed) = (count(Class::GrantedTwice), count(Class::Overstayed));
    let cut_off = count(Class::CutOff);
    let holds = run.holds.len();
    let (outcome, summary) = if holds == 0 {
        (Outcome::Unknown, "no process ever acquired a lock".to_owned())
    } else if overlaps.is_empty() {
        let summary = match run.excluding_holds().all(|(_, hold)| hold.claim.is_alone()) {
            true => format!("no two of {holds} holds overlapped"),
            false => format!("no more of {holds} holds overlapped than fit together"),
        };
        (Outcome::Valid, summary)
    } else {
        let times = match overlaps.len() {
            1 => "once".to_owned(),
            many => format!("{many} times"),
        };
        let mut kinds = vec![format!("{twice} granted twice")];
        if overstayed > 0 || (run.lock.lease.runs_out() && cut_off == 0) {
            kinds.push(format!("{overstayed} overstayed"));
        }
        if cut_off > 0 {
            kinds.push(format!("{cut_off} cut off"));
        }
        let kinds = kinds.join(", ");
        let many = match overlaps.iter().all(|overlap| overlap.beside.is_empty()) {
            true => "two holds of one lock overlapped",
            false => "more holds of one lock overlapped than it has room for,",
        };
        let summary = format!("{many} {times}, among {holds} holds: {kinds}");
        (Outcome::Violation, summary)
    };
    // Cut here already: sentences for a million overlaps would cost more than everything else.
    let cut = |class| overlaps.iter().filter(move |overlap| overlap.class == class);
    let shown = Class::ALL.into_iter();
    let findings = shown.flat_map(|class| cut(class).take(crate::verdict::FINDINGS_MAX));
    let verdict = Verdict::new(checker.name, outcome, summary)
        .with_figures(&ExclusionFigures {
            holds: holds as u64,
            granted_twice: twice as u64,
            overstayed: overstayed as u64,
            cut_off: cut_off as u64,
        })
        .with_findings(findings.map(|overlap| finding(run, overlap)).collect());
    Ok(verdict)
}

fn finding(run: &RunIndex, overlap: &Overlap) -> Finding {
    let (a, b) = (&run.holds[overlap.first], &run.holds[overlap.second]);
    let mut events = vec![a.from, b.from, a.until];
    events.extend(overlap.beside.iter().map(|&other| run.holds[other].from));
    let sentence = sentence(run, overlap);
    Finding::new(overlap.class.name(), b.key, b.from_ns, events, sentence)
}

pub(crate) fn sentence(run: &RunIndex, overlap: &Overlap) -> String {
    let (a, b) = (&run.holds[overlap.first], &run.holds[overlap.second]);
    let others: Vec<String> =
        overlap.beside.iter().map(|&other| run.holds[other].process.to_string()).collect();
    let beside = match others.len() {
        0 => String::new(),
        1 => format!(", and so did process {}", others[0]),
        _ => format!(", and so did processes {}", and(&others)),
    };
    let kind = too_many(run, overlap).map_or(String::new(), |words| format!(": {words}"));
    format!(
        "{} while process {}, which had acquired it at {}, still believed at {} that it \
         held it{beside}{kind}; {}",
        b.acquired(),
        a.process,
        seconds(a.from_ns),
        seconds(a.until_ns),
        reason(run, overlap.class, a, b),
    )
}

#[cfg(test)]
mod own_word_tests;
#[cfg(test)]
mod tests;
