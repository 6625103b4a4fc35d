//! What a run index holds: operations, holds, faults and phases.

use crate::belief::is_over;
use crate::claim::Claim;
use crate::tracker::HoldEnd;
use fencepost_history::{
    AcquireArguments, ErrorCode, Event, FaultDescription, Kind, Lease, Millis, Name, Released, f,
};
use serde_json::Value;

/// An invocation with its completion.
pub struct Operation<'a> {
    pub process: u64,
    pub key: &'a str,
    pub invoke: &'a Event,
    /// None: it never completed, which says as little as `info`.
    pub completion: Option<&'a Event>,
}

impl<'a> Operation<'a> {
    /// The operation's name.
    pub fn f(&self) -> &'a str {
        &self.invoke.f
    }

    /// The time that an acquire was given; none where the history does not say.
    pub fn timeout_ns(&self) -> Option<u64> {
        self.asked().timeout_ms.map(Millis::to_ns)
    }

    /// How long the lock that is asked for is to be held; none where the history does not say.
    pub fn asked_to_hold_ns(&self) -> Option<u64> {
        self.asked().hold_ms.map(Millis::to_ns)
    }

    /// What an acquire asked for.
    pub fn asked(&self) -> AcquireArguments {
        AcquireArguments::of(&self.invoke.value)
    }

    /// Whether it is a release whose answer says that it removed the lock of this process, or a lock at all.
    pub fn says_it_removed(&self, of: u64) -> bool {
        let says = |done: &Event| {
            let Released { removed, removed_owner, .. } = Released::of(&done.value);
            removed == Some(true) || removed_owner == Some(Some(of))
        };
        self.f() == f::RELEASE && self.ok().is_some_and(says)
    }

    /// The completion, if it is `ok`.
    pub fn ok(&self) -> Option<&'a Event> {
        self.completion.filter(|event| event.kind == Kind::Ok)
    }

    /// Whether it certainly did not happen. A lock library that said no after tries of its own may have taken
    /// the lock.
    pub fn did_not_happen(&self) -> bool {
        let code = |event: &Event| event.error.as_ref().map(fencepost_history::OperationError::code);
        self.completion.is_some_and(|event| {
            event.kind == Kind::Fail
                && !(self.f() == f::ACQUIRE && code(event) == Some(ErrorCode::RefusedByLibrary))
        })
    }
}

/// One successful acquire, and how long its process is known to have believed in it.
///
/// A hold begins at the completion of the acquire. It lasts, for certain, up to the invocation of the
/// process's latest operation that shows belief (see `shows_belief`). `from` and `until` are indices of
/// events, and the order of events is the order of time; the nanoseconds are for people.
#[derive(Debug)]
pub struct Hold<'a> {
    pub process: u64,
    pub key: &'a str,
    /// Its place in [`RunIndex::operations`](super::RunIndex::operations).
    pub acquire: usize,
    pub invoke_ns: u64,
    /// Index of the event that completed the acquire.
    pub from: u64,
    pub from_ns: u64,
    /// Index of the invocation that last showed belief; `from` where none did.
    pub until: u64,
    pub until_ns: u64,
    /// When the process stopped to claim the lock, or the history stopped.
    pub end_ns: u64,
    pub end: HoldEnd,
    /// Of a lock that was reported lost: until when its session may have kept it all the same, at the latest:
    /// until its process released or acquired the key again, or was over.
    pub kept_until_ns: u64,
    /// How long the lock was granted for, if its end is a matter of time.
    pub ttl_ns: Option<u64>,
    /// What ends the grant if its process does not release it.
    pub lease: Lease,
    /// Of a grant that ends with a session or a connection: from when on a fault may have ended that. None
    /// where no fault did.
    pub cut_ns: Option<u64>,
    /// Which other holds of the key may stand beside it.
    pub claim: Claim,
    /// Of each notice that the lease was prolonged: its index, and the time at which that was asked for.
    pub renewals: Vec<(u64, u64)>,
    pub token: Option<i64>,
    pub validity_ms: Option<f64>,
    /// How long its acquire had gone on when its client looked at the validity, by the client's own clock.
    pub waited_ns: Option<u64>,
    /// The earliest time at which the granted attempt can have begun, of an acquire that waited: as the
    /// library's validity says it, where no fault had moved the clock of its client by then, and none held
    /// its answer back (or, of a client that says when it looked at its clock, none stopped it).
    pub attempt_ns: Option<u64>,
    /// The servers that granted it, where the lock names them.
    pub granted_by: Vec<Name>,
}

/// How long the answer to an acquire may be under way from the moment at which the library looked at its
/// clock.
const ANSWER_NS: u64 = 500_000_000;

/// How far two looks of a client at its clock may be apart that stand for one: at the validity, and at how
/// long it has waited. Nothing but a busy machine comes between.
const LOOK_NS: u64 = 50_000_000;

impl Hold<'_> {
    /// When the lease ends in true time, as far as could be known at the event `at`: the TTL counted from the
    /// invocation of the acquire or the last renewal reported before. None without a TTL, and of a session
    /// whose client reports neither validity nor renewals: how long ago it was last prolonged is then
    /// unknown.
    ///
    /// A lock server starts counting when the request reaches it, which is after the invocation. So the lease
    /// really lasts at least until then, and a process that is granted the lock before was granted it too
    /// early. Where the lease is older than the acquire (an etcd session), the service reports how long it is
    /// still valid; counted from the invocation, that too ends before the lease does. Of an acquire that
    /// waited for a lease of its own, the lease began with the attempt that was granted
    /// ([`Hold::attempt_ns`]), less the time that an answer may be under way on a busy machine, or where the
    /// client says how long it has waited, less the time that may lie between its two looks at its clock.
    pub fn expires_ns(&self, at: u64) -> Option<u64> {
        let ttl = self.ttl_ns?;
        if self.lease == Lease::Session && self.validity_ms.is_none() && self.renewals.is_empty() {
            return None;
        }
        let (asked_until, attempt_until) = self.ends_of_the_grant(ttl);
        let granted_until = attempt_until.map_or(asked_until, |until| until.max(asked_until));
        // A TTL that has run out, counted from its latest beginning, cannot be prolonged: what was asked for
        // later may have been granted anew. A session tells of itself.
        let mut ends = (granted_until, self.from_ns.saturating_add(ttl));
        for &(_, asked) in self.renewals.iter().filter(|(index, _)| *index <= at) {
            if self.lease != Lease::Ttl || asked < ends.1 {
                ends = (asked.saturating_add(ttl), asked.saturating_add(ttl).max(ends.1));
            }
        }
        Some(ends.0)
    }

    /// When the lease of the grant ends, before any renewal, as far as could be known: counted from the
    /// invocation; and of an acquire that waited, from the attempt that was granted, as the library's own
    /// word says it.
    fn ends_of_the_grant(&self, ttl: u64) -> (u64, Option<u64>) {
        let validity = self.validity_ms.map_or(ttl, |ms| (ms.max(0.0) * 1e6) as u64);
        let attempt_until =
            self.attempt_ns.map(|began_ns| began_ns.saturating_sub(self.doubt_ns()).saturating_add(ttl));
        (self.invoke_ns.saturating_add(ttl.min(validity)), attempt_until)
    }

    /// After this moment, for certain, the attempt began that was granted: the invocation, or where the
    /// library's validity dates the attempt, less the doubt that is in it.
    pub fn granted_after_ns(&self) -> u64 {
        let attempt_ns = self.attempt_ns.map(|began_ns| began_ns.saturating_sub(self.doubt_ns()));
        attempt_ns.map_or(self.invoke_ns, |began_ns| began_ns.max(self.invoke_ns))
    }

    /// By how much the attempt may have begun earlier than its validity says.
    fn doubt_ns(&self) -> u64 {
        if self.waited_ns.is_some() { LOOK_NS } else { ANSWER_NS }
    }

    /// Whether it is the library's own word by which the lease still runs at this time.
    pub fn runs_by_its_librarys_word(&self, at_ns: u64) -> bool {
        let ends = self.ttl_ns.map(|ttl| self.ends_of_the_grant(ttl));
        self.renewals.is_empty()
            && ends.is_some_and(|(asked, attempt)| asked <= at_ns && attempt > Some(at_ns))
    }

    /// Whether its client learned of the grant only when it was over, and showed no belief in it: it said so
    /// itself, by a validity of 0.
    pub fn was_over_at_once(&self) -> bool {
        self.until == self.from && is_over(self.validity_ms.map(Millis))
    }

    /// Whether this hold is known to have come after another of its key: it was asked for once the other had
    /// been granted; of two that were asked for together, it has the greater token, or was granted later.
    pub fn came_after(&self, other: &Hold, operations: &[Operation]) -> bool {
        if self.began_after(other, operations) || other.began_after(self, operations) {
            return self.began_after(other, operations);
        }
        if let (Some(own), Some(token)) = (self.token, other.token)
            && own != token
        {
            return own > token;
        }
        match (self.known_from(), other.known_from()) {
            (Some(own), Some(others)) => own > others,
            _ => false,
        }
    }

    /// Whether it was asked for once the other had been granted, or its granted attempt began once the other
    /// was being released.
    pub fn began_after(&self, other: &Hold, operations: &[Operation]) -> bool {
        let is_released = other.end == HoldEnd::Released;
        operations[self.acquire].invoke.index > other.from
            || (is_released && self.attempt_ns.is_some_and(|began_ns| began_ns > other.end_ns))
    }

    /// Since when the lock is known to have been this process's. Of a grant that was over when its answer
    /// came, as far as its client could tell, it is not known, but for one that was renewed afterwards: that
    /// was waited for longer than its TTL, and lived.
    fn known_from(&self) -> Option<u64> {
        let lived = || self.renewals.iter().any(|(index, _)| *index > self.from);
        (!is_over(self.validity_ms.map(Millis)) || lived()).then_some(self.from)
    }

    /// The earliest time at which the attempt that was granted can have begun, by the library's own word: it
    /// counts the validity from there. None where the library says nothing. The whole TTL, which no attempt
    /// leaves, is a library's word only where it also says when it looked at its clock; from older clients it
    /// may be the TTL that was asked for. A clock that a fault moved makes it wrong: see
    /// [`Hold::attempt_ns`].
    pub(super) fn attempt_by_validity_ns(&self) -> Option<u64> {
        let (ttl_ns, validity_ms) = (self.ttl_ns?, self.validity_ms?);
        let validity_ns = (validity_ms.max(0.0) * 1e6) as u64;
        let is_whole = validity_ns == ttl_ns && self.waited_ns.is_some();
        let is_said = self.lease == Lease::Ttl && 0 < validity_ns && (validity_ns < ttl_ns || is_whole);
        // The answer comes some time after the look; a client that says how long it has waited says when that
        // was.
        let looked_ns = match self.waited_ns {
            Some(waited_ns) => self.invoke_ns.saturating_add(waited_ns).min(self.from_ns),
            None => self.from_ns,
        };
        is_said.then(|| looked_ns.saturating_sub(ttl_ns - validity_ns).max(self.invoke_ns))
    }

    /// Until when the lock was taken for its process, as far as is known: as long as it claimed the lock, and
    /// of a session or a connection that was reported lost as long as it may have gone on. Where the end is
    /// not known: until the lease ran out, if it does.
    pub fn claimed_until_ns(&self) -> u64 {
        match self.end {
            HoldEnd::Open => self.expires_ns(u64::MAX).map_or(u64::MAX, |expires| expires.max(self.until_ns)),
            HoldEnd::Lost if matches!(self.lease, Lease::Session | Lease::Connection) => self.kept_until_ns,
            _ => self.end_ns,
        }
    }

    /// As [`Hold::claimed_until_ns`], at the latest: of a hold whose end is not known, the lease counted from
    /// the answer to its acquire, or from the last renewal. Before that it is not known that the lock had no
    /// holder.
    pub fn may_be_held_until_ns(&self) -> u64 {
        let claimed_until_ns = self.claimed_until_ns();
        let (HoldEnd::Open, Some(ttl_ns)) = (self.end, self.ttl_ns) else { return claimed_until_ns };
        let begun_ns = self.renewals.iter().map(|(_, asked_ns)| *asked_ns).fold(self.from_ns, u64::max);
        claimed_until_ns.max(begun_ns.saturating_add(ttl_ns))
    }
}

/// A fault with its healing.
#[derive(Debug)]
pub struct Fault<'a> {
    pub id: u64,
    /// `clock-jump`, `pause`, …
    pub name: &'a str,
    pub targets: Vec<&'a str>,
    /// Parameters, in the nemesis's own terms.
    pub requested: &'a Value,
    /// Per target, what was seen from inside it.
    pub observed: &'a Value,
    pub effective: bool,
    /// What the fault says about itself; nothing is assumed of one that says nothing.
    pub description: FaultDescription,
    /// Index of the event at which it began.
    pub inject: u64,
    pub inject_ns: u64,
    /// When it was known to be in force, or to have failed.
    pub injected_ns: Option<u64>,
    pub error: Option<&'a str>,
    /// When its healing began.
    pub heal_ns: Option<u64>,
    /// When its healing was complete.
    pub healed_ns: Option<u64>,
}

impl Fault<'_> {
    /// Whether it was in force at some moment between two, or may have been.
    pub fn in_force(&self, from_ns: u64, until_ns: u64) -> bool {
        self.inject_ns <= until_ns && self.healed_ns.is_none_or(|healed_ns| healed_ns >= from_ns)
    }

    /// Whether it is known to leave all packets between a node and the servers as they are, and to do nothing
    /// else.
    pub fn spares(&self, node: &str, servers: &[&str]) -> bool {
        !servers.is_empty() && servers.iter().all(|server| self.description.spares_the_way(node, server))
    }
}

/// From here on, the run was in this phase.
#[derive(Debug)]
pub struct Phase<'a> {
    pub name: &'a str,
    pub from: u64,
    pub from_ns: u64,
}
