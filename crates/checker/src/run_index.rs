//! A run's history, read once: operations paired, holds, faults and phases.

mod parts;

pub use parts::{Fault, Hold, HoldEnd, Operation, Phase};

use fencepost_history::fault::FAULT_LEFT_OUT;
use fencepost_history::{
    Event, FaultDescription, FaultEvent, FaultStage, Kind, Lease, LockFacts, OperationError, Process,
    RunNodes, SCRIPTS_CUT_SHORT, ServerEnded, UnfinishedScript, f,
};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value;

/// Everything that checkers and reports need to know about a run, computed in one pass.
pub struct RunIndex<'a> {
    pub events: &'a [Event],
    /// In order of invocation.
    pub operations: Vec<Operation<'a>>,
    /// In order of `from`.
    pub holds: Vec<Hold<'a>>,
    /// In order of injection.
    pub faults: Vec<Fault<'a>>,
    /// In order.
    pub phases: Vec<Phase<'a>>,
    /// What is known of the lock under test; of a history that says nothing, a lock with a TTL.
    pub lock: LockFacts,
    /// The nemeses of the run, whether or not they did anything.
    pub nemeses: Vec<&'a str>,
    /// Servers that ended by themselves or did not serve again after a fault, in order, with the times at which that was
    /// noticed.
    pub servers_ended: Vec<(u64, ServerEnded)>,
    /// How many planned faults were left out, since they did not fit with a fault in force.
    pub faults_left_out: usize,
    /// The clients of a directed run that did not come to the end of their script.
    pub unfinished_scripts: Vec<UnfinishedScript>,
    /// What the storage is (`register`); none where it is not in the history.
    pub storage: Option<&'a str>,
    /// The servers of the lock service, by name; empty where the history does not name them.
    pub servers: Vec<&'a str>,
    /// The clients, the storage, and what the nemeses can hit; empty where the history does not say.
    pub nodes: RunNodes,
    /// Time of the last event.
    pub end_ns: u64,
}

/// Why a history cannot be read as one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {index}: {reason}")]
pub struct Malformed {
    pub index: u64,
    pub reason: String,
}

/// Whether an operation proves that its process believed, as it invoked it, that it held the key.
///
/// - `holds` that answered true: belief only ever ends, so who believed at the answer did at the question.
/// - A write that the storage took, or that its guard rejected: the client chose to send it. A client that
///   looked first and held back ends with another code, and an indeterminate write may never have been sent
///   (its client may have slept through it, looked at its clock and given up), so neither proves anything.
/// - A release whose client says that it still believed as it began.
pub fn shows_belief(name: &str, completion: &Event) -> bool {
    match name {
        f::HOLDS => completion.kind == Kind::Ok && *completion.value == Value::Bool(true),
        f::WRITE => match completion.kind {
            Kind::Ok => true,
            Kind::Fail => completion.error.as_ref().is_some_and(OperationError::is_rejected),
            Kind::Invoke | Kind::Info => false,
        },
        f::RELEASE => completion.value.get("believed") == Some(&Value::Bool(true)),
        _ => false,
    }
}

/// Whether an acquire asks for the lock together with others who only read.
pub fn asks_shared(invoke: &Event) -> bool {
    invoke.value.get("mode").and_then(Value::as_str) == Some("shared")
}

/// Whether this is a client's notice, which has no invocation and can come at any time.
pub fn is_notice(event: &Event) -> bool {
    event.kind == Kind::Info && f::is_notice(&event.f)
}

impl<'a> RunIndex<'a> {
    /// Reads a history.
    ///
    /// # Errors
    /// Indices that do not grow, a completion without its invocation, a second open operation of a process.
    pub fn new(events: &'a [Event]) -> Result<RunIndex<'a>, Malformed> {
        let mut reader = Reader::default();
        let mut last = None;
        for event in events {
            if last.is_some_and(|last| last >= event.index) {
                return Err(malformed(event, "its index is not greater than the one before"));
            }
            last = Some(event.index);
            match event.process {
                Process::Nemesis => reader.nemesis(event),
                Process::Client(process) if is_notice(event) => reader.notice(process, event),
                Process::Client(process) if event.kind == Kind::Invoke => reader.invoke(process, event)?,
                Process::Client(process) => reader.complete(process, event)?,
            }
        }
        let end_ns = events.last().map_or(0, |event| event.time);
        let Reader {
            operations,
            mut holds,
            faults,
            phases,
            lock,
            nemeses,
            servers,
            nodes,
            servers_ended,
            faults_left_out,
            unfinished_scripts,
            storage,
            ..
        } = reader;
        for hold in holds.iter_mut().filter(|hold| hold.end == HoldEnd::Open) {
            hold.end_ns = end_ns;
        }
        let by_itself = [Lease::Ttl, Lease::None].contains(&lock.lease);
        for hold in holds.iter_mut().filter(|_| !by_itself) {
            hold.cut_ns = cut_ns(hold, &faults, &servers_ended, &nodes);
        }
        Ok(RunIndex {
            events,
            operations,
            holds,
            faults,
            phases,
            lock,
            nemeses,
            servers_ended,
            faults_left_out,
            unfinished_scripts,
            storage,
            servers,
            nodes,
            end_ns,
        })
    }

    /// The time at which a phase began, with the index of its event.
    pub fn phase(&self, name: &str) -> Option<&Phase<'a>> {
        self.phases.iter().find(|phase| phase.name == name)
    }

    /// The first server that did not serve again after a fault was healed.
    pub fn not_back(&self) -> Option<&ServerEnded> {
        self.servers_ended.iter().map(|(_, ended)| ended).find(|ended| ended.after_fault.is_some())
    }

    /// The first server that did not serve again after a fault because it cannot read its own data.
    pub fn unreadable(&self) -> Option<&ServerEnded> {
        let mut ended = self.servers_ended.iter().map(|(_, ended)| ended);
        ended.find(|ended| ended.after_fault.is_some() && ended.unreadable.is_some())
    }

    /// The longest time for which any grant lasts by itself; 0 where the end of a grant is no matter of time.
    pub fn longest_ttl_ns(&self) -> u64 {
        let acquires = self.operations.iter().filter(|operation| operation.f() == f::ACQUIRE);
        acquires.filter_map(|acquire| self.ttl_ns(acquire)).max().unwrap_or(0)
    }

    /// How long the grant lasts by itself that an acquire asks for; none where its end is no matter of time.
    pub fn ttl_ns(&self, acquire: &Operation) -> Option<u64> {
        ttl_ns(&self.lock, acquire.invoke)
    }

    /// Whether no fault was injected, and none was to be.
    pub fn is_in_peace(&self) -> bool {
        self.faults.is_empty() && self.nemeses.is_empty() && self.faults_left_out == 0
    }

    /// The longest time that an acquire was given.
    pub fn longest_timeout_ns(&self) -> u64 {
        let timeout_ms =
            |operation: &Operation| operation.invoke.value.get("timeout_ms").and_then(Value::as_f64);
        let acquires = self.operations.iter().filter(|operation| operation.f() == f::ACQUIRE);
        (acquires.filter_map(timeout_ms).fold(0.0, f64::max) * 1e6) as u64
    }

    /// The event of this index.
    pub fn event(&self, index: u64) -> Option<&'a Event> {
        let at = self.events.binary_search_by_key(&index, |event| event.index).ok()?;
        Some(&self.events[at])
    }
}

/// From when on the session or the connection of a hold may have ended: a fault, of whatever effect, was in force that may
/// have reached it, or a server ended by itself.
fn cut_ns(
    hold: &Hold,
    faults: &[Fault],
    servers_ended: &[(u64, ServerEnded)],
    nodes: &RunNodes,
) -> Option<u64> {
    let own = nodes.client_of(hold.process);
    let near = |fault: &&Fault| {
        let description = &fault.description;
        // What stops a node or moves its clock changes nothing between other nodes. Packets are another matter.
        let is_local = description.takes_down || description.moves_clocks;
        let is_of_others = |target: &str| {
            target.starts_with("storage")
                || (is_local && own.is_some_and(|own| own != target) && nodes.is_client(target))
        };
        fault.healed_ns.is_none_or(|healed| healed >= hold.invoke_ns)
            && !fault.targets.iter().all(|target| is_of_others(target))
    };
    let by_faults = faults.iter().filter(near).map(|fault| fault.inject_ns.max(hold.invoke_ns));
    let by_ends =
        servers_ended.iter().map(|(time_ns, _)| *time_ns).filter(|time_ns| *time_ns >= hold.invoke_ns);
    by_faults.chain(by_ends).min()
}

fn malformed(event: &Event, reason: impl Into<String>) -> Malformed {
    Malformed { index: event.index, reason: reason.into() }
}

/// How long a grant lasts by itself that this acquire asks for.
fn ttl_ns(lock: &LockFacts, acquire: &Event) -> Option<u64> {
    acquire.value.get("ttl_ms").and_then(Value::as_f64).and_then(|ttl_ms| lock.granted_ns(ttl_ms))
}

fn key_of(event: &Event) -> &str {
    event.key.as_deref().unwrap_or("")
}

/// What is open while the events go by.
#[derive(Default)]
struct Reader<'a> {
    operations: Vec<Operation<'a>>,
    holds: Vec<Hold<'a>>,
    faults: Vec<Fault<'a>>,
    phases: Vec<Phase<'a>>,
    lock: LockFacts,
    nemeses: Vec<&'a str>,
    servers: Vec<&'a str>,
    nodes: RunNodes,
    storage: Option<&'a str>,
    servers_ended: Vec<(u64, ServerEnded)>,
    faults_left_out: usize,
    unfinished_scripts: Vec<UnfinishedScript>,
    /// The open operation of each process, and the hold that it was invoked under.
    open: FxHashMap<u64, (usize, Option<usize>)>,
    held: FxHashMap<(u64, &'a str), usize>,
    /// The last renewal that was reported for a lock that its process did not hold yet.
    early: FxHashMap<(u64, &'a str), (u64, u64)>,
}

impl<'a> Reader<'a> {
    fn invoke(&mut self, process: u64, event: &'a Event) -> Result<(), Malformed> {
        let key = key_of(event);
        let hold = self.held.get(&(process, key)).copied();
        if self.open.insert(process, (self.operations.len(), hold)).is_some() {
            return Err(malformed(event, format!("process {process} already has an operation open")));
        }
        match &*event.f {
            // The belief that a release shows is known at its completion; the claim ends here in any case.
            f::RELEASE => self.end(process, key, event, HoldEnd::Released),
            f::ACQUIRE => self.end(process, key, event, HoldEnd::Reacquired),
            _ => {}
        }
        self.operations.push(Operation { process, key, invoke: event, completion: None });
        Ok(())
    }

    fn complete(&mut self, process: u64, event: &'a Event) -> Result<(), Malformed> {
        let Some((at, hold)) = self.open.remove(&process) else {
            return Err(malformed(event, format!("process {process} completes what it never invoked")));
        };
        let operation = &mut self.operations[at];
        if operation.invoke.f != event.f || event.key.is_some() && event.key != operation.invoke.key {
            return Err(malformed(
                event,
                format!("process {process} completes another operation than it invoked"),
            ));
        }
        operation.completion = Some(event);
        if let Some(hold) = hold
            && shows_belief(&event.f, event)
        {
            let (hold, invoke) = (&mut self.holds[hold], self.operations[at].invoke);
            (hold.until, hold.until_ns) = (invoke.index, invoke.time);
        }
        if event.f == f::ACQUIRE && event.kind == Kind::Ok {
            self.hold(at, event);
        }
        Ok(())
    }

    fn hold(&mut self, at: usize, event: &'a Event) {
        let Operation { process, key, invoke, .. } = self.operations[at];
        self.held.insert((process, key), self.holds.len());
        let early = self.early.remove(&(process, key)).filter(|(index, _)| *index > invoke.index);
        let names = event.value.get("granted_by").and_then(Value::as_array);
        self.holds.push(Hold {
            process,
            key,
            acquire: at,
            invoke_ns: invoke.time,
            from: event.index,
            from_ns: event.time,
            until: event.index,
            until_ns: event.time,
            end_ns: event.time,
            end: HoldEnd::Open,
            shared: asks_shared(invoke),
            ttl_ns: ttl_ns(&self.lock, invoke),
            lease: self.lock.lease,
            cut_ns: None,
            renewals: early.into_iter().collect(),
            token: event.value.get("token").and_then(Value::as_i64),
            validity_ms: event.value.get("validity_ms").and_then(Value::as_f64),
            exclusive: event.value.get("exclusive").and_then(Value::as_bool).unwrap_or(true),
            granted_by: names.map_or(Vec::new(), |names| names.iter().filter_map(Value::as_str).collect()),
        });
    }

    fn end(&mut self, process: u64, key: &'a str, event: &Event, how: HoldEnd) {
        if let Some(hold) = self.held.remove(&(process, key)) {
            self.holds[hold].end = how;
            self.holds[hold].end_ns = event.time;
        }
    }

    fn notice(&mut self, process: u64, event: &'a Event) {
        let key = key_of(event);
        if event.f == f::LOST {
            self.end(process, key, event, HoldEnd::Lost);
        } else if event.f == f::RENEWED {
            // A client that was stopped reads the answer to a keepalive long after it sent it.
            let age_ns = event.value.get("age_ms").and_then(Value::as_f64).map_or(0, |ms| (ms * 1e6) as u64);
            let renewal = (event.index, event.time.saturating_sub(age_ns));
            match self.held.get(&(process, key)) {
                Some(&hold) => self.holds[hold].renewals.push(renewal),
                // What the client says in the moment of the grant can be recorded just before the grant is.
                None => drop(self.early.insert((process, key), renewal)),
            }
        }
    }

    fn nemesis(&mut self, event: &'a Event) {
        if event.f == "phase" {
            if let Some(name) = event.value.as_str() {
                self.phases.push(Phase { name, from: event.index, from_ns: event.time });
            }
            return;
        }
        if let Some(lock) = LockFacts::read(event) {
            self.lock = lock;
            return;
        }
        if let Some(nodes) = RunNodes::read(event) {
            self.nodes = nodes;
            return;
        }
        if event.f == "nemeses" {
            self.nemeses.extend(names(&event.value));
            return;
        }
        if event.f == "storage" {
            self.storage = event.value.as_str();
            return;
        }
        if event.f == "servers" {
            self.servers.extend(names(&event.value));
            return;
        }
        if event.f == SCRIPTS_CUT_SHORT {
            self.unfinished_scripts = Vec::deserialize(&*event.value).unwrap_or_default();
            return;
        }
        if event.f == FAULT_LEFT_OUT {
            self.faults_left_out += 1;
            return;
        }
        if let Some(ended) = ServerEnded::read(event) {
            self.servers_ended.push((event.time, ended));
            return;
        }
        if let Some(read) = FaultEvent::read(event) {
            self.fault(event, read);
        }
    }

    fn fault(&mut self, event: &'a Event, read: FaultEvent<'a>) {
        let at = self.faults.iter().rposition(|fault| fault.id == read.id && fault.name == event.f);
        match (read.stage, at) {
            (FaultStage::Inject, None) => self.faults.push(fault(event, read)),
            (FaultStage::Inject, Some(at)) => {
                let fault = &mut self.faults[at];
                fault.injected_ns = Some(event.time);
                fault.observed = read.observed;
                fault.effective = read.effective;
                fault.error = event.error.as_deref();
                fault.describe(read.description);
            }
            (FaultStage::Heal, Some(at)) if event.kind == Kind::Ok => {
                self.faults[at].healed_ns = Some(event.time);
            }
            (FaultStage::Heal, Some(at)) if event.kind == Kind::Invoke => {
                self.faults[at].heal_ns = Some(event.time);
            }
            (FaultStage::Heal, _) => {}
        }
    }
}

impl Fault<'_> {
    /// Takes the newest description. Without any, what was seen is all there is to say.
    fn describe(&mut self, described: Option<FaultDescription>) {
        if let Some(described) = described {
            self.description = described;
        } else if self.description == FaultDescription::unknown(self.name, &self.targets, self.requested)
            && !self.observed.is_null()
        {
            self.description = FaultDescription::unknown(self.name, &self.targets, self.observed);
        }
    }
}

/// The names in a list.
fn names(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn fault<'a>(event: &'a Event, read: FaultEvent<'a>) -> Fault<'a> {
    let unknown = || FaultDescription::unknown(&event.f, &read.targets, read.requested);
    Fault {
        id: read.id,
        name: &event.f,
        description: read.description.clone().unwrap_or_else(unknown),
        targets: read.targets,
        requested: read.requested,
        observed: &Value::Null,
        effective: false,
        inject: event.index,
        inject_ns: event.time,
        injected_ns: None,
        error: None,
        heal_ns: None,
        healed_ns: None,
    }
}
