use super::parts::{Fault, Hold, Operation, Phase, RunIndex};
use crate::ledger::account::Ends;
use crate::ledger::interval::Interval;
use crate::tracker::{Belief, Change, Completed, Granted, HoldEnd, Tracker};
use fencepost_history::fault::FAULT_LEFT_OUT;
use fencepost_history::{
    AcquireArguments, CUT_OFF, Event, FaultDescription, FaultEvent, FaultStage, Grant, Kind, LockFacts,
    Millis, NEMESES, NoticeValue, PHASE, RunNodes, SCRIPTS_CUT_SHORT, SECTION_ABANDONED, SERVERS, STALLED,
    STORAGE, SectionAbandoned, ServerEnded, f,
};
use rustc_hash::FxHashMap;
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

pub(super) fn ttl_ns(lock: &LockFacts, acquire: &Event) -> Option<u64> {
    AcquireArguments::of(&acquire.value).ttl_ms.and_then(|Millis(ttl_ms)| lock.granted_ns(ttl_ms))
}

fn key_of(event: &Event) -> &str {
    event.key.as_deref().unwrap_or("")
}

#[derive(Default)]
pub(super) struct Reader<'a> {
    pub run: RunIndex<'a>,
    pub tracker: Tracker<&'a str>,
    /// The last renewal that was reported for a lock that its process did not hold yet.
    early: FxHashMap<(u64, &'a str), (u64, u64)>,
}

impl<'a> Reader<'a> {
    pub fn client(&mut self, process: u64, event: &'a Event) -> Result<(), Malformed> {
        let changes = self
            .tracker
            .push_all(event, key_of(event), |name| name)
            .map_err(|why| malformed(event, format!("process {process} {}", why.in_words())))?;
        for (key, change) in changes {
            self.change(process, key, event, change);
        }
        Ok(())
    }

    fn change(&mut self, process: u64, key: &'a str, event: &'a Event, change: Change<&'a str>) {
        match change {
            Change::Nothing => {}
            Change::Invoked { ended, .. } => {
                if let Some((hold, how)) = ended {
                    self.end(hold, how, event.time);
                }
                self.run.operations.push(Operation { process, key, invoke: event, completion: None });
            }
            Change::Completed(completed) => self.complete(event, completed),
            Change::Lost(None) => {}
            Change::Lost(Some(hold)) => {
                self.end(hold, HoldEnd::Lost, event.time);
            }
            Change::Renewed(hold) => self.renewed(process, hold, event),
        }
    }

    fn end(&mut self, hold: usize, how: HoldEnd, at_ns: u64) {
        let ends = &mut self.run.holds[hold].ends;
        (ends.how, ends.let_go_ns) = (how, at_ns);
    }

    fn complete(&mut self, event: &'a Event, completed: Completed<&'a str>) {
        let at = completed.operation;
        let operation = &mut self.run.operations[at];
        operation.completion = Some(event);
        if let (Some(hold), Belief::Shown) = (completed.under, completed.belief) {
            let hold = &mut self.run.holds[hold];
            (hold.until, hold.until_ns) = (operation.invoke.index, operation.invoke.time);
        }
        if let Some(hold) = completed.under.filter(|_| prolongs(event)) {
            self.run.holds[hold].renewals.push((event.index, operation.invoke.time));
        }
        for hold in completed.let_go {
            self.run.holds[hold].ends.given_back_ns = event.time;
        }
        if let Some(granted) = completed.granted {
            self.hold(at, event, *granted);
        }
    }

    fn hold(&mut self, at: usize, event: &'a Event, Granted { claim, grant, .. }: Granted) {
        let Operation { process, key, invoke, .. } = self.run.operations[at];
        let early = self.early.remove(&(process, key)).filter(|(index, _)| *index > invoke.index);
        self.run.holds.push(Hold {
            process,
            key,
            acquire: at,
            invoke_ns: invoke.time,
            from: event.index,
            from_ns: event.time,
            until: event.index,
            until_ns: event.time,
            ends: Ends::unknown(event.time),
            claim,
            ttl_ns: ttl_ns(&self.run.lock, invoke),
            lease: self.run.lock.lease,
            granted: Interval::of_acquire(invoke.time, event.time),
            granted_by_no_server: false,
            renewals: early.into_iter().collect(),
            token: grant.token,
            validity_ms: grant.validity_ms.map(|Millis(ms)| ms),
            waited_ns: grant.waited_ms.map(|Millis(ms)| (ms.max(0.0) * 1e6) as u64),
            granted_by: grant.granted_by.unwrap_or_default(),
        });
    }

    fn renewed(&mut self, process: u64, hold: Option<usize>, event: &'a Event) {
        // A client that was stopped reads the answer to a keepalive long after it sent it.
        let age_ns = NoticeValue::of(&event.value).age_ms.map_or(0, Millis::to_ns);
        let renewal = (event.index, event.time.saturating_sub(age_ns));
        match hold {
            Some(hold) => self.run.holds[hold].renewals.push(renewal),
            // What the client says in the moment of the grant can be recorded just before the grant is.
            None => drop(self.early.insert((process, key_of(event)), renewal)),
        }
    }

    pub fn nemesis(&mut self, event: &'a Event) {
        let run = &mut self.run;
        match &*event.f {
            PHASE => {
                let begun = event.value.as_str();
                run.phases.extend(begun.map(|name| Phase { name, from: event.index, from_ns: event.time }));
            }
            NEMESES => run.nemeses.extend(names(&event.value)),
            STORAGE => run.storage = event.value.as_str(),
            SERVERS => run.servers.extend(names(&event.value)),
            SCRIPTS_CUT_SHORT => {
                run.unfinished_scripts = Vec::deserialize(&*event.value).unwrap_or_default();
            }
            CUT_OFF => run.cut_off = event.value.as_str().map(|why| (event.time, why)),
            SECTION_ABANDONED => self.abandoned(event),
            STALLED => {
                let for_ms = event.value["for_ms"].as_u64().unwrap_or(0);
                run.stalls.add(event.value["node"].as_str().unwrap_or_default(), for_ms, event.time);
            }
            FAULT_LEFT_OUT => run.faults_left_out += 1,
            _ => {
                if let Some(lock) = LockFacts::read(event) {
                    run.lock = lock;
                } else if let Some(nodes) = RunNodes::read(event) {
                    run.nodes = nodes;
                } else if let Some(ended) = ServerEnded::read(event) {
                    run.servers_ended.push((event.time, ended));
                } else if let Some(read) = FaultEvent::read(event) {
                    self.fault(event, read);
                }
            }
        }
    }

    fn abandoned(&mut self, event: &Event) {
        let Ok(section) = SectionAbandoned::deserialize(&*event.value) else { return };
        let is_of = |hold: &&mut Hold| hold.process == section.process && hold.key == section.key;
        if let Some(hold) = self.run.holds.iter_mut().rfind(is_of) {
            hold.ends.abandoned_ns = Some(event.time);
        }
    }

    fn fault(&mut self, event: &'a Event, read: FaultEvent<'a>) {
        let at = self.run.faults.iter().rposition(|fault| fault.id == read.id && fault.name == event.f);
        match (read.stage, at) {
            (FaultStage::Inject, None) => self.run.faults.push(fault(event, read)),
            (FaultStage::Inject, Some(at)) => {
                let fault = &mut self.run.faults[at];
                fault.injected_ns = Some(event.time);
                fault.observed = read.observed;
                fault.effective = read.effective;
                fault.error = event.error.as_deref();
                fault.describe(read.description);
            }
            (FaultStage::Heal, Some(at)) => {
                let fault = &mut self.run.faults[at];
                fault.effective |= read.effective;
                match event.kind {
                    Kind::Ok => fault.healed_ns = Some(event.time),
                    Kind::Invoke => fault.heal_ns = Some(event.time),
                    Kind::Fail | Kind::Info => {}
                }
            }
            (FaultStage::Heal, None) => {}
        }
    }
}

/// Whether this answer says that its holder prolonged the lock: the library says how long it is valid.
fn prolongs(answer: &Event) -> bool {
    let is_valid = || Grant::of(&answer.value).validity_ms.is_some();
    answer.kind == Kind::Ok && (answer.f == f::PROLONG || answer.f == f::REENTER && is_valid())
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
