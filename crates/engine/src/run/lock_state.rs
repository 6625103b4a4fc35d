//! The state of the lock, as the history shows it so far: who holds which key, since when, granted by which
//! servers, and who waits. An event costs a look-up or two; it is read when a fault is aimed at a role.

use fencepost_checker::tracker::{Change, Completed, Tracker};
use fencepost_history::{AcquireArguments, ErrorCode, Event, Millis, Name, OperationError, Process, f};
use fencepost_nemesis::Trigger;
use std::cmp::Reverse;
use std::collections::HashMap;

/// What an acquire said about the section that it begins, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Section {
    pub length_ms: Option<f64>,
    /// When it reads, after the grant; left out: at once.
    pub read_at_ms: Option<f64>,
    pub write_at_ms: Option<f64>,
}

impl Section {
    fn of(asked: &AcquireArguments) -> Section {
        let ms = |millis: Option<Millis>| millis.map(|Millis(ms)| ms);
        let (length_ms, read_at_ms) = (ms(asked.hold_ms), ms(asked.read_at_ms));
        Section { length_ms, read_at_ms, write_at_ms: ms(asked.write_at_ms) }
    }

    /// How long after an operation of it, or else after the grant, it writes.
    pub fn write_after_ms(&self, operation: &str) -> Option<f64> {
        let begun = if operation == f::READ { self.read_at_ms.unwrap_or(0.0) } else { 0.0 };
        Some(self.write_at_ms? - begun)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct KnownHold {
    pub process: u64,
    pub key: Name,
    /// When it was granted, in nanoseconds since the recording began.
    since_ns: u64,
    section: Section,
    pub granted_by: Vec<String>,
}

impl KnownHold {
    /// When its section ends; where its length is unknown, the least that is certain: its beginning.
    fn ends_ns(&self) -> u64 {
        self.since_ns
            .saturating_add(self.section.length_ms.map_or(0, |length_ms| (length_ms.max(0.0) * 1e6) as u64))
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Waiting {
    key: Name,
    since_ns: u64,
    timeout_ms: u64,
    section: Section,
}

#[derive(Debug, Default)]
pub struct LockState {
    tracker: Tracker<Name>,
    holds: HashMap<usize, KnownHold>,
    waiting: HashMap<u64, Waiting>,
}

impl LockState {
    /// Takes note of the next event. One that cannot follow those before changes nothing.
    pub fn push(&mut self, event: &Event) {
        let Process::Client(process) = event.process else { return };
        let key = event.key.clone().unwrap_or_default();
        for (key, change) in self.tracker.push_all(event, key, Name::from).into_iter().flatten() {
            self.change(process, key, event, change);
        }
    }

    fn change(&mut self, process: u64, key: Name, event: &Event, change: Change<Name>) {
        match change {
            Change::Invoked { ended, .. } if event.f == f::ACQUIRE => {
                if let Some((before, _)) = ended {
                    self.holds.remove(&before);
                }
                let asked = AcquireArguments::of(&event.value);
                let timeout_ms = asked.timeout_ms.map_or(0, |Millis(ms)| ms as u64);
                let section = Section::of(&asked);
                // Of a set, its first name.
                let waiting = Waiting { key, since_ns: event.time, timeout_ms, section };
                self.waiting.entry(process).or_insert(waiting);
            }
            Change::Completed(completed) => self.complete(process, event, completed),
            Change::Lost(Some(hold)) => drop(self.holds.remove(&hold)),
            _ => {}
        }
    }

    fn complete(&mut self, process: u64, event: &Event, completed: Completed<Name>) {
        let waited = self.waiting.remove(&process);
        let released = completed.under.filter(|_| event.f == f::RELEASE);
        for over in released.into_iter().chain(completed.abandoned) {
            self.holds.remove(&over);
        }
        if let Some(granted) = completed.granted {
            let section = waited.map(|waited| waited.section).unwrap_or_default();
            let names = granted.grant.granted_by.unwrap_or_default();
            let granted_by = names.into_iter().map(String::from).collect();
            let hold = KnownHold { process, key: completed.key, since_ns: event.time, section, granted_by };
            self.holds.insert(granted.hold, hold);
        }
        // Its program is over: it does nothing under the lock any more.
        if event.error.as_ref().map(OperationError::code) == Some(ErrorCode::ClientGone) {
            self.holds.retain(|_, hold| hold.process != process);
        }
    }

    /// Whether an event fits a trigger in every way but `times`. The event has been pushed just now.
    pub fn fits(&self, event: &Event, trigger: &Trigger, client_of: impl Fn(u64) -> String) -> bool {
        let key = event.key.as_deref().unwrap_or_default();
        let section = match event.process {
            Process::Client(process) => self.section(process, key),
            Process::Nemesis => Section::default(),
        };
        trigger.fits(event, client_of)
            && (!trigger.free || self.is_free(key))
            && trigger.fits_section(section.length_ms, section.write_after_ms(&event.f))
    }

    pub fn hold_of(&self, process: u64, key: &str) -> Option<&KnownHold> {
        let held = self.tracker.hold_of(process, key.into())?;
        self.holds.get(&held.hold)
    }

    /// Whether no process holds a key but those that are releasing it.
    fn is_free(&self, key: &str) -> bool {
        let mut of_key = self.holds.values().filter(|hold| hold.key == key);
        of_key.all(|hold| {
            let held = self.tracker.hold_of(hold.process, hold.key.clone());
            held.is_some_and(|held| held.is_releasing)
        })
    }

    fn section(&self, process: u64, key: &str) -> Section {
        let waiting = self.waiting.get(&process).filter(|waiting| waiting.key == key);
        let held = self.hold_of(process, key).map(|hold| hold.section);
        held.or(waiting.map(|waiting| waiting.section)).unwrap_or_default()
    }

    /// All holds, first the one whose section lasts longest; of unknown lengths the latest first.
    pub fn holds(&self) -> Vec<&KnownHold> {
        let mut holds: Vec<&KnownHold> = self.holds.values().collect();
        holds.sort_by_key(|hold| std::cmp::Reverse((hold.ends_ns(), hold.since_ns, hold.process)));
        holds
    }

    /// The processes with an acquire in flight: first those that wait longest before they give up, so that
    /// one that is stopped may still wait when it goes on; of these, the one that has waited longest.
    pub fn waiters(&self) -> Vec<u64> {
        let mut waiters: Vec<_> = self.waiting.iter().collect();
        waiters.sort_unstable_by_key(|(process, waiting)| {
            (Reverse(waiting.timeout_ms), waiting.since_ns, **process)
        });
        waiters.into_iter().map(|(process, _)| *process).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_history::Kind;
    use serde_json::{Value, json};

    /// Events of processes on keys, a millisecond apart.
    fn state(events: &[(u64, Kind, &str, &str, Value)]) -> LockState {
        let mut state = LockState::default();
        for (at, (process, kind, f, key, value)) in (1_u64..).zip(events) {
            let error = matches!(kind, Kind::Fail | Kind::Info)
                .then(|| value.as_str().map_or_else(|| "timeout: late".into(), Into::into));
            state.push(&Event {
                index: at,
                time: at * 1_000_000,
                process: Process::Client(*process),
                kind: *kind,
                f: (*f).into(),
                key: Some((*key).into()),
                value: value.clone().into(),
                error,
            });
        }
        state
    }

    fn holders(state: &LockState) -> Vec<u64> {
        state.holds().iter().map(|hold| hold.process).collect()
    }

    const NONE: Value = Value::Null;

    #[test]
    fn a_hold_lasts_from_its_grant_to_the_end_of_its_release() {
        let events = [
            (1, Kind::Invoke, f::ACQUIRE, "k0", json!({"hold_ms": 900})),
            (2, Kind::Invoke, f::ACQUIRE, "k0", NONE),
            (1, Kind::Ok, f::ACQUIRE, "k0", json!({"granted_by": ["n1", "n3"]})),
            (1, Kind::Invoke, f::RELEASE, "k0", NONE),
            (1, Kind::Ok, f::RELEASE, "k0", NONE),
        ];
        assert_eq!(state(&events[..2]).waiters(), [1, 2]);
        let held = state(&events[..4]);
        assert_eq!((holders(&held), held.waiters()), (vec![1], vec![2]));
        assert_eq!(held.holds()[0].granted_by, ["n1", "n3"]);
        let length_ms = |process| held.section(process, "k0").length_ms;
        assert_eq!((length_ms(1), length_ms(2)), (Some(900.0), None));
        assert_eq!(holders(&state(&events)), [0; 0]);
        let is_free = |until: usize| state(&events[..until]).is_free("k0");
        assert!(is_free(2) && !is_free(3) && state(&events[..3]).is_free("k1"));
        assert!(is_free(4), "it is being released");
    }

    #[test]
    fn a_waiter_that_does_not_give_up_soon_comes_first() {
        let begin = |process, timeout_ms: u64| {
            (process, Kind::Invoke, f::ACQUIRE, "k0", json!({"timeout_ms": timeout_ms}))
        };
        let waiting = state(&[begin(1, 2000), begin(2, 8000), begin(3, 8000), begin(4, 2000)]);
        assert_eq!(waiting.waiters(), [2, 3, 1, 4]);
    }

    #[test]
    fn the_hold_that_goes_on_longest_comes_first() {
        let grant = |process, key, hold_ms: Value| {
            [
                (process, Kind::Invoke, f::ACQUIRE, key, json!({"hold_ms": hold_ms})),
                (process, Kind::Ok, f::ACQUIRE, key, NONE),
            ]
        };
        let long = [grant(1, "k0", json!(500)), grant(2, "k1", json!(100)), grant(3, "k2", NONE)].concat();
        assert_eq!(holders(&state(&long)), [1, 2, 3]);
        let unknown = [grant(1, "k0", NONE), grant(2, "k1", NONE)].concat();
        assert_eq!(holders(&state(&unknown)), [2, 1]);
    }

    #[test]
    fn a_hold_is_over_when_its_process_can_do_nothing_more() {
        let granted = [(1, Kind::Invoke, f::ACQUIRE, "k0", NONE), (1, Kind::Ok, f::ACQUIRE, "k0", NONE)];
        let after = |kind, f, value: Value| {
            let mut events = granted.to_vec();
            events.push((1, Kind::Invoke, f, "k0", NONE));
            events.push((1, kind, f, "k0", value));
            holders(&state(&events))
        };
        assert_eq!(after(Kind::Info, f::WRITE, NONE), [0; 0]);
        assert_eq!(after(Kind::Fail, f::RELEASE, NONE), [0; 0]);
        assert_eq!(after(Kind::Fail, f::WRITE, json!("client-gone: c1 has ended")), [0; 0]);
        assert_eq!(after(Kind::Fail, f::WRITE, json!("rejected: 1")), [1]);
        let mut lost = granted.to_vec();
        lost.push((1, Kind::Info, f::LOST, "k0", NONE));
        assert_eq!(holders(&state(&lost)), [0; 0]);
    }
}
