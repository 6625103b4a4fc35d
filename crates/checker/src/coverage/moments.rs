use super::situation::LockPhase;
use crate::run_index::RunIndex;
use crate::tracker::{Change, Tracker};
use fencepost_history::{Event, Name, f};
use rustc_hash::{FxHashMap, FxHashSet};

#[derive(Debug)]
pub(super) struct KeyState<'a> {
    pub key: &'a str,
    pub phase: LockPhase,
    /// Each process that holds the key or is releasing it, with the phase of its hold; the latest hold last.
    pub holders: Vec<(u64, LockPhase)>,
    pub waiting: Vec<u64>,
    /// The servers that granted the latest hold, or else the first acquire in flight that succeeded.
    pub granted_by: &'a [Name],
}

/// The state of all keys just before each of these events, both in order. One pass over the history.
pub(super) fn at_events<'a>(run: &'a RunIndex<'a>, indices: &[u64]) -> Vec<Vec<KeyState<'a>>> {
    let mut sweep = Sweep::new(run);
    let mut events = run.events.iter().peekable();
    let states = indices.iter().map(|&index| {
        let mut now = None;
        while let Some(event) = events.next_if(|event| event.index < index) {
            sweep.pass(event);
            now = Some(event.time);
        }
        sweep.state(events.peek().map(|event| event.time).or(now).unwrap_or(0))
    });
    states.collect()
}

struct Sweep<'a> {
    run: &'a RunIndex<'a>,
    keys: Vec<&'a str>,
    granted: FxHashMap<usize, usize>,
    tracker: Tracker<&'a str>,
    /// Holds of processes that are over. They keep their keys until the leases have run out.
    abandoned: Vec<usize>,
}

impl<'a> Sweep<'a> {
    fn new(run: &'a RunIndex<'a>) -> Sweep<'a> {
        let mut seen = FxHashSet::default();
        let acquires = run.acquires();
        Sweep {
            run,
            keys: acquires.map(|acquire| acquire.key).filter(|key| seen.insert(*key)).collect(),
            granted: run.holds.iter().enumerate().map(|(at, hold)| (hold.acquire, at)).collect(),
            tracker: Tracker::default(),
            abandoned: Vec::new(),
        }
    }

    fn pass(&mut self, event: &'a Event) {
        // The index has refused what cannot be pushed.
        let changes = self.tracker.push_all(event, event.key.as_deref().unwrap_or(""), |name| name);
        for (_, change) in changes.into_iter().flatten() {
            if let Change::Completed(completed) = change {
                self.abandoned.extend(completed.abandoned);
            }
        }
    }

    fn state(&mut self, now: u64) -> Vec<KeyState<'a>> {
        let holds = &self.run.holds;
        self.abandoned.retain(|hold| holds[*hold].end_earliest_ns() > now);
        self.keys.iter().map(|key| self.key(key, now)).collect()
    }

    fn key(&self, key: &'a str, now: u64) -> KeyState<'a> {
        let run = self.run;
        let of_key = |hold: &usize| run.holds[*hold].key == key;
        let held = self.tracker.held().map(|(_, held)| held).filter(|held| of_key(&held.hold));
        let held = held.filter(|held| held.is_releasing || run.holds[held.hold].end_earliest_ns() > now);
        let mut holders: Vec<(usize, LockPhase)> = held
            .map(|held| match held.is_releasing {
                true => (held.hold, LockPhase::Releasing),
                false => (held.hold, self.phase(held.hold, now)),
            })
            .collect();
        let abandoned = self.abandoned.iter().copied().filter(of_key);
        holders.extend(abandoned.map(|hold| (hold, self.phase(hold, now))));
        holders.sort_unstable();
        let acquires = || self.tracker.open().filter(|(_, open)| open.f == f::ACQUIRE && open.key == key);
        let mut waiting: Vec<u64> = acquires().map(|(process, _)| process).collect();
        waiting.sort_unstable();
        let coming = || acquires().filter_map(|(_, open)| self.granted.get(&open.operation).copied()).min();
        let latest = holders.last().map(|(hold, _)| *hold).or_else(coming);
        let phase = match holders.last() {
            Some((_, phase)) => *phase,
            None if waiting.is_empty() => LockPhase::Free,
            None => LockPhase::Acquiring,
        };
        KeyState {
            key,
            phase,
            holders: holders.iter().map(|(hold, phase)| (run.holds[*hold].process, *phase)).collect(),
            waiting,
            granted_by: latest.map_or(&[], |hold| &run.holds[hold].granted_by),
        }
    }

    fn phase(&self, hold: usize, now: u64) -> LockPhase {
        let hold = &self.run.holds[hold];
        let open = self.tracker.open_of(hold.process);
        if open.is_some_and(|open| open.f == f::WRITE && open.key == hold.key) {
            return LockPhase::Writing;
        }
        let reported_ns = |index: u64| self.run.event(index).map_or(0, |event| event.time);
        let next = hold.renewals.partition_point(|(index, _)| reported_ns(*index) <= now);
        match hold.renewals.get(next) {
            Some((_, asked_ns)) if *asked_ns <= now => LockPhase::Renewing,
            _ => LockPhase::Held,
        }
    }
}
