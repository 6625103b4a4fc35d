//! Who holds which key, event by event: the one place that says when a hold begins and ends, and what shows
//! belief in it. The index after a run ([`RunIndex`](crate::RunIndex)), the watch during it
//! ([`Watch`](crate::Watch)) and the aims of its faults all stand on this. It pairs each completion with its
//! invocation, and says of each event what it changes. It knows nothing of time: the order of events is
//! enough. Operations and holds are numbered in the order in which they begin. An event costs a few look-ups
//! in hash maps; memory is one entry for each process and key in use, since a process is forgotten with its
//! first indeterminate operation: its number is never used again.

use crate::belief::{denies_belief, is_notice, shows_belief};
use crate::claim::Claim;
use fencepost_history::{AcquireArguments, Event, Grant, Kind, Name, Process, f};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    Released,
    /// Its library reported that the lock was lost.
    Lost,
    /// The process acquired the key once more without releasing it.
    Reacquired,
    /// Neither: the history ends, or the process did.
    Open,
}

/// Why an event cannot follow those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// The process has an operation open already.
    SecondOperation,
    NeverInvoked,
    /// The one that is open has another name, or another key.
    OtherOperation,
}

/// An operation that has not completed.
#[derive(Clone, Debug)]
pub struct Open<K> {
    pub operation: usize,
    pub key: K,
    /// The hold under which it was invoked, if any; a release and an acquire end it.
    pub under: Option<usize>,
    pub f: Name,
    /// Its process had said that it no longer believes in that hold.
    denied: bool,
    claim: Claim,
}

/// A hold that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub hold: usize,
    pub is_releasing: bool,
    denied: bool,
}

/// What an event changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<K> {
    /// Nothing that concerns holds.
    Nothing,
    Invoked {
        operation: usize,
        under: Option<usize>,
        /// The hold that ends here, for those who ask when its process began to let go of it.
        ended: Option<(usize, HoldEnd)>,
    },
    Completed(Completed<K>),
    /// The library reported a lock as lost; none where its process did not hold it.
    Lost(Option<usize>),
    /// A lease was renewed; none where its process does not hold the lock yet.
    Renewed(Option<usize>),
}

/// What a completion changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Completed<K> {
    pub operation: usize,
    pub key: K,
    pub under: Option<usize>,
    pub belief: Belief,
    pub granted: Option<Box<Granted>>,
    /// The holds that were reported lost, and that the process can have kept no longer than until now.
    pub let_go: Vec<usize>,
    /// The holds of a process that is over, since its operation was indeterminate.
    pub abandoned: Vec<usize>,
}

/// A hold that begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Granted {
    pub hold: usize,
    pub claim: Claim,
    pub grant: Grant,
}

/// What a completion says of its process's belief in the hold under which the operation was invoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belief {
    /// It believed as it invoked the operation.
    Shown,
    /// It believed no more as it answered.
    Denied,
    Unknown,
}

/// Follows the events of clients, in order. Keys are of any type, such as borrowed texts.
#[derive(Debug)]
pub struct Tracker<K> {
    operations: usize,
    grants: usize,
    open: FxHashMap<u64, Open<K>>,
    held: FxHashMap<(u64, K), Held>,
    /// The holds that were reported lost, until their processes have let go of the key.
    lost: FxHashMap<(u64, K), usize>,
}

impl<K> Default for Tracker<K> {
    fn default() -> Tracker<K> {
        let (open, held, lost) = (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        Tracker { operations: 0, grants: 0, open, held, lost }
    }
}

impl Impossible {
    /// What is wrong, in words that follow the number of the process.
    pub fn in_words(self) -> &'static str {
        match self {
            Impossible::SecondOperation => "already has an operation open",
            Impossible::NeverInvoked => "completes what it never invoked",
            Impossible::OtherOperation => "completes another operation than it invoked",
        }
    }
}

impl<K: Clone + Eq + Hash> Tracker<K> {
    /// Takes note of the next event; `key` is its key. An error, without a change, if it cannot follow.
    pub fn push(&mut self, event: &Event, key: K) -> Result<Change<K>, Impossible> {
        let Process::Client(process) = event.process else { return Ok(Change::Nothing) };
        if is_notice(event) {
            return Ok(self.notice(process, event, key));
        }
        match event.kind {
            Kind::Invoke => self.invoke(process, event, key),
            _ => self.complete(process, event, key),
        }
    }

    /// The holds that are not over, by process and key, in no order.
    pub fn held(&self) -> impl Iterator<Item = (&(u64, K), &Held)> {
        self.held.iter()
    }

    /// The operations that have not completed, by process, in no order.
    pub fn open(&self) -> impl Iterator<Item = (u64, &Open<K>)> {
        self.open.iter().map(|(process, open)| (*process, open))
    }

    /// The operation that a process has open.
    pub fn open_of(&self, process: u64) -> Option<&Open<K>> {
        self.open.get(&process)
    }

    /// The hold of a process on a key.
    pub fn hold_of(&self, process: u64, key: K) -> Option<&Held> {
        self.held.get(&(process, key))
    }

    /// The holds that were reported lost, and that their processes may have kept until now.
    pub fn lost(&self) -> impl Iterator<Item = usize> {
        self.lost.values().copied()
    }

    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.open.len() + self.held.len() + self.lost.len()
    }

    fn notice(&mut self, process: u64, event: &Event, key: K) -> Change<K> {
        let owner = (process, key);
        let held = self.held.get(&owner).filter(|held| !held.is_releasing).map(|held| held.hold);
        match &*event.f {
            f::LOST => {
                if let Some(hold) = held {
                    self.held.remove(&owner);
                    self.lost.insert(owner, hold);
                }
                Change::Lost(held)
            }
            f::RENEWED => Change::Renewed(held),
            _ => Change::Nothing,
        }
    }

    fn invoke(&mut self, process: u64, event: &Event, key: K) -> Result<Change<K>, Impossible> {
        let Entry::Vacant(vacant) = self.open.entry(process) else {
            return Err(Impossible::SecondOperation);
        };
        let (is_acquire, is_release) = (event.f == f::ACQUIRE, event.f == f::RELEASE);
        let owner = (process, key);
        let held = self.held.get(&owner).copied();
        let (under, denied) = (held.map(|held| held.hold), held.is_some_and(|held| held.denied));
        let ended = under.and_then(|hold| match (is_acquire, is_release) {
            (true, _) => Some((hold, HoldEnd::Reacquired)),
            (_, true) => Some((hold, HoldEnd::Released)),
            _ => None,
        });
        match ended {
            Some((_, HoldEnd::Reacquired)) => drop(self.held.remove(&owner)),
            Some(_) => {
                if let Some(held) = self.held.get_mut(&owner) {
                    held.is_releasing = true;
                }
            }
            None => {}
        }
        let operation = self.operations;
        self.operations += 1;
        let claim = match is_acquire {
            true => Claim::asked(&AcquireArguments::of(&event.value)),
            false => Claim::NOTHING,
        };
        vacant.insert(Open { operation, key: owner.1, under, f: event.f.clone(), denied, claim });
        Ok(Change::Invoked { operation, under, ended })
    }

    fn complete(&mut self, process: u64, event: &Event, key: K) -> Result<Change<K>, Impossible> {
        let Entry::Occupied(open) = self.open.entry(process) else { return Err(Impossible::NeverInvoked) };
        if open.get().f != event.f || event.key.is_some() && key != open.get().key {
            return Err(Impossible::OtherOperation);
        }
        let Open { operation, key, under, denied, claim, .. } = open.remove();
        let (is_acquire, is_release) = (event.f == f::ACQUIRE, event.f == f::RELEASE);
        let owner = (process, key);
        let denies = denies_belief(&event.f, event);
        let belief = match under {
            None => Belief::Unknown,
            Some(_) if denies || denied => Belief::Denied,
            Some(_) if shows_belief(&event.f, event) => Belief::Shown,
            Some(_) => Belief::Unknown,
        };
        if denies && let Some(held) = self.held.get_mut(&owner) {
            held.denied = true;
        }
        let (mut let_go, mut abandoned) = (Vec::new(), Vec::new());
        if (is_acquire || is_release) && !self.lost.is_empty() {
            let_go.extend(self.lost.remove(&owner));
        }
        if is_release {
            self.held.remove(&owner);
        }
        if event.kind == Kind::Info {
            let of_process = |(of, _): &(u64, K)| *of == process;
            abandoned.extend(self.held.extract_if(|owner, _| of_process(owner)).map(|(_, held)| held.hold));
            let_go.extend(self.lost.extract_if(|owner, _| of_process(owner)).map(|(_, hold)| hold));
        }
        let is_granted = is_acquire && event.kind == Kind::Ok;
        let granted = is_granted.then(|| {
            let grant = Grant::of(&event.value);
            let hold = self.grants;
            self.grants += 1;
            self.held.insert(owner.clone(), Held { hold, is_releasing: false, denied: false });
            Box::new(Granted { hold, claim: claim.granted(&grant), grant })
        });
        Ok(Change::Completed(Completed {
            operation,
            key: owner.1,
            under,
            belief,
            granted,
            let_go,
            abandoned,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// A history in words, one event each: `1 acquire>` is an invocation, `1 acquire+`, `-` and `?` are its
    /// ends, `1 lost!` a notice. A word behind it is the value, in JSON.
    fn events(text: &str) -> Vec<Event> {
        let event = |line: &str| {
            let mut words = line.split_whitespace();
            let process = words.next().and_then(|word| word.parse().ok()).expect("a process");
            let (f, end) = words.next().map(|word| word.split_at(word.len() - 1)).expect("an operation");
            let kind = match end {
                ">" => Kind::Invoke,
                "+" => Kind::Ok,
                "-" => Kind::Fail,
                _ => Kind::Info,
            };
            let value: Value =
                words.next().map_or(Value::Null, |json| serde_json::from_str(json).expect("JSON"));
            let (process, f) = (Process::Client(process), f.into());
            Event { index: 0, time: 0, process, kind, f, key: None, value: value.into(), error: None }
        };
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(event).collect()
    }

    fn changes(text: &str) -> Vec<Change<&'static str>> {
        let mut tracker = Tracker::default();
        events(text).iter().map(|event| tracker.push(event, "k").expect("it can follow")).collect()
    }

    fn completed<'c>(change: &'c Change<&'static str>) -> &'c Completed<&'static str> {
        match change {
            Change::Completed(completed) => completed,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_hold_begins_with_its_grant_and_ends_as_its_process_begins_to_release() {
        let changes = changes("1 acquire>\n1 acquire+\n1 write>\n1 write+\n1 release>\n1 release+");
        let granted = completed(&changes[1]).granted.as_ref().map(|granted| (granted.hold, granted.claim));
        assert_eq!(granted, Some((0, Claim::EXCLUSIVE)));
        assert_eq!((completed(&changes[3]).under, completed(&changes[3]).belief), (Some(0), Belief::Shown));
        let ended = Some((0, HoldEnd::Released));
        assert_eq!(changes[4], Change::Invoked { operation: 2, under: Some(0), ended });
        assert_eq!(completed(&changes[5]).belief, Belief::Unknown);
    }

    #[test]
    fn a_process_that_acquires_again_ends_its_hold_and_one_that_is_over_leaves_it() {
        let again = changes("1 acquire>\n1 acquire+\n1 acquire>\n1 acquire+\n1 write>\n1 write?");
        assert_eq!(
            again[2],
            Change::Invoked { operation: 1, under: Some(0), ended: Some((0, HoldEnd::Reacquired)) }
        );
        assert_eq!(
            (completed(&again[5]).belief, &completed(&again[5]).abandoned[..]),
            (Belief::Unknown, &[1][..])
        );
    }

    #[test]
    fn belief_once_denied_is_not_shown_again() {
        let said = changes("1 acquire>\n1 acquire+\n1 holds>\n1 holds+ false\n1 write>\n1 write+");
        assert_eq!([3, 5].map(|at| completed(&said[at]).belief), [Belief::Denied; 2]);
    }

    #[test]
    fn a_lock_that_was_reported_lost_may_be_kept_until_its_process_lets_go() {
        let lost = changes(
            "1 acquire>\n1 acquire+\n1 write>\n1 lost!\n1 write+\n1 renewed!\n1 release>\n1 release-",
        );
        assert_eq!((&lost[3], &lost[5]), (&Change::Lost(Some(0)), &Change::Renewed(None)));
        assert_eq!(completed(&lost[4]).belief, Belief::Shown);
        assert_eq!(lost[6], Change::Invoked { operation: 2, under: None, ended: None });
        assert_eq!(completed(&lost[7]).let_go, [0]);
        let over = changes("1 acquire>\n1 acquire+\n1 lost!\n1 read>\n1 read?");
        assert_eq!(completed(&over[4]).let_go, [0]);
    }

    #[test]
    fn what_cannot_follow_is_refused_and_changes_nothing() {
        let mut tracker = Tracker::default();
        let mut push = |text: &str| tracker.push(&events(text)[0], "k").err();
        assert_eq!(push("1 acquire+"), Some(Impossible::NeverInvoked));
        assert_eq!(push("1 acquire>"), None);
        assert_eq!(push("1 write>"), Some(Impossible::SecondOperation));
        assert_eq!(push("1 write+"), Some(Impossible::OtherOperation));
        assert_eq!(push("1 acquire+"), None);
        assert_eq!(tracker.kept(), 1);
    }

    #[test]
    fn nothing_of_a_process_that_is_over_is_kept() {
        let mut tracker = Tracker::default();
        for event in events("1 acquire>\n1 acquire+\n1 lost!\n1 read>\n1 read?\n2 acquire>\n2 acquire?") {
            tracker.push(&event, "k").expect("it can follow");
        }
        assert_eq!(tracker.kept(), 0, "{tracker:?}");
    }
}
