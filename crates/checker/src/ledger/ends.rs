//! How the grant of a hold can have ended for the service: each possible end with its interval and its cause.

use super::effects::{ServiceEffect, Setting};
use super::interval::{Bound, Interval, Reason};
use super::removals::removal;
use crate::belief::is_over;
use crate::run_index::parts::Hold;
use crate::tracker::HoldEnd;
use fencepost_history::{Lease, Millis};

/// What ended a grant, or may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Released,
    /// The release of another process removed it.
    Removed {
        by: u64,
    },
    RanOut,
    CutOff,
    /// The servers lost it: a clock was moved, a memory lost, a leader changed.
    Forgotten,
    ReportedLost,
    /// Its process is over, or acquired the lock again, and may have given it up.
    GivenUp,
}

impl Cause {
    /// For a table.
    pub fn in_words(self) -> String {
        match self {
            Cause::Released => "released".to_owned(),
            Cause::Removed { by } => format!("removed by process {by}"),
            Cause::RanOut => "lease ran out".to_owned(),
            Cause::CutOff => "session or connection ended".to_owned(),
            Cause::Forgotten => "lost by the servers".to_owned(),
            Cause::ReportedLost => "reported lost".to_owned(),
            Cause::GivenUp => "given up".to_owned(),
        }
    }
}

/// One way in which a grant can have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub cause: Cause,
    pub interval: Interval,
    pub events: Vec<u64>,
}

impl Hold<'_> {
    /// Until when its process claims the lock, as far as is known.
    pub fn end_earliest_ns(&self) -> u64 {
        self.ends.interval.earliest.ns
    }

    /// From when on it is known that its process does not have the lock.
    pub fn end_latest_ns(&self) -> u64 {
        self.ends.interval.latest.ns
    }

    /// The interval in which the lease can have run out, as far as was known at an event. A server starts
    /// counting when the request reaches it, which is no earlier than the grant can have been. Where the
    /// lease is older than the acquire (an etcd session), the service reports how long it is still valid;
    /// counted from the invocation, that too ends before the lease does.
    pub fn lease_at(&self, event: u64) -> Option<Interval> {
        let ttl = self.ttl_ns?;
        if self.lease == Lease::Session && self.validity_ms.is_none() && self.renewals.is_empty() {
            return None;
        }
        let validity = self.validity_ms.map_or(ttl, |ms| (ms.max(0.0) * 1e6) as u64);
        let asked_until = Bound::new(self.invoke_ns.saturating_add(ttl.min(validity)), Reason::LeaseOfGrant);
        let counted = self.ends.counted.filter(|_| self.lease == Lease::Ttl);
        let counted = counted.map(|from| Bound::new(from.ns.saturating_add(ttl), Reason::LeaseOfGrant));
        let first = counted.map_or(asked_until, |counted| asked_until.or_later(counted));
        let last = Bound::new(self.granted.latest.ns.saturating_add(ttl), Reason::LeaseOfAnswer);
        let mut ends = Interval::new(first, last);
        // A TTL that has run out, counted from its latest beginning, cannot be prolonged: what was asked for
        // later may have been granted anew. A session tells of itself.
        for &(_, asked) in self.renewals.iter().filter(|(index, _)| *index <= event) {
            if self.lease != Lease::Ttl || asked < ends.latest.ns {
                let until = Bound::new(asked.saturating_add(ttl), Reason::LeaseOfRenewal);
                ends = Interval::new(until, until.or_later(ends.latest));
            }
        }
        Some(ends)
    }

    /// Takes the account together, once the grant is dated.
    pub(crate) fn settle_ends(&mut self) {
        let lease = self.lease_at(u64::MAX);
        let over = self.ttl_ns.map(|ttl_ns| {
            let after = |ns: u64, why| Bound::new(ns.saturating_add(ttl_ns), why);
            let renewed = self.renewals.iter().map(|(_, asked_ns)| after(*asked_ns, Reason::LeaseOfRenewal));
            renewed.fold(after(self.from_ns, Reason::LeaseOfAnswer), Bound::or_later)
        });
        let is_kept = matches!(self.lease, Lease::Session | Lease::Connection);
        let by_process = self.ends_by_its_process();
        let earliest = match self.ends.how {
            HoldEnd::Open => {
                lease.map_or(by_process.latest, |lease| by_process.earliest.or_later(lease.earliest))
            }
            HoldEnd::Lost if is_kept => Bound::new(self.ends.given_back_ns, Reason::GivenBack),
            HoldEnd::Lost => by_process.latest,
            HoldEnd::Released | HoldEnd::Reacquired => by_process.earliest,
        };
        let may_go_on = over.filter(|_| self.ends.how == HoldEnd::Open);
        let latest = may_go_on.map_or(earliest, |over| earliest.or_later(over));
        (self.ends.lease, self.ends.over) = (lease, over);
        self.ends.interval = Interval::new(earliest, latest);
    }

    pub(crate) fn ends_by_its_process(&self) -> Interval {
        let open = Bound::new(u64::MAX, Reason::Open);
        let let_go = |why| Bound::new(self.ends.let_go_ns, why);
        match self.ends.how {
            HoldEnd::Released => Interval::new(let_go(Reason::ReleaseBegan), open),
            HoldEnd::Lost => {
                Interval::new(Bound::new(self.from_ns, Reason::Granted), let_go(Reason::LossReported))
            }
            HoldEnd::Reacquired => Interval::new(let_go(Reason::Reacquired), open),
            HoldEnd::Open => Interval::new(Bound::new(self.until_ns, Reason::LastSign), open),
        }
    }

    /// Whether its client learned of the grant when it was over (a validity of 0) and never believed in it.
    pub fn was_over_at_once(&self) -> bool {
        self.until == self.from && is_over(self.validity_ms.map(Millis))
    }

    /// Whether this hold is certainly of a later grant than another of its key.
    pub fn came_after(&self, other: &Hold) -> bool {
        self.granted.earliest.ns >= other.granted.latest.ns && self.from > other.from
    }
}

/// Every way in which a grant can have ended for the service until a moment, as known at the event `at`.
pub(crate) fn possible_ends(
    setting: &Setting,
    holds: &[Hold],
    hold: &Hold,
    (at, until_ns): (u64, u64),
) -> Vec<End> {
    let mut ends = Vec::new();
    let mut push = |cause, interval: Interval, events: Vec<u64>| {
        if interval.earliest.ns <= until_ns {
            ends.push(End { cause, interval, events });
        }
    };
    let cause = match hold.ends.how {
        HoldEnd::Released => Cause::Released,
        HoldEnd::Lost => Cause::ReportedLost,
        HoldEnd::Reacquired | HoldEnd::Open => Cause::GivenUp,
    };
    let release = setting.operations[hold.acquire + 1..].iter().find(|operation| {
        operation.process == hold.process
            && operation.invoke.time >= hold.ends.let_go_ns
            && operation.key == hold.key
    });
    let mut by_process = hold.ends_by_its_process();
    if let (Cause::Released, Some(done)) = (cause, release.and_then(|release| release.ok())) {
        by_process.latest = Bound::new(done.time, Reason::ReleaseEnded);
    }
    let events = release.filter(|_| cause == Cause::Released).map(|release| release.invoke.index);
    push(cause, by_process, events.into_iter().collect());
    if let Some(removal) = removal(setting, holds, hold, at) {
        let began = Bound::new(removal.invoke.time, Reason::ReleaseBegan);
        let ended = removal.completion.map_or(u64::MAX, |done| done.time);
        let interval = Interval::new(began, Bound::new(ended, Reason::ReleaseEnded));
        let events = std::iter::once(removal.invoke.index).chain(removal.completion.map(|done| done.index));
        push(Cause::Removed { by: removal.process }, interval, events.collect());
    }
    if let Some(interval) = hold.lease_at(at) {
        let renewed = hold.renewals.iter().rev().find(|(index, _)| *index <= at);
        push(Cause::RanOut, interval, renewed.map(|(index, _)| *index).into_iter().collect());
    }
    let of_fault = |why| match why {
        Reason::FaultBegan { id } | Reason::FaultHealing { id } => {
            setting.faults.iter().find(|fault| fault.id == id).map(|fault| fault.inject)
        }
        _ => None,
    };
    if let Some(cut) = hold.ends.cut {
        let interval = Interval::new(cut, Bound::new(u64::MAX, Reason::Open));
        push(Cause::CutOff, interval, of_fault(cut.why).into_iter().collect());
    }
    for (effect, interval) in setting.service_loses(hold, until_ns) {
        let fault = match effect {
            ServiceEffect::Fault(fault) => Some(fault.inject),
            ServiceEffect::Ended(..) | ServiceEffect::NewLeader { .. } => None,
        };
        push(Cause::Forgotten, interval, fault.into_iter().collect());
    }
    let by_new_leader = |later: &&Hold| later.key == hold.key && setting.new_leader(hold, later).is_some();
    let later = &holds[holds.partition_point(|other| other.from <= hold.from)..];
    if let Some(later) = later.iter().take_while(|later| later.from_ns <= until_ns).find(by_new_leader) {
        let granted = Bound::new(hold.granted.earliest.ns, Reason::Granted);
        let interval = Interval::new(granted, later.granted.latest.or_later(granted));
        push(Cause::Forgotten, interval, vec![later.from]);
    }
    ends
}
