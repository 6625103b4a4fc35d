//! The resource: never more users than permits. In the workload `semaphore` a process enters a resource that
//! the storage keeps, reads who is in it, and leaves it. Of those that a read found, one counts if it
//! certainly held a permit from the read's invocation to its answer: a client that was ended never left.

use super::checker::{Blame, Checker, FindingClass, NotJudged, not_judged_if};
use super::under_holds::holds_of_operations;
use crate::claim::Claim;
use crate::figures::figures;
use crate::prose::{lock, seconds};
use crate::run_index::{Hold, Operation, RunIndex};
use crate::verdict::{Finding, Verdict};
use crate::whose::Harm;
use fencepost_history::prose::and;
use fencepost_history::{LockKind, f, users};
use rustc_hash::FxHashMap;

figures! {
    /// How many used a resource at once.
    UsersFigures of "users" {
        reads: u64,
        /// The most users of a resource that certainly held a permit.
        most: u64,
        crowded: u64,
    }
}

const CROWDED: &str = "crowded";

pub(super) const USERS: Checker = Checker {
    classes: &[FindingClass {
        name: CROWDED,
        meaning: "More processes used a resource at the same moment than its semaphore has permits, and all of them held one.",
        advice: "Find out why the semaphore let in one more: a count and the place that it gives must be taken in one step, by one clock.",
    }],
    claim: Some("exclusion"),
    harm: Harm::GrantedTwice,
    blame: Blame::ByHolders,
    kind: Some(LockKind::Semaphore),
    ..Checker::of::<UsersFigures>("the resource: it never has more users than permits", check)
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let holds = holds_of_operations(run);
    let mut of_process: FxHashMap<(u64, &str), Vec<usize>> = FxHashMap::default();
    for (at, hold) in run.excluding_holds() {
        of_process.entry((hold.process, hold.key)).or_default().push(at);
    }
    let (mut figures, mut findings) = (UsersFigures::default(), Vec::new());
    for read in run.calls(f::READ) {
        let Some((there, answer)) = read.ok().and_then(|ok| Some((users(&ok.value)?, ok))) else {
            continue;
        };
        if !holds.contains_key(&read.invoke.index) {
            continue;
        }
        figures.reads += 1;
        // The reader itself, too: to read shows no belief, and its permit may have run out before.
        let is_in = |hold: &Hold| hold.from < read.invoke.index && hold.until > answer.index;
        let held = |process: u64| {
            let of_process = of_process.get(&(process, read.key))?;
            of_process.iter().copied().rfind(|&at| is_in(&run.holds[at]))
        };
        let certain: Vec<usize> = there.iter().filter_map(|process| held(*process)).collect();
        figures.most = figures.most.max(certain.len() as u64);
        if !Claim::fit(certain.iter().map(|&at| run.holds[at].claim)) {
            findings.push(finding(run, read, &certain));
        }
    }
    not_judged_if!(figures.reads == 0, "the workload uses no resource that counts its users");
    figures.crowded = findings.len() as u64;
    let UsersFigures { reads, most, crowded } = figures;
    let summary = match crowded {
        0 => format!("{reads} times the users were counted, and there were at most {most}"),
        _ => format!("{crowded} of {reads} times there were more users than permits"),
    };
    Ok(checker.judged(summary, &figures, findings))
}

fn finding(run: &RunIndex, read: &Operation, certain: &[usize]) -> Finding {
    let mut holds = certain.to_vec();
    holds.sort_unstable();
    let claims: Vec<Claim> = holds.iter().map(|&at| run.holds[at].claim).collect();
    let processes: Vec<String> = holds.iter().map(|&at| run.holds[at].process.to_string()).collect();
    let answer = read.completion.unwrap_or(read.invoke);
    // The last that came is the one too many: with it, any of the others.
    let earlier = holds.iter().rev().skip(1);
    let last = holds.last().into_iter();
    let mut events: Vec<u64> = earlier.take(1).chain(last).map(|&at| run.holds[at].from).collect();
    events.push(answer.index);
    let sentence = format!(
        "process {} read at {} that processes {} used {}, and each of them believed that it held it: {}",
        read.process,
        seconds(answer.time),
        and(&processes),
        lock(read.key),
        Claim::too_many(&claims, run.lock.kind).unwrap_or_default(),
    );
    Finding::new(CROWDED, read.key, answer.time, events, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{maybe_verdict, verdict};
    use crate::verdict::Outcome;

    /// Three processes acquire one of two permits, enter, and release at the end; the last one reads.
    fn history(read: &str, second_leaves: &str) -> String {
        let mut text = "0 nemesis info lock - {name:\"x\",kind:\"semaphore\"}\n".to_owned();
        for process in 1..4 {
            let at = process * 10;
            text += &format!(
                "{at} {process} invoke acquire a {{ttl_ms:2000,capacity:2}}\n{at} {process} ok acquire a\n\
                 {at} {process} invoke write a [\"enter\",{process}]\n{at} {process} ok write a {process}\n"
            );
            if process == 2 {
                text += second_leaves;
            }
        }
        text += &format!("50 3 invoke read a\n60 3 ok read a {read}\n");
        for process in [3, 1, 2].into_iter().filter(|process| *process != 2 || second_leaves.is_empty()) {
            text += &format!(
                "70 {process} invoke write a [\"leave\",{process}]\n71 {process} ok write a 1\n\
                 80 {process} invoke release a\n81 {process} ok release a {{believed:true}}\n"
            );
        }
        text
    }

    #[test]
    fn accepts_as_many_users_as_permits() {
        let leaves = "25 2 invoke write a [\"leave\",2]\n26 2 ok write a 1\n27 2 invoke release a\n28 2 ok release a {believed:true}\n";
        let verdict = verdict(&USERS, &history("[\"users\",1,3]", leaves));
        assert_eq!((verdict.outcome, &verdict.stats["most"]), (Outcome::Valid, &2.into()));
    }

    #[test]
    fn rejects_more_users_than_permits() {
        let verdict = verdict(&USERS, &history("[\"users\",1,2,3]", ""));
        assert_eq!(verdict.outcome, Outcome::Violation);
        assert_eq!(
            verdict.findings[0].sentence,
            "process 3 read at 0.060 s that processes 1, 2 and 3 used a, and each of them believed that it held it: 3 \
             holders of 2 permits"
        );
    }

    #[test]
    fn a_reader_that_no_longer_holds_does_not_count() {
        let late = history("[\"users\",1,2,3]", "").replace(
            "70 3 invoke write a [\"leave\",3]\n71 3 ok write a 1\n80 3 invoke release a\n81 3 ok release a {believed:true}",
            "80 3 invoke release a\n81 3 fail release a {believed:false} not-held",
        );
        assert!(late.contains("not-held"));
        let verdict = verdict(&USERS, &late);
        assert_eq!((verdict.outcome, &verdict.stats["most"]), (Outcome::Valid, &2.into()));
    }

    #[test]
    fn a_user_that_never_left_and_no_longer_holds_does_not_count() {
        let gone = "28 2 info lost a {reason:\"x\"}\n";
        let verdict = verdict(&USERS, &history("[\"users\",1,2,3]", gone));
        assert_eq!((verdict.outcome, &verdict.stats["most"]), (Outcome::Valid, &2.into()));
    }

    #[test]
    fn other_workloads_use_no_resource() {
        assert_eq!(maybe_verdict(&USERS, &history("7", "")), None);
    }
}
