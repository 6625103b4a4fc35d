//! Mutual exclusion: no two processes certainly believe at the same instant that they hold the same key.
//!
//! Each overlap of two holds is a finding, and says whose fault it is. Let A be the earlier holder, B the
//! later.
//!
//! *Granted twice.* B was granted the lock at some moment between the invocation and the completion of its
//! acquire; the completion is the one instant by which it certainly had been granted. A's lease ran at least
//! until its TTL, counted from the invocation of its acquire or from its last renewal (see
//! [`Hold::expires_ns`]). So if B's acquire was complete before that, the lock service gave away a lock that
//! it had promised to A, and no observer can deny it: every other choice of the two instants only moves the
//! grant earlier and the end of the lease later.
//!
//! The same goes for a lease that was over and was prolonged all the same: where a renewal of A that was
//! asked for after B's grant succeeded while B still believed and its lease still ran, A and B were both
//! promised the lock.
//!
//! A hold that is shared (its acquire said `"mode": "shared"`) and another such one may overlap.
//!
//! *Cut off.* Where a lock lasts as long as a session or a connection, it can end without a TTL: by a fault
//! that breaks what keeps it. If a fault came between A's acquire and B's grant, the service gets the benefit
//! of the doubt. Of a session that counts only where its client reports neither validity nor renewals;
//! otherwise the session's TTL says more.
//!
//! *Overstayed.* In every other case A may have had no lease any more when B was granted the lock, and the
//! service gets the benefit of the doubt. A went on after its TTL, which no lease can prevent, only fencing.

use super::checker::{Blame, Checker, FindingClass, NotJudged};
use crate::figures::{Figures, figures};
use crate::prose::{lock, seconds};
use crate::run_index::{Hold, RunIndex};
use crate::verdict::{Finding, Outcome, Verdict};
use crate::whose::Harm;
use fencepost_history::Lease;
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

/// Whose fault an overlap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The lock service granted the lock while the earlier holder's TTL still ran.
    GrantedTwice,
    /// The earlier holder went on after its TTL.
    Overstayed,
    /// The earlier holder went on after a fault that may have ended its session or its connection.
    CutOff,
}

impl Class {
    /// In the order of their numbers.
    pub const ALL: [Class; 3] = [Class::GrantedTwice, Class::Overstayed, Class::CutOff];

    /// As it stands in findings.
    pub fn name(self) -> &'static str {
        match self {
            Class::GrantedTwice => "granted-twice",
            Class::Overstayed => "overstayed",
            Class::CutOff => "cut-off",
        }
    }

    /// As sentences say it.
    pub fn in_words(self) -> String {
        self.name().replace('-', " ")
    }
}

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
    let class = match (a.expires_ns(b.from), a.cut_ns) {
        _ if was_prolonged_beside(run, a, b) => Class::GrantedTwice,
        (Some(expires_ns), _) if expires_ns <= b.from_ns => Class::Overstayed,
        (None, Some(cut_ns)) if cut_ns <= b.from_ns => Class::CutOff,
        _ => Class::GrantedTwice,
    };
    Overlap { first, second, class, from_ns: b.from_ns, until_ns: a.until_ns.min(b.until_ns).max(b.from_ns) }
}

/// When the earlier holder asked for the first renewal that succeeded while the later one held the lock, with
/// the index of the notice that it did.
fn renewal_beside(a: &Hold, b: &Hold) -> Option<(u64, u64)> {
    let is_beside = |&&(index, asked_ns): &&(u64, u64)| asked_ns > b.from_ns && index < b.until;
    let first = a.renewals.iter().filter(|_| a.lease == Lease::Ttl).find(is_beside);
    first.map(|&(index, asked_ns)| (asked_ns, index))
}

/// Whether the lease of the earlier holder was prolonged while that of the later one still ran.
fn was_prolonged_beside(run: &RunIndex, a: &Hold, b: &Hold) -> bool {
    renewal_beside(a, b).is_some_and(|(_, index)| {
        let runs = |done_ns| b.expires_ns(index).is_none_or(|expires_ns| expires_ns > done_ns);
        run.event(index).is_some_and(|notice| runs(notice.time))
    })
}

/// Why an overlap is classed as it is, in words that follow "granted twice: " or "overstayed: ".
pub(crate) fn reason(a: &Hold, b: &Hold) -> String {
    let (first, second) = (a.process, b.process);
    let Some((expires, ttl)) = a.expires_ns(b.from).zip(a.ttl_ns) else {
        return reason_without_ttl(a, b);
    };
    match expires.checked_sub(b.from_ns) {
        None | Some(0) if let Some((asked_ns, _)) = renewal_beside(a, b) => format!(
            "the TTL of process {first} ({}) may have run out when process {second} got the lock, and a renewal that \
             process {first} asked for at {}, while process {second} held it, succeeded all the same",
            seconds(ttl),
            seconds(asked_ns)
        ),
        Some(left) if left > 0 => format!(
            "process {second} got the lock while the TTL of process {first} ({}) still had {} to run{}",
            seconds(ttl),
            seconds(left),
            if a.runs_by_its_librarys_word(b.from_ns) {
                " by the validity that its library reported"
            } else {
                ""
            }
        ),
        // A grant came before the completion of its acquire, so by then plus the TTL the lease was over for
        // certain.
        _ if a.renewals.is_empty() && b.from_ns < a.from_ns.saturating_add(ttl) => format!(
            "the TTL of process {first} ({}) may have run out when process {second} got the lock, {} after {first} \
             had asked for it, so the lock service is given the benefit of the doubt; process {first} went on",
            seconds(ttl),
            seconds(b.from_ns - a.attempt_ns.unwrap_or(a.invoke_ns))
        ),
        _ => {
            // Counted from its latest end; that of a renewed lease is known by the request only.
            let over = if a.renewals.is_empty() { a.from_ns.saturating_add(ttl) } else { expires };
            format!(
                "the TTL of process {first} ({}) had run out {} before process {second} got the lock, and process \
                 {first} went on as if it held it",
                seconds(ttl),
                seconds(b.from_ns.saturating_sub(over))
            )
        }
    }
}

/// The same, where the end of the earlier hold is no matter of time.
fn reason_without_ttl(a: &Hold, b: &Hold) -> String {
    let (first, second) = (a.process, b.process);
    let kept_by = match a.lease {
        Lease::Session => "session",
        Lease::Connection => "connection",
        Lease::Ttl | Lease::None => {
            return format!(
                "process {second} got the lock while process {first} held it, and nothing had ended that"
            );
        }
    };
    match a.cut_ns.filter(|cut_ns| *cut_ns <= b.from_ns) {
        Some(cut_ns) => format!(
            "a fault {} may have ended the {kept_by} of process {first}, and with it the lock, before process \
             {second} got it; process {first} went on as if it held it",
            // Cut at the invocation, the fault was there before.
            if cut_ns > a.invoke_ns {
                format!("at {}", seconds(cut_ns))
            } else {
                "that was in force".to_owned()
            }
        ),
        None => format!(
            "process {second} got the lock while process {first} held it, and no fault had come that could have ended \
             the {kept_by} of process {first}"
        ),
    }
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
        reason(a, b),
    )
}

#[cfg(test)]
mod own_word_tests;
#[cfg(test)]
mod tests;
