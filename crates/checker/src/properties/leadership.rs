//! Elections: a leader that was deposed finds out. In the workload `election` each leader reads the last
//! entry of a log before it writes its own: an entry of a later term shows, without any clock, that it was
//! deposed; if it still believed afterwards that it led, it did not know. How long no process led is a
//! figure: [`progress`](super::progress) and [`fairness`](super::fairness) bound it.

use super::checker::{Blame, Checker, FindingClass, NotJudged, not_judged_if};
use super::under_holds::holds_of_operations;
use crate::figures::figures;
use crate::leaderless::{Leaderless, longest_without_leader};
use crate::prose::{lock, seconds};
use crate::run_index::RunIndex;
use crate::verdict::{Finding, Verdict};
use crate::whose::Harm;
use fencepost_history::{LockKind, LogEntry, f};
use rustc_hash::FxHashMap;

figures! {
    /// Leaderships of an election, and its times without a leader.
    LeadershipFigures of "leadership" {
        leaderships: u64,
        deposed: u64,
        /// The longest time without a leader while a process campaigned: there certainly was none.
        without_leader_ms: u64,
        /// The same: there may have been none.
        without_leader_at_most_ms: u64,
    }
}

const DEPOSED: &str = "deposed";

pub(super) const LEADERSHIP: Checker = Checker {
    classes: &[FindingClass {
        name: DEPOSED,
        meaning: "A leader read what the leader of a later term had written, and still believed that it led.",
        advice: "Let the leader look whether it still leads before each step, and the storage reject an earlier term.",
    }],
    claim: Some("exclusion"),
    harm: Harm::GrantedTwice,
    blame: Blame::ByHolders,
    kind: Some(LockKind::Election),
    ..Checker::of::<LeadershipFigures>("leadership: a leader that was deposed finds out", check)
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    not_judged_if!(run.holds.is_empty(), "no process was ever elected");
    let findings = deposed(run);
    let Leaderless { from_ns, at_least_ns, at_most_ns } = longest_without_leader(run);
    let figures = LeadershipFigures {
        leaderships: run.holds.len() as u64,
        deposed: findings.len() as u64,
        without_leader_ms: at_least_ns / 1_000_000,
        without_leader_at_most_ms: at_most_ns / 1_000_000,
    };
    let said = match (figures.leaderships, figures.deposed) {
        (all, 0) => format!("none of {all} leaders read what a later one had written, and went on"),
        (all, deposed) => format!("{deposed} of {all} leaders did not know that they were deposed"),
    };
    let [from, at_least, at_most] = [from_ns, at_least_ns, at_most_ns].map(seconds);
    let summary =
        format!("{said}; the longest time without a leader was {at_least} to {at_most}, from {from} on");
    Ok(checker.judged(summary, &figures, findings))
}

/// Leaders that read an entry of a later term, and are known to have believed afterwards that they led.
fn deposed(run: &RunIndex) -> Vec<Finding> {
    let holds = holds_of_operations(run);
    let terms = run.holds.iter().filter_map(|hold| Some(((hold.key, hold.token?), hold.from)));
    let elected: FxHashMap<(&str, i64), u64> = terms.collect();
    let reads = run.calls(f::READ);
    let found = reads.filter_map(|read| {
        let answer = read.ok()?;
        let later = LogEntry::of(&answer.value)?;
        let leader = &run.holds[*holds.get(&read.invoke.index)?];
        let (own, term) = (leader.token?, later.term?);
        if term <= own || later.process == leader.process || leader.until <= answer.index {
            return None;
        }
        let elected = elected.get(&(read.key, term)).copied();
        let [from, at, until] = [leader.from_ns, answer.time, leader.until_ns].map(seconds);
        let sentence = format!(
            "process {}, which led {} in term {own} from {from} on, read at {at} an entry of process {} in term {term}, and still \
             believed at {until} that it led",
            leader.process,
            lock(read.key),
            later.process,
        );
        let events = [leader.from].into_iter().chain(elected).chain([answer.index]).collect();
        Some(Finding::new(DEPOSED, read.key, answer.time, events, sentence))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{maybe_verdict, verdict};
    use crate::verdict::Outcome;

    /// Process 1 leads in a term, and process 2 in another one meanwhile; process 1 reads its entry.
    fn history(second: i64, after: &str) -> String {
        format!(
            "0 nemesis info lock - {{name:\"x\",kind:\"election\"}}
             10 1 invoke acquire a {{ttl_ms:2000}}\n20 1 ok acquire a {{token:7}}
             30 2 invoke acquire a {{ttl_ms:2000}}\n40 2 ok acquire a {{token:{second}}}
             50 2 invoke write a [\"entry\",2,{second},2000001]\n51 2 ok write a 4
             60 1 invoke read a\n61 1 ok read a [\"entry\",2,{second},2000001]\n{after}"
        )
    }

    const GOES_ON: &str = "70 1 invoke write a [\"entry\",1,7,1000001]\n71 1 ok write a 4\n80 1 invoke release a\n81 1 ok release a {believed:true}";

    #[test]
    fn rejects_a_leader_that_does_not_know_that_it_was_deposed() {
        let verdict = verdict(&LEADERSHIP, &history(9, GOES_ON));
        let finding = &verdict.findings[0];
        assert_eq!((verdict.outcome, finding.class.as_str()), (Outcome::Violation, DEPOSED));
        assert_eq!(
            finding.sentence,
            "process 1, which led a in term 7 from 0.020 s on, read at 0.061 s an entry of process 2 in term 9, and still \
             believed at 0.080 s that it led"
        );
    }

    #[test]
    fn accepts_a_leader_that_resigns_and_an_entry_of_an_earlier_term() {
        let lost = "62 1 info lost a {reason:\"x\"}";
        for text in [history(9, lost), history(5, GOES_ON)] {
            let verdict = verdict(&LEADERSHIP, &text);
            assert_eq!(verdict.outcome, Outcome::Valid, "{}", verdict.summary);
            assert!(verdict.summary.starts_with("none of 2 leaders read"), "{}", verdict.summary);
        }
    }

    #[test]
    fn has_nothing_to_say_where_no_process_was_elected() {
        assert_eq!(maybe_verdict(&LEADERSHIP, "10 1 invoke acquire a\n20 1 fail acquire a null taken"), None);
    }
}
