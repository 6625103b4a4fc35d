use crate::claim::Claim;
use crate::ledger::account::Ends;
use crate::ledger::interval::Interval;
use crate::prose::{lock, seconds};
use crate::stalls::Stalls;
use fencepost_history::{
    AcquireArguments, ErrorCode, Event, FaultDescription, Kind, Lease, LockFacts, Millis, Name, RunNodes,
    ServerEnded, UnfinishedScript, f,
};
use serde_json::Value;

/// What checkers and reports need to know about a run, computed in one pass.
#[derive(Default)]
pub struct RunIndex<'a> {
    pub events: &'a [Event],
    /// In order of invocation.
    pub operations: Vec<Operation<'a>>,
    /// In order of `from`.
    pub holds: Vec<Hold<'a>>,
    /// In order of injection.
    pub faults: Vec<Fault<'a>>,
    pub phases: Vec<Phase<'a>>,
    /// Of a history that says nothing, a lock with a TTL.
    pub lock: LockFacts,
    /// The nemeses of the run, whether or not they did anything.
    pub nemeses: Vec<&'a str>,
    /// Servers that ended by themselves or did not serve again after a fault, and when that was noticed.
    pub servers_ended: Vec<(u64, ServerEnded)>,
    /// How many planned faults were left out, since they did not fit with a fault in force.
    pub faults_left_out: usize,
    /// The clients of a directed run that did not come to the end of their script.
    pub unfinished_scripts: Vec<UnfinishedScript>,
    /// When the run was interrupted or failed, and why: one sentence.
    pub cut_off: Option<(u64, &'a str)>,
    /// What the storage is (`register`); none where it is not in the history.
    pub storage: Option<&'a str>,
    /// The servers of the lock service; empty where the history does not name them.
    pub servers: Vec<&'a str>,
    /// Empty where the history does not say.
    pub nodes: RunNodes,
    /// When the machine gave nodes hardly any time.
    pub stalls: Stalls<'a>,
    pub end_ns: u64,
    /// The latest answer to a request that waits for no process; while no fault was in force, if any.
    pub(crate) latest_answer_ns: Option<u64>,
}

/// An invocation with its completion. An acquire or a release of several names is one for each of them.
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

    pub fn asked(&self) -> AcquireArguments {
        AcquireArguments::of(&self.invoke.value)
    }

    /// The completion, if it is `ok`.
    pub fn ok(&self) -> Option<&'a Event> {
        self.completion.filter(|event| event.kind == Kind::Ok)
    }

    /// Whether it certainly did not happen. A library that said no after tries of its own may have the lock.
    pub fn did_not_happen(&self) -> bool {
        let code = |event: &Event| event.error.as_ref().map(fencepost_history::OperationError::code);
        self.completion.is_some_and(|event| {
            event.kind == Kind::Fail
                && !(self.f() == f::ACQUIRE && code(event) == Some(ErrorCode::RefusedByLibrary))
        })
    }
}

/// One successful acquire, and how long its process is known to have believed in it: from the completion of
/// the acquire, for certain, up to the invocation of the process's latest operation that shows belief (see
/// `shows_belief`). `from` and `until` are indices of events, whose order is that of time.
#[derive(Debug)]
pub struct Hold<'a> {
    pub process: u64,
    pub key: &'a str,
    /// Its place in [`RunIndex::operations`](super::RunIndex::operations).
    pub acquire: usize,
    pub invoke_ns: u64,
    /// The event that completed the acquire.
    pub from: u64,
    pub from_ns: u64,
    /// The invocation that last showed belief; `from` where none did.
    pub until: u64,
    pub until_ns: u64,
    pub ends: Ends,
    /// How long the lock was granted for, if its end is a matter of time.
    pub ttl_ns: Option<u64>,
    pub lease: Lease,
    pub granted: Interval,
    /// No server can have granted it: its client was cut off from all while it acquired.
    pub granted_by_no_server: bool,
    pub claim: Claim,
    /// Of each notice that the lease was prolonged: its index, and the time at which that was asked for.
    pub renewals: Vec<(u64, u64)>,
    pub token: Option<i64>,
    pub validity_ms: Option<f64>,
    /// How long its acquire had gone on when its client looked at the validity, by the client's own clock.
    pub waited_ns: Option<u64>,
    /// Empty where the lock does not name them.
    pub granted_by: Vec<Name>,
}

impl Hold<'_> {
    /// As in `process 7 acquired the lock at 1.200 s`, with which sentences begin.
    pub fn acquired(&self) -> String {
        format!("process {} acquired {} at {}", self.process, lock(self.key), seconds(self.from_ns))
    }

    /// As in `process 7 was granted the lock at 1.200 s`.
    pub fn was_granted(&self) -> String {
        format!("process {} was granted {} at {}", self.process, lock(self.key), seconds(self.from_ns))
    }

    /// Whether this hold and another of its key cannot both be right at the same moment.
    pub fn excludes(&self, other: &Hold) -> bool {
        !Claim::fit([self.claim, other.claim])
    }
}

#[derive(Debug)]
pub struct Fault<'a> {
    pub id: u64,
    /// `clock-jump`, `pause`, …
    pub name: &'a str,
    pub targets: Vec<&'a str>,
    pub requested: &'a Value,
    /// Per target, what was seen from inside it.
    pub observed: &'a Value,
    pub effective: bool,
    /// Nothing is assumed of one that says nothing.
    pub description: FaultDescription,
    pub inject: u64,
    pub inject_ns: u64,
    /// When it was known to be in force, or to have failed.
    pub injected_ns: Option<u64>,
    pub error: Option<&'a str>,
    pub heal_ns: Option<u64>,
    pub healed_ns: Option<u64>,
}

#[derive(Debug)]
pub struct Phase<'a> {
    pub name: &'a str,
    pub from: u64,
    pub from_ns: u64,
}
