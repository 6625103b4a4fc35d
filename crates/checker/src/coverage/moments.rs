//! The state of every key at chosen moments of a history: who holds it, who waits for it, who granted it, in which phase.

use super::situation::LockPhase;
use crate::run_index::RunIndex;
use fencepost_history::{Event, Kind, Process, f};
use rustc_hash::{FxHashMap, FxHashSet};

/// A key at a moment.
#[derive(Debug)]
pub(super) struct KeyState<'a> {
    pub key: &'a str,
    pub phase: LockPhase,
    /// Each process that holds the key or is releasing it, with the phase of its hold; the latest hold last.
    pub holders: Vec<(u64, LockPhase)>,
    /// The processes that are acquiring it.
    pub waiting: Vec<u64>,
    /// The servers that granted the latest hold; while none is, those that granted the acquire in flight that succeeded first.
    pub granted_by: &'a [&'a str],
}

/// The state of all keys of the run just before each of these events. Both are in order. One pass over the history.
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
    /// The hold that an acquire led to, by its place among the operations.
    granted: FxHashMap<usize, usize>,
    /// The next hold to come.
    next_hold: usize,
    /// The next operation to be invoked.
    next_operation: usize,
    /// The open operation of each process, by its place.
    open: FxHashMap<u64, usize>,
    held: FxHashMap<(u64, &'a str), usize>,
    /// The hold that an open release ends.
    releasing: FxHashMap<u64, usize>,
}

impl<'a> Sweep<'a> {
    fn new(run: &'a RunIndex<'a>) -> Sweep<'a> {
        let mut seen = FxHashSet::default();
        let acquires = run.acquires();
        Sweep {
            run,
            keys: acquires.map(|acquire| acquire.key).filter(|key| seen.insert(*key)).collect(),
            granted: run.holds.iter().enumerate().map(|(at, hold)| (hold.acquire, at)).collect(),
            next_hold: 0,
            next_operation: 0,
            open: FxHashMap::default(),
            held: FxHashMap::default(),
            releasing: FxHashMap::default(),
        }
    }

    fn pass(&mut self, event: &'a Event) {
        let Process::Client(process) = event.process else { return };
        let key = event.key.as_deref().unwrap_or("");
        match (&*event.f, event.kind) {
            (f::LOST, _) => drop(self.held.remove(&(process, key))),
            (name, Kind::Info) if f::is_notice(name) => {}
            (name, Kind::Invoke) => {
                self.open.insert(process, self.next_operation);
                self.next_operation += 1;
                if name == f::RELEASE
                    && let Some(hold) = self.held.remove(&(process, key))
                {
                    self.releasing.insert(process, hold);
                }
            }
            _ => {
                self.open.remove(&process);
                self.releasing.remove(&process);
                let hold = self.run.holds.get(self.next_hold).filter(|hold| hold.from == event.index);
                if let Some(hold) = hold {
                    self.held.insert((process, hold.key), self.next_hold);
                    self.next_hold += 1;
                }
            }
        }
    }

    fn state(&mut self, now: u64) -> Vec<KeyState<'a>> {
        let holds = &self.run.holds;
        // Processes that are gone without a release hold their keys until the lease has run out.
        self.held.retain(|_, hold| holds[*hold].claimed_until_ns() > now);
        self.keys.iter().map(|key| self.key(key, now)).collect()
    }

    fn key(&self, key: &'a str, now: u64) -> KeyState<'a> {
        let run = self.run;
        let held = self.held.iter().filter(|((_, held), _)| *held == key);
        let mut holders: Vec<(usize, LockPhase)> =
            held.map(|((process, _), &hold)| (hold, self.phase(*process, hold, now))).collect();
        let releasing = self.releasing.values().filter(|hold| run.holds[**hold].key == key);
        holders.extend(releasing.map(|&hold| (hold, LockPhase::Releasing)));
        holders.sort_unstable();
        let acquires = || {
            let open = self.open.iter().map(|(process, at)| (*process, *at));
            open.filter(|(_, at)| run.operations[*at].f() == f::ACQUIRE && run.operations[*at].key == key)
        };
        let mut waiting: Vec<u64> = acquires().map(|(process, _)| process).collect();
        waiting.sort_unstable();
        let coming = || acquires().filter_map(|(_, at)| self.granted.get(&at).copied()).min();
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

    /// The phase of a hold that is not being released.
    fn phase(&self, process: u64, hold: usize, now: u64) -> LockPhase {
        let hold = &self.run.holds[hold];
        let operation = self.open.get(&process).map(|&at| &self.run.operations[at]);
        if operation.is_some_and(|operation| operation.f() == f::WRITE && operation.key == hold.key) {
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
