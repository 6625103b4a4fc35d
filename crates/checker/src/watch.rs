//! Mutual exclusion and fencing tokens, watched while the run goes on: counts the overlaps of the `exclusion`
//! checker and the tokens of the `fencing` checker without looking back, event by event.
//!
//! *Tokens.* A token is wrong if it is not greater than the greatest one of its key that had been granted
//! when its acquire was invoked; but a process that has not released may get its own again.
//!
//! *Overlaps.* Two holds of a key overlap if the later one begins between two instants at which the earlier
//! one's process believed. So the grants of each key are numbered: when a process is known to have believed,
//! the grants since its belief was last known are as many overlaps. An event costs a few look-ups in hash
//! maps; memory is one entry a process and key in use, since a process is forgotten with its first
//! indeterminate operation. Grants are counted by claim: a shared hold is broken by exclusive grants only. Of
//! a semaphore, of which two holds break nothing, it counts no overlaps: the checker does. A grant that is
//! over as its process learns of it breaks none: the watch counts fewer than the checker.

use crate::belief::is_over;
use crate::claim::Claim;
use crate::tracker::{Belief, Change, Completed, Granted, Tracker};
use fencepost_history::{Event, Kind, Name, Process, f};
use rustc_hash::FxHashMap;

/// Counts violations of mutual exclusion, and tokens that do not grow, event by event.
#[derive(Default)]
pub struct Watch {
    /// How many overlaps of two holds of a key there have been so far.
    pub overlaps: u64,
    /// How many tokens so far were not greater than one granted before.
    pub stale_tokens: u64,
    tracker: Tracker<Name>,
    grants: FxHashMap<Name, Grants>,
    /// Of each hold whose process may yet show belief: how many grants broke it when that was last known.
    holds: FxHashMap<usize, CountedHold>,
    invoked: FxHashMap<usize, Invoked>,
}

struct Invoked {
    /// The hold under which that was, and the grants that broke it by then; a release takes the hold with it.
    under: Option<(CountedHold, u64)>,
    /// The greatest token granted by then, and the process that still has it.
    greatest_token: Option<i64>,
    has_greatest: Option<u64>,
}

#[derive(Clone, Default)]
struct Grants {
    of_claim: Vec<(Claim, u64)>,
    greatest_token: Option<i64>,
    /// The process that was granted the greatest token and has not released since.
    has_greatest: Option<u64>,
}

impl Grants {
    fn against(&self, claim: Claim) -> u64 {
        let excluded = self.of_claim.iter().filter(|(other, _)| !Claim::fit([claim, *other]));
        excluded.map(|(_, count)| count).sum()
    }

    fn count(&mut self, claim: Claim) {
        match self.of_claim.iter_mut().find(|(known, _)| *known == claim) {
            Some((_, count)) => *count += 1,
            None => self.of_claim.push((claim, 1)),
        }
    }
}

#[derive(Clone, Copy)]
struct CountedHold {
    grants: u64,
    claim: Claim,
}

impl Watch {
    pub fn new() -> Watch {
        Watch::default()
    }

    /// How many violations there have been so far, of either kind.
    pub fn violations(&self) -> u64 {
        self.overlaps + self.stale_tokens
    }

    /// Takes note of the next event. One that cannot follow those before says nothing.
    pub fn push(&mut self, event: &Event) {
        let Process::Client(process) = event.process else { return };
        let key = event.key.clone().unwrap_or_default();
        for (key, change) in self.tracker.push_all(event, key, Name::from).into_iter().flatten() {
            self.change(process, &key, event, change);
        }
    }

    fn change(&mut self, process: u64, key: &Name, event: &Event, change: Change<Name>) {
        match change {
            Change::Invoked { operation, under, ended } => {
                let known = under.and_then(|hold| self.holds.get(&hold).copied());
                if let Some((hold, _)) = ended {
                    self.holds.remove(&hold);
                }
                let none = Grants::default();
                let grants = self.grants.get(key).unwrap_or(&none);
                let under = known.map(|known| (known, grants.against(known.claim)));
                let Grants { greatest_token, has_greatest, .. } = *grants;
                self.invoked.insert(operation, Invoked { under, greatest_token, has_greatest });
            }
            Change::Completed(completed) => self.complete(process, event, completed),
            Change::Lost(Some(hold)) => drop(self.holds.remove(&hold)),
            Change::Nothing | Change::Lost(None) | Change::Renewed(_) => {}
        }
    }

    fn complete(&mut self, process: u64, event: &Event, completed: Completed<Name>) {
        let Some(invoked) = self.invoked.remove(&completed.operation) else { return };
        let grants = self.grants.entry(completed.key).or_default();
        match (completed.belief, invoked.under, completed.under) {
            (Belief::Shown, Some((known, granted)), Some(hold)) => {
                self.overlaps += granted - known.grants;
                if let Some(goes_on) = self.holds.get_mut(&hold) {
                    goes_on.grants = granted;
                }
            }
            (Belief::Denied, _, Some(hold)) => drop(self.holds.remove(&hold)),
            _ => {}
        }
        if event.f == f::RELEASE && event.kind != Kind::Fail {
            grants.has_greatest = grants.has_greatest.filter(|has| *has != process);
        }
        for hold in completed.abandoned {
            self.holds.remove(&hold);
        }
        if let Some(granted) = completed.granted {
            let Granted { hold, claim, grant, .. } = *granted;
            if !is_over(grant.validity_ms) {
                grants.count(claim);
            }
            if let Some(token) = grant.token {
                let own_again =
                    invoked.greatest_token == Some(token) && invoked.has_greatest == Some(process);
                self.stale_tokens += u64::from(invoked.greatest_token >= Some(token) && !own_again);
                if grants.greatest_token < Some(token) {
                    (grants.greatest_token, grants.has_greatest) = (Some(token), Some(process));
                }
            }
            self.holds.insert(hold, CountedHold { grants: grants.against(claim), claim });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_index;
    use crate::properties::{FencingFigures, overlaps};
    use crate::run_index::RunIndex;
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
                        f::ACQUIRE if end % 11 == 1 => json!({"exclusive": false, "token": events.len()}),
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
            prop_assert_eq!(watch.overlaps, overlaps(&run).len() as u64);
            let verdict = check_index(&run);
            // What only the ledger orders, the watch does not see.
            let all = verdict.figures::<FencingFigures>().map_or(0, |figures| figures.not_greater);
            let fencing = verdict.of_checker("fencing").map_or(&[][..], |of| &of.findings);
            let by_order = fencing.iter().filter(|finding| finding.sentence.contains("began to acquire at"));
            prop_assert_eq!(watch.stale_tokens, by_order.count() as u64);
            prop_assert!(watch.stale_tokens <= all);
            prop_assert_eq!(watch.violations(), watch.overlaps + watch.stale_tokens);
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
        assert_eq!(watch.invoked.len() + watch.holds.len() + watch.tracker.kept(), 0);
    }
}
