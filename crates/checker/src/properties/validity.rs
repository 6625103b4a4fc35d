//! Validity: no grant was reported as valid for longer than its TTL.
//!
//! A client that knows by its own clock until when its lock is valid (`validity_ms`) may go on until then.
//! What remains of a TTL at the moment of the answer is never more than the TTL, whatever the clocks show: a
//! library that answers more has measured the time that its acquire took as negative, by a clock that was set
//! back.
//!
//! Only locks with a TTL are judged, of which the history says so: a session may have a time-out of its own,
//! longer than the one that was requested.

use super::checker::{Checker, FindingClass, NotJudged};
use crate::figures::{Figures, figures};
use crate::prose::{lock, seconds};
use crate::run_index::{Hold, RunIndex};
use crate::verdict::{Finding, Outcome, Verdict};
use fencepost_history::Lease;

figures! {
    /// How long grants said that they were valid.
    ValidityFigures of "validity" {
        grants: u64,
        /// For longer than the TTL.
        too_long: u64,
    }
}

pub struct Validity;

impl Checker for Validity {
    fn name(&self) -> &'static str {
        ValidityFigures::CHECKER
    }

    fn about(&self) -> &'static str {
        "validity: no grant was reported as valid for longer than its TTL"
    }

    fn classes(&self) -> &'static [FindingClass] {
        &[FindingClass {
            name: "validity-too-long",
            meaning: "The library reported its lock as valid for longer than the TTL for which it had acquired it.",
            advice: "Measure the time that an acquire takes by the monotonic clock, never by the wall clock.",
        }]
    }

    fn claim(&self) -> Option<&'static str> {
        Some("exclusion")
    }

    fn check(&self, run: &RunIndex) -> Result<Verdict, NotJudged> {
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
        if reported.is_empty() {
            return Err(NotJudged::because("no client reported for how long its lock is valid"));
        }
        let too_long = reported.iter().filter(|(_, validity_ms, ttl_ns)| validity_ms * 1e6 > *ttl_ns as f64);
        let findings: Vec<Finding> = too_long.map(|&(hold, ms, ttl_ns)| finding(hold, ms, ttl_ns)).collect();
        let (all, count) = (reported.len(), findings.len());
        let (outcome, summary) = match count {
            0 => (
                Outcome::Valid,
                format!("none of {all} grants was reported as valid for longer than its TTL"),
            ),
            _ => (
                Outcome::Violation,
                format!(
                    "{count} of {all} grants {} reported as valid for longer than {} TTL",
                    if count == 1 { "was" } else { "were" },
                    if count == 1 { "its" } else { "their" },
                ),
            ),
        };
        let verdict = Verdict::new(self.name(), outcome, summary)
            .with_figures(&ValidityFigures { grants: all as u64, too_long: count as u64 });
        Ok(verdict.with_findings(findings))
    }
}

fn finding(hold: &Hold, validity_ms: f64, ttl_ns: u64) -> Finding {
    Finding {
        class: "validity-too-long".to_owned(),
        key: hold.key.to_owned(),
        time: hold.from_ns,
        events: vec![hold.from],
        sentence: format!(
            "process {} acquired {} at {} for {}, and its library reported it as valid for {}",
            hold.process,
            lock(hold.key),
            seconds(hold.from_ns),
            seconds(ttl_ns),
            seconds((validity_ms * 1e6) as u64),
        ),
        ..Finding::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal::{maybe_verdict, verdict};

    fn granted(facts: &str, validity_ms: f64) -> String {
        format!(
            "0  nemesis info lock - {{name:\"x\",{facts}}}
             10 1 invoke acquire a {{ttl_ms:2000}}
             20 1 ok     acquire a {{validity_ms:{validity_ms}}}"
        )
    }

    #[test]
    fn accepts_what_remains_of_the_ttl() {
        assert_eq!(verdict(&Validity, &granted("lease:\"ttl\"", 2000.0)).outcome, Outcome::Valid);
        assert_eq!(verdict(&Validity, &granted("lease:\"ttl\"", -12.0)).outcome, Outcome::Valid);
        // The library makes three seconds of two.
        let stepped = granted("lease:\"ttl\",ttl-step:\"3s\"", 2999.0);
        assert_eq!(verdict(&Validity, &stepped).outcome, Outcome::Valid);
    }

    #[test]
    fn rejects_more_than_the_ttl() {
        let verdict = verdict(&Validity, &granted("lease:\"ttl\"", 60772.0));
        assert_eq!(verdict.outcome, Outcome::Violation);
        assert_eq!(verdict.summary, "1 of 1 grants was reported as valid for longer than its TTL");
        assert_eq!(
            verdict.findings[0].sentence,
            "process 1 acquired a at 0.020 s for 2.000 s, and its library reported it as valid for 60.772 s"
        );
    }

    #[test]
    fn is_silent_where_the_end_is_no_matter_of_a_ttl() {
        for lease in ["session", "connection", "none"] {
            assert!(maybe_verdict(&Validity, &granted(&format!("lease:\"{lease}\""), 60772.0)).is_none());
        }
        let unknown = granted("lease:\"ttl\"", 60772.0).replace("name:\"x\"", "name:\"\"");
        assert!(maybe_verdict(&Validity, &unknown).is_none());
        let silent = granted("lease:\"ttl\"", 1.0).replace("{validity_ms:1}", "");
        assert!(maybe_verdict(&Validity, &silent).is_none());
    }
}
