//! Errors: without faults, operations end with a result. An operation that ends in `info`, or in `fail`
//! because of an error, says nothing about the lock, and all other properties are judged by the rest. So a
//! client that raises an exception at nearly every acquire would pass. In a run without faults only a slow
//! machine excuses errors: an answer that did not come in time, a connection that was lost, a waiter whose
//! time was up and who could not withdraw for certain. With all other errors,
//!
//! - *violation*: more than half of the acquires ended so. The lock cannot be used.
//! - *unknown*: more than [`SHARE_MAX`] of all operations ended so; or more than half of them, if those that
//!   slowness explains are counted in. Too little is known of what happened.
//!
//! An acquire that ended as its time was up is no error, whatever it ended with: many libraries raise one to
//! say no. That a lock is taken, that a library said no, that a guard rejected a write are results, and no
//! errors; so is every `fail` with a code of the client's own.

use super::checker::{Checker, FindingClass, NotJudged, not_judged_if};
use crate::figures::figures;
use crate::run_index::{Operation, RunIndex};
use crate::slowness::is_by_slowness;
use crate::verdict::{Finding, Outcome, Verdict};
use fencepost_history::{ErrorCode, Event, Kind, f};
use std::collections::BTreeMap;

figures! {
    /// How operations ended.
    ErrorsFigures of "errors" {
        operations: u64,
        errors: u64,
        indeterminate: u64,
    }
}

/// The share of operations that may end with an error that slowness does not explain: one of a hundred.
pub const SHARE_MAX: f64 = 0.01;

const ERRORS_MIN: usize = 3;

/// Of fewer acquires than this no share is taken.
const ACQUIRES_MIN: usize = 20;

/// Where a text of an error is cut: those that differ only later count as one.
const TEXT_MAX: usize = 120;

pub(super) const ERRORS: Checker = Checker {
    classes: &[FindingClass {
        name: "errors-without-faults",
        meaning: "Without any fault, more than half of the acquires ended with an error.",
        advice: "Read the text of the error: the library, its version or the way in which it is called is broken.",
    }],
    claim: None,
    needs_a_whole_run: true,
    ..Checker::of::<ErrorsFigures>("errors: without faults, operations end with a result", check)
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    not_judged_if!(!run.is_in_peace(), "faults were injected, and faults excuse errors");
    let ended = || run.operations.iter().filter_map(|operation| Some((operation, operation.completion?)));
    let is_an_error = |(operation, end): &(&Operation, &Event)| is_error(end) && !is_up(operation, end);
    let failed: Vec<(&Operation, &Event)> = ended().filter(is_an_error).collect();
    let (all, errors) = (ended().count(), failed.len());
    not_judged_if!(all == 0, "no operation came to an end");
    let indeterminate = failed.iter().filter(|(_, end)| end.kind == Kind::Info).count();
    let acquires = ended().filter(|(operation, _)| operation.f() == f::ACQUIRE).count();
    let broken: Vec<&Event> = failed
        .iter()
        .filter(|(operation, end)| operation.f() == f::ACQUIRE && !by_slowness(end))
        .map(|(_, end)| *end)
        .collect();
    let unusable = acquires >= ACQUIRES_MIN && 2 * broken.len() > acquires;
    let unexplained = failed.iter().filter(|(_, end)| !by_slowness(end)).count();
    let too_many = unexplained >= ERRORS_MIN && unexplained as f64 > SHARE_MAX * all as f64;
    let too_many = too_many || (errors >= ACQUIRES_MIN && 2 * errors > all);
    let verdict = if unusable {
        let summary = format!(
            "{} of {acquires} acquires ended with an error although there was no fault; the most frequent: {}",
            broken.len(),
            most_frequent(broken.iter().copied()),
        );
        let findings = vec![finding(&broken, summary.clone())];
        Verdict::new(checker.name, Outcome::Violation, summary).with_findings(findings)
    } else if too_many {
        let summary = format!(
            "{errors} of {all} operations ended with an error although there was no fault, so too little is known of \
             what they did; the most frequent: {}",
            most_frequent(failed.iter().map(|(_, end)| *end)),
        );
        Verdict::new(checker.name, Outcome::Unknown, summary)
    } else {
        let summary = match errors {
            0 => format!("none of {all} operations ended with an error"),
            _ => format!("{errors} of {all} operations ended with an error"),
        };
        Verdict::new(checker.name, Outcome::Valid, summary)
    };
    let [operations, errors, indeterminate] = [all, errors, indeterminate].map(|count| count as u64);
    Ok(verdict.with_figures(&ErrorsFigures { operations, errors, indeterminate }))
}

/// Whether an acquire ended because its time was up. Many libraries raise an error to say no then.
fn is_up(operation: &Operation, end: &Event) -> bool {
    let given_ns = operation.timeout_ns().filter(|given_ns| *given_ns > 0);
    let took_ns = end.time - operation.invoke.time;
    operation.f() == f::ACQUIRE && given_ns.is_some_and(|given_ns| took_ns as f64 >= 0.9 * given_ns as f64)
}

fn code(end: &Event) -> ErrorCode {
    end.error.as_ref().map_or(ErrorCode::NoReason, fencepost_history::OperationError::code)
}

fn is_error(end: &Event) -> bool {
    match end.kind {
        Kind::Info => true,
        Kind::Fail => code(end).kind().is_error(),
        Kind::Ok | Kind::Invoke => false,
    }
}

/// Whether a slow machine explains the error: also that a library gave up its own way.
fn by_slowness(end: &Event) -> bool {
    is_by_slowness(end) || matches!(code(end), ErrorCode::Taken | ErrorCode::RefusedByLibrary)
}

fn most_frequent<'a>(ends: impl Iterator<Item = &'a Event>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for end in ends {
        let text = end.error.as_deref().unwrap_or("no reason given");
        *counts.entry(text.chars().take(TEXT_MAX).collect()).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map_or(String::new(), |(text, _)| text)
}

fn finding(ends: &[&Event], sentence: String) -> Finding {
    let (key, events) = (ends[0].key.as_deref(), ends.iter().take(5).map(|end| end.index));
    Finding::new("errors-without-faults", key.unwrap_or(""), ends[0].time, events.collect(), sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{maybe_verdict, verdict};

    /// A hundred acquires, of which the first `count` end so.
    fn ending(count: u64, end: &str) -> String {
        let acquire = |at: u64| {
            let end = if at < count { end } else { "ok acquire a" };
            format!("{at} {at} invoke acquire a\n{at} {at} {end}\n")
        };
        (0..100).map(acquire).collect()
    }

    #[test]
    fn rejects_a_library_that_raises_at_most_acquires() {
        let verdict = verdict(&ERRORS, &ending(60, "info acquire a null raised: TypeError: 'x'"));
        assert_eq!(verdict.outcome, Outcome::Violation);
        assert_eq!(
            verdict.summary,
            "60 of 100 acquires ended with an error although there was no fault; the most frequent: raised: TypeError: \
             'x'"
        );
        assert_eq!(verdict.findings[0].events, [1, 3, 5, 7, 9]);
    }

    #[test]
    fn the_most_frequent_error_is_named_wherever_it_stands_in_the_alphabet() {
        let of = |text: &str| format!("info acquire a null raised: {text}");
        let history = ending(60, &of("Aborted")).replacen("Aborted", "Zero", 20);
        assert!(verdict(&ERRORS, &history).summary.ends_with("raised: Aborted"));
        let history = ending(60, &of("Zero")).replacen("Zero", "Aborted", 20);
        assert!(verdict(&ERRORS, &history).summary.ends_with("raised: Zero"));
    }

    #[test]
    fn accepts_what_is_no_error_and_an_error_now_and_then() {
        for end in ["taken", "refused-by-library: no", "own-code: busy", "expired", "no-majority"] {
            let verdict = verdict(&ERRORS, &ending(99, &format!("fail acquire a null {end}")));
            assert_eq!(verdict.outcome, Outcome::Valid, "{end}");
        }
        for slow in
            ["fail acquire a null timeout: n1 did not answer", "info acquire a null taken: by another"]
        {
            let slow = verdict(&ERRORS, &ending(9, slow));
            assert_eq!(
                (slow.outcome, &*slow.summary),
                (Outcome::Valid, "9 of 100 operations ended with an error")
            );
        }
        // Slow, and fewer than half.
        let slow = verdict(&ERRORS, &ending(30, "fail acquire a null timeout: n1 did not answer"));
        assert_eq!(slow.outcome, Outcome::Valid);
        let seldom = verdict(&ERRORS, &ending(2, "info acquire a null raised: x"));
        assert_eq!(
            (seldom.outcome, &*seldom.summary),
            (Outcome::Valid, "2 of 100 operations ended with an error")
        );
    }

    #[test]
    fn does_not_know_where_too_much_is_unknown() {
        for (count, end) in [(3, "info acquire a null raised: x"), (99, "info acquire a null timeout: n1")] {
            let verdict = verdict(&ERRORS, &ending(count, end));
            assert_eq!(verdict.outcome, Outcome::Unknown, "{end}");
            assert!(verdict.summary.contains("too little is known"), "{}", verdict.summary);
        }
        let refused = verdict(&ERRORS, &ending(50, "fail acquire a null refused: ERR unknown command"));
        assert_eq!(refused.outcome, Outcome::Unknown);
    }

    #[test]
    fn an_acquire_that_raises_as_its_time_is_up_says_no() {
        let ended = |took_ms: u64| -> String {
            let acquire = |at: u64| {
                let (from, until) = (at * 1000, at * 1000 + took_ms);
                format!(
                    "{from} {at} invoke acquire a {{timeout_ms:500}}\n{until} {at} info acquire a null raised: LockTimeout\n"
                )
            };
            (0..30).map(acquire).collect()
        };
        assert_eq!(verdict(&ERRORS, &ended(500)).summary, "none of 30 operations ended with an error");
        assert_eq!(verdict(&ERRORS, &ended(100)).outcome, Outcome::Violation);
    }

    #[test]
    fn is_silent_where_faults_excuse_errors_and_where_nothing_ended() {
        let raised = ending(60, "info acquire a null raised: x");
        let fault = "0 nemesis invoke kill - {id:1,stage:\"inject\",targets:[\"n1\"]}\n";
        assert!(maybe_verdict(&ERRORS, &(fault.to_owned() + &raised)).is_none());
        assert!(maybe_verdict(&ERRORS, "0 1 invoke acquire a").is_none());
    }
}
