//! How each process fared. It waits for a key from the beginning of its first attempt that failed after its
//! last grant, until it is granted the key: however short its attempts are, and long the rests between them.

use super::chance::{Lot, is_no_chance};
use crate::prose::{lock, seconds, times};
use crate::run_index::{Operation, RunIndex};
use crate::slowness::are_by_slowness;
use crate::spans::Span;
use crate::verdict::Finding;
use crate::wants::{acquires, length_of};
use fencepost_history::{Kind, sorted_once};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Range;

/// How all processes fared; one that takes another number after an indeterminate operation stays the same.
pub(super) struct Waits<'a> {
    of_slots: FxHashMap<u64, Wait>,
    of_keys: BTreeMap<&'a str, OfKey<'a>>,
    /// The most grants of a key in a row to one process, while others tried.
    pub in_a_row: usize,
    is_shared: bool,
}

#[derive(Default)]
struct Wait {
    granted: usize,
    last_ns: u64,
    longest_ns: u64,
}

#[derive(Default)]
struct OfKey<'a> {
    processes: usize,
    /// When, and to which slot, in order.
    grants: Vec<(u64, u64)>,
    /// Each stretch in which a process waited for it: those that ended with a grant first, in order.
    stretches: Vec<Stretch<'a>>,
}

/// A process tried to acquire a key, and others may have got it meanwhile.
struct Stretch<'a> {
    slot: u64,
    /// From the beginning of its first attempt to the end of its last one.
    tried: Span,
    /// Its length, without the time in which the machine stalled.
    rest_ns: u64,
    failed: Vec<&'a Operation<'a>>,
    /// None where the run ended before.
    granted: Option<&'a Operation<'a>>,
}

/// Processes of one key that were granted nothing while others were.
pub(super) struct LeftOutProcesses<'a> {
    key: &'a str,
    slots: Vec<u64>,
    /// How many tried to acquire the key, and how often the others got it.
    processes: usize,
    others: usize,
    tried: Span,
    attempts: Vec<&'a Operation<'a>>,
}

impl<'a> Waits<'a> {
    /// Of the acquires that began within a span.
    pub fn of(run: &'a RunIndex<'a>, open: Span) -> Waits<'a> {
        let is_shared = run.excluding_holds().any(|(_, hold)| !hold.claim.is_alone());
        let mut waits =
            Waits { of_slots: FxHashMap::default(), of_keys: BTreeMap::new(), in_a_row: 0, is_shared };
        let mut ended: Vec<_> = acquires(run, open).collect();
        ended.sort_by_key(|(acquire, ..)| acquire.completion.map(|end| end.index));
        let mut waiting: BTreeMap<(&str, u64), Option<Stretch>> = BTreeMap::new();
        for (acquire, kind, tried) in ended {
            let slot = run.nodes.slot_of(acquire.process);
            let wait = waits.of_slots.entry(slot).or_default();
            let stretch = waiting.entry((acquire.key, slot)).or_default();
            if kind != Kind::Ok {
                let stretch = stretch.get_or_insert_with(|| Stretch::new(slot, tried));
                stretch.tried.1 = tried.1;
                stretch.failed.push(acquire);
                continue;
            }
            let stretch = stretch.take().unwrap_or_else(|| Stretch::new(slot, tried));
            let stretch = Stretch { tried: (stretch.tried.0, tried.1), granted: Some(acquire), ..stretch };
            wait.granted += 1;
            wait.last_ns = tried.1;
            wait.longest_ns = wait.longest_ns.max(length_of(stretch.tried));
            let key = waits.of_keys.entry(acquire.key).or_default();
            key.grants.push((tried.1, slot));
            key.stretches.push(stretch);
        }
        for ((name, _), stretch) in waiting {
            let key = waits.of_keys.entry(name).or_default();
            key.processes += 1;
            key.stretches.extend(stretch);
        }
        for stretch in waits.of_keys.values_mut().flat_map(|key| &mut key.stretches) {
            stretch.rest_ns = run.stalls.rest_of(stretch.tried);
        }
        waits.in_a_row = waits.of_keys.values().map(OfKey::in_a_row).max().unwrap_or(0);
        waits
    }

    pub fn are_none(&self) -> bool {
        self.of_slots.is_empty()
    }

    /// Of each key, the most processes left out together beyond the bound, not by chance; then the longest.
    pub fn starved(&self, bound_ns: u64) -> Vec<LeftOutProcesses<'a>> {
        let stretches = self.of_keys.values().map(|key| key.stretches.len()).sum();
        let of_key = |(name, key): (&&'a str, &OfKey<'a>)| {
            let long: Vec<_> = key.stretches.iter().filter(|stretch| stretch.proves(bound_ns)).collect();
            let asked = if long.is_empty() { Vec::new() } else { key.asked() };
            let left_out =
                long.iter().filter_map(|long| key.left_out(name, long, bound_ns, &asked, stretches));
            left_out.max_by_key(|left_out| (left_out.slots.len(), length_of(left_out.tried)))
        };
        self.of_keys.iter().filter(|_| !self.is_shared).filter_map(of_key).collect()
    }

    /// The longest wait in vain at the end, beyond the bound and any granted wait, while others got the key.
    pub fn waits_at_the_end(&self, bound_ns: u64) -> Option<LeftOutProcesses<'a>> {
        let alone =
            self.stretches_at_the_end(bound_ns).map(|(name, key, alone)| key.of(name, &[alone], alone));
        let unusual = alone.filter(|alone| length_of(alone.tried) > self.longest_ns() && alone.others > 0);
        unusual.filter(|_| !self.is_shared).max_by_key(|alone| length_of(alone.tried))
    }

    /// Those that lasted for longer than the bound, in which the process was granted no key.
    fn stretches_at_the_end(
        &self,
        bound_ns: u64,
    ) -> impl Iterator<Item = (&'a str, &OfKey<'a>, &Stretch<'a>)> {
        let of_keys = self.of_keys.iter();
        let all =
            of_keys.flat_map(|(name, key)| key.stretches.iter().map(move |stretch| (*name, key, stretch)));
        all.filter(move |(_, _, stretch)| {
            let last_ns = self.of_slots.get(&stretch.slot).map_or(0, |wait| wait.last_ns);
            stretch.granted.is_none() && stretch.rest_ns >= bound_ns && last_ns <= stretch.tried.0
        })
    }

    /// The longest time that a process waited until it was granted a key.
    pub fn longest_ns(&self) -> u64 {
        self.of_slots.values().map(|wait| wait.longest_ns).max().unwrap_or(0)
    }

    /// How many processes waited for longer than the bound at the end, and got nothing.
    pub fn in_vain(&self, bound_ns: u64) -> usize {
        sorted_once(self.stretches_at_the_end(bound_ns).map(|(_, _, stretch)| stretch.slot)).len()
    }

    /// In words: who got the lock, and who did not.
    pub fn figures(&self, bound_ns: u64) -> String {
        let (all, got) =
            (self.of_slots.len(), self.of_slots.values().filter(|wait| wait.granted > 0).count());
        let in_vain = match self.in_vain(bound_ns) {
            0 => String::new(),
            count => format!("; at the end, {count} had waited for more than {} in vain", seconds(bound_ns)),
        };
        format!(
            "{got} of {all} processes got the lock, after at most {}{in_vain}",
            seconds(self.longest_ns())
        )
    }
}

impl<'a> OfKey<'a> {
    fn in_a_row(&self) -> usize {
        self.grants.chunk_by(|one, next| one.1 == next.1).map(<[_]>::len).max().unwrap_or(0)
    }

    /// For each grant the slots that asked for it since the one before, in order.
    fn asked(&self) -> Vec<Vec<u64>> {
        let mut attempts: BTreeMap<u64, Vec<&Operation>> = BTreeMap::new();
        for stretch in &self.stretches {
            attempts.entry(stretch.slot).or_default().extend(stretch.attempts());
        }
        let mut attempts: Vec<_> =
            attempts.into_iter().map(|(slot, attempts)| (slot, attempts.into_iter().peekable())).collect();
        let mut before_ns = 0;
        let mut slots = |granted_ns: u64| {
            let span = (std::mem::replace(&mut before_ns, granted_ns), granted_ns);
            attempts.iter_mut().filter_map(|(slot, all)| was_asked(all, span).then_some(*slot)).collect()
        };
        self.grants.iter().map(|(granted_ns, _)| slots(*granted_ns)).collect()
    }

    /// Who was left out for the whole of a stretch, if by no chance; `asked` are the slots at each grant.
    fn left_out(
        &self,
        name: &'a str,
        stretch: &Stretch<'a>,
        bound_ns: u64,
        asked: &[Vec<u64>],
        stretches: usize,
    ) -> Option<LeftOutProcesses<'a>> {
        let is_beside = |other: &&Stretch| {
            other.tried.0 <= stretch.tried.0
                && other.granted_ns() >= stretch.granted_ns()
                && other.tried.1.saturating_sub(stretch.tried.0) >= bound_ns
                && !are_by_slowness(&other.failed)
        };
        let set: Vec<&Stretch> = self.stretches.iter().filter(is_beside).collect();
        // What was asked for the first one may have been asked before the stretch.
        let draws = self.within(stretch).skip(1).map(|at| {
            let last_holder = self.grants[at - 1].1;
            let asked: Vec<u64> = asked[at].iter().copied().filter(|slot| *slot != last_holder).collect();
            let of_set = asked.iter().filter(|slot| set.iter().any(|stretch| stretch.slot == **slot)).count();
            Lot { asked: asked.len(), of_set }
        });
        is_no_chance(draws, set.len(), self.processes, stretches).then(|| self.of(name, &set, stretch))
    }

    fn within(&self, stretch: &Stretch) -> Range<usize> {
        let from = self.grants.partition_point(|(granted_ns, _)| *granted_ns <= stretch.tried.0);
        let until = self.grants.partition_point(|(granted_ns, _)| *granted_ns < stretch.granted_ns());
        from..until.max(from)
    }

    fn of(&self, key: &'a str, set: &[&Stretch<'a>], stretch: &Stretch) -> LeftOutProcesses<'a> {
        let mut slots: Vec<u64> = set.iter().map(|stretch| stretch.slot).collect();
        slots.sort_unstable();
        let is_within = |attempt: &&Operation| attempt.invoke.time >= stretch.tried.0;
        LeftOutProcesses {
            key,
            slots,
            processes: self.processes,
            others: self.within(stretch).len(),
            tried: (stretch.tried.0, set.iter().map(|stretch| stretch.tried.1).min().unwrap_or(0)),
            attempts: set.iter().flat_map(|stretch| stretch.attempts()).filter(is_within).collect(),
        }
    }
}

impl<'a> Stretch<'a> {
    fn new(slot: u64, tried: Span) -> Stretch<'a> {
        Stretch { slot, tried, rest_ns: 0, failed: Vec::new(), granted: None }
    }

    /// Until when others may have got the key: the end of time where it was not granted at last.
    fn granted_ns(&self) -> u64 {
        if self.granted.is_some() { self.tried.1 } else { u64::MAX }
    }

    fn attempts<'s>(&'s self) -> impl Iterator<Item = &'a Operation<'a>> + use<'s, 'a> {
        self.failed.iter().copied().chain(self.granted)
    }

    /// Whether it lasted for longer than the bound, and a slow machine does not explain that.
    fn proves(&self, bound_ns: u64) -> bool {
        self.rest_ns >= bound_ns && !are_by_slowness(&self.failed)
    }
}

/// Whether one of some attempts, in order, was under way in a span, later than those asked about before.
fn was_asked<'a>(attempts: &mut Peekable<impl Iterator<Item = &'a Operation<'a>>>, span: Span) -> bool {
    let ended_ns = |attempt: &Operation| attempt.completion.map_or(u64::MAX, |end| end.time);
    while attempts.next_if(|attempt| ended_ns(attempt) <= span.0).is_some() {}
    attempts.peek().is_some_and(|attempt| attempt.invoke.time <= span.1)
}

impl LeftOutProcesses<'_> {
    /// `process 3 tried to acquire a from 2.000 s to 9.000 s, 7 times, and did not get it, while others …`.
    pub fn in_words(&self) -> String {
        let who = match &self.slots[..] {
            [slot] => format!("process {slot}"),
            slots => format!("{} of {} processes", slots.len(), self.processes),
        };
        let (lock, from, to) = (lock(self.key), seconds(self.tried.0), seconds(self.tried.1));
        let [tried, got] = [self.attempts.len(), self.others].map(|count| times(count as u64));
        format!(
            "{who} tried to acquire {lock} from {from} to {to}, {tried}, and did not get it, while others got it {got}"
        )
    }

    /// Whether most attempts ended with an error that a slow machine explains.
    pub fn is_by_slowness(&self) -> bool {
        are_by_slowness(&self.attempts)
    }

    pub fn finding(&self) -> Finding {
        let mut ended: Vec<_> = self.attempts.iter().filter_map(|acquire| acquire.completion).collect();
        ended.sort_by_key(|end| end.index);
        let sentence = format!("without any fault, {}", self.in_words());
        let events = ended.iter().take(10).map(|end| end.index).collect();
        Finding::new("starved", self.key, self.tried.1, events, sentence)
    }
}
