//! Fencing tokens: the process that acquires later, in real time, gets a greater token.
//!
//! "Later" means that the acquire was invoked after the other was complete; tokens of acquires that overlap may
//! come in either order. One pass: at the invocation note the greatest token that was complete by then, at the
//! completion compare.

use super::checker::{Checker, FindingClass, NotJudged};
use crate::prose::seconds;
use crate::run_index::{Operation, RunIndex};
use crate::verdict::{Finding, Outcome, Verdict};
use fencepost_history::f;
use rustc_hash::FxHashMap;

pub struct Fencing;

impl Checker for Fencing {
    fn name(&self) -> &'static str {
        "fencing"
    }

    fn about(&self) -> &'static str {
        "fencing tokens: a later acquisition gets a greater token"
    }

    fn classes(&self) -> &'static [FindingClass] {
        &[FindingClass {
            name: "token-not-greater",
            meaning: "A later acquisition got a token that is not greater, so no storage can tell the holders apart.",
            advice: "Draw tokens from one place that never goes back, such as a counter under consensus.",
        }]
    }

    fn check(&self, run: &RunIndex) -> Result<Verdict, NotJudged> {
        let mut by_key: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
        for (at, hold) in run.holds.iter().enumerate().filter(|(_, hold)| hold.token.is_some()) {
            by_key.entry(hold.key).or_default().push(at);
        }
        let tokens: usize = by_key.values().map(Vec::len).sum();
        if tokens == 0 {
            return Err(NotJudged::because("no acquire returned a fencing token"));
        }
        let findings: Vec<_> = by_key.values().flat_map(|holds| check_key(run, holds)).collect();
        let count = findings.len();
        let (outcome, summary) = match count {
            0 => (Outcome::Valid, format!("each of {tokens} tokens was greater than those before it")),
            _ => (Outcome::Violation, format!("{count} of {tokens} tokens were not greater than one before")),
        };
        let verdict = Verdict::new(self.name(), outcome, summary).stat("tokens", tokens);
        Ok(verdict.stat("not_greater", count).with_findings(findings))
    }
}

fn check_key(run: &RunIndex, holds: &[usize]) -> Vec<Finding> {
    // The greatest tokens so far, by completion: `greatest[i]` is the best of the first i + 1 holds.
    let mut greatest: Vec<usize> = Vec::with_capacity(holds.len());
    let mut findings = Vec::new();
    for &at in holds {
        let hold = &run.holds[at];
        let invoke = run.operations[hold.acquire].invoke.index;
        let before = holds[..greatest.len()].partition_point(|&earlier| run.holds[earlier].from < invoke);
        if let Some(&best) = before.checked_sub(1).map(|last| &greatest[last])
            && run.holds[best].token >= hold.token
            && !is_own_again(run, best, at)
        {
            findings.push(finding(run, best, at));
        }
        let best = greatest.last().copied().filter(|&best| run.holds[best].token >= hold.token);
        greatest.push(best.unwrap_or(at));
    }
    findings
}

/// Whether a grant is the earlier one once more: its process was not known to have released that, and a lock that can be acquired again
/// by its holder, or that a session keeps, has one token for both.
fn is_own_again(run: &RunIndex, earlier: usize, later: usize) -> bool {
    let (a, b) = (&run.holds[earlier], &run.holds[later]);
    let between = &run.operations[a.acquire + 1..b.acquire];
    let released = |operation: &Operation| {
        let is_own = operation.process == a.process && operation.key == a.key && operation.f() == f::RELEASE;
        is_own && !operation.certainly_not()
    };
    a.process == b.process && a.token == b.token && !between.iter().any(released)
}

fn finding(run: &RunIndex, earlier: usize, later: usize) -> Finding {
    let (a, b) = (&run.holds[earlier], &run.holds[later]);
    let token = |token: Option<i64>| token.map_or_else(String::new, |token| token.to_string());
    Finding {
        class: "token-not-greater".to_owned(),
        key: b.key.to_owned(),
        time: b.from_ns,
        events: vec![a.from, run.operations[b.acquire].invoke.index, b.from],
        sentence: format!(
            "process {} began to acquire at {} and got token {}, although process {} had already got token {} at {}",
            b.process,
            seconds(b.invoke_ns),
            token(b.token),
            a.process,
            token(a.token),
            seconds(a.from_ns),
        ),
        ..Finding::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal::{maybe_verdict, verdict};

    const GROWING: &str = "
        0 1 invoke acquire a
        1 2 invoke acquire a
        2 2 ok     acquire a {token:34}
        3 1 ok     acquire a {token:33}
        4 3 invoke acquire a
        5 3 ok     acquire a {token:35}";

    #[test]
    fn accepts_the_same_grant_once_more_of_who_has_not_released() {
        let again = "
            0 1 invoke acquire a
            1 1 ok     acquire a {token:5}
            2 1 invoke release a
            3 1 fail   release a {believed:true} unreachable
            4 1 invoke acquire a
            5 1 ok     acquire a {token:5}";
        assert_eq!(verdict(&Fencing, again).outcome, Outcome::Valid);
        let released =
            again.replace("fail   release a {believed:true} unreachable", "ok release a {believed:true}");
        assert_eq!(verdict(&Fencing, &released).outcome, Outcome::Violation);
        let another = again.replace("4 1", "4 2").replace("5 1", "5 2");
        assert_eq!(verdict(&Fencing, &another).outcome, Outcome::Violation);
    }

    #[test]
    fn accepts_growing_tokens_and_any_order_of_overlapping_acquires() {
        assert_eq!(verdict(&Fencing, GROWING).outcome, Outcome::Valid);
    }

    #[test]
    fn rejects_a_token_that_is_equal_or_smaller() {
        for token in ["34", "12"] {
            let verdict = verdict(&Fencing, &GROWING.replace("35", token));
            assert_eq!(verdict.outcome, Outcome::Violation);
            assert_eq!(verdict.findings[0].events, [2, 4, 5]);
        }
    }

    #[test]
    fn has_nothing_to_say_without_tokens() {
        assert!(maybe_verdict(&Fencing, "0 1 invoke acquire a\n1 1 ok acquire a").is_none());
    }
}
