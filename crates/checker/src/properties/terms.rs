//! Terms of an election: at most one process is elected in a term, its leadership's token. `fencing` judges
//! that later terms are greater; two leaders elected at once may come in either order, but not with one term.

use super::checker::{Blame, Checker, FindingClass, NotJudged, not_judged_if};
use crate::figures::figures;
use crate::prose::{lock, seconds};
use crate::run_index::{Hold, RunIndex};
use crate::verdict::{Finding, Verdict};
use fencepost_history::LockKind;
use rustc_hash::FxHashMap;

figures! {
    /// Terms of an election.
    TermsFigures of "terms" {
        terms: u64,
        shared: u64,
    }
}

const SHARED_TERM: &str = "shared-term";

pub(super) const TERMS: Checker = Checker {
    classes: &[FindingClass {
        name: SHARED_TERM,
        meaning: "Two processes were elected in the same term, so nothing tells their writes apart.",
        advice: "Count terms in the step that elects, in a place that never goes back.",
    }],
    claim: Some("fencing"),
    blame: Blame::ByMemory,
    kind: Some(LockKind::Election),
    ..Checker::of::<TermsFigures>("terms: at most one process is elected in a term", check)
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let mut of_term: FxHashMap<(&str, i64), &Hold> = FxHashMap::default();
    let mut findings = Vec::new();
    for (_, hold) in run.excluding_holds() {
        let Some(term) = hold.token else { continue };
        // A process may be given its own term again.
        match of_term.insert((hold.key, term), hold) {
            Some(earlier) if earlier.process != hold.process => {
                findings.push(shared_term(earlier, hold, term));
            }
            _ => {}
        }
    }
    not_judged_if!(of_term.is_empty(), "the election gives its leaders no terms");
    let figures = TermsFigures { terms: of_term.len() as u64, shared: findings.len() as u64 };
    let summary = match figures.shared {
        0 => format!("each of {} terms had one leader", figures.terms),
        shared => format!("{shared} of {} terms had two leaders", figures.terms),
    };
    Ok(checker.judged(summary, &figures, findings))
}

fn shared_term(earlier: &Hold, later: &Hold, term: i64) -> Finding {
    let [first, second] = [earlier, later].map(|hold| seconds(hold.from_ns));
    let (lock, elected, again) = (lock(later.key), earlier.process, later.process);
    let sentence = format!(
        "process {elected} was elected for {lock} in term {term} at {first}, and process {again} in the same term at {second}"
    );
    Finding::new(SHARED_TERM, later.key, later.from_ns, vec![earlier.from, later.from], sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{maybe_verdict, verdict};
    use crate::verdict::Outcome;

    fn elected(first: &str, (process, second): (u64, &str)) -> String {
        format!(
            "10 1 invoke acquire a\n20 1 ok acquire a {first}\n30 1 invoke release a\n31 1 ok release a {{believed:true}}
             40 {process} invoke acquire a\n50 {process} ok acquire a {second}"
        )
    }

    #[test]
    fn rejects_two_leaders_in_one_term() {
        let verdict = verdict(&TERMS, &elected("{token:7}", (2, "{token:7}")));
        assert_eq!(verdict.outcome, Outcome::Violation);
        assert_eq!(
            verdict.findings[0].sentence,
            "process 1 was elected for a in term 7 at 0.020 s, and process 2 in the same term at 0.050 s"
        );
    }

    #[test]
    fn accepts_a_term_for_each_leader_and_a_leader_that_is_elected_again() {
        for again in [(2, "{token:8}"), (1, "{token:7}")] {
            assert_eq!(verdict(&TERMS, &elected("{token:7}", again)).outcome, Outcome::Valid);
        }
    }

    #[test]
    fn has_nothing_to_say_without_terms() {
        assert_eq!(maybe_verdict(&TERMS, &elected("{validity_ms:5}", (2, "null"))), None);
    }
}
