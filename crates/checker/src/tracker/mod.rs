//! Who holds which key, event by event: the one place that says when a hold begins and ends, and what shows
//! belief in it. The index after a run ([`RunIndex`](crate::RunIndex)), the watch during it
//! ([`Watch`](crate::Watch)) and the aims of its faults all stand on this. It pairs each completion with its
//! invocation, and says of each event what it changes. It knows nothing of time: the order of events is
//! enough. Operations and holds are numbered in the order in which they begin. An event costs a few look-ups
//! in hash maps; memory is one entry for each process and key in use, since a process is forgotten with its
//! first indeterminate operation: its number is never used again.

use crate::belief::{denies_belief, is_notice, shows_belief};
use crate::claim::Claim;
use fencepost_history::{AcquireArguments, Event, Grant, Kind, Name, Process, f, once};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

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

fencepost_history::worded! {
    /// Why an event cannot follow those before it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Impossible {
        /// The process has an operation open already.
        SecondOperation = "already has an operation open",
        NeverInvoked = "completes what it never invoked",
        /// The one that is open has another name, or another key.
        OtherOperation = "completes another operation than it invoked",
    }
    /// What is wrong, in words that follow the number of the process.
    pub fn in_words;
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

#[derive(Clone, Debug, PartialEq)]
pub enum Change<K> {
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

/// What an event changes on each of its keys: that of the event first.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes<K> {
    first: (K, Change<K>),
    others: Vec<(K, Change<K>)>,
}

impl<K> IntoIterator for Changes<K> {
    type Item = (K, Change<K>);
    type IntoIter = std::iter::Chain<std::iter::Once<Self::Item>, std::vec::IntoIter<Self::Item>>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self.first).chain(self.others)
    }
}

/// Follows the events of clients, in order. Keys are of any type, such as borrowed texts.
#[derive(Debug)]
pub struct Tracker<K> {
    operations: usize,
    grants: usize,
    open: FxHashMap<u64, Open<K>>,
    /// The same operation on the other names of a set.
    on_others: FxHashMap<u64, Vec<Open<K>>>,
    held: FxHashMap<(u64, K), Held>,
    /// The holds that were reported lost, until their processes have let go of the key.
    lost: FxHashMap<(u64, K), usize>,
}

impl<K> Default for Tracker<K> {
    fn default() -> Tracker<K> {
        let (open, on_others) = (FxHashMap::default(), FxHashMap::default());
        let (held, lost) = (FxHashMap::default(), FxHashMap::default());
        Tracker { operations: 0, grants: 0, open, on_others, held, lost }
    }
}

impl<K: Clone + Eq + Hash> Tracker<K> {
    /// Takes note of the next event on all its keys: one operation on each name, once. `key`: its own;
    /// `named` makes one of another name. An error, without a change, if it cannot follow.
    pub fn push_all<'e>(
        &mut self,
        event: &'e Event,
        key: K,
        named: impl Fn(&'e str) -> K,
    ) -> Result<Changes<K>, Impossible> {
        let first = self.push(event, key.clone())?;
        let Process::Client(process) = event.process else {
            return Ok(Changes { first: (key, first), others: Vec::new() });
        };
        let others = match &first {
            Change::Invoked { .. } => {
                let names = once(other_names(event).map(named).filter(|name| *name != key));
                let begun: Vec<_> = names.into_iter().map(|name| self.begin(process, event, name)).collect();
                let (changes, open): (Vec<_>, Vec<_>) = begun.into_iter().unzip();
                if !open.is_empty() {
                    self.on_others.insert(process, open);
                }
                changes
            }
            Change::Completed(_) if !self.on_others.is_empty() => {
                let open = self.on_others.remove(&process).unwrap_or_default();
                let end =
                    |open: Open<K>| (open.key.clone(), Change::Completed(self.end(process, event, open)));
                open.into_iter().map(end).collect()
            }
            _ => Vec::new(),
        };
        Ok(Changes { first: (key, first), others })
    }

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
        let others =
            self.on_others.iter().flat_map(|(process, open)| open.iter().map(|open| (*process, open)));
        self.open.iter().map(|(process, open)| (*process, open)).chain(others)
    }

    pub fn open_of(&self, process: u64) -> Option<&Open<K>> {
        self.open.get(&process)
    }

    pub fn hold_of(&self, process: u64, key: K) -> Option<&Held> {
        self.held.get(&(process, key))
    }

    /// The holds that were reported lost, and that their processes may have kept until now.
    pub fn lost(&self) -> impl Iterator<Item = usize> {
        self.lost.values().copied()
    }

    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.open.len() + self.on_others.len() + self.held.len() + self.lost.len()
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
        if self.open.contains_key(&process) {
            return Err(Impossible::SecondOperation);
        }
        let ((_, change), open) = self.begin(process, event, key);
        self.open.insert(process, open);
        Ok(change)
    }

    fn begin(&mut self, process: u64, event: &Event, key: K) -> ((K, Change<K>), Open<K>) {
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
        let key = owner.1.clone();
        let open = Open { operation, key: owner.1, under, f: event.f.clone(), denied, claim };
        ((key, Change::Invoked { operation, under, ended }), open)
    }

    fn complete(&mut self, process: u64, event: &Event, key: K) -> Result<Change<K>, Impossible> {
        let Entry::Occupied(open) = self.open.entry(process) else { return Err(Impossible::NeverInvoked) };
        if open.get().f != event.f || event.key.is_some() && key != open.get().key {
            return Err(Impossible::OtherOperation);
        }
        let open = open.remove();
        Ok(Change::Completed(self.end(process, event, open)))
    }

    fn end(&mut self, process: u64, event: &Event, open: Open<K>) -> Completed<K> {
        let Open { operation, key, under, denied, claim, .. } = open;
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
        Completed { operation, key: owner.1, under, belief, granted, let_go, abandoned }
    }
}

fn other_names(event: &Event) -> impl Iterator<Item = &str> {
    let has = event.f == f::ACQUIRE || event.f == f::RELEASE;
    let also = has.then(|| event.value.get("also")?.as_array()).flatten();
    also.into_iter().flatten().filter_map(serde_json::Value::as_str)
}

#[cfg(test)]
mod tests;
