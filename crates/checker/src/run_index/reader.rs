//! One pass over the events of a run: what is open while they go by.

use super::belief::{asks_shared, denies_belief, shows_belief};
use super::parts::{Fault, Hold, HoldEnd, Operation, Phase};
use fencepost_history::fault::FAULT_LEFT_OUT;
use fencepost_history::{
    CUT_OFF, Event, FaultDescription, FaultEvent, FaultStage, Kind, LockFacts, NEMESES, PHASE, RunNodes,
    SCRIPTS_CUT_SHORT, SERVERS, STORAGE, ServerEnded, UnfinishedScript, f,
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde_json::Value;

/// Why a history cannot be read as one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {index}: {reason}")]
pub struct Malformed {
    pub index: u64,
    pub reason: String,
}

pub(super) fn malformed(event: &Event, reason: impl Into<String>) -> Malformed {
    Malformed { index: event.index, reason: reason.into() }
}

/// How long a grant lasts by itself that this acquire asks for.
pub(super) fn ttl_ns(lock: &LockFacts, acquire: &Event) -> Option<u64> {
    acquire.value.get("ttl_ms").and_then(Value::as_f64).and_then(|ttl_ms| lock.granted_ns(ttl_ms))
}

fn key_of(event: &Event) -> &str {
    event.key.as_deref().unwrap_or("")
}

/// What has been read, and what is open.
#[derive(Default)]
pub(super) struct Reader<'a> {
    pub operations: Vec<Operation<'a>>,
    pub holds: Vec<Hold<'a>>,
    pub faults: Vec<Fault<'a>>,
    pub phases: Vec<Phase<'a>>,
    pub lock: LockFacts,
    pub nemeses: Vec<&'a str>,
    pub servers: Vec<&'a str>,
    pub nodes: RunNodes,
    pub storage: Option<&'a str>,
    pub servers_ended: Vec<(u64, ServerEnded)>,
    pub faults_left_out: usize,
    pub unfinished_scripts: Vec<UnfinishedScript>,
    pub cut_off: Option<(u64, &'a str)>,
    /// The open operation of each process, and the hold that it was invoked under.
    open: FxHashMap<u64, (usize, Option<usize>)>,
    held: FxHashMap<(u64, &'a str), usize>,
    /// The last renewal that was reported for a lock that its process did not hold yet.
    early: FxHashMap<(u64, &'a str), (u64, u64)>,
    /// The holds in which their processes said that they no longer believe.
    denied: FxHashSet<usize>,
    /// The holds that were reported lost, until their processes have let go of the key.
    pub lost: FxHashMap<(u64, &'a str), usize>,
}

impl<'a> Reader<'a> {
    pub fn invoke(&mut self, process: u64, event: &'a Event) -> Result<(), Malformed> {
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

    pub fn complete(&mut self, process: u64, event: &'a Event) -> Result<(), Malformed> {
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
        let key = operation.key;
        if let Some(hold) = hold {
            self.belief(hold, at, event);
        }
        if event.f == f::RELEASE || event.f == f::ACQUIRE {
            self.let_go(process, Some(key), event.time);
        }
        if event.kind == Kind::Info {
            self.let_go(process, None, event.time);
        }
        if event.f == f::ACQUIRE && event.kind == Kind::Ok {
            self.hold(at, event);
        }
        Ok(())
    }

    /// What the completion of an operation says of its process's belief in a hold.
    fn belief(&mut self, hold: usize, at: usize, completion: &Event) {
        if denies_belief(&completion.f, completion) {
            self.denied.insert(hold);
        }
        if self.denied.contains(&hold) || !shows_belief(&completion.f, completion) {
            return;
        }
        let (hold, invoke) = (&mut self.holds[hold], self.operations[at].invoke);
        (hold.until, hold.until_ns) = (invoke.index, invoke.time);
    }

    /// A process can no longer keep what was reported lost: of one key, or since it is over, of all.
    fn let_go(&mut self, process: u64, key: Option<&str>, now_ns: u64) {
        let holds = &mut self.holds;
        self.lost.retain(|(of, lost), hold| {
            let goes = *of == process && key.is_none_or(|key| key == *lost);
            if goes {
                holds[*hold].kept_until_ns = now_ns;
            }
            !goes
        });
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
            kept_until_ns: event.time,
            shared: asks_shared(invoke),
            ttl_ns: ttl_ns(&self.lock, invoke),
            lease: self.lock.lease,
            cut_ns: None,
            attempt_ns: None,
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
            if how == HoldEnd::Lost {
                self.lost.insert((process, key), hold);
            }
        }
    }

    pub fn notice(&mut self, process: u64, event: &'a Event) {
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

    pub fn nemesis(&mut self, event: &'a Event) {
        if event.f == PHASE {
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
        if event.f == NEMESES {
            self.nemeses.extend(names(&event.value));
            return;
        }
        if event.f == STORAGE {
            self.storage = event.value.as_str();
            return;
        }
        if event.f == SERVERS {
            self.servers.extend(names(&event.value));
            return;
        }
        if event.f == SCRIPTS_CUT_SHORT {
            self.unfinished_scripts = Vec::deserialize(&*event.value).unwrap_or_default();
            return;
        }
        if event.f == CUT_OFF {
            self.cut_off = event.value.as_str().map(|why| (event.time, why));
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
