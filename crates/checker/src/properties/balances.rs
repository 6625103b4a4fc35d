//! The accounts: no money is lost, and none is made. In the workload `several` a process takes two accounts,
//! reads what is on each, and moves one unit from the one to the other. What an account should hold is known:
//! the sum of what the acknowledged writes took from it and put on it, give or take those of unknown end.
//! A write changes an account by the difference to what its process had read there last.
//!
//! *Which transfer was lost.* On an account of which every write has a known end, a write whose process had
//! read something else than the write before it left has undone that one. Those two are the finding.

use super::checker::{Blame, Checker, FindingClass, NotJudged, not_judged_if};
use crate::figures::figures;
use crate::prose::{lock, seconds};
use crate::run_index::{Operation, RunIndex};
use crate::verdict::{Finding, Outcome, Verdict};
use crate::whose::Harm;
use fencepost_history::{Balance, Kind, LockKind, RunPhase, f};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

figures! {
    /// What became of the money.
    BalancesFigures of "balances" {
        transfers: u64,
        /// On how many accounts the balance is not what it should be.
        wrong: u64,
        /// The sum of all accounts at the end, less what it should be.
        sum: i64,
    }
}

const LOST_MONEY: &str = "lost-money";

#[derive(Default)]
struct Account<'r, 'a> {
    /// What the acknowledged writes changed, in all; and those of unknown end, at the least and the most.
    changed: i64,
    perhaps: (i64, i64),
    /// The acknowledged writes, in the order of their answers, with what was read before and what is written.
    writes: Vec<(&'r Operation<'a>, i64, i64)>,
    closing: Option<(i64, &'r Operation<'a>)>,
}

pub(super) const BALANCES: Checker = Checker {
    classes: &[FindingClass {
        name: LOST_MONEY,
        meaning: "A transfer between two accounts was acknowledged, and one of them does not show it: the sum has changed.",
        advice: "Look at the two holders of this story: a lock on several names must exclude every set that has one of them.",
    }],
    claim: Some("exclusion"),
    harm: Harm::GrantedTwice,
    blame: Blame::ByHolders,
    kind: Some(LockKind::Several),
    ..Checker::of::<BalancesFigures>("the accounts: transfers neither lose money nor make it", check)
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let accounts = accounts(run);
    let transfers: usize = accounts.values().map(|account| account.writes.len()).sum::<usize>() / 2;
    not_judged_if!(accounts.is_empty(), "the workload moves no money between accounts");
    let wrong: Vec<(&str, &Account)> =
        accounts.iter().filter(|(_, it)| it.is_wrong()).map(|(name, it)| (*name, it)).collect();
    let sum: i64 = accounts.values().filter_map(|it| Some(it.closing?.0.saturating_sub(it.changed))).sum();
    let unread = accounts.iter().find(|(_, account)| account.closing.is_none());
    let (outcome, summary) = match (&wrong[..], unread) {
        ([], Some((name, _))) => (Outcome::Unknown, format!("no process read what is on {name} at the end")),
        ([], None) => {
            (Outcome::Valid, format!("after {transfers} transfers every account has what it should have"))
        }
        (wrong, _) => {
            let by = match sum {
                0 => "the sum is as before".to_owned(),
                sum if sum < 0 => format!("{} units are missing in the sum", -sum),
                sum => format!("the sum has {sum} units too many"),
            };
            let summary = format!("{} of {} accounts are wrong: {by}", wrong.len(), accounts.len());
            (Outcome::Violation, summary)
        }
    };
    let findings = wrong.iter().map(|(name, account)| finding(run, name, account)).collect();
    let figures = BalancesFigures { transfers: transfers as u64, wrong: wrong.len() as u64, sum };
    Ok(Verdict::new(checker.name, outcome, summary).with_figures(&figures).with_findings(findings))
}

impl Account<'_, '_> {
    fn is_wrong(&self) -> bool {
        let should = (self.changed + self.perhaps.0)..=(self.changed + self.perhaps.1);
        self.closing.is_some_and(|(balance, _)| !should.contains(&balance))
    }
}

fn accounts<'r, 'a>(run: &'r RunIndex<'a>) -> BTreeMap<&'a str, Account<'r, 'a>> {
    let closing = run.phase(RunPhase::Closing).map_or(u64::MAX, |phase| phase.from);
    let mut accounts: BTreeMap<&str, Account> = BTreeMap::new();
    let mut last_read: FxHashMap<(u64, &str), i64> = FxHashMap::default();
    for operation in &run.operations {
        let balance = |value| Balance::of(value).map(|Balance(balance)| balance);
        match operation.f() {
            f::READ => {
                let Some(read) = operation.ok().and_then(|ok| balance(&ok.value)) else { continue };
                last_read.insert((operation.process, operation.key), read);
                if operation.invoke.index > closing
                    && let Some(account) = accounts.get_mut(operation.key)
                {
                    account.closing = Some((read, operation));
                }
            }
            f::WRITE if operation.invoke.value.is_array() => {
                let read = last_read.get(&(operation.process, operation.key));
                let (Some(&read), Some(written)) = (read, balance(&operation.invoke.value)) else { continue };
                let account = accounts.entry(operation.key).or_default();
                match operation.completion.map(|end| end.kind) {
                    Some(Kind::Ok) => {
                        account.changed += written - read;
                        account.writes.push((operation, read, written));
                    }
                    Some(Kind::Fail) => {}
                    _ => {
                        account.perhaps.0 += (written - read).min(0);
                        account.perhaps.1 += (written - read).max(0);
                    }
                }
            }
            _ => {}
        }
    }
    for account in accounts.values_mut() {
        account.writes.sort_by_key(|(write, ..)| write.ok().map(|ok| ok.index));
    }
    accounts
}

fn finding(run: &RunIndex, name: &str, account: &Account) -> Finding {
    let (balance, read) = account.closing.map_or((0, None), |(balance, read)| (balance, Some(read)));
    let should = account.changed;
    let of = |time, events, sentence| Finding::new(LOST_MONEY, name, time, events, sentence);
    let is_certain = account.perhaps == (0, 0);
    let undone = account.writes.windows(2).find(|pair| is_certain && pair[1].1 != pair[0].2);
    let total = format!("at the end it has {balance} and should have {should}");
    let Some([(lost, _, left), (late, found, written)]) = undone else {
        let (time, events) =
            read.and_then(|read| read.ok()).map_or((run.end_ns, Vec::new()), |ok| (ok.time, vec![ok.index]));
        let sentence =
            format!("of {} acknowledged writes to the account {}, {total}", account.writes.len(), lock(name));
        return of(time, events, sentence);
    };
    let done = |write: &Operation| write.ok().map_or((0, 0), |ok| (ok.index, ok.time));
    let sentence = format!(
        "process {} left {left} on the account {} at {}, and process {}, which had read {found}, wrote {written} at {}: {total}",
        lost.process,
        lock(name),
        seconds(done(lost).1),
        late.process,
        seconds(done(late).1),
    );
    of(done(late).1, vec![done(lost).0, done(late).0], sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{maybe_verdict, verdict};
    use proptest::prelude::*;

    const LOCK: &str = "0 nemesis info lock - {name:\"x\",kind:\"several\",lease:\"ttl\"}\n";

    fn acquire(at_ms: u64, process: u64) -> String {
        format!(
            "{at_ms} {process} invoke acquire a {{ttl_ms:2000,also:[\"b\"]}}\n{at_ms} {process} ok acquire a\n"
        )
    }

    fn read(at_ms: u64, process: u64, key: &str, balance: i64) -> String {
        format!(
            "{at_ms} {process} invoke read {key}\n{at_ms} {process} ok read {key} [\"balance\",{balance}]\n"
        )
    }

    fn write(at_ms: u64, process: u64, key: &str, balance: i64, end: &str) -> String {
        format!(
            "{at_ms} {process} invoke write {key} [\"balance\",{balance}]\n{at_ms} {process} {end} write {key} 1\n"
        )
    }

    fn release(at_ms: u64, process: u64) -> String {
        format!(
            "{at_ms} {process} invoke release a {{also:[\"b\"]}}\n{at_ms} {process} ok release a {{believed:true}}\n"
        )
    }

    fn closing(a: i64, b: i64) -> String {
        format!("90 nemesis info phase - \"closing\"\n{}{}", read(95, 9, "a", a), read(96, 9, "b", b))
    }

    /// Process 1 moves a unit from a to b, and process 2 another one, beginning with these balances.
    fn two_transfers((a, b): (i64, i64), end: &str) -> String {
        [
            LOCK.to_owned(),
            acquire(10, 1),
            read(11, 1, "a", 0),
            read(12, 1, "b", 0),
            write(20, 1, "a", -1, "ok"),
            write(21, 1, "b", 1, end),
            if end == "info" { String::new() } else { release(22, 1) },
            acquire(30, 2),
            read(31, 2, "a", a),
            read(32, 2, "b", b),
            write(40, 2, "a", a - 1, "ok"),
            write(41, 2, "b", b + 1, "ok"),
            release(42, 2),
        ]
        .concat()
    }

    #[test]
    fn accepts_transfers_one_after_the_other() {
        let verdict = verdict(&BALANCES, &(two_transfers((-1, 1), "ok") + &closing(-2, 2)));
        assert_eq!((verdict.outcome, &verdict.stats["transfers"]), (Outcome::Valid, &2.into()));
    }

    #[test]
    fn rejects_a_transfer_that_another_has_undone_by_half() {
        let verdict = verdict(&BALANCES, &(two_transfers((-1, 0), "ok") + &closing(-2, 1)));
        assert_eq!(verdict.summary, "1 of 2 accounts are wrong: 1 units are missing in the sum");
        assert_eq!(
            verdict.findings[0].sentence,
            "process 1 left 1 on the account b at 0.021 s, and process 2, which had read 0, wrote 1 at 0.041 s: at the end it \
             has 1 and should have 2"
        );
    }

    #[test]
    fn a_write_of_unknown_end_may_be_there_or_not() {
        for (read, last) in [(1, 2), (0, 1)] {
            let text = two_transfers((-1, read), "info") + &closing(-2, last);
            assert_eq!(verdict(&BALANCES, &text).outcome, Outcome::Valid, "{last}");
        }
        let gone = two_transfers((-1, 0), "info") + &closing(-2, 0);
        assert_eq!(verdict(&BALANCES, &gone).outcome, Outcome::Violation);
    }

    #[test]
    fn a_write_that_certainly_failed_moved_nothing() {
        let text = two_transfers((-1, 0), "fail") + &closing(-2, 1);
        assert_eq!(verdict(&BALANCES, &text).outcome, Outcome::Valid);
    }

    #[test]
    fn other_workloads_have_no_accounts() {
        assert_eq!(maybe_verdict(&BALANCES, &format!("{LOCK}{}{}", acquire(10, 1), release(11, 1))), None);
        let unread = verdict(&BALANCES, &two_transfers((-1, 1), "ok"));
        assert_eq!(unread.outcome, Outcome::Unknown);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        /// Each transfer reads what is there, or what was there before the last one; all of it is replayed on
        /// two numbers.
        #[test]
        fn finds_what_a_replay_of_all_transfers_finds(stale in prop::collection::vec((any::<bool>(), any::<bool>()), 1..12)) {
            let (mut text, mut now, mut before) = (LOCK.to_owned(), (0, 0), (0, 0));
            for (at, (stale_a, stale_b)) in (1_u64..).zip(&stale) {
                let (a, b) = (if *stale_a { before.0 } else { now.0 }, if *stale_b { before.1 } else { now.1 });
                let process = at;
                text += &[
                    acquire(at, process), read(at, process, "a", a), read(at, process, "b", b),
                    write(at, process, "a", a - 1, "ok"), write(at, process, "b", b + 1, "ok"), release(at, process),
                ].concat();
                (before, now) = (now, (a - 1, b + 1));
            }
            let transfers = stale.len() as i64;
            let is_lost = now != (-transfers, transfers);
            let verdict = verdict(&BALANCES, &(text + &closing(now.0, now.1)));
            prop_assert_eq!(verdict.outcome == Outcome::Violation, is_lost);
        }
    }
}
