//! Stale writes: the storage accepts no write from a holder that has been superseded. A holder is superseded,
//! as far as a storage can know, once a later holder has read or written there: from then on a write of the
//! earlier one changes the value behind the later one's back. An earlier write does no harm, and no fencing
//! can tell it from one in time. So a finding is a write acknowledged to holder A, invoked after the storage
//! had answered a holder B whose hold came after A's; or, where the history has the storage's log, a write of
//! A that the log has after a read or write of B. The log also shows writes whose client had given them up.

use super::checker::{Blame, Checker, FindingClass, NotJudged, not_judged_if};
use super::fencing::GrantOrder;
use super::under_holds::{holds_of_operations, is_rejected};
use crate::figures::figures;
use crate::prose::seconds;
use crate::run_index::{Operation, RunIndex};
use crate::storage_order::storage_order;
use crate::verdict::{Finding, Verdict};
use crate::whose::Harm;
use fencepost_history::prose::counted;
use fencepost_history::{Kind, f};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

figures! {
    /// What became of writes of superseded holders.
    StaleWritesFigures of "stale-writes" {
        accepted: u64,
        rejected: u64,
    }
}

/// The latest holder of a key that the storage has answered, and the answer.
#[derive(Clone, Copy)]
struct Latest {
    hold: usize,
    answer: u64,
    answer_ns: u64,
    wrote: bool,
}

pub(super) const STALE_WRITES: Checker = Checker {
    classes: &[FindingClass {
        name: "stale-write",
        meaning: "The storage accepted a write from a process after a later holder had been there.",
        advice: "Let the storage reject a token lower than the highest that it has seen, in one step with the write.",
    }],
    claim: Some("exclusion"),
    harm: Harm::GrantedTwice,
    blame: Blame::ByHolders,
    ..Checker::of::<StaleWritesFigures>(
        "stale writes: the storage accepts no write from a holder that has been superseded",
        check,
    )
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let writes = run.calls(f::WRITE).count();
    not_judged_if!(
        writes == 0 || run.excluding_holds().next().is_none(),
        "no writes under a lock that excludes anybody"
    );
    let rejected = run.operations.iter().filter(|operation| is_rejected(operation)).count();
    let grants = GrantOrder::of(run);
    let mut findings = stale_by_log(run, &grants);
    let found: FxHashSet<u64> = findings.iter().map(|finding| finding.events[3]).collect();
    findings
        .extend(stale_by_answers(run, &grants).into_iter().filter(|more| !found.contains(&more.events[3])));
    let count = findings.len();
    let summary = match (count, rejected) {
        (0, 0) => format!("of {writes} writes, none is known to have come from a superseded holder"),
        (0, _) => {
            let rejected = counted(rejected as u64, "write", "writes");
            format!("the storage rejected {rejected} and accepted no stale one")
        }
        (1, _) => "the storage accepted a write from a holder that had been superseded".to_owned(),
        _ => format!("the storage accepted {count} writes from holders that had been superseded"),
    };
    let figures = StaleWritesFigures { accepted: count as u64, rejected: rejected as u64 };
    Ok(checker.judged(summary, &figures, findings))
}

/// One pass over the storage's log: a write of a hold that is earlier than one that had been there.
fn stale_by_log(run: &RunIndex, grants: &GrantOrder) -> Vec<Finding> {
    let order = storage_order(run);
    let holds = if order.is_empty() { FxHashMap::default() } else { holds_of_operations(run) };
    let mut latest: FxHashMap<&str, (usize, &Operation)> = FxHashMap::default();
    let mut findings = Vec::new();
    for operation in order.iter().map(|at| &run.operations[*at]) {
        let Some(&hold) = holds.get(&operation.invoke.index) else { continue };
        let later = latest.get(operation.key).filter(|(latest, _)| grants.supersedes(*latest, hold));
        match later {
            Some(&(later, access)) if operation.f() == f::WRITE => {
                findings.push(late(run, operation, hold, access, later));
            }
            Some(_) => {}
            None => {
                latest.insert(operation.key, (hold, operation));
            }
        }
    }
    findings
}

fn late(run: &RunIndex, write: &Operation, hold: usize, access: &Operation, later: usize) -> Finding {
    let (a, b) = (&run.holds[hold], &run.holds[later]);
    let answer = access.completion.unwrap_or(access.invoke);
    let mut events = vec![a.from, b.from, answer.index, write.invoke.index];
    let ok = write.ok();
    events.extend(ok.map(|ok| ok.index));
    let (what, process, other) = (written(write), write.process, b.process);
    let done = if access.f() == f::WRITE { "written" } else { "read" };
    let [sent, at] = [write.invoke.time, answer.time].map(seconds);
    let sentence = format!(
        "the storage carried out the write of {what} by process {process}, sent at {sent}, only after process {other}, which had \
         acquired the lock after it, had {done} (at {at}): so says the storage's log"
    );
    let time = ok.map_or(answer.time.max(write.invoke.time), |ok| ok.time);
    Finding::new("stale-write", write.key, time, events, sentence)
}

fn written<'a>(write: &Operation<'a>) -> &'a Value {
    let value = &*write.invoke.value;
    value.as_array().and_then(|list| list.last()).unwrap_or(value)
}

/// One pass over the events: at a write's invocation note who had been answered by then, at its `ok` compare.
fn stale_by_answers(run: &RunIndex, grants: &GrantOrder) -> Vec<Finding> {
    let by_invocation: FxHashMap<u64, &Operation> =
        run.operations.iter().map(|operation| (operation.invoke.index, operation)).collect();
    let holds = holds_of_operations(run);
    let mut latest: FxHashMap<&str, Latest> = FxHashMap::default();
    // Of each process's open operation: the operation, its hold, and who had been answered at its invocation.
    let mut open: FxHashMap<u64, (&Operation, Option<usize>, Option<Latest>)> = FxHashMap::default();
    let mut findings = Vec::new();
    for event in run.events {
        let fencepost_history::Process::Client(process) = event.process else { continue };
        if let Some(&operation) = by_invocation.get(&event.index) {
            let hold = holds.get(&event.index).copied();
            open.insert(process, (operation, hold, latest.get(operation.key).copied()));
            continue;
        }
        if crate::belief::is_notice(event) {
            continue;
        }
        let Some((operation, Some(hold), seen)) = open.remove(&process) else { continue };
        let wrote = operation.f() == f::WRITE;
        if event.kind != Kind::Ok || !(wrote || operation.f() == f::READ) {
            continue;
        }
        if let Some(seen) = seen.filter(|seen| wrote && grants.supersedes(seen.hold, hold)) {
            findings.push(finding(run, operation, hold, seen));
        }
        let seen = latest.get(operation.key).filter(|seen| grants.supersedes(seen.hold, hold));
        if seen.is_none() {
            latest.insert(operation.key, Latest { hold, answer: event.index, answer_ns: event.time, wrote });
        }
    }
    findings
}

fn finding(run: &RunIndex, write: &Operation, hold: usize, seen: Latest) -> Finding {
    let (a, b) = (&run.holds[hold], &run.holds[seen.hold]);
    let ok = write.completion.expect("only acknowledged writes are looked at");
    let (what, process, other) = (written(write), write.process, b.process);
    let done = if seen.wrote { "written" } else { "read" };
    let [accepted, at] = [ok.time, seen.answer_ns].map(seconds);
    let sentence = format!(
        "the storage accepted the write of {what} by process {process} at {accepted}, although process {other}, which had acquired \
         the lock after it, had already {done} at {at}"
    );
    let events = vec![a.from, b.from, seen.answer, write.invoke.index, ok.index];
    Finding::new("stale-write", write.key, ok.time, events, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::verdict;
    use crate::verdict::Outcome;

    const SUPERSEDED: &str = "
        0  1 invoke acquire a {ttl_ms:10}
        1  1 ok     acquire a {token:1}
        20 2 invoke acquire a {ttl_ms:10}
        21 2 ok     acquire a {token:2}
        22 2 invoke write   a 1
        23 2 ok     write   a 1
        30 1 invoke write   a 1
        31 1 ok     write   a 1";

    #[test]
    fn rejects_a_write_behind_the_back_of_a_later_holder() {
        let verdict = verdict(&STALE_WRITES, SUPERSEDED);
        assert_eq!(verdict.outcome, Outcome::Violation);
        assert_eq!(verdict.findings[0].events, [1, 3, 5, 6, 7]);
    }

    #[test]
    fn accepts_when_the_guard_rejects_it() {
        let guarded = SUPERSEDED
            .replace("31 1 ok     write   a 1", "31 1 fail write a null rejected: made-up-code: 1 < 2");
        let verdict = verdict(&STALE_WRITES, &guarded);
        assert_eq!(verdict.outcome, Outcome::Valid);
        assert_eq!(verdict.summary, "the storage rejected 1 write and accepted no stale one");
    }

    /// The answer to the first grant, of token 33, comes after the second was granted and used.
    const LATE_GRANT: &str = "
        0  2 invoke acquire a {ttl_ms:2}
        4  1 invoke acquire a {ttl_ms:2}
        5  1 ok     acquire a {token:40}
        6  1 invoke read    a
        7  1 ok     read    a 0
        8  2 ok     acquire a {token:33}
        9  2 invoke read    a
        10 2 ok     read    a 0
        11 1 invoke write   a 1
        12 1 ok     write   a 1";

    #[test]
    fn of_grants_that_were_asked_for_together_the_greater_token_is_the_later() {
        assert_eq!(verdict(&STALE_WRITES, LATE_GRANT).outcome, Outcome::Valid);
        let stale = format!("{LATE_GRANT}\n13 2 invoke write a 1\n14 2 ok write a 1");
        let verdict_of_stale = verdict(&STALE_WRITES, &stale);
        assert_eq!(verdict_of_stale.outcome, Outcome::Violation);
        assert_eq!(verdict_of_stale.findings[0].events, [5, 2, 9, 10, 11]);
        // Without tokens, the order of the answers, but for one that came when all was over.
        let without = LATE_GRANT.replace(" {token:40}", "").replace(" {token:33}", " {validity_ms:0}");
        assert_eq!(verdict(&STALE_WRITES, &without).outcome, Outcome::Valid);
    }

    /// Process 2 waited for longer than its TTL, behind a holder that renewed: validity 0 when its answer
    /// came. It then renewed.
    const WAITED: &str = "
        0  2 invoke acquire a {ttl_ms:5}
        1  1 invoke acquire a {ttl_ms:5}
        2  1 ok     acquire a {validity_ms:4}
        5  1 info   renewed a
        8  1 invoke read    a
        9  1 ok     read    a 0
        10 1 invoke write   a 1
        11 1 ok     write   a 1
        12 1 invoke release a
        13 1 ok     release a
        14 2 ok     acquire a {validity_ms:0}
        15 2 info   renewed a
        16 2 invoke read    a
        17 2 ok     read    a 1
        18 2 invoke write   a 2
        19 2 ok     write   a 2";

    #[test]
    fn a_grant_that_was_waited_for_longer_than_its_ttl_is_no_early_one() {
        assert_eq!(verdict(&STALE_WRITES, WAITED).outcome, Outcome::Valid);
        // Without the renewal its place is not known: no finding either, for itself or for the other.
        let unknown = WAITED.replace("        15 2 info   renewed a\n", "");
        assert_eq!(verdict(&STALE_WRITES, &unknown).outcome, Outcome::Valid);
        // Once renewed, it is later than the other, whose write then would be late.
        let late = format!("{WAITED}\n30 1 invoke write a 9\n31 1 ok write a 9");
        assert_eq!(verdict(&STALE_WRITES, &late).outcome, Outcome::Violation);
    }

    const UNANSWERED: &str = "
        0  1 invoke acquire a {ttl_ms:10}
        1  1 ok     acquire a {token:1}
        2  1 invoke write   a 5
        15 2 invoke acquire a {ttl_ms:10}
        16 2 ok     acquire a {token:2}
        17 2 invoke read    a
        18 2 ok     read    a 4
        19 2 invoke write   a 5
        20 2 ok     write   a 5
        25 1 info   write   a null timeout: no answer";

    #[test]
    fn rejects_a_write_without_an_answer_that_the_log_has_too_late() {
        let with_log = |log: &str| {
            let history = format!("{UNANSWERED}\n40 nemesis info storage-log - {log}");
            verdict(&STALE_WRITES, &history)
        };
        let late = with_log(r#"[["a",2,"read",null],["a",2,"write",5],["a",1,"write",5]]"#);
        assert_eq!(late.outcome, Outcome::Violation);
        assert_eq!(late.findings[0].events, [1, 4, 8, 2]);
        assert_eq!(
            late.findings[0].sentence,
            "the storage carried out the write of 5 by process 1, sent at 0.002 s, only after process 2, which had \
             acquired the lock after it, had written (at 0.020 s): so says the storage's log"
        );
        // In time, or never: no harm was done.
        let early = with_log(r#"[["a",1,"write",5],["a",2,"read",null],["a",2,"write",5]]"#);
        assert_eq!(early.outcome, Outcome::Valid);
        assert_eq!(with_log(r#"[["a",2,"read",null],["a",2,"write",5]]"#).outcome, Outcome::Valid);
        assert_eq!(verdict(&STALE_WRITES, UNANSWERED).outcome, Outcome::Valid, "no log, no proof");
    }

    #[test]
    fn what_log_and_answers_both_show_is_found_once() {
        let history = format!(
            "{SUPERSEDED}\n40 nemesis info storage-log - {}",
            r#"[["a",2,"write",1],["a",1,"write",1]]"#
        );
        assert_eq!(verdict(&STALE_WRITES, &history).findings.len(), 1);
    }

    #[test]
    fn a_write_before_the_later_holder_touches_the_storage_is_not_stale() {
        let early = SUPERSEDED.replace("22 2 invoke write   a 1\n        23 2 ok     write   a 1\n", "");
        assert_eq!(verdict(&STALE_WRITES, &early).outcome, Outcome::Valid);
        // A later holder that has only read is harmed just as well.
        let read = SUPERSEDED
            .replace("2 invoke write   a 1", "2 invoke read a")
            .replace("2 ok     write", "2 ok read");
        assert_eq!(verdict(&STALE_WRITES, &read).outcome, Outcome::Violation);
    }
}
