//! Sets of names: an acquire of several names gets all of them or none, and no two acquires wait for each
//! other. What an acquire had while it was refused, no client says; it shows in what others do not get.
//! Faults may have kept a name taken, so a run is looked at where none was there.
//!
//! - *Violation*, `deadlock`: the service answered an acquire of several names that it had ended it to break
//!   a deadlock. Or two acquires asked for two names in different orders, no process can have held either
//!   name while both were under way, for half of the time that each was given, both were refused, and another
//!   got one of the names once they had ended.
//! - *Violation*, `half-taken`: an acquire of several names was refused although, for all of its time, no
//!   process can have held any of them and no other acquire of any of them was under way. Another, which had
//!   been refused before, had left one of them taken.
//! - *Not judged*: no process asked for several names at once.

use super::checker::{Checker, FindingClass, NotJudged, not_judged_if};
use crate::figures::figures;
use crate::prose::seconds;
use crate::run_index::{Hold, Operation, RunIndex};
use crate::spans::{Span, difference, length_ns};
use crate::verdict::{Finding, Verdict};
use crate::wants::{View, WantsByKey, wants};
use crate::whose::Harm;
use fencepost_history::prose::and;
use fencepost_history::{Event, Kind, LockKind, f};

figures! {
    /// How sets of names were acquired.
    SetsFigures of "sets" {
        sets: u64,
        deadlocks: u64,
        half_taken: u64,
    }
}

const DEADLOCK: &str = "deadlock";
const HALF_TAKEN: &str = "half-taken";

/// Two acquires that wait for each other do so for this part of the time that each is given.
const SHARED_TIME: f64 = 0.5;

pub(super) const SETS: Checker = Checker {
    classes: &[
        FindingClass {
            name: DEADLOCK,
            meaning: "Two acquires of several names waited for each other: each had a name that the other one waited for.",
            advice: "Take the names in one step, or in an order that is the same for all.",
        },
        FindingClass {
            name: HALF_TAKEN,
            meaning: "An acquire of several names was refused, and left some of them taken.",
            advice: "Where one name is refused, give back those that were taken before, or take all in one step.",
        },
    ],
    claim: Some("progress"),
    harm: Harm::Stuck,
    kind: Some(LockKind::Several),
    ..Checker::of::<SetsFigures>(
        "sets of names: an acquire gets all of its names or none, and no two wait for each other",
        check,
    )
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let sets = sets(run);
    let count = sets.iter().filter(|set| set.names.len() > 1).count();
    not_judged_if!(count == 0, "no process asked for several names at once");
    let keys = wants(run, (0, u64::MAX), View::Benefit);
    let mut deadlocks = deadlocks(run, &sets, &keys);
    let number = deadlocks.len() as u64;
    // One alone shows less.
    if deadlocks.iter().any(|finding| finding.events.len() > 1) {
        deadlocks.retain(|finding| finding.events.len() > 1);
    }
    let half_taken: Vec<Finding> = sets.iter().filter_map(|set| half_taken(run, &sets, &keys, set)).collect();
    let figures = SetsFigures { sets: count as u64, deadlocks: number, half_taken: half_taken.len() as u64 };
    let findings = [deadlocks, half_taken].concat();
    let valid = format!("{count} acquires of several names each got all of them or none");
    Ok(checker.judged_by_first(valid, &figures, findings))
}

struct Set<'r, 'a> {
    acquire: &'r Operation<'a>,
    names: Vec<&'a str>,
}

impl Set<'_, '_> {
    fn span(&self) -> Option<Span> {
        Some((self.acquire.invoke.time, self.acquire.completion?.time))
    }

    /// Who asked, and for what, as a sentence says it.
    fn asked(&self) -> (u64, String) {
        (self.acquire.process, and(&self.names))
    }

    fn is_refused(&self) -> bool {
        self.acquire.completion.is_some_and(|end| end.kind == Kind::Fail) && self.acquire.did_not_happen()
    }

    /// Two names that both ask for, in different orders.
    fn crossed<'n>(&'n self, other: &Set) -> Option<[&'n str; 2]> {
        let place = |name: &str| other.names.iter().position(|known| *known == name);
        let common: Vec<(&str, usize)> =
            self.names.iter().filter_map(|name| Some((*name, place(name)?))).collect();
        common.windows(2).find(|pair| pair[0].1 > pair[1].1).map(|pair| [pair[0].0, pair[1].0])
    }
}

fn sets<'r, 'a>(run: &'r RunIndex<'a>) -> Vec<Set<'r, 'a>> {
    let mut sets: Vec<Set> = Vec::new();
    for acquire in run.acquires() {
        match sets.last_mut().filter(|last| last.acquire.invoke.index == acquire.invoke.index) {
            Some(last) => last.names.push(acquire.key),
            None => sets.push(Set { acquire, names: vec![acquire.key] }),
        }
    }
    sets
}

/// Whether no process can have held a name at any moment of a span, and it was asked for all the time.
fn is_free(keys: &WantsByKey, name: &str, span: Span) -> bool {
    keys.get(name).is_some_and(|key| length_ns(&key.idle(span)) == span.1 - span.0)
}

fn deadlocks(run: &RunIndex, sets: &[Set], keys: &WantsByKey) -> Vec<Finding> {
    let mut findings = Vec::new();
    let refused: Vec<&Set> = sets.iter().filter(|set| set.names.len() > 1 && set.is_refused()).collect();
    for (at, set) in refused.iter().enumerate() {
        let Some(end) = set.acquire.completion else { continue };
        if end.error.as_ref().is_some_and(|error| error.contains("deadlock")) {
            findings.push(ended_by_the_service(sets, set, end));
            continue;
        }
        let later = refused[at + 1..].iter().take_while(|other| other.acquire.invoke.time < end.time);
        if let Some(found) = later.into_iter().find_map(|other| waited_for_each_other(run, keys, set, other))
        {
            findings.push(found);
        }
    }
    findings
}

/// By the service's word; the other acquire is the one that got soonest what both had asked for.
fn ended_by_the_service(sets: &[Set], set: &Set, end: &Event) -> Finding {
    let granted_ns =
        |other: &Set| other.acquire.ok().map(|ok| ok.time).filter(|at| *at >= set.acquire.invoke.time);
    let is_partner = |other: &&Set| {
        let is_under_way = other.acquire.invoke.time < end.time && granted_ns(other).is_some();
        is_under_way && set.crossed(other).is_some()
    };
    let partner =
        sets.iter().filter(is_partner).min_by_key(|other| granted_ns(other).map(|at| at.abs_diff(end.time)));
    let mut sentence = format!(
        "the service ended the acquire of {} by process {} at {} to break a deadlock",
        set.names.join(", then "),
        set.acquire.process,
        seconds(end.time),
    );
    let mut events = vec![end.index];
    if let Some((partner, ok)) = partner.and_then(|partner| Some((partner, partner.acquire.ok()?))) {
        let (process, names) = (partner.acquire.process, partner.names.join(", then "));
        sentence +=
            &format!("; process {process} had asked for {names}, and got them at {}", seconds(ok.time));
        events.push(ok.index);
        events.sort_unstable();
    }
    Finding::new(DEADLOCK, set.names[0], end.time, events, sentence)
}

fn waited_for_each_other(run: &RunIndex, keys: &WantsByKey, one: &Set, other: &Set) -> Option<Finding> {
    let ((from, one_end), (begun, other_end)) = (one.span()?, other.span()?);
    let names = one.crossed(other)?;
    let shared = (from.max(begun), one_end.min(other_end));
    let given_ns = one.acquire.timeout_ns()?.max(other.acquire.timeout_ns()?);
    let [one_idle, other_idle] =
        names.map(|name| keys.get(name).map(|key| key.idle(shared)).unwrap_or_default());
    let both_idle = difference(&one_idle, &difference(&[shared], &other_idle, shared), shared);
    let idle = both_idle.into_iter().max_by_key(|span| run.stalls.rest_of(*span))?;
    let ended_ns = one_end.max(other_end);
    let soon_ns = ended_ns.saturating_add(given_ns / 2);
    let is_next =
        |hold: &Hold| names.contains(&hold.key) && hold.from_ns > shared.1 && hold.from_ns <= soon_ns;
    let is_so = run.stalls.rest_of(idle) as f64 >= SHARED_TIME * given_ns as f64
        && run.holds.iter().any(is_next)
        && !run.setting().any_fault(from, ended_ns);
    is_so.then(|| {
        let ends = [one, other].into_iter().filter_map(|set| set.acquire.completion);
        let mut events: Vec<u64> = ends.map(|end| end.index).collect();
        events.sort_unstable();
        let [(process, own), (partner, others)] = [one, other].map(Set::asked);
        let ([a, b], from, to) = (names, seconds(idle.0), seconds(idle.1));
        let sentence = format!(
            "process {process} asked for {own} and process {partner} for {others}; both waited from {from} to {to}, while no process \
             held {a} or {b}, and both were refused; one of the two was granted once they had ended"
        );
        Finding::new(DEADLOCK, names[0], ended_ns, events, sentence)
    })
}

fn half_taken(run: &RunIndex, sets: &[Set], keys: &WantsByKey, set: &Set) -> Option<Finding> {
    let (from, to) = set.span().filter(|_| set.is_refused())?;
    let is_other = |other: &&Set| other.acquire.invoke.index != set.acquire.invoke.index;
    let shares = |other: &&Set| other.names.iter().any(|name| set.names.contains(name));
    let ends_ns = |other: &Set| other.span().map_or(u64::MAX, |span| span.1);
    let others = || sets.iter().filter(is_other).filter(shares);
    let is_alone = others().all(|other| ends_ns(other) < from || other.acquire.invoke.time > to);
    let before =
        others().rfind(|other| other.names.len() > 1 && other.is_refused() && ends_ns(other) < from)?;
    let is_free = set.names.iter().all(|name| is_free(keys, name, (from, to)));
    let touched = run.operations.iter().any(|operation| {
        let ends_ns = operation.completion.map_or(u64::MAX, |end| end.time);
        operation.f() == f::RELEASE
            && set.names.contains(&operation.key)
            && operation.invoke.time < to
            && ends_ns > from
    });
    let is_so = is_alone && is_free && !touched && !run.setting().any_fault(before.acquire.invoke.time, to);
    is_so.then(|| {
        let events = [before, set].into_iter().filter_map(|set| set.acquire.completion);
        let [any, them] = if set.names.len() > 1 { ["any of them", "them"] } else { ["it"; 2] };
        let [(process, names), (other, others)] = [set, before].map(Set::asked);
        let [begun, ended, earlier] = [from, to, ends_ns(before)].map(seconds);
        let sentence = format!(
            "process {process} asked for {names} from {begun} to {ended} and was refused, although no process held {any} and no other \
             asked for {them}; process {other} had been refused {others} at {earlier}, and may have left a part of that taken"
        );
        Finding::new(HALF_TAKEN, set.names[0], to, events.map(|end| end.index).collect(), sentence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{maybe_verdict, verdict};
    use crate::verdict::Outcome;
    use proptest::prelude::*;

    const LOCK: &str = "0 nemesis info lock - {name:\"x\",kind:\"several\",lease:\"ttl\"}\n";
    const TAKEN: &str = "null taken: another client holds the lock";

    /// Process 1 asks for a and b, process 2 for b and a, both in vain; then another gets a.
    fn crossing(second: &str, also: &str, next_ms: u64) -> String {
        format!(
            "{LOCK}
             100 1 invoke acquire a {{ttl_ms:9000,timeout_ms:1000,also:[\"b\"]}}
             120 2 invoke acquire {second} {{ttl_ms:9000,timeout_ms:1000,also:[\"{also}\"]}}
             1100 1 fail acquire a {TAKEN}
             1120 2 fail acquire {second} {TAKEN}
             {next_ms} 3 invoke acquire a {{ttl_ms:9000,timeout_ms:1000,also:[\"b\"]}}
             {} 3 ok acquire a {{validity_ms:8999,waited_ms:1}}",
            next_ms + 2
        )
    }

    #[test]
    fn accepts_sets_that_are_granted_or_refused_while_held() {
        let held = format!(
            "{LOCK}
             10 1 invoke acquire a {{ttl_ms:9000,timeout_ms:1000,also:[\"b\"]}}\n12 1 ok acquire a
             100 2 invoke acquire b {{ttl_ms:9000,timeout_ms:1000,also:[\"a\"]}}
             110 3 invoke acquire a {{ttl_ms:9000,timeout_ms:1000,also:[\"b\"]}}
             1100 2 fail acquire b {TAKEN}\n1110 3 fail acquire a {TAKEN}
             1200 1 invoke release a {{also:[\"b\"]}}\n1210 1 ok release a {{believed:true}}
             1220 3 invoke acquire a {{ttl_ms:9000,timeout_ms:1000,also:[\"b\"]}}\n1230 3 ok acquire a"
        );
        let verdict = verdict(&SETS, &held);
        assert_eq!((verdict.outcome, &verdict.stats["sets"]), (Outcome::Valid, &4.into()));
    }

    #[test]
    fn rejects_two_that_wait_for_each_other() {
        let verdict = verdict(&SETS, &crossing("b", "a", 1130));
        assert_eq!(verdict.findings[0].class, DEADLOCK);
        assert_eq!(
            verdict.findings[0].sentence,
            "process 1 asked for a and b and process 2 for b and a; both waited from 0.120 s to 1.100 s, while no process held a \
             or b, and both were \
             refused; one of the two was granted once they had ended"
        );
    }

    #[test]
    fn two_do_not_wait_for_each_other_in_one_order_or_where_a_fault_or_a_stall_was() {
        let is_valid = |text: &str| verdict(&SETS, text).outcome == Outcome::Valid;
        assert!(is_valid(&crossing("a", "b", 1130)), "in the same order");
        assert!(is_valid(&crossing("c", "a", 1130)), "only one name is common");
        assert!(is_valid(&crossing("b", "a", 3000)), "no process got it for long");
        let fault = "50 nemesis invoke pause - {id:1,stage:\"inject\",targets:[\"n1\"]}\n";
        assert!(is_valid(&crossing("b", "a", 1130).replacen("100 1", &format!("{fault}100 1"), 1)));
        let stalled = "1090 nemesis info stalled - {node:\"n1\",for_ms:800}\n";
        let text = crossing("b", "a", 1130).replacen("1100 1", &format!("{stalled}1100 1"), 1);
        assert!(is_valid(&text), "the machine stalled for most of that time");
    }

    #[test]
    fn rejects_what_the_service_calls_a_deadlock() {
        let refused = crossing("c", "a", 1130).replacen(TAKEN, "null refused: deadlock detected", 1);
        assert_eq!(
            verdict(&SETS, &refused).findings[0].sentence,
            "the service ended the acquire of a, then b by process 1 at 1.100 s to break a deadlock"
        );
        let granted = crossing("b", "a", 1130).replacen(TAKEN, "null refused: deadlock detected", 1);
        let granted = granted.replacen(&format!("1120 2 fail acquire b {TAKEN}"), "1102 2 ok acquire b", 1);
        let judged = verdict(&SETS, &granted);
        let finding = &judged.findings[0];
        let partner = "; process 2 had asked for b, then a, and got them at 1.102 s";
        assert!(finding.sentence.ends_with(partner), "{}", finding.sentence);
        assert_eq!(finding.events.len(), 2);
    }

    /// Process 1 is refused a and b while process 2 holds b, which releases it; then comes a third.
    fn left(third: &str) -> String {
        format!(
            "{LOCK}
             10 2 invoke acquire b {{ttl_ms:9000,timeout_ms:1000}}\n12 2 ok acquire b
             20 1 invoke acquire a {{ttl_ms:9000,timeout_ms:100,also:[\"b\"]}}\n120 1 fail acquire a {TAKEN}
             130 2 invoke release b\n132 2 ok release b {{believed:true}}
             {third}"
        )
    }

    #[test]
    fn rejects_a_name_that_a_refused_acquire_left_taken() {
        let refused = "200 3 invoke acquire a {ttl_ms:9000,timeout_ms:100,also:[\"b\"]}\n300 3 fail acquire a null taken: x\n";
        let verdict = verdict(&SETS, &left(refused));
        assert_eq!(verdict.findings[0].class, HALF_TAKEN);
        assert_eq!(
            verdict.findings[0].sentence,
            "process 3 asked for a and b from 0.200 s to 0.300 s and was refused, although no process held any of them and no other \
             asked for them; process 1 had been refused a and b at 0.120 s, and may have left a part of that taken"
        );
    }

    #[test]
    fn an_acquire_beside_others_or_of_a_held_name_shows_nothing() {
        let refused = "200 3 invoke acquire a {ttl_ms:9000,timeout_ms:100,also:[\"b\"]}\n300 3 fail acquire a null taken: x\n";
        let is_valid = |text: &str| verdict(&SETS, text).outcome == Outcome::Valid;
        let beside =
            format!("190 4 invoke acquire b {{ttl_ms:9000,timeout_ms:1000}}\n{refused}310 4 ok acquire b");
        assert!(is_valid(&left(&beside)));
        let held =
            format!("140 4 invoke acquire b {{ttl_ms:9000,timeout_ms:1000}}\n150 4 ok acquire b\n{refused}");
        assert!(is_valid(&left(&held)));
        let single = LOCK.to_owned() + "10 2 invoke acquire b {ttl_ms:9000}\n12 2 ok acquire b";
        assert_eq!(maybe_verdict(&SETS, &single), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        /// Acquires one after the other, each of two of three names, on a lock that keeps what it took first
        /// where it is refused, or keeps nothing; all of it is followed name by name.
        #[test]
        fn finds_what_following_every_name_finds(
            steps in prop::collection::vec((0..3_usize, 1..3_usize, any::<bool>()), 1..14),
            leaves: bool,
        ) {
            let names = ["a", "b", "c"];
            let (mut text, mut is_left) = (LOCK.to_owned(), false);
            // By whom each name is held; 0 is a process that was refused.
            let mut holder: [Option<u64>; 3] = [None; 3];
            let mut refused_before: Vec<[usize; 2]> = Vec::new();
            for (at, (first, step, releases)) in (1_u64..).zip(steps) {
                let (set, process) = ([first, (first + step) % 3], at);
                let (begun, ended) = (at * 1000, at * 1000 + 100);
                let [one, other] = set.map(|place| names[place]);
                text += &format!("{begun} {process} invoke acquire {one} {{ttl_ms:900000,timeout_ms:100,also:[\"{other}\"]}}\n");
                let held = set.map(|place| holder[place]);
                if held == [None, None] {
                    set.iter().for_each(|place| holder[*place] = Some(process));
                    text += &format!("{ended} {process} ok acquire {one}\n");
                    if releases {
                        set.iter().for_each(|place| holder[*place] = None);
                        text += &format!(
                            "{} {process} invoke release {one} {{also:[\"{other}\"]}}\n{} {process} ok release {one}\n",
                            ended + 1, ended + 2
                        );
                    }
                } else {
                    text += &format!("{ended} {process} fail acquire {one} null taken: x\n");
                    let was_held = held.iter().any(|by| by.is_some_and(|by| by > 0));
                    let after_another = refused_before.iter().any(|other| set.iter().any(|name| other.contains(name)));
                    is_left |= !was_held && after_another;
                    if leaves && held[0].is_none() {
                        holder[set[0]] = Some(0);
                    }
                    refused_before.push(set);
                }
            }
            let found = verdict(&SETS, &text).outcome == Outcome::Violation;
            prop_assert_eq!(found, is_left, "{}", text);
        }
    }
}
