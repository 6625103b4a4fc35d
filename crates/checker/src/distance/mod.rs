//! How close a run came to a violation: the distance between a grant and what an earlier holder still did. A
//! **handover** is a pair of holds of one key in which the earlier process had not begun to release when the
//! later one was granted the lock: a lease had run out, a session had ended, or a grant was forgotten. Grants
//! after a release are none: they follow within a millisecond in a healthy run, and say nothing. The distance
//! is the time from the earlier holder's last act to the grant:
//!
//! - by **belief**: from its last certain belief ([`Hold::until`]). It is negative exactly where both
//!   believed at the same time, which is a violation of mutual exclusion.
//! - by **write**: from the completion of the last write that the storage acknowledged. It is negative where
//!   the write was in flight at the grant, which proves nothing: the storage may have applied it before.
//!
//! Of all earlier holders of a grant, only the one that acted last counts. Processes that share the lock to
//! read have no distance to each other. Holds that exclude no process have none at all, nor has a grant that
//! its client called over as it learned of it, which mutual exclusion leaves out as well.

use crate::prose::{lock, milliseconds};
use crate::run_index::{Hold, HoldEnd, RunIndex};
use fencepost_history::f;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// From which act of the earlier holder a distance is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissKind {
    Belief,
    /// The completion of its last write that the storage acknowledged.
    Write,
}

/// A grant before which the earlier holder had not released, and the distance between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handover {
    pub kind: MissKind,
    /// Places in [`RunIndex::holds`].
    pub first: usize,
    pub second: usize,
    pub act: u64,
    /// From that act to the grant, in nanoseconds.
    pub distance_ns: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissEvent {
    pub index: u64,
    pub time_ns: u64,
    pub process: u64,
}

/// The handover of a run that came closest to a violation, or violated mutual exclusion most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearMiss {
    pub kind: MissKind,
    pub key: String,
    pub distance_ns: i64,
    pub earlier: MissEvent,
    /// The completion of the later acquire.
    pub grant: MissEvent,
}

impl NearMiss {
    /// What happened, as a clause: "process 7 was granted k0 84 ms after process 3 last acted as its holder".
    pub fn sentence(&self) -> String {
        let (later, earlier) = (self.grant.process, self.earlier.process);
        let key = lock(&self.key);
        let apart = milliseconds(self.distance_ns.unsigned_abs());
        let granted = format!("process {later} was granted {key} {apart}");
        match (self.kind, self.distance_ns < 0) {
            (MissKind::Belief, false) => {
                format!("{granted} after process {earlier} last acted as its holder")
            }
            (MissKind::Belief, true) => {
                format!("{granted} before process {earlier} last acted as its holder")
            }
            (MissKind::Write, false) => format!("{granted} after a write of process {earlier} was done"),
            (MissKind::Write, true) => {
                format!("{granted} before a write of process {earlier} was done, which had been sent earlier")
            }
        }
    }

    /// Orders near misses: a violation comes before any other, then the smaller distance.
    pub fn rank(&self) -> (bool, i64, u64) {
        rank(self.kind, self.distance_ns, self.grant.index)
    }
}

fn rank(kind: MissKind, distance_ns: i64, grant: u64) -> (bool, i64, u64) {
    (!(kind == MissKind::Belief && distance_ns < 0), distance_ns, grant)
}

/// The nearest miss of a run; none where every grant followed a release, or no key was granted twice.
pub fn nearest_miss(run: &RunIndex) -> Option<NearMiss> {
    let nearest = handovers(run)
        .into_iter()
        .min_by_key(|handover| rank(handover.kind, handover.distance_ns, run.holds[handover.second].from))?;
    let (first, second) = (&run.holds[nearest.first], &run.holds[nearest.second]);
    let event = |index: u64, process: u64| MissEvent {
        index,
        time_ns: run.event(index).map_or(0, |event| event.time),
        process,
    };
    Some(NearMiss {
        kind: nearest.kind,
        key: second.key.to_owned(),
        distance_ns: nearest.distance_ns,
        earlier: event(nearest.act, first.process),
        grant: event(second.from, second.process),
    })
}

/// All handovers of a run, in order of the grant; for each grant at most one of each kind.
pub fn handovers(run: &RunIndex) -> Vec<Handover> {
    let writes = last_writes(run);
    let belief = |at: usize| Some((run.holds[at].until, run.holds[at].until_ns));
    let mut handovers = by_act(run, MissKind::Belief, belief);
    handovers.extend(by_act(run, MissKind::Write, |at| writes[at]));
    handovers.sort_by_key(|handover| (handover.second, handover.kind));
    handovers
}

type ActMoment = (u64, u64);

fn last_writes(run: &RunIndex) -> Vec<Option<ActMoment>> {
    let mut writes = vec![None; run.holds.len()];
    let mut current: FxHashMap<(u64, &str), usize> = FxHashMap::default();
    let mut granted = 0;
    for operation in run.calls(f::WRITE) {
        while run.holds.get(granted).is_some_and(|hold| hold.from < operation.invoke.index) {
            current.insert((run.holds[granted].process, run.holds[granted].key), granted);
            granted += 1;
        }
        if let (Some(&at), Some(ok)) = (current.get(&(operation.process, operation.key)), operation.ok()) {
            writes[at] = Some((ok.index, ok.time));
        }
    }
    writes
}

struct Earlier {
    at: usize,
    act: ActMoment,
}

fn by_act(run: &RunIndex, kind: MissKind, act: impl Fn(usize) -> Option<ActMoment>) -> Vec<Handover> {
    // Of each key: the holds that a release ends, and of the others each process and claim's last to act.
    let mut keys: FxHashMap<&str, Vec<Earlier>> = FxHashMap::default();
    let mut found = Vec::new();
    for (second, hold) in run.excluding_holds().filter(|(_, hold)| !hold.was_over_at_once()) {
        let key = keys.entry(hold.key).or_default();
        key.retain(|earlier| !released_before(&run.holds[earlier.at], hold));
        let others = key.iter().filter(|earlier| {
            let earlier = &run.holds[earlier.at];
            earlier.process != hold.process && earlier.excludes(hold)
        });
        found.extend(others.max_by_key(|earlier| earlier.act).map(|last| Handover {
            kind,
            first: last.at,
            second,
            act: last.act.0,
            distance_ns: distance_ns(hold, last.act),
        }));
        if let Some(act) = act(second) {
            let is_outdone = |earlier: &Earlier| {
                let known = &run.holds[earlier.at];
                let is_same = known.process == hold.process && known.claim == hold.claim;
                is_same && known.ends.how != HoldEnd::Released && earlier.act <= act
            };
            if hold.ends.how != HoldEnd::Released {
                key.retain(|earlier| !is_outdone(earlier));
            }
            key.push(Earlier { at: second, act });
        }
    }
    found
}

fn released_before(earlier: &Hold, later: &Hold) -> bool {
    earlier.ends.how == HoldEnd::Released
        && earlier.ends.let_go_ns <= later.from_ns
        && earlier.until < later.from
}

/// The order of events is the order of time: of two with the same time, the later one is a nanosecond later.
fn distance_ns(grant: &Hold, act: ActMoment) -> i64 {
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    match grant.from_ns.checked_sub(act.1) {
        Some(0) if act.0 > grant.from => -1,
        Some(distance) => signed(distance),
        None => -signed(act.1 - grant.from_ns),
    }
}

#[cfg(test)]
mod tests;
