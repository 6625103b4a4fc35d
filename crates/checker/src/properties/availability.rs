//! Fault tolerance: with a minority of the servers down, the lock can still be acquired. A service may take
//! [`NOTICE_NS`] to notice that servers are gone and to replace them, a lock that its holder left behind runs
//! out with the longest TTL (`ttl_ms`), and one attempt may take its whole time (`timeout_ms`). While a
//! minority is down, a lock that no process holds must be acquired within the sum of the three.
//!
//! - *Down* is a server between the injection of a fault that takes it down (its description says so) and was
//!   observed to take effect, and its healing. A *minority* is less than half of the servers that the history
//!   names (`servers`), and no more than the lock's service can do without, where it says so (`may-be-down`:
//!   a shard of Redis Cluster does not survive both its servers).
//! - Only *stretches* count in which no other fault is in force, as one on a client or in the network.
//! - Of each key, the time counts in which processes tried: at least one acquire was under way, none
//!   succeeded, no process held the lock, and the machine did not stall. A hold counts until its process
//!   claimed the lock no more, and where that is not known, until its TTL ran out.
//!
//! A run says nothing here if no minority was down, or too shortly and nothing was acquired.

use super::checker::{Blame, Checker, FindingClass, NotJudged, not_judged_if};
use crate::figures::figures;
use crate::prose::{lock, seconds};
use crate::run_index::{Fault, Hold, Operation, RunIndex};
use crate::spans::{Span, difference, union};
use crate::verdict::{Finding, Outcome, Verdict};
use crate::whose::Harm;
use fencepost_history::Kind;
use std::collections::{BTreeMap, BTreeSet};

figures! {
    /// How long no lock was granted while servers were down.
    AvailabilityFigures of "availability" {
        down_ms: u64,
        longest_ms: u64,
        bound_ms: u64,
    }
}

/// How long a service may take to notice that servers are gone, and to do without them.
pub const NOTICE_NS: u64 = 10_000_000_000;

/// The longest time of a key in which processes tried in vain.
#[derive(Clone, Copy)]
struct Drought<'a> {
    key: &'a str,
    span: Span,
    tried_ns: u64,
    attempts: usize,
    events: [u64; 2],
}

pub(super) const AVAILABILITY: Checker = Checker {
    classes: &[FindingClass {
        name: "unavailable",
        meaning: "With less than half of the servers down, no process could acquire a free lock for longer than the bound.",
        advice: "Check how long the service takes to elect a leader and to notice that a server is down.",
    }],
    harm: Harm::Stuck,
    blame: Blame::Service,
    needs_a_whole_run: true,
    ..Checker::of::<AvailabilityFigures>(
        "fault tolerance: with a minority of the servers down, the lock can still be acquired",
        check,
    )
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let stretches = minority_down(run);
    not_judged_if!(stretches.is_empty(), "a minority of the servers was never down without another fault");
    let bound_ns = bound_ns(run);
    let down_ns: u64 = stretches.iter().map(|(from, until)| until - from).sum();
    let droughts = droughts(run, &stretches);
    let longest = droughts.iter().map(|drought| drought.tried_ns).max().unwrap_or(0);
    let findings: Vec<Finding> = droughts
        .iter()
        .filter(|drought| drought.tried_ns > bound_ns)
        .map(|drought| finding(drought, bound_ns))
        .collect();
    let acquired = acquired_within(run, &stretches);
    let (servers, down) = (run.servers.len(), seconds(down_ns));
    let tried = format!("tried for in vain for at most {} (bound: {})", seconds(longest), seconds(bound_ns));
    not_judged_if!(
        findings.is_empty() && acquired == 0,
        "nothing was learned while a minority of {servers} servers was down for {down}: no lock was acquired, and a free one was \
             {tried}"
    );
    if let Some(ended) = run.not_back().filter(|_| !findings.is_empty()) {
        let summary =
            format!("no lock was acquired for too long, but not only by faults: {}", ended.sentence());
        return Ok(Verdict::new(checker.name, Outcome::Unknown, summary));
    }
    let summary = format!(
        "with a minority of {servers} servers down for {down}, locks were acquired {acquired} times, and a free one was {tried}"
    );
    let ms = |ns: u64| ns / 1_000_000;
    let [down_ms, longest_ms, bound_ms] = [down_ns, longest, bound_ns].map(ms);
    Ok(checker.judged(summary, &AvailabilityFigures { down_ms, longest_ms, bound_ms }, findings))
}

fn bound_ns(run: &RunIndex) -> u64 {
    NOTICE_NS + run.longest_ttl_ns() + run.longest_timeout_ns()
}

/// The stretches of time in which some servers were down, less than half, and nothing else was wrong.
fn minority_down(run: &RunIndex) -> Vec<Span> {
    let in_force = |fault: &Fault| {
        // Down once that was certain; a fault may be in force until then, and from its healing on.
        (fault.injected_ns.unwrap_or(fault.inject_ns), fault.healed_ns.unwrap_or(run.end_ns))
    };
    let mut moments: BTreeSet<u64> = BTreeSet::new();
    for fault in &run.faults {
        let (from, until) = in_force(fault);
        moments.extend([fault.inject_ns, from, until]);
    }
    let moments: Vec<u64> = moments.into_iter().collect();
    let mut stretches: Vec<Span> = Vec::new();
    for pair in moments.windows(2) {
        let (from, until) = (pair[0], pair[1]);
        let touches = |fault: &&Fault| fault.inject_ns < until && in_force(fault).1 > from;
        let mut down: BTreeSet<&str> = BTreeSet::new();
        let mut undisturbed = true;
        for fault in run.faults.iter().filter(touches) {
            let of_servers = fault.targets.iter().all(|target| run.servers.contains(target));
            let down_throughout = fault.description.takes_down;
            undisturbed &= fault.effective && of_servers && down_throughout && in_force(fault).0 <= from;
            down.extend(&fault.targets);
        }
        let too_many =
            2 * down.len() >= run.servers.len() || run.lock.may_be_down.is_some_and(|most| down.len() > most);
        if !undisturbed || down.is_empty() || too_many {
            continue;
        }
        match stretches.last_mut() {
            Some(last) if last.1 == from => last.1 = until,
            _ => stretches.push((from, until)),
        }
    }
    stretches
}

fn acquired_within(run: &RunIndex, stretches: &[Span]) -> usize {
    let within =
        |hold: &&Hold| stretches.iter().any(|&(from, until)| hold.invoke_ns >= from && hold.from_ns <= until);
    run.holds.iter().filter(within).count()
}

/// Of each key and stretch, the times in which attempts failed one after the other.
fn droughts<'a>(run: &'a RunIndex<'a>, stretches: &[Span]) -> Vec<Drought<'a>> {
    let mut attempts: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for acquire in run.acquires() {
        attempts.entry(acquire.key).or_default().push(acquire);
    }
    let mut held: BTreeMap<&str, Vec<Span>> = BTreeMap::new();
    for hold in &run.holds {
        // Granted at some moment of its acquire, so that this was no failure from its invocation on.
        held.entry(hold.key).or_default().push((hold.invoke_ns, hold.end_latest_ns()));
    }
    let mut droughts = Vec::new();
    for (key, attempts) in &attempts {
        let held = union(held.remove(key).unwrap_or_default());
        for &stretch in stretches {
            for free in difference(&[stretch], &held, stretch) {
                droughts.extend(drought(run, key, attempts, free));
            }
        }
    }
    droughts
}

fn drought<'a>(
    run: &RunIndex,
    key: &'a str,
    attempts: &[&Operation],
    (from, until): Span,
) -> Option<Drought<'a>> {
    let (mut tried_ns, mut covered) = (0, from);
    let (mut count, mut first, mut last) = (0, None, None);
    for attempt in attempts {
        let end = match attempt.completion {
            Some(event) if event.kind == Kind::Ok => continue,
            Some(event) => event.time,
            None => continue,
        };
        let (begin, end) = (attempt.invoke.time.max(covered), end.min(until));
        if begin >= until || end <= from {
            continue;
        }
        count += 1;
        first = first.or(Some(attempt.invoke.index));
        last = attempt.completion.map(|event| event.index);
        tried_ns += run.stalls.rest_of((begin, end.max(begin)));
        covered = covered.max(end);
    }
    let events = [first?, last?];
    Some(Drought { key, span: (from, until), tried_ns, attempts: count, events })
}

fn finding(drought: &Drought, bound_ns: u64) -> Finding {
    let lock = lock(drought.key);
    let [from, until, tried, bound] =
        [drought.span.0, drought.span.1, drought.tried_ns, bound_ns].map(seconds);
    let sentence = format!(
        "between {from} and {until} only a minority of the servers was down and no process held {lock}, yet none of {} attempts \
         to acquire it succeeded; processes tried for {tried} of that time, and the bound is {bound}",
        drought.attempts,
    );
    Finding::new("unavailable", drought.key, drought.span.1, drought.events.to_vec(), sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{maybe_verdict, verdict};

    /// n1 of three is down from second 1 to second 41, and the lock is free and tried for over and over.
    fn tried(end: &str, servers: &str) -> String {
        let mut text = format!(
            "0 nemesis info servers - {servers}
             0 1 invoke acquire a {{ttl_ms:2000,timeout_ms:1000}}
             5 1 ok acquire a
             9 1 invoke release a
             9 1 ok release a
             900 nemesis invoke kill - {{id:1,stage:\"inject\",targets:[\"n1\"],description:{{takes_down:true}}}}
             1000 nemesis ok kill - {{id:1,stage:\"inject\",targets:[\"n1\"],effective:true}}\n"
        );
        for at in 0..40 {
            text += &format!(
                "{} {} invoke acquire a {{ttl_ms:2000,timeout_ms:1000}}\n{} {} {end}\n",
                1001 + at * 1000,
                10 + at,
                1999 + at * 1000,
                10 + at
            );
        }
        text + "41000 nemesis invoke kill - {id:1,stage:\"heal\"}\n41001 nemesis ok kill - {id:1,stage:\"heal\"}"
    }

    const THREE: &str = "[\"n1\",\"n2\",\"n3\"]";

    #[test]
    fn rejects_a_lock_that_no_process_gets_while_a_minority_is_down() {
        let verdict = verdict(&AVAILABILITY, &tried("fail acquire a null no-majority", THREE));
        assert_eq!(verdict.outcome, Outcome::Violation);
        assert_eq!(
            verdict.findings[0].sentence,
            "between 1.000 s and 41.001 s only a minority of the servers was down and no process held a, yet none of 40 \
             attempts to acquire it succeeded; processes tried for 39.920 s of that time, and the bound is 13.000 s"
        );
    }

    #[test]
    fn a_machine_that_stalled_excuses_the_service() {
        let stalled = "30000 nemesis info stalled - {node:\"n2\",for_ms:26000}\n";
        let text = tried("fail acquire a null no-majority", THREE);
        let at = text.find("30001 ").expect("an attempt of then");
        let judged = |stalled: &str| {
            let text = format!("{}{stalled}{}", &text[..at], &text[at..]);
            maybe_verdict(&AVAILABILITY, &text).map(|verdict| verdict.outcome)
        };
        assert_eq!(judged(stalled), None, "11 s are left, and the bound is 13 s");
        assert_eq!(judged(&stalled.replace("26000", "20000")), Some(Outcome::Violation));
    }

    #[test]
    fn a_second_fault_on_the_server_that_is_down_divides_nothing() {
        let again = "20000 nemesis invoke pause - {id:2,stage:\"inject\",targets:[\"n1\"],description:{takes_down:true}}
             20000 nemesis ok pause - {id:2,stage:\"inject\",targets:[\"n1\"],effective:true}
             25000 nemesis invoke pause - {id:2,stage:\"heal\"}
             25000 nemesis ok pause - {id:2,stage:\"heal\"}\n";
        let text = tried("fail acquire a null no-majority", THREE);
        let at = text.find("20001 ").expect("an attempt of then");
        let verdict = verdict(&AVAILABILITY, &format!("{}{again}{}", &text[..at], &text[at..]));
        let sentence = &verdict.findings[0].sentence;
        assert!(sentence.starts_with("between 1.000 s and 41.001 s only a minority"), "{sentence}");
    }

    #[test]
    fn a_session_that_was_reported_lost_may_keep_the_lock() {
        let lost = |lease: &str| {
            let lock = format!("0 nemesis info lock - {{name:\"x\",lease:\"{lease}\"}}\n");
            let text = tried("fail acquire a null taken", THREE)
                .replace("9 1 invoke release a", "9 1 info lost a")
                .replace("9 1 ok release a", "");
            let released = "41002 1 invoke release a\n41003 1 ok release a {believed:false}";
            maybe_verdict(&AVAILABILITY, &format!("{lock}{text}\n{released}")).map(|verdict| verdict.outcome)
        };
        assert_eq!(lost("ttl"), Some(Outcome::Violation));
        assert_eq!(lost("session"), None, "it was not free");
    }

    #[test]
    fn does_not_know_where_a_server_did_not_come_back() {
        let ended = "\n41002 nemesis info server-ended - {node:\"n1\",after_fault:1,log:[\"broken\"]}";
        let verdict = verdict(&AVAILABILITY, &(tried("fail acquire a null no-majority", THREE) + ended));
        assert_eq!(verdict.outcome, Outcome::Unknown);
        assert!(verdict.summary.contains("its log says: broken"), "{}", verdict.summary);
    }

    #[test]
    fn accepts_a_lock_that_is_acquired_or_held() {
        let acquired = tried("fail acquire a null taken", THREE)
            .replace("10999 19 fail acquire a null taken", "10999 19 ok acquire a")
            .replace("23999 32 fail acquire a null taken", "23999 32 ok acquire a")
            .replace("34999 43 fail acquire a null taken", "34999 43 ok acquire a");
        let judged = verdict(&AVAILABILITY, &acquired);
        assert_eq!(judged.outcome, Outcome::Valid, "{judged:?}");
        assert_eq!(
            judged.summary,
            "with a minority of 3 servers down for 40.001 s, locks were acquired 3 times, and a free one was tried for \
             in vain for at most 9.980 s (bound: 13.000 s)"
        );
    }

    #[test]
    fn asks_no_more_than_the_service_can_do_without() {
        let six = "[\"n1\",\"n2\",\"n3\",\"n4\",\"n5\",\"n6\"]";
        let judged = |targets: &str| {
            let lock = "0 nemesis info lock - {name:\"redis-cluster\",may-be-down:1}\n";
            let text = tried("fail acquire a null unreachable", six).replace("targets:[\"n1\"]", targets);
            maybe_verdict(&AVAILABILITY, &format!("{lock}{text}")).map(|verdict| verdict.outcome)
        };
        assert_eq!(judged("targets:[\"n1\"]"), Some(Outcome::Violation));
        assert_eq!(judged("targets:[\"n2\",\"n5\"]"), None, "they may be a primary and its only replica");
    }

    #[test]
    fn is_silent_where_no_minority_was_down() {
        let two = tried("fail acquire a null no-majority", "[\"n1\",\"n2\"]");
        assert!(maybe_verdict(&AVAILABILITY, &two).is_none());
        let unnamed = two.replace("servers", "phase");
        assert!(maybe_verdict(&AVAILABILITY, &unnamed).is_none());
        let without_effect = tried("fail acquire a null no-majority", THREE).replace("true", "false");
        assert!(maybe_verdict(&AVAILABILITY, &without_effect).is_none());
    }

    #[test]
    fn is_silent_where_nothing_could_be_seen() {
        // Down for eight seconds only, without an acquisition.
        let short =
            tried("fail acquire a null no-majority", THREE).replace("41001 nemesis ok", "9001 nemesis ok");
        let mut lines: Vec<&str> = short.lines().collect();
        let heal = lines.len() - 1;
        let at = lines.iter().position(|line| line.trim().starts_with("9001 ")).unwrap();
        let moved = lines.remove(heal);
        lines.insert(at, moved);
        assert!(maybe_verdict(&AVAILABILITY, &lines.join("\n")).is_none());
    }

    #[test]
    fn another_fault_excuses_the_service() {
        let cut = "950 nemesis invoke partition - {id:2,stage:\"inject\",targets:[\"c1\"]}
                   960 nemesis ok partition - {id:2,stage:\"inject\",targets:[\"c1\"],effective:true}\n";
        let text = tried("fail acquire a null no-majority", THREE);
        let at = text.find("1000 nemesis").unwrap();
        let disturbed = format!("{}{cut}{}", &text[..at], &text[at..]);
        assert!(maybe_verdict(&AVAILABILITY, &disturbed).is_none());
    }
}
