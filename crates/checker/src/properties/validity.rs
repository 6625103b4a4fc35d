//! Validity: no grant was reported as valid for longer than its TTL, or as already expired. A client that
//! knows by its own clock until when its lock is valid (`validity_ms`) may go on until then. What remains of
//! a TTL at the answer is never more than the TTL: a library that answers more has measured its acquire's
//! time as negative, by a clock that was set back. And a library that grants a lock with a validity below
//! zero counts from another moment than that of the granted attempt, or does not look.
//!
//! A validity of exactly zero is no library's word: the kits give it to a grant whose attempt, as far as they
//! can see, began a TTL ago or earlier, as after a wait within the library. Nor does a validity below zero
//! count where a fault was in force during the acquire, or had moved a clock before: its client may have been
//! stopped after its last look. Without faults, a machine does that too: for no longer than any acquire of
//! the run outlasted its given time. Only locks whose history says that they have a TTL are judged.

use super::checker::{Checker, FindingClass, NotJudged, not_judged_if};
use crate::figures::figures;
use crate::prose::seconds;
use crate::run_index::{Fault, Hold, Operation, RunIndex};
use crate::verdict::{Finding, Verdict};
use fencepost_history::Lease;

figures! {
    /// How long grants said that they were valid.
    ValidityFigures of "validity" {
        grants: u64,
        /// For longer than the TTL.
        too_long: u64,
        /// Over when they came.
        over: u64,
    }
}

pub(super) const VALIDITY: Checker = Checker {
    classes: &[
        FindingClass {
            name: "validity-too-long",
            meaning: "The library reported its lock as valid for longer than the TTL for which it had acquired it.",
            advice: "Measure the time that an acquire takes by the monotonic clock, never by the wall clock.",
        },
        FindingClass {
            name: "over-on-arrival",
            meaning: "The library granted a lock and reported a validity that had already run out.",
            advice: "Count the validity from the beginning of the attempt that was granted, and release a lock whose validity is already over.",
        },
    ],
    claim: Some("exclusion"),
    ..Checker::of::<ValidityFigures>(
        "validity: no grant was reported as valid for longer than its TTL, or as already expired",
        check,
    )
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    match run.lock.lease {
        Lease::Ttl if run.lock.are_known() => {}
        Lease::Ttl => return Err(NotJudged::because("the history does not say what lease the lock has")),
        Lease::Session => {
            return Err(NotJudged::because("the session of a lock may last longer than was requested"));
        }
        Lease::Connection | Lease::None => {
            return Err(NotJudged::because("the lock has no lease that ends by itself"));
        }
    }
    let reported: Vec<(&Hold, f64, u64)> =
        run.holds.iter().filter_map(|hold| Some((hold, hold.validity_ms?, hold.ttl_ns?))).collect();
    not_judged_if!(reported.is_empty(), "no client reported for how long its lock is valid");
    let doubt_ns = longest_overrun_ns(run);
    let too_long = |ms: f64, ttl_ns: u64| ms * 1e6 > ttl_ns as f64;
    let is_over = |hold: &Hold, ms: f64| ms * 1e6 < -(doubt_ns as f64) && !may_be_excused(run, hold);
    let of_grant = |&(hold, ms, ttl_ns): &(&Hold, f64, u64)| {
        let length = seconds((ms.abs() * 1e6) as u64);
        let (class, said) = match () {
            () if too_long(ms, ttl_ns) => (TOO_LONG, format!("reported it as valid for {length}")),
            () if is_over(hold, ms) => (OVER, format!("reported that it had been over for {length}")),
            () => return None,
        };
        Some(finding(class, hold, ttl_ns, &said))
    };
    let findings: Vec<Finding> = reported.iter().filter_map(of_grant).collect();
    let count = |class: &str| findings.iter().filter(|finding| finding.class == class).count();
    let (all, too_long, over) = (reported.len(), count(TOO_LONG), count(OVER));
    let mut said = Vec::new();
    if too_long > 0 {
        let (were, their) = if too_long == 1 { ("was", "its") } else { ("were", "their") };
        said.push(format!("{too_long} of {all} grants {were} reported as valid for longer than {their} TTL"));
    }
    if over > 0 {
        said.push(match over {
            1 => format!("1 of {all} grants had already expired when it came"),
            _ => format!("{over} of {all} grants had already expired when they came"),
        });
    }
    if said.is_empty() {
        said.push(format!("none of {all} grants was reported as valid for longer than its TTL"));
    }
    let figures = ValidityFigures { grants: all as u64, too_long: too_long as u64, over: over as u64 };
    Ok(checker.judged(said.join("; "), &figures, findings))
}

const TOO_LONG: &str = "validity-too-long";
const OVER: &str = "over-on-arrival";

fn longest_overrun_ns(run: &RunIndex) -> u64 {
    let overrun = |acquire: &Operation| {
        let due_ns = acquire.invoke.time.saturating_add(acquire.timeout_ns()?);
        Some(acquire.completion?.time.saturating_sub(due_ns))
    };
    run.acquires().filter_map(overrun).max().unwrap_or(0)
}

/// Whether a fault may have stopped the client of a grant after its look at the clock, or moved that clock.
fn may_be_excused(run: &RunIndex, hold: &Hold) -> bool {
    let in_force = |fault: &Fault| run.may_have_worked(fault) && fault.in_force(hold.invoke_ns, hold.from_ns);
    let moved_a_clock = |fault: &Fault| fault.description.moves_clocks && fault.inject_ns <= hold.from_ns;
    run.faults.iter().any(|fault| in_force(fault) || moved_a_clock(fault))
}

fn finding(class: &str, hold: &Hold, ttl_ns: u64, said: &str) -> Finding {
    let sentence = format!("{} for {}, and its library {said}", hold.acquired(), seconds(ttl_ns));
    Finding::new(class, hold.key, hold.from_ns, vec![hold.from], sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{maybe_verdict, verdict};
    use crate::verdict::Outcome;

    fn granted(facts: &str, validity_ms: f64) -> String {
        format!(
            "0  nemesis info lock - {{name:\"x\",{facts}}}
             10 1 invoke acquire a {{ttl_ms:2000}}
             20 1 ok     acquire a {{validity_ms:{validity_ms}}}"
        )
    }

    #[test]
    fn accepts_what_remains_of_the_ttl() {
        assert_eq!(verdict(&VALIDITY, &granted("lease:\"ttl\"", 2000.0)).outcome, Outcome::Valid);
        assert_eq!(verdict(&VALIDITY, &granted("lease:\"ttl\"", 0.0)).outcome, Outcome::Valid);
        // The library makes three seconds of two.
        let stepped = granted("lease:\"ttl\",ttl-step:\"3s\"", 2999.0);
        assert_eq!(verdict(&VALIDITY, &stepped).outcome, Outcome::Valid);
    }

    #[test]
    fn rejects_more_than_the_ttl() {
        let verdict = verdict(&VALIDITY, &granted("lease:\"ttl\"", 60772.0));
        assert_eq!(verdict.outcome, Outcome::Violation);
        assert_eq!(verdict.summary, "1 of 1 grants was reported as valid for longer than its TTL");
        assert_eq!(
            verdict.findings[0].sentence,
            "process 1 acquired a at 0.020 s for 2.000 s, and its library reported it as valid for 60.772 s"
        );
    }

    #[test]
    fn rejects_a_grant_that_was_over_when_it_came() {
        let over = verdict(&VALIDITY, &granted("lease:\"ttl\"", -170.0));
        assert_eq!((over.outcome, &*over.findings[0].class), (Outcome::Violation, "over-on-arrival"));
        assert_eq!(over.summary, "1 of 1 grants had already expired when it came");
        assert_eq!(
            over.findings[0].sentence,
            "process 1 acquired a at 0.020 s for 2.000 s, and its library reported that it had been over for 0.170 s"
        );
    }

    #[test]
    fn what_stops_a_client_excuses_a_grant_that_was_over_when_it_came() {
        let over = granted("lease:\"ttl\"", -170.0);
        // An acquire of this run outlasted the time that it had been given by as much, or nearly.
        let late = |ms: u64| {
            format!(
                "{over}\n30 2 invoke acquire b {{ttl_ms:2000,timeout_ms:100}}\n{ms} 2 fail acquire b null taken"
            )
        };
        assert_eq!(verdict(&VALIDITY, &late(300)).outcome, Outcome::Valid);
        assert_eq!(verdict(&VALIDITY, &late(299)).outcome, Outcome::Violation);
        // A fault that began only after the grant excuses nothing.
        let fault =
            |at: u64| format!("{at} nemesis invoke pause - {{id:1,stage:\"inject\",targets:[\"c1\"]}}");
        let before = over.replacen('\n', &format!("\n{}\n", fault(0)), 1);
        assert_eq!(verdict(&VALIDITY, &before).outcome, Outcome::Valid);
        assert_eq!(verdict(&VALIDITY, &format!("{over}\n{}", fault(30))).outcome, Outcome::Violation);
    }

    #[test]
    fn is_silent_where_the_end_is_no_matter_of_a_ttl() {
        for lease in ["session", "connection", "none"] {
            assert!(maybe_verdict(&VALIDITY, &granted(&format!("lease:\"{lease}\""), 60772.0)).is_none());
        }
        let unknown = granted("lease:\"ttl\"", 60772.0).replace("name:\"x\"", "name:\"\"");
        assert!(maybe_verdict(&VALIDITY, &unknown).is_none());
        let silent = granted("lease:\"ttl\"", 1.0).replace("{validity_ms:1}", "");
        assert!(maybe_verdict(&VALIDITY, &silent).is_none());
    }
}
