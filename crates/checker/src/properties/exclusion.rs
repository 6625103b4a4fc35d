//! Mutual exclusion: no two processes certainly believe at the same instant that they hold the same key.
//!
//! Each overlap of two holds is a finding, and says whose fault it is. Let A be the earlier holder, B the
//! later.
//!
//! Its class follows from how A's grant can have ended for the service when B was granted the lock: see
//! [`judgement`](crate::ledger::judgement). Where nothing can have ended it, the lock was *granted twice*.
//! Where A's lease may have run out, A *overstayed*; where a fault may have ended its session or connection,
//! A was *cut off*. So the service gets the benefit of every doubt: of an interval, A's lease ends at its
//! earliest moment, and B is granted at its latest.
//!
//! A lease that was over and was prolonged all the same is a second grant: where a renewal of A that was
//! asked for after B's grant succeeded while B still believed and its lease still ran, A and B were both
//! promised the lock.
//!
//! A hold that is shared (its acquire said `"mode": "shared"`) and another such one may overlap.

use super::checker::{Blame, Checker, FindingClass, NotJudged};
use crate::figures::{Figures, figures};
use crate::ledger::judgement::{Class, class};
use crate::ledger::reasons::reason;
use crate::prose::{lock, seconds};
use crate::run_index::{Hold, RunIndex};
use crate::verdict::{Finding, Outcome, Verdict};
use crate::whose::Harm;
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

pub struct Exclusion;

/// Two processes that both believed. `first` and `second` are places in [`RunIndex::holds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    pub first: usize,
    pub second: usize,
    pub class: Class,
    /// The instants between which both certainly believed. Where the second is not known to have believed
    /// beyond its acquire, they are the same.
    pub from_ns: u64,
    pub until_ns: u64,
}

/// All overlaps, in order of the second acquisition. There are at most as many a hold as there are processes.
/// A grant that its client called over as it learned of it, and under which it did nothing, overlaps with
/// none: it never believed.
pub fn overlaps(run: &RunIndex) -> Vec<Overlap> {
    let mut found = Vec::new();
    // Per key, the holds whose certain belief may reach beyond the acquisition at hand.
    let mut believing: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    let believed = |(_, hold): &(usize, &Hold)| hold.claim.excludes_any() && !hold.was_over_at_once();
    for (second, hold) in run.holds.iter().enumerate().filter(believed) {
        let earlier = believing.entry(hold.key).or_default();
        earlier.retain(|&first| run.holds[first].until > hold.from);
        let exclude = |first: &&usize| hold.claim.excludes(run.holds[**first].claim);
        found.extend(earlier.iter().filter(exclude).map(|&first| overlap(run, first, second)));
        earlier.push(second);
    }
    found
}

/// The overlap of two holds that certainly overlapped.
pub(super) fn overlap(run: &RunIndex, first: usize, second: usize) -> Overlap {
    let (a, b) = (&run.holds[first], &run.holds[second]);
    let (from_ns, until_ns) = (b.from_ns, a.until_ns.min(b.until_ns).max(b.from_ns));
    Overlap { first, second, class: class(run, a, b), from_ns, until_ns }
}

impl Checker for Exclusion {
    fn name(&self) -> &'static str {
        ExclusionFigures::CHECKER
    }

    fn about(&self) -> &'static str {
        "mutual exclusion: no two processes believe at the same time that they hold the same lock"
    }

    fn classes(&self) -> &'static [FindingClass] {
        &[
            FindingClass {
                name: "granted-twice",
                meaning: "The lock service granted the lock while the lease of an earlier holder was still running.",
                advice: "Check how the service counts leases and what it keeps over faults; a fencing token limits the damage.",
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
        ]
    }

    fn harm(&self) -> Harm {
        Harm::GrantedTwice
    }

    fn blame(&self) -> Blame {
        Blame::ByHolders
    }

    fn check(&self, run: &RunIndex) -> Result<Verdict, NotJudged> {
        if !run.holds.is_empty() && run.holds.iter().all(|hold| !hold.claim.excludes_any()) {
            return Err(NotJudged::because("the lock does not claim to exclude anybody"));
        }
        let overlaps = overlaps(run);
        let count = |class| overlaps.iter().filter(|overlap| overlap.class == class).count();
        let (twice, overstayed) = (count(Class::GrantedTwice), count(Class::Overstayed));
        let cut_off = count(Class::CutOff);
        let holds = run.holds.len();
        let (outcome, summary) = if holds == 0 {
            (Outcome::Unknown, "no process ever acquired a lock".to_owned())
        } else if overlaps.is_empty() {
            (Outcome::Valid, format!("no two of {holds} holds overlapped"))
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
            let summary = format!("two holds of one lock overlapped {times}, among {holds} holds: {kinds}");
            (Outcome::Violation, summary)
        };
        // Cut here already: sentences for a million overlaps would cost more than everything else.
        let cut = |class| overlaps.iter().filter(move |overlap| overlap.class == class);
        let shown = Class::ALL.into_iter();
        let findings = shown.flat_map(|class| cut(class).take(crate::verdict::FINDINGS_MAX));
        let verdict = Verdict::new(self.name(), outcome, summary)
            .with_figures(&ExclusionFigures {
                holds: holds as u64,
                granted_twice: twice as u64,
                overstayed: overstayed as u64,
                cut_off: cut_off as u64,
            })
            .with_findings(findings.map(|overlap| finding(run, overlap)).collect());
        Ok(verdict)
    }
}

fn finding(run: &RunIndex, overlap: &Overlap) -> Finding {
    let (a, b) = (&run.holds[overlap.first], &run.holds[overlap.second]);
    Finding {
        class: overlap.class.name().to_owned(),
        key: b.key.to_owned(),
        time: b.from_ns,
        events: vec![a.from, b.from, a.until],
        sentence: sentence(run, overlap),
        ..Finding::default()
    }
}

/// What happened, and whose fault it is.
pub(crate) fn sentence(run: &RunIndex, overlap: &Overlap) -> String {
    let (a, b) = (&run.holds[overlap.first], &run.holds[overlap.second]);
    format!(
        "process {} acquired {} at {} while process {}, which had acquired it at {}, still believed at {} that it \
         held it; {}",
        b.process,
        lock(b.key),
        seconds(b.from_ns),
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
