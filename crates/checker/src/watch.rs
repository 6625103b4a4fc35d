//! Mutual exclusion, watched while the run goes on.
//!
//! Counts the same overlaps as the `exclusion` checker, without looking back. Two holds of a key overlap if the
//! later one begins between two instants at which the earlier one's process believed. So it is enough to number
//! the grants of each key: when a process is known to have believed, the grants since its belief was last known
//! are as many overlaps. An event costs a few look-ups in hash maps; memory is one entry a process and key in
//! use, since a process is forgotten with its first indeterminate operation.

use crate::digest::{is_notice, shows_belief};
use fencepost_history::{Event, Kind, Process, f};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

type Key = Cow<'static, str>;

/// Counts violations of mutual exclusion event by event.
#[derive(Default)]
pub struct Watch {
    violations: u64,
    /// How often each key was granted.
    grants: FxHashMap<Key, u64>,
    /// Of each process and key it holds: how many grants there were when its belief was last known.
    holds: FxHashMap<(u64, Key), u64>,
    open: FxHashMap<u64, Open>,
}

/// An operation that has not completed.
struct Open {
    /// The hold under which it was invoked: grants when belief was last known, and grants at the invocation.
    /// A release takes the hold with it.
    hold: Option<(u64, u64)>,
    key: Key,
}

impl Watch {
    pub fn new() -> Watch {
        Watch::default()
    }

    /// How many overlaps there have been so far.
    pub fn violations(&self) -> u64 {
        self.violations
    }

    /// Takes note of the next event.
    pub fn push(&mut self, event: &Event) {
        let Process::Client(process) = event.process else { return };
        let key = || event.key.clone().unwrap_or_default();
        if is_notice(event) {
            if event.f == f::LOST {
                self.holds.remove(&(process, key()));
            }
        } else if event.kind == Kind::Invoke {
            self.invoke(process, key(), event);
        } else if let Some(open) = self.open.remove(&process) {
            self.complete(process, open, event);
        }
    }

    fn invoke(&mut self, process: u64, key: Key, event: &Event) {
        let owner = (process, key);
        let known = if event.f == f::RELEASE || event.f == f::ACQUIRE {
            self.holds.remove(&owner)
        } else {
            self.holds.get(&owner).copied()
        };
        let granted = self.grants.get(&owner.1).copied().unwrap_or_default();
        self.open.insert(process, Open { hold: known.map(|known| (known, granted)), key: owner.1 });
    }

    fn complete(&mut self, process: u64, open: Open, event: &Event) {
        if let Some((known, granted)) = open.hold
            && shows_belief(&event.f, event)
        {
            self.violations += granted - known;
            if let Some(known) = self.holds.get_mut(&(process, open.key.clone())) {
                *known = granted;
            }
        }
        if event.kind == Kind::Info {
            // Its number is never used again: nothing more can become known about its belief.
            self.holds.retain(|(owner, _), _| *owner != process);
        } else if event.kind == Kind::Ok && event.f == f::ACQUIRE {
            let granted = self.grants.entry(open.key.clone()).or_default();
            *granted += 1;
            self.holds.insert((process, open.key), *granted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::promises::overlaps;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// What one process does next; the number says how its operation ends.
    type Step = (u64, u8, u8, bool);

    /// A run of a few processes over two keys, with every kind of ending, from a list of choices.
    fn run(steps: &[Step]) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        let mut open: FxHashMap<u64, &'static str> = FxHashMap::default();
        let mut spent: FxHashMap<u64, u64> = FxHashMap::default();
        for &(slot, what, end, second_key) in steps {
            let process = slot + 10 * spent.get(&slot).copied().unwrap_or(0);
            let (kind, name, value, error) = match (open.get(&process).copied(), what) {
                (Some(name), 0..7) => {
                    open.remove(&process);
                    let kind = [Kind::Ok, Kind::Ok, Kind::Ok, Kind::Fail, Kind::Info][usize::from(end % 5)];
                    if kind == Kind::Info {
                        *spent.entry(slot).or_default() += 1;
                    }
                    let value = match name {
                        f::HOLDS => json!(end % 2 == 0),
                        f::RELEASE => json!({"believed": end % 2 == 0}),
                        _ => Value::Null,
                    };
                    (kind, name, value, (kind == Kind::Fail).then_some("stale-token".into()))
                }
                (Some(_), _) => (Kind::Info, [f::LOST, f::RENEWED][usize::from(end % 2)], Value::Null, None),
                (None, _) => {
                    let names = [f::ACQUIRE, f::ACQUIRE, f::ACQUIRE, f::RELEASE, f::HOLDS, f::WRITE, f::READ];
                    let name = names[usize::from(what) % names.len()];
                    open.insert(process, name);
                    (Kind::Invoke, name, json!({"ttl_ms": 5}), None)
                }
            };
            // A completion stands for the key of its invocation, which `f` and the process identify.
            let key = match kind {
                Kind::Invoke => if second_key { "b" } else { "a" }.into(),
                _ if name == f::LOST || name == f::RENEWED => if second_key { "b" } else { "a" }.into(),
                _ => {
                    let invoke = events.iter().rev().find(|event| {
                        event.process == Process::Client(process) && event.kind == Kind::Invoke
                    });
                    invoke.and_then(|event| event.key.clone()).expect("it was invoked")
                }
            };
            let index = events.len() as u64;
            events.push(Event {
                index,
                time: index * 1_000_000,
                process: Process::Client(process),
                kind,
                f: name.into(),
                key: Some(key),
                value,
                error,
            });
        }
        events
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn counts_what_the_checker_finds(
            steps in prop::collection::vec((0..4_u64, 0..8_u8, any::<u8>(), any::<bool>()), 0..120),
        ) {
            let events = run(&steps);
            let mut watch = Watch::new();
            events.iter().for_each(|event| watch.push(event));
            let digest = Digest::new(&events).unwrap();
            prop_assert_eq!(watch.violations(), overlaps(&digest).len() as u64);
        }
    }

    #[test]
    fn forgets_processes_that_are_gone() {
        let mut watch = Watch::new();
        for process in 0..10_000 {
            let event = |kind, name: &'static str| Event {
                index: 0,
                time: 0,
                process: Process::Client(process),
                kind,
                f: name.into(),
                key: Some("a".into()),
                value: Value::Null,
                error: None,
            };
            watch.push(&event(Kind::Invoke, f::ACQUIRE));
            watch.push(&event(Kind::Ok, f::ACQUIRE));
            watch.push(&event(Kind::Invoke, f::RELEASE));
            watch.push(&event(Kind::Info, f::RELEASE));
        }
        assert_eq!(watch.open.len() + watch.holds.len(), 0);
    }
}
