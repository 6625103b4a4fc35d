//! Fencing tokens: the process that acquires later, in real time, gets a greater token. "Later" means that
//! the acquire was invoked after the other was complete, or that it can have been granted only once the other
//! was being released, as the ledger dates it; tokens of other overlapping acquires may come in either order.
//! One pass: at the invocation note the greatest token that was complete by then, at the completion compare.
//! And a guard that compares tokens must accept a write of a holder that overlapped no other.

use super::checker::{Blame, Checker, FindingClass, NotJudged, not_judged_if};
use super::under_holds::{holds_of_operations, is_rejected};
use crate::figures::figures;
use crate::prose::seconds;
use crate::run_index::{Hold, HoldEnd, Operation, RunIndex};
use crate::verdict::{Finding, Verdict};
use fencepost_history::f;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

figures! {
    /// How tokens grew.
    FencingFigures of "fencing" {
        tokens: u64,
        not_greater: u64,
    }
}

pub(super) const FENCING: Checker = Checker {
    classes: &[
        FindingClass {
            name: "token-not-greater",
            meaning: "A later acquisition got a token that is not greater, so no storage can tell the holders apart.",
            advice: "Draw tokens from one place that never goes back, such as a counter under consensus, in the step that grants the lock.",
        },
        FindingClass {
            name: "rightful-write-refused",
            meaning: "The storage refused a write of a process that alone held the lock: an earlier holder had a greater token.",
            advice: "Draw the token in the step that grants the lock, not before it.",
        },
    ],
    blame: Blame::ByMemory,
    ..Checker::of::<FencingFigures>("fencing tokens: a later acquisition gets a greater token", check)
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let by_key = holds_with_tokens(run);
    let tokens: usize = by_key.values().map(Vec::len).sum();
    not_judged_if!(tokens == 0, "no acquire returned a fencing token");
    let mut findings: Vec<_> = by_key.values().flat_map(|holds| check_key(run, holds)).collect();
    let count = findings.len();
    let refused = refused_writes(run);
    let tokens_say = match count {
        0 => format!("each of {tokens} tokens was greater than those before it"),
        _ => format!("{count} of {tokens} tokens were not greater than one before"),
    };
    let summary = match refused.len() {
        0 => tokens_say,
        1 => format!("{tokens_say}; a write of a rightful holder was refused"),
        many => format!("{tokens_say}; {many} writes of rightful holders were refused"),
    };
    findings.extend(refused);
    let figures = FencingFigures { tokens: tokens as u64, not_greater: count as u64 };
    Ok(checker.judged(summary, &figures, findings))
}

/// Which of two grants of a key certainly came later: by the ledger, or by their tokens if in order.
pub(super) struct GrantOrder<'r, 'a> {
    run: &'r RunIndex<'a>,
    out_of_order: FxHashSet<&'a str>,
}

impl<'r, 'a> GrantOrder<'r, 'a> {
    pub fn of(run: &'r RunIndex<'a>) -> GrantOrder<'r, 'a> {
        let broken =
            holds_with_tokens(run).into_iter().filter(|(_, holds)| !check_key(run, holds).is_empty());
        GrantOrder { run, out_of_order: broken.map(|(key, _)| key).collect() }
    }

    /// Whether one hold is certainly of a later grant than another of its key; places in [`RunIndex::holds`].
    pub fn came_after(&self, later: usize, earlier: usize) -> bool {
        let (later, earlier) = (&self.run.holds[later], &self.run.holds[earlier]);
        if later.came_after(earlier) || earlier.came_after(later) {
            return later.came_after(earlier);
        }
        later.token > earlier.token && earlier.token.is_some() && !self.out_of_order.contains(later.key)
    }

    /// Whether one hold is certainly of a later grant, which left no room for the earlier one.
    pub fn supersedes(&self, later: usize, earlier: usize) -> bool {
        self.came_after(later, earlier) && self.run.holds[later].excludes(&self.run.holds[earlier])
    }
}

fn holds_with_tokens<'a>(run: &RunIndex<'a>) -> BTreeMap<&'a str, Vec<usize>> {
    let mut by_key: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, hold) in run.holds.iter().enumerate().filter(|(_, hold)| hold.token.is_some()) {
        by_key.entry(hold.key).or_default().push(at);
    }
    by_key
}

/// Writes that a guard refused although their holder alone held the lock, within its TTL, until the answer.
fn refused_writes(run: &RunIndex) -> Vec<Finding> {
    let refused: Vec<&Operation> = run.operations.iter().filter(|operation| is_rejected(operation)).collect();
    if refused.is_empty() {
        return Vec::new();
    }
    let (holds, around) = (holds_of_operations(run), around_holds(run));
    let rightful = refused.into_iter().filter_map(|write| {
        let (at, answer) = (*holds.get(&write.invoke.index)?, write.completion?);
        let (hold, before) = (&run.holds[at], around.get(&at)?);
        let in_time = hold.lease_at(answer.index).is_none_or(|lease| answer.time < lease.earliest.ns);
        let alone = before.ended_ns < hold.from_ns && before.next_from > answer.index;
        let believed = !hold.was_over_at_once() && hold.ends.let_go_ns >= write.invoke.time;
        let earlier =
            before.greatest.map(|at| &run.holds[at]).filter(|earlier| earlier.token > hold.token)?;
        (in_time && alone && believed && hold.token.is_some()).then(|| refusal(write, hold, earlier))
    });
    rightful.collect()
}

/// What lies around a hold of a key, in the order of grants.
struct Around {
    /// Until when any hold before it claimed the lock.
    ended_ns: u64,
    greatest: Option<usize>,
    next_from: u64,
}

fn around_holds(run: &RunIndex) -> FxHashMap<usize, Around> {
    let mut by_key: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for (at, hold) in run.holds.iter().enumerate() {
        by_key.entry(hold.key).or_default().push(at);
    }
    let mut around = FxHashMap::default();
    for mut holds in by_key.into_values() {
        holds.sort_unstable_by_key(|&at| run.holds[at].from);
        let (mut ended_ns, mut greatest) = (0, None::<usize>);
        for (place, &at) in holds.iter().enumerate() {
            let next_from = holds.get(place + 1).map_or(u64::MAX, |&next| run.holds[next].from);
            around.insert(at, Around { ended_ns, greatest, next_from });
            ended_ns = ended_ns.max(run.holds[at].end_earliest_ns());
            if greatest.is_none_or(|best| run.holds[best].token < run.holds[at].token) {
                greatest = Some(at);
            }
        }
    }
    around
}

fn refusal(write: &Operation, hold: &Hold, earlier: &Hold) -> Finding {
    let answer = write.completion.unwrap_or(write.invoke);
    let (second, first, [token, greater]) =
        (hold.process, earlier.process, [hold.token, earlier.token].map(token_text));
    let [at, ended] = [answer.time, earlier.end_earliest_ns()].map(seconds);
    let sentence = format!(
        "the storage refused the write of process {second} at {at}, which alone held the lock with token {token}: process {first}, \
         whose hold had ended at {ended}, had got the greater token {greater}"
    );
    let events = vec![earlier.from, hold.from, write.invoke.index, answer.index];
    Finding::new("rightful-write-refused", hold.key, answer.time, events, sentence)
}

fn token_text(token: Option<i64>) -> String {
    token.map_or_else(String::new, |token| token.to_string())
}

/// The greatest token's hold, of those released before this one's granted attempt began, itself left out.
fn greatest_released(run: &RunIndex, released: &[(u64, usize)], at: usize) -> Option<usize> {
    let granted_ns = run.holds[at].granted.earliest.ns;
    let before = released.partition_point(|(end_ns, _)| *end_ns <= granted_ns);
    before.checked_sub(1).map(|last| released[last].1).filter(|&best| best != at)
}

/// Released holds by the time at which their release began, each with the one of the greatest token so far.
fn released_holds(run: &RunIndex, holds: &[usize]) -> Vec<(u64, usize)> {
    let ends = holds.iter().filter(|&&at| run.holds[at].ends.how == HoldEnd::Released);
    let mut ends: Vec<(u64, usize)> = ends.map(|&at| (run.holds[at].ends.let_go_ns, at)).collect();
    ends.sort_unstable();
    let mut best: Option<usize> = None;
    for (_, at) in &mut ends {
        *at = best.filter(|&best| run.holds[best].token >= run.holds[*at].token).unwrap_or(*at);
        best = Some(*at);
    }
    ends
}

fn check_key(run: &RunIndex, holds: &[usize]) -> Vec<Finding> {
    let released = released_holds(run, holds);
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
        } else if let Some(best) = greatest_released(run, &released, at)
            && run.holds[best].token >= hold.token
            && !is_own_again(run, best, at)
        {
            findings.push(finding_by_ledger(run, best, at));
        }
        let best = greatest.last().copied().filter(|&best| run.holds[best].token >= hold.token);
        greatest.push(best.unwrap_or(at));
    }
    findings
}

/// Whether a grant is the earlier one once more: not released, of a re-entrant lock or a session.
fn is_own_again(run: &RunIndex, earlier: usize, later: usize) -> bool {
    let (a, b) = (&run.holds[earlier], &run.holds[later]);
    // Of one process the earlier grant has the earlier acquire.
    if a.process != b.process || a.token != b.token {
        return false;
    }
    let between = &run.operations[a.acquire + 1..b.acquire];
    let released = |operation: &Operation| {
        let is_own = operation.process == a.process && operation.key == a.key && operation.f() == f::RELEASE;
        is_own && !operation.did_not_happen()
    };
    !between.iter().any(released)
}

/// As [`finding`], where the acquires overlap, and the ledger says which came later.
fn finding_by_ledger(run: &RunIndex, earlier: usize, later: usize) -> Finding {
    let (a, b) = (&run.holds[earlier], &run.holds[later]);
    let (second, first, [token, greater]) = (b.process, a.process, [b.token, a.token].map(token_text));
    let [at, granted, released] = [b.from_ns, b.granted.earliest.ns, a.ends.let_go_ns].map(seconds);
    let why = b.granted.earliest.why.in_words();
    let sentence = format!(
        "process {second} got token {token} at {at}, and was granted the lock at {granted} at the earliest ({why}), although process \
         {first}, which had got the greater token {greater}, had begun to release at {released}"
    );
    Finding { sentence, ..finding(run, earlier, later) }
}

fn finding(run: &RunIndex, earlier: usize, later: usize) -> Finding {
    let (a, b) = (&run.holds[earlier], &run.holds[later]);
    let ([late, early], [asked, got]) =
        ([b.token, a.token].map(token_text), [b.invoke_ns, a.from_ns].map(seconds));
    let (second, first) = (b.process, a.process);
    let sentence = format!(
        "process {second} began to acquire at {asked} and got token {late}, although process {first} had already got token {early} \
         at {got}"
    );
    let events = vec![a.from, run.operations[b.acquire].invoke.index, b.from];
    Finding::new("token-not-greater", b.key, b.from_ns, events, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{maybe_verdict, verdict};
    use crate::verdict::Outcome;

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
        assert_eq!(verdict(&FENCING, again).outcome, Outcome::Valid);
        let released =
            again.replace("fail   release a {believed:true} unreachable", "ok release a {believed:true}");
        assert_eq!(verdict(&FENCING, &released).outcome, Outcome::Violation);
        let another = again.replace("4 1", "4 2").replace("5 1", "5 2");
        assert_eq!(verdict(&FENCING, &another).outcome, Outcome::Violation);
    }

    #[test]
    fn accepts_growing_tokens_and_any_order_of_overlapping_acquires() {
        assert_eq!(verdict(&FENCING, GROWING).outcome, Outcome::Valid);
    }

    #[test]
    fn rejects_a_token_that_is_equal_or_smaller() {
        for token in ["34", "12"] {
            let verdict = verdict(&FENCING, &GROWING.replace("35", token));
            assert_eq!(verdict.outcome, Outcome::Violation);
            assert_eq!(verdict.findings[0].events, [2, 4, 5]);
        }
    }

    /// Both wait; process 2, whose token was drawn first, is granted once process 1 has released.
    const DRAWN_EARLY: &str = "
        0  1 invoke acquire a {ttl_ms:100}
        1  2 invoke acquire a {ttl_ms:100}
        10 1 ok     acquire a {token:9,validity_ms:98}
        20 1 invoke release a
        21 1 ok     release a {believed:true}
        40 2 ok     acquire a {token:5,validity_ms:95}";

    #[test]
    fn rejects_a_lower_token_of_a_grant_that_certainly_came_later() {
        let found = verdict(&FENCING, DRAWN_EARLY);
        assert_eq!((found.outcome, found.findings.len()), (Outcome::Violation, 1));
        assert_eq!(
            found.findings[0].sentence,
            "process 2 got token 5 at 0.040 s, and was granted the lock at 0.034 s at the earliest (the reported validity, less 0.001 s \
             (the latest answer of this run)), although process 1, which had got the greater token 9, had begun to release at 0.020 s"
        );
        // Also where it began to wait first.
        let first = DRAWN_EARLY.replace("0  1 invoke", "2  1 invoke").replace("1  2 invoke", "0  2 invoke");
        let first = first.replacen("        2  1 invoke acquire a {ttl_ms:100}\n", "", 1);
        let first =
            first.replace("        10 1 ok", "        2  1 invoke acquire a {ttl_ms:100}\n        10 1 ok");
        assert_eq!(verdict(&FENCING, &first).findings.len(), 1);
        let greater = DRAWN_EARLY.replace("token:5", "token:10");
        assert_eq!(verdict(&FENCING, &greater).outcome, Outcome::Valid);
        // Where its validity says nothing, process 1 held the lock until then all the same. A grant of its
        // own that may have run out before that may be the earlier one, and its token the lower.
        for validity in ["validity_ms:70", "validity_ms:100"] {
            let certain = DRAWN_EARLY.replace("validity_ms:95", validity);
            assert_eq!(verdict(&FENCING, &certain).outcome, Outcome::Violation, "{validity}");
            let unknown =
                certain.replace("1  2 invoke acquire a {ttl_ms:100}", "1 2 invoke acquire a {ttl_ms:5}");
            assert_eq!(verdict(&FENCING, &unknown).outcome, Outcome::Valid, "{validity}");
        }
        // Nor does a validity that a client measured by a clock that a fault moved.
        let moved = format!(
            "0 nemesis info nodes - {{slots:[\"c1\",\"c2\",\"c3\"],storage:[],leader:false}}\n\
             0 nemesis invoke clock-jump - {{id:0,stage:\"inject\",targets:[\"c3\"],description:{{moves_clocks:true,sentence:\"x\"}}}}{DRAWN_EARLY}"
        );
        assert_eq!(verdict(&FENCING, &moved).outcome, Outcome::Valid);
    }

    #[test]
    fn rejects_the_refusal_of_a_write_of_who_alone_held_the_lock() {
        let code = "rejected: stale-token: 5 < 9";
        let refused = format!(
            "{}\n50 2 invoke write a 1\n51 2 fail write a null {code}",
            DRAWN_EARLY.replace("validity_ms:95", "validity_ms:70")
        );
        let refusals = |text: &str| {
            let found = verdict(&FENCING, text).findings;
            found.iter().filter(|finding| finding.class == "rightful-write-refused").count()
        };
        assert_eq!(refusals(&refused), 1);
        // It is right where the TTL was over, where another had been granted the lock meanwhile, or where the
        // earlier hold had not ended.
        let late = refused.replace("50 2", "150 2").replace("51 2", "151 2");
        assert_eq!(refusals(&late), 0);
        let answered = |at: &str| refusals(&refused.replace("51 2", at));
        assert_eq!((answered("100 2"), answered("101 2")), (1, 0));
        let another = refused.replace(
            "51 2 fail",
            "50 3 invoke acquire a {ttl_ms:100}\n50 3 ok acquire a {token:12}\n51 2 fail",
        );
        assert_eq!(refusals(&another), 0);
        let overlapped =
            refused.replace("20 1 invoke release a\n        21 1 ok     release a {believed:true}\n", "");
        assert_eq!(refusals(&overlapped), 0);
    }

    #[test]
    fn has_nothing_to_say_without_tokens() {
        assert!(maybe_verdict(&FENCING, "0 1 invoke acquire a\n1 1 ok acquire a").is_none());
    }
}
