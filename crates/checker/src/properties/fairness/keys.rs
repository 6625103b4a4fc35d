//! Whether two keys are one lock: a library that looks at a part of a name, or at none of it, takes two names
//! for the same. Such keys are never held at once. So may others be by chance, where they are seldom held;
//! and a key that is free is not waited for. Both are asked for: as many holds as these, had the keys nothing
//! to do with each other, would have met many times; and again and again a process waited for one of them,
//! which no process held, for as long as another client held the other.

use crate::prose::{lock, times};
use crate::run_index::RunIndex;
use crate::spans::Span;
use crate::verdict::Finding;
use fencepost_history::prose::and;
use fencepost_history::{f, sorted_once};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// So many meetings are expected at least where none came. By chance that is one case of 10^8.
const EXPECTED_MIN: f64 = 20.0;

/// So often a process waited for a key that was free while the other was held, for so long each time.
const WAITED_MIN: usize = 5;
const WAIT_MIN_NS: u64 = 20_000_000;

/// More keys than these, and more holds of each, say nothing more.
const KEYS_MAX: usize = 24;
const TURNS_MAX: usize = 2000;

const EVENTS_MAX: usize = 10;

/// A grant, up to the moment at which its release began.
struct Turn {
    process: u64,
    /// The event that asked for it: one may ask for several keys.
    asked: u64,
    key: usize,
    span: Span,
}

struct KeyAttempt {
    process: u64,
    span: Span,
    completed: u64,
}

struct KeysOfRun<'a> {
    run: &'a RunIndex<'a>,
    names: Vec<&'a str>,
    turns: Vec<Vec<Turn>>,
    attempts: Vec<Vec<KeyAttempt>>,
    open: Span,
}

pub(super) struct OneLock<'a> {
    pub names: Vec<&'a str>,
    pub finding: Finding,
}

pub(super) fn that_are_one_lock<'a>(run: &'a RunIndex<'a>, open: Span) -> Vec<OneLock<'a>> {
    let keys = KeysOfRun::of(run, open);
    let met = keys.met();
    let all: Vec<usize> = (0..keys.names.len()).filter(|&key| !keys.turns[key].is_empty()).collect();
    if met.is_empty() && all.len() > 1 {
        // Where all keys are one lock, each has too few turns for a pair of them to say anything.
        return keys.finding(&all).into_iter().collect();
    }
    let mut sets: Vec<Vec<usize>> = Vec::new();
    for (one, other) in keys.pairs(&all) {
        if met.contains(&(one, other)) || keys.expected(one, other) < EXPECTED_MIN {
            continue;
        }
        match sets.iter_mut().find(|set| set.contains(&one) || set.contains(&other)) {
            Some(set) => set.extend([one, other]),
            None => sets.push(vec![one, other]),
        }
    }
    sets.into_iter().filter_map(|set| keys.finding(&sorted_once(set))).collect()
}

impl<'a> KeysOfRun<'a> {
    fn of(run: &'a RunIndex<'a>, open: Span) -> KeysOfRun<'a> {
        let mut keys = KeysOfRun { run, names: Vec::new(), turns: Vec::new(), attempts: Vec::new(), open };
        let mut releases: FxHashMap<(u64, &str), Vec<u64>> = FxHashMap::default();
        for release in run.calls(f::RELEASE) {
            releases.entry((release.process, release.key)).or_default().push(release.invoke.time);
        }
        let names: BTreeSet<&str> = run.acquires().map(|acquire| acquire.key).collect();
        keys.names = names.into_iter().take(KEYS_MAX).collect();
        keys.turns.resize_with(keys.names.len(), Vec::new);
        keys.attempts.resize_with(keys.names.len(), Vec::new);
        let within = |time: &u64| (open.0..open.1).contains(time);
        for acquire in run.acquires().filter(|acquire| within(&acquire.invoke.time)) {
            let Ok(key) = keys.names.binary_search(&acquire.key) else { continue };
            let Some(end) = acquire.completion else { continue };
            let process = acquire.process;
            let span = (acquire.invoke.time, end.time);
            if keys.attempts[key].len() < TURNS_MAX {
                keys.attempts[key].push(KeyAttempt { process, span, completed: end.index });
            }
            // One that was granted as the run was closed had no turn in it.
            if acquire.ok().is_some() && end.time < open.1 && keys.turns[key].len() < TURNS_MAX {
                let ends = releases.get(&(process, acquire.key)).into_iter().flatten();
                let until_ns = ends.copied().find(|&at| at >= end.time).unwrap_or(open.1);
                keys.turns[key].push(Turn {
                    process,
                    asked: acquire.invoke.index,
                    key,
                    span: (end.time, until_ns.min(open.1)),
                });
            }
        }
        keys
    }

    fn pairs<'k>(&self, keys: &'k [usize]) -> impl Iterator<Item = (usize, usize)> + use<'k> {
        keys.iter().enumerate().flat_map(|(at, &one)| keys[at + 1..].iter().map(move |&other| (one, other)))
    }

    fn met(&self) -> BTreeSet<(usize, usize)> {
        let mut turns: Vec<&Turn> = self.turns.iter().flatten().collect();
        turns.sort_by_key(|turn| turn.span);
        let (mut met, mut held) = (BTreeSet::new(), Vec::<&Turn>::new());
        for turn in turns {
            held.retain(|other| other.span.1 > turn.span.0);
            // Keys that one acquire asks for are held by one process, and others wait for all of them.
            let meets = |other: &&&Turn| other.process != turn.process || other.asked == turn.asked;
            let others = held.iter().filter(|other| other.key != turn.key).filter(meets);
            met.extend(others.map(|other| (other.key.min(turn.key), other.key.max(turn.key))));
            held.push(turn);
        }
        met
    }

    /// How often two keys would have been held at once, had they nothing to do with each other.
    fn expected(&self, one: usize, other: usize) -> f64 {
        let held_ns =
            |key: usize| -> u64 { self.turns[key].iter().map(|turn| turn.span.1 - turn.span.0).sum() };
        let count = |key: usize| self.turns[key].len() as f64;
        let length_ns = (self.open.1 - self.open.0).max(1) as f64;
        (count(one) * held_ns(other) as f64 + count(other) * held_ns(one) as f64) / length_ns
    }

    /// The acquires of a key that waited for long while the other was held by another client.
    fn waited(&self, held: usize, wanted: usize) -> Vec<u64> {
        let client = |process: u64| self.run.nodes.client_of(process);
        let waits = |turn: &&Turn| {
            let attempts = self.attempts[wanted].iter().filter(|attempt| {
                let clients = (client(attempt.process), client(turn.process));
                let (from, until) = (attempt.span.0.max(turn.span.0), attempt.span.1.min(turn.span.1));
                let is_other =
                    attempt.process != turn.process && (clients.0 != clients.1 || clients.0.is_none());
                is_other && until.saturating_sub(from) >= WAIT_MIN_NS
            });
            attempts.map(|attempt| attempt.completed).next()
        };
        self.turns[held].iter().filter_map(|turn| waits(&turn)).collect()
    }

    /// The finding about these keys, no two of which were held at once; none where that proves nothing.
    fn finding(&self, set: &[usize]) -> Option<OneLock<'a>> {
        let expected: f64 = self.pairs(set).map(|(one, other)| self.expected(one, other)).sum();
        let waited: Vec<u64> = self
            .pairs(set)
            .flat_map(|(one, other)| [self.waited(one, other), self.waited(other, one)].concat())
            .collect();
        if expected < EXPECTED_MIN || waited.len() < WAITED_MIN {
            return None;
        }
        let count = times(waited.len() as u64);
        let mut waited = sorted_once(waited);
        let turns = || set.iter().flat_map(|&key| &self.turns[key]);
        let names: Vec<&str> = set.iter().map(|&key| self.names[key]).collect();
        let sentence = format!(
            "without any fault, no two of {} were ever held at once, in {} grants: {count} a process waited for one of them, \
             which no process held, while another client held another of them; locks that have nothing to do with each other \
             would have been held at once about {}",
            and(&names.iter().map(|name| lock(name)).collect::<Vec<_>>()),
            turns().count(),
            times(expected as u64),
        );
        let time = turns().map(|turn| turn.span.1).max().unwrap_or(0);
        waited.truncate(EVENTS_MAX);
        let finding = Finding::new("keys-share-a-lock", names[0], time, waited, sentence);
        Some(OneLock { names, finding })
    }
}

#[cfg(test)]
mod tests {
    use crate::properties::fairness::FAIRNESS;
    use crate::testing::literal::verdict;
    use crate::verdict::Outcome;
    use std::fmt::Write;

    /// Two processes of two clients take turns, each with a key of its own, for 100 ms every 200 ms.
    /// `shift_ms` is how much later the second is granted than the first.
    fn history(shift_ms: u64, waits: bool) -> String {
        history_of_waits(shift_ms, if waits { u64::MAX } else { 0 })
    }

    /// So many of the acquires, from the first one on, wait for 90 ms.
    fn history_of_waits(shift_ms: u64, waits: u64) -> String {
        let mut lines: Vec<(u64, String)> = Vec::new();
        for turn in 0..50 {
            for (process, key, begin) in [(0, "k0", 200 * turn), (1, "k1", 200 * turn + shift_ms)] {
                let asked = if 2 * turn + process < waits { begin.saturating_sub(90) } else { begin };
                let mut line = |at: u64, kind: &str, f: &str, value: &str| {
                    lines.push((at, format!("{at} {process} {kind} {f} {key} {value}")));
                };
                line(asked.max(1), "invoke", "acquire", "{ttl_ms:500,timeout_ms:1000}");
                line(begin + 2, "ok", "acquire", "{}");
                line(begin + 98, "invoke", "release", "");
                line(begin + 99, "ok", "release", "");
            }
        }
        lines.sort_by_key(|(at, _)| *at);
        lines.iter().fold(String::new(), |mut text, (_, line)| {
            let _ = writeln!(text, "{line}");
            text
        })
    }

    #[test]
    fn two_keys_that_are_never_held_at_once_are_one_lock() {
        let verdict = verdict(&FAIRNESS, &history(100, true));
        assert_eq!(verdict.outcome, Outcome::Violation, "{verdict:?}");
        let finding = &verdict.findings[0];
        assert_eq!((finding.class.as_str(), finding.key.as_str()), ("keys-share-a-lock", "k0"));
        assert!(
            finding.sentence.contains("no two of k0 and k1 were ever held at once, in 100 grants"),
            "{verdict:?}"
        );
    }

    #[test]
    fn two_of_three_keys_are_one_lock_where_the_third_meets_them() {
        let third = "1 2 invoke acquire k2 {ttl_ms:500,timeout_ms:1000}\n1 2 ok acquire k2 {}\n";
        let verdict =
            verdict(&FAIRNESS, &(third.to_owned() + &history(100, true) + "9999 2 invoke release k2\n"));
        let sentence = &verdict.findings[0].sentence;
        assert!(sentence.contains("no two of k0 and k1 were ever held"), "{sentence}");
        // Each is held for 96 ms fifty times, in 10 s.
        assert!(sentence.ends_with("held at once about 48 times"), "{sentence}");
    }

    #[test]
    fn keys_that_are_acquired_as_a_set_are_held_together() {
        let with = |text: String, one: &str, other: &str| {
            let asked = |rest: &str| format!("invoke acquire {one} {{{rest}ttl_ms");
            let released = |rest: &str| format!("invoke release {one} {rest}\n");
            let also = format!("also:[\"{other}\"]");
            text.replace(&asked(""), &asked(&format!("{also},")))
                .replace(&released(""), &released(&format!("{{{also}}}")))
        };
        let sets = with(with(history(100, true), "k0", "k1"), "k1", "k0");
        assert!(sets.contains("also"), "{sets}");
        assert_eq!(verdict(&FAIRNESS, &sets).outcome, Outcome::Valid);
    }

    #[test]
    fn a_key_is_waited_for_often_enough_and_by_another_client() {
        let finding = |text: &str| {
            let found = verdict(&FAIRNESS, text).findings.into_iter();
            found.map(|finding| finding.sentence).find(|sentence| sentence.contains("no two of"))
        };
        let least = (1..20).find_map(|waits| finding(&history_of_waits(100, waits)));
        assert!(least.is_some_and(|sentence| sentence.contains(": 5 times a process waited")));
        let placed = |clients: &str| {
            format!("0 nemesis info nodes - {{slots:{clients},storage:[],leader:false,hit_by:{{}}}}\n")
                + &history(100, true)
        };
        assert!(finding(&placed("[\"c1\",\"c2\"]")).is_some());
        assert_eq!(finding(&placed("[\"c1\",\"c1\"]")), None);
    }

    #[test]
    fn keys_that_meet_or_are_not_waited_for_are_two_locks() {
        for (shift_ms, waits) in [(50, true), (100, false)] {
            let verdict = verdict(&FAIRNESS, &history(shift_ms, waits));
            assert_eq!(verdict.outcome, Outcome::Valid, "{shift_ms} ms, {waits}: {verdict:?}");
        }
    }

    #[test]
    fn a_grant_that_comes_as_the_run_is_closed_is_no_turn() {
        // Closed after the second key was asked for the last time, and before it was granted.
        let closed = "9860 nemesis info phase - \"heal\"";
        let text: Vec<String> = history(100, true).lines().map(str::to_owned).collect();
        let at = |line: &String| line.split(' ').next().unwrap().parse::<u64>().unwrap();
        let (before, after): (Vec<_>, Vec<_>) = text.iter().cloned().partition(|line| at(line) <= 9860);
        let text = [before, vec![closed.to_owned()], after].concat().join("\n");
        assert_eq!(verdict(&FAIRNESS, &text).outcome, Outcome::Violation);
    }

    #[test]
    fn few_grants_that_do_not_meet_prove_nothing() {
        let few: String =
            history(100, true).lines().take(60).fold(String::new(), |text, line| text + line + "\n");
        let text = few + "9000 nemesis info phase - \"closing\"\n";
        assert_eq!(verdict(&FAIRNESS, &text).outcome, Outcome::Valid);
    }
}
