//! Mutual exclusion and fencing tokens, watched while the run goes on.
//!
//! Counts the same overlaps as the `exclusion` checker and the same tokens as the `fencing` checker, without looking
//! back: what `lease-mutex` and `fenced-mutex` find, event by event.
//!
//! *Tokens.* It is enough to keep the greatest token of each key: a token is wrong if it is not greater than the
//! greatest one that had been granted when its acquire was invoked; but a process that has not released may get its own again.
//!
//! *Overlaps.* Two holds of a key overlap if the
//! later one begins between two instants at which the earlier one's process believed. So it is enough to number
//! the grants of each key: when a process is known to have believed, the grants since its belief was last known
//! are as many overlaps. An event costs a few look-ups in hash maps; memory is one entry a process and key in
//! use, since a process is forgotten with its first indeterminate operation. Who shares the lock is counted apart: a
//! shared hold is broken by exclusive grants only. A grant that is over as its process learns of it breaks none, and counts only once that
//! process shows belief in it: from then on.

use crate::run_index::{asks_shared, denies_belief, is_notice, is_over, shows_belief};
use fencepost_history::{Event, Kind, Process, f};
use rustc_hash::FxHashMap;
use serde_json::Value;

type Key = fencepost_history::Name;

/// Counts violations of mutual exclusion, and tokens that do not grow, event by event.
#[derive(Default)]
pub struct Watch {
    overlaps: u64,
    stale_tokens: u64,
    /// What was granted of each key.
    grants: FxHashMap<Key, Grants>,
    /// Of each process and key it holds: how many grants that break its hold there were when its belief was last known.
    holds: FxHashMap<(u64, Key), Known>,
    open: FxHashMap<u64, Open>,
}

/// An operation that has not completed.
struct Open {
    /// The hold under which it was invoked: grants when belief was last known, and grants at the invocation.
    /// A release takes the hold with it.
    hold: Option<(u64, u64)>,
    /// The greatest token granted when it was invoked, and the process that still has it.
    greatest_token: Option<i64>,
    has_greatest: Option<u64>,
    key: Key,
    /// An acquire that asks to share.
    shared: bool,
}

#[derive(Clone, Copy, Default)]
struct Grants {
    exclusive: u64,
    shared: u64,
    greatest_token: Option<i64>,
    /// The process that was granted the greatest token and has not released since.
    has_greatest: Option<u64>,
}

impl Grants {
    /// Counts a grant, and says by how many that makes those more that break a hold of its own kind.
    fn count(&mut self, shared: bool) -> u64 {
        *(if shared { &mut self.shared } else { &mut self.exclusive }) += 1;
        u64::from(!shared)
    }

    /// Those that break a hold.
    fn against(self, shared: bool) -> u64 {
        if shared { self.exclusive } else { self.exclusive + self.shared }
    }
}

#[derive(Clone, Copy)]
struct Known {
    grants: u64,
    shared: bool,
    /// The grant was over as its process learned of it, and does not count yet.
    over_at_once: bool,
}

impl Watch {
    pub fn new() -> Watch {
        Watch::default()
    }

    /// How many violations there have been so far, of either kind.
    pub fn violations(&self) -> u64 {
        self.overlaps + self.stale_tokens
    }

    /// How many overlaps of two holds of a key there have been so far.
    pub fn overlaps(&self) -> u64 {
        self.overlaps
    }

    /// How many tokens so far were not greater than one granted before.
    pub fn stale_tokens(&self) -> u64 {
        self.stale_tokens
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
        let grants = self.grants.get(&owner.1).copied().unwrap_or_default();
        let hold = known.map(|known| (known.grants, grants.against(known.shared)));
        let Grants { greatest_token, has_greatest, .. } = grants;
        let shared = asks_shared(event);
        self.open.insert(process, Open { hold, greatest_token, has_greatest, key: owner.1, shared });
    }

    fn complete(&mut self, process: u64, open: Open, event: &Event) {
        let owner = (process, open.key.clone());
        if let Some((known, granted)) = open.hold
            && shows_belief(&event.f, event)
        {
            self.overlaps += granted - known;
            if let Some(known) = self.holds.get_mut(&owner) {
                known.grants = granted;
                if std::mem::take(&mut known.over_at_once) {
                    let grants = self.grants.entry(open.key.clone()).or_default();
                    known.grants += grants.count(known.shared);
                }
            }
        }
        if denies_belief(&event.f, event) {
            self.holds.remove(&owner);
        }
        if event.f == f::RELEASE && event.kind != Kind::Fail {
            let grants = self.grants.entry(open.key.clone()).or_default();
            grants.has_greatest = grants.has_greatest.filter(|has| *has != process);
        }
        if event.kind == Kind::Info {
            // Its number is never used again: nothing more can become known about its belief.
            self.holds.retain(|(owner, _), _| *owner != process);
        } else if event.kind == Kind::Ok && event.f == f::ACQUIRE {
            self.granted(owner, &open, event);
        }
    }

    fn granted(&mut self, owner: (u64, Key), open: &Open, event: &Event) {
        let (process, shared) = (owner.0, open.shared);
        let grants = self.grants.entry(open.key.clone()).or_default();
        let over_at_once = is_over(event.value.get("validity_ms").and_then(Value::as_f64));
        if !over_at_once {
            grants.count(shared);
        }
        if let Some(token) = event.value.get("token").and_then(Value::as_i64) {
            let own_again = open.greatest_token == Some(token) && open.has_greatest == Some(process);
            self.stale_tokens += u64::from(open.greatest_token >= Some(token) && !own_again);
            if grants.greatest_token < Some(token) {
                (grants.greatest_token, grants.has_greatest) = (Some(token), Some(process));
            }
        }
        let known = Known { grants: grants.against(shared), shared, over_at_once };
        self.holds.insert(owner, known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_index;
    use crate::properties::overlaps;
    use crate::run_index::RunIndex;
    use proptest::prelude::*;
    use serde_json::json;

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
                        f::ACQUIRE if end % 3 > 0 => json!({"token": i64::from(end) + events.len() as i64}),
                        _ => Value::Null,
                    };
                    (kind, name, value, (kind == Kind::Fail).then_some("rejected".into()))
                }
                (Some(_), _) => {
                    (Kind::Info, [f::LOST, f::RENEWED, f::AT][usize::from(end % 3)], Value::Null, None)
                }
                (None, _) => {
                    let names = [f::ACQUIRE, f::ACQUIRE, f::ACQUIRE, f::RELEASE, f::HOLDS, f::WRITE, f::READ];
                    let name = names[usize::from(what) % names.len()];
                    open.insert(process, name);
                    let mode = if end % 3 == 0 { "shared" } else { "exclusive" };
                    (Kind::Invoke, name, json!({"ttl_ms": 5, "mode": mode}), None)
                }
            };
            // A completion stands for the key of its invocation, which `f` and the process identify.
            let key = match kind {
                Kind::Invoke => if second_key { "b" } else { "a" }.into(),
                _ if f::is_notice(name) => if second_key { "b" } else { "a" }.into(),
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
                value: value.into(),
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
            let run = RunIndex::new(&events).unwrap();
            prop_assert_eq!(watch.overlaps(), overlaps(&run).len() as u64);
            let verdict = check_index(&run);
            let stale =
                verdict.of_checker("fencing").map_or(0, |fencing| fencing.stats["not_greater"].as_u64().unwrap());
            prop_assert_eq!(watch.stale_tokens(), stale);
            prop_assert_eq!(watch.violations(), watch.overlaps() + watch.stale_tokens());
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
                value: Value::Null.into(),
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
