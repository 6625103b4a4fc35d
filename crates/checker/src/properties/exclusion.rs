//! Mutual exclusion: no two processes certainly believe at the same instant that they hold the same key.
//!
//! Each overlap of two holds is a finding, and says whose fault it is. Let A be the earlier holder, B the later.
//!
//! *Granted twice.* B was granted the lock at some moment between the invocation and the completion of its
//! acquire; the completion is the one instant by which it certainly had been granted. A's lease ran at least
//! until its TTL, counted from the invocation of its acquire or from its last renewal (see
//! [`Hold::expires_ns`]). So if B's acquire was complete before that, the lock service gave away a lock that it
//! had promised to A, and no observer can deny it: every other choice of the two instants only moves the grant
//! earlier and the end of the lease later.
//!
//! A hold that is shared (its acquire said `"mode": "shared"`) and another such one may overlap.
//!
//! *Overstayed.* In every other case A may have had no lease any more when B was granted the lock, and the
//! service gets the benefit of the doubt. A went on after its TTL, which no lease can prevent, only fencing.

use super::checker::{Checker, FindingClass, NotJudged};
use crate::prose::seconds;
use crate::run_index::{Hold, RunIndex};
use crate::verdict::{Finding, Outcome, Verdict};
use rustc_hash::FxHashMap;

pub struct Exclusion;

/// Whose fault an overlap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The lock service granted the lock while the earlier holder's TTL still ran.
    GrantedTwice,
    /// The earlier holder went on after its TTL.
    Overstayed,
}

impl Class {
    /// As it stands in findings.
    pub fn name(self) -> &'static str {
        match self {
            Class::GrantedTwice => "granted-twice",
            Class::Overstayed => "overstayed",
        }
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
pub fn overlaps(run: &RunIndex) -> Vec<Overlap> {
    let mut found = Vec::new();
    // Per key, the holds whose certain belief may reach beyond the acquisition at hand.
    let mut believing: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for (second, hold) in run.holds.iter().enumerate().filter(|(_, hold)| hold.exclusive) {
        let earlier = believing.entry(hold.key).or_default();
        earlier.retain(|&first| run.holds[first].until > hold.from);
        // Those who share the lock may hold it together.
        let exclude = |first: &&usize| !(hold.shared && run.holds[**first].shared);
        found.extend(earlier.iter().filter(exclude).map(|&first| overlap(run, first, second)));
        earlier.push(second);
    }
    found
}

fn overlap(run: &RunIndex, first: usize, second: usize) -> Overlap {
    let (a, b) = (&run.holds[first], &run.holds[second]);
    let early = a.expires_ns(b.from).is_none_or(|expires| b.from_ns < expires);
    let class = if early { Class::GrantedTwice } else { Class::Overstayed };
    Overlap { first, second, class, from_ns: b.from_ns, until_ns: a.until_ns.min(b.until_ns).max(b.from_ns) }
}

/// Why an overlap is classed as it is, in words that follow "granted twice: " or "overstayed: ".
pub(crate) fn reason(a: &Hold, b: &Hold) -> String {
    let (first, second) = (a.process, b.process);
    let Some((expires, ttl)) = a.expires_ns(b.from).zip(a.ttl_ns) else {
        return format!(
            "process {second} got the lock while process {first} held it, and nothing had ended that"
        );
    };
    match expires.checked_sub(b.from_ns) {
        Some(left) if left > 0 => format!(
            "process {second} got the lock while the TTL of process {first} ({}) still had {} to run",
            seconds(ttl),
            seconds(left)
        ),
        // A grant came before the completion of its acquire, so by then plus the TTL the lease was over for certain.
        _ if a.renewals.is_empty() && b.from_ns < a.from_ns.saturating_add(ttl) => format!(
            "the TTL of process {first} ({}) may have run out when process {second} got the lock, {} after {first} \
             had asked for it, so the lock service is given the benefit of the doubt; process {first} went on",
            seconds(ttl),
            seconds(b.from_ns - a.invoke_ns)
        ),
        _ => format!(
            "the TTL of process {first} ({}) had run out {} before process {second} got the lock, and process \
             {first} went on as if it held it",
            seconds(ttl),
            seconds(b.from_ns - expires)
        ),
    }
}

impl Checker for Exclusion {
    fn name(&self) -> &'static str {
        "exclusion"
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
        ]
    }

    fn check(&self, run: &RunIndex) -> Result<Verdict, NotJudged> {
        if !run.holds.is_empty() && run.holds.iter().all(|hold| !hold.exclusive) {
            return Err(NotJudged::because("the lock does not claim to exclude anybody"));
        }
        let overlaps = overlaps(run);
        let count = |class| overlaps.iter().filter(|overlap| overlap.class == class).count();
        let (twice, overstayed) = (count(Class::GrantedTwice), count(Class::Overstayed));
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
            let summary = format!(
                "two holds of one lock overlapped {times}, among {holds} holds: {twice} granted twice, {overstayed} \
                 overstayed"
            );
            (Outcome::Violation, summary)
        };
        // Cut here already: sentences for a million overlaps would cost more than everything else.
        let cut = |class| overlaps.iter().filter(move |overlap| overlap.class == class);
        let shown = [Class::GrantedTwice, Class::Overstayed].into_iter();
        let findings = shown.flat_map(|class| cut(class).take(crate::verdict::FINDINGS_MAX));
        let verdict = Verdict::new(self.name(), outcome, summary)
            .stat("holds", holds)
            .stat("granted_twice", twice)
            .stat("overstayed", overstayed)
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
        if b.key.is_empty() { "the lock" } else { b.key },
        seconds(b.from_ns),
        a.process,
        seconds(a.from_ns),
        seconds(a.until_ns),
        reason(a, b),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal::{events, verdict};
    use serde_json::json;

    fn classes(text: &str) -> Vec<&'static str> {
        let events = events(text);
        let run = RunIndex::new(&events).unwrap();
        overlaps(&run).iter().map(|overlap| overlap.class.name()).collect()
    }

    #[test]
    fn accepts_one_after_the_other() {
        let history = "
            0    1 invoke acquire a {ttl_ms:2000}
            10   1 ok     acquire a
            20   2 invoke acquire a {ttl_ms:2000}
            30   1 invoke write   a 1
            40   1 ok     write   a 1
            50   1 invoke release a
            55   2 ok     acquire a
            60   1 ok     release a {believed:true}";
        assert_eq!(verdict(&Exclusion, history).outcome, Outcome::Valid);
    }

    #[test]
    fn rejects_two_at_once_and_says_granted_twice() {
        let history = "
            0    1 invoke acquire a {ttl_ms:2000}
            10   1 ok     acquire a
            20   2 invoke acquire a {ttl_ms:2000}
            700  2 ok     acquire a
            800  1 invoke write   a 1
            810  1 ok     write   a 1";
        let verdict = verdict(&Exclusion, history);
        assert_eq!(verdict.outcome, Outcome::Violation);
        assert_eq!(verdict.stats["granted_twice"], json!(1));
        assert_eq!(verdict.findings[0].events, [1, 3, 4]);
        assert_eq!(
            verdict.findings[0].sentence,
            "process 2 acquired a at 0.700 s while process 1, which had acquired it at 0.010 s, still believed at \
             0.800 s that it held it; process 2 got the lock while the TTL of process 1 (2.000 s) still had 1.300 s \
             to run"
        );
    }

    #[test]
    fn says_overstayed_after_the_ttl_and_in_doubt() {
        let go_on = |granted: u32| {
            format!(
                "0    1 invoke acquire a {{ttl_ms:2000}}
                 10   1 ok     acquire a
                 1900 2 invoke acquire a {{ttl_ms:2000}}
                 {granted} 2 ok acquire a
                 5000 1 invoke holds   a
                 5001 1 ok     holds   a true"
            )
        };
        assert_eq!(classes(&go_on(1999)), ["granted-twice"]);
        // Granted somewhere between 1.9 s and 2 s or just after: the lock service is not blamed.
        assert_eq!(classes(&go_on(2000)), ["overstayed"]);
        assert_eq!(classes(&go_on(4000)), ["overstayed"]);
    }

    #[test]
    fn a_paused_holder_that_gives_up_violates_nothing() {
        // antirez's point: it slept, saw that its validity had run out, and stopped.
        let history = "
            0    1 invoke acquire a {ttl_ms:1000}
            10   1 ok     acquire a
            3000 2 invoke acquire a {ttl_ms:1000}
            3010 2 ok     acquire a
            4000 1 invoke write   a 1
            4001 1 fail   write   a null not-held
            4010 1 invoke release a
            4020 1 ok     release a {believed:false}";
        assert_eq!(classes(history), Vec::<&str>::new());
        // Kleppmann's: it woke up and wrote, and only the storage stopped it.
        assert_eq!(classes(&history.replace("not-held", "rejected: made-up-code: too late")), ["overstayed"]);
    }

    #[test]
    fn a_renewal_prolongs_the_lease() {
        let history = "
            0    1 invoke acquire a {ttl_ms:1000}
            10   1 ok     acquire a
            900  1 info   renewed a
            1500 2 invoke acquire a {ttl_ms:1000}
            1600 2 ok     acquire a
            1700 1 invoke release a
            1710 1 ok     release a {believed:true}";
        assert_eq!(classes(history), ["granted-twice"]);
        assert_eq!(classes(&history.replace("renewed", "lost")), Vec::<&str>::new());
    }

    #[test]
    fn a_renewal_recorded_just_before_the_grant_belongs_to_it() {
        // The waiter's session was prolonged while it waited: its lease did not begin with its acquire.
        let history = "
            0    1 invoke acquire a {ttl_ms:1000}
            4990 1 info   renewed a {age_ms:90}
            5000 1 ok     acquire a {validity_ms:900}
            5100 2 invoke acquire a {ttl_ms:1000}
            5200 2 ok     acquire a
            5300 1 invoke holds   a
            5310 1 ok     holds   a true";
        assert_eq!(classes(history), ["granted-twice"]);
        assert_eq!(classes(&history.replace("{age_ms:90}", "{age_ms:900}")), ["overstayed"]);
    }

    #[test]
    fn keys_are_locks_of_their_own() {
        let history = "
            0 1 invoke acquire a
            1 1 ok     acquire a
            2 2 invoke acquire b
            3 2 ok     acquire b
            4 1 invoke holds   a
            5 1 ok     holds   a true";
        assert_eq!(classes(history), Vec::<&str>::new());
        assert_eq!(classes(&history.replace(" b", " a")), ["granted-twice"]);
    }

    #[test]
    fn who_shares_does_not_exclude_and_who_does_not_excludes_all() {
        let history = |first: &str, second: &str| {
            format!(
                "0 1 invoke acquire a {{mode:\"{first}\"}}
                 1 1 ok     acquire a
                 2 2 invoke acquire a {{mode:\"{second}\"}}
                 3 2 ok     acquire a
                 4 1 invoke holds   a
                 5 1 ok     holds   a true"
            )
        };
        assert_eq!(classes(&history("shared", "shared")), Vec::<&str>::new());
        assert_eq!(classes(&history("shared", "exclusive")), ["granted-twice"]);
        assert_eq!(classes(&history("exclusive", "shared")), ["granted-twice"]);
    }

    #[test]
    fn unknown_belief_is_no_belief() {
        let history = "
            0 1 invoke acquire a
            1 1 info   acquire a null timeout
            2 2 invoke acquire a
            3 2 ok     acquire a
            4 3 invoke acquire a
            5 3 ok     acquire a
            6 2 invoke write   a 1
            7 2 info   write   a null timeout";
        assert_eq!(classes(history), Vec::<&str>::new());
    }

    #[test]
    fn a_shared_hold_overlaps_without_violation() {
        let text = |value: &str| {
            format!(
                "0 1 invoke acquire a\n1 1 ok acquire a {value}\n2 2 invoke acquire a\n3 2 ok acquire a {value}
                 4 1 invoke holds a\n5 1 ok holds a true"
            )
        };
        assert!(crate::literal::maybe_verdict(&Exclusion, &text("{exclusive:false}")).is_none());
        assert_eq!(crate::literal::verdict(&Exclusion, &text("{}")).outcome, Outcome::Violation);
    }
}
