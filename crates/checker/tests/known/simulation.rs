//! A simulated run of which everything is known: one server with a lock, five clients with two processes
//! each, a register, and a controller that writes the history as that of a real run is written.
//!
//! Time passes only in a queue of occurrences. What a stopped node does waits until it runs again, and a
//! message between nodes that are parted is lost. The controller is never stopped: what it asks a stopped
//! client to do is recorded when it asks.

use super::lock::{Keeps, Lock, Mistake, PERMITS, Reply, Request, Shared};
use super::plan::{Planned, plan};
use super::record::History;
use fencepost_history::{Event, Seed, Stream, f};
use rand::RngExt;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Microseconds since the simulation began.
pub type Time = u64;

pub const CLIENTS: usize = 5;
pub const SLOTS: usize = 10;
pub const SERVER: &str = "n1";
pub const SECOND: Time = 1_000_000;
/// After so long a client gives up on an answer.
pub const PATIENCE: Time = 400_000;

/// What kind of simulation it is.
#[derive(Clone, Copy, Debug)]
pub struct Laws {
    pub seed: u64,
    pub keeps: Keeps,
    pub faults: bool,
    pub mistake: Option<Mistake>,
    /// Some sections are longer than the TTL, though nothing renews the lock.
    pub outlasts: bool,
    /// Only sections of a mutex read and write the register.
    pub shared: Shared,
}

/// Something that happens at a time.
pub enum Occurrence {
    /// The controller lets a process begin a section.
    Begin(usize),
    /// The controller asks the process for the next step of its section.
    Step(usize, u64, Step),
    /// The client of a process asks the server for the lock.
    Attempt(usize, u64),
    /// The client of a process asks the server to release it.
    Ask(usize, u64),
    AtServer(usize, u64, Request),
    AtClient(usize, u64, Reply),
    AtStorage(usize, u64, Option<i64>),
    FromStorage(usize, u64, i64),
    GiveUp(usize, u64, u64),
    /// The library of a process renews a grant, if it still has it.
    Renew(usize, usize),
    RenewAtServer(usize, usize, Time),
    Renewed(usize, usize, Time, bool),
    /// The library looks whether the lease of a grant is over by its own clock.
    Look(usize, usize),
    Fault(usize, Stage),
    Phase(&'static str),
}

#[derive(Clone, Copy)]
pub enum Step {
    Read,
    Write(i64),
    Release,
}

#[derive(Clone, Copy)]
pub enum Stage {
    Inject,
    Injected,
    Heal,
    Healed,
}

/// What a process is doing.
#[derive(Default)]
pub struct Slot {
    pub process: u64,
    /// Counts its operations: an answer to an earlier one is not heard.
    pub operation: u64,
    /// Counts its requests within an operation.
    pub request: u64,
    pub f: &'static str,
    pub busy: bool,
    pub asked_at: Time,
    pub attempt_at: Time,
    pub deadline: Time,
    pub granted_at: Time,
    pub valid_until: Time,
    pub grant: usize,
    /// Whether it has the grant, as far as its library knows.
    pub holds: bool,
    /// Whether it heard of a loss in the middle of an operation.
    pub lost: bool,
    pub hold: Time,
    pub read_at: Time,
    pub write_at: Time,
}

pub struct Simulation {
    pub(super) laws: Laws,
    pub ttl: Time,
    pub(super) random: Stream,
    pub(super) now: Time,
    pub(super) order: u64,
    pub(super) queue: BinaryHeap<Reverse<(Time, u64)>>,
    pub(super) acts: HashMap<u64, Occurrence>,
    pub(super) slots: Vec<Slot>,
    /// What nodes that are stopped will do once they run.
    pub(super) waiting: HashMap<String, Vec<Occurrence>>,
    pub(super) parted: Vec<String>,
    pub lock: Lock,
    pub(super) register: i64,
    pub(super) plan: Vec<Planned>,
    pub(super) closing: bool,
    pub history: History,
}

impl Simulation {
    /// Lets a simulation pass, and gives it as it was at the end.
    pub fn of(laws: Laws) -> Simulation {
        let mut random = Seed(laws.seed).stream("simulation");
        let ttl = [500_000, SECOND, 2 * SECOND][random.random_range(0..3)];
        // That one process is left out is no chance only after some hundreds of grants.
        let longer = if laws.mistake == Some(Mistake::LeavesOneOut) { 8 } else { 1 };
        let length = random.random_range(6..12) * longer * SECOND;
        let plan = if laws.faults { plan(&mut random, ttl, length) } else { Vec::new() };
        let mut simulation = Simulation {
            laws,
            ttl,
            random,
            now: 0,
            order: 0,
            queue: BinaryHeap::new(),
            acts: HashMap::new(),
            slots: (0..SLOTS).map(|slot| Slot { process: slot as u64, ..Slot::default() }).collect(),
            waiting: HashMap::new(),
            parted: Vec::new(),
            lock: Lock::new(ttl, laws.keeps, laws.mistake, laws.shared),
            register: 0,
            plan,
            closing: false,
            history: History::begin(laws.faults, laws.keeps, laws.shared),
        };
        for slot in 0..SLOTS {
            let at = simulation.random.random_range(0..20_000);
            simulation.at(at, Occurrence::Begin(slot));
        }
        for fault in 0..simulation.plan.len() {
            let (from, until) = (simulation.plan[fault].from, simulation.plan[fault].until);
            let took = simulation.random.random_range(500..20_000);
            simulation.at(from, Occurrence::Fault(fault, Stage::Inject));
            simulation.at(from + took, Occurrence::Fault(fault, Stage::Injected));
            simulation.at(until, Occurrence::Fault(fault, Stage::Heal));
            simulation.at(until + took, Occurrence::Fault(fault, Stage::Healed));
        }
        let settled = length + 4 * ttl;
        simulation.at(length, Occurrence::Phase("heal"));
        simulation.at(length + 1, Occurrence::Phase("liveness"));
        simulation.at(settled, Occurrence::Phase("end"));
        simulation.run();
        simulation
    }

    pub fn events(&self) -> &[Event] {
        &self.history.events
    }

    pub(super) fn at(&mut self, time: Time, act: Occurrence) {
        self.order += 1;
        self.queue.push(Reverse((time.max(self.now), self.order)));
        self.acts.insert(self.order, act);
    }

    pub(super) fn soon(&mut self, act: Occurrence) {
        let delay = self.random.random_range(100..2_000);
        self.at(self.now + delay, act);
    }

    fn run(&mut self) {
        while let Some(Reverse((time, order))) = self.queue.pop() {
            self.now = time;
            assert!(self.order < 1_000_000, "{:?} never ends", self.laws);
            let act = self.acts.remove(&order).expect("each act is kept once");
            let node = match &act {
                Occurrence::Ask(slot, _)
                | Occurrence::Attempt(slot, _)
                | Occurrence::AtClient(slot, ..)
                | Occurrence::GiveUp(slot, ..) => client(*slot),
                Occurrence::FromStorage(slot, ..)
                | Occurrence::Renew(slot, _)
                | Occurrence::Renewed(slot, ..)
                | Occurrence::Look(slot, _) => client(*slot),
                Occurrence::AtServer(..) | Occurrence::RenewAtServer(..) => SERVER.to_owned(),
                _ => String::new(),
            };
            match self.waiting.get_mut(&node) {
                Some(waiting) => waiting.push(act),
                None => self.act(act),
            }
        }
        self.close();
    }

    fn act(&mut self, act: Occurrence) {
        match act {
            Occurrence::Begin(slot) => self.begin(slot),
            Occurrence::Step(slot, operation, step) => self.step(slot, operation, step),
            Occurrence::Attempt(slot, operation) if self.is_current(slot, operation) => {
                self.slots[slot].attempt_at = self.now;
                self.ask(slot, Request::Acquire);
            }
            Occurrence::Ask(slot, operation) if self.is_current(slot, operation) => {
                self.ask(slot, Request::Release(self.slots[slot].grant))
            }
            Occurrence::AtServer(slot, operation, request) => self.at_server(slot, operation, request),
            Occurrence::AtClient(slot, operation, reply) if self.is_current(slot, operation) => {
                self.heard(slot, reply)
            }
            Occurrence::AtStorage(slot, operation, write) => {
                let process = self.slots[slot].process;
                if let Some(value) = write {
                    self.register = value;
                }
                self.history.stored(process, write);
                let value = self.register;
                self.soon(Occurrence::FromStorage(slot, operation, value));
            }
            Occurrence::FromStorage(slot, operation, value) if self.is_current(slot, operation) => {
                let (f, rest) = (self.slots[slot].f, self.slots[slot].write_at);
                self.complete(slot, "ok", json!(value), None);
                if self.slots[slot].lost {
                    return self.release(slot);
                }
                let step = if f == f::READ { Step::Write(value + 1) } else { Step::Release };
                let after = if f == f::READ { rest } else { self.slots[slot].hold };
                self.next(slot, after, step);
            }
            Occurrence::GiveUp(slot, operation, request)
                if self.is_current(slot, operation) && self.slots[slot].request == request =>
            {
                self.complete(slot, "info", Value::Null, Some("timeout"));
                self.slots[slot].holds = false;
                self.slots[slot].process += SLOTS as u64;
                self.rest(slot);
            }
            Occurrence::Renew(slot, grant) => self.renew(slot, grant),
            Occurrence::RenewAtServer(slot, grant, sent) => {
                let reply = self.lock.answer(self.now, slot, Request::Renew(grant), &mut self.random);
                if let Reply::Renewed { still } = reply
                    && !self.is_parted(slot)
                {
                    self.soon(Occurrence::Renewed(slot, grant, sent, still));
                }
            }
            Occurrence::Renewed(slot, grant, sent, still) if self.has(slot, grant) => match still {
                true => {
                    let of = &mut self.slots[slot];
                    of.valid_until = sent + self.ttl;
                    let age = (self.now - sent) as f64 / 1e3;
                    self.history.client(
                        self.now,
                        of.process,
                        "info",
                        f::RENEWED,
                        json!({"age_ms": age}),
                        None,
                    );
                    let due = of.valid_until;
                    self.at(due, Occurrence::Look(slot, grant));
                }
                false => self.lost(slot),
            },
            Occurrence::Look(slot, grant) if self.has(slot, grant) => {
                let is_silent = self.laws.mistake == Some(Mistake::StopsRenewing);
                if self.now >= self.slots[slot].valid_until && !is_silent {
                    self.lost(slot);
                }
            }
            Occurrence::Fault(fault, stage) => self.fault(fault, stage),
            Occurrence::Phase("end") => self.closing = true,
            Occurrence::Phase(name) => self.history.phase(self.now, name),
            Occurrence::Attempt(..)
            | Occurrence::AtClient(..)
            | Occurrence::FromStorage(..)
            | Occurrence::GiveUp(..) => {}
            Occurrence::Renewed(..) | Occurrence::Look(..) | Occurrence::Ask(..) => {}
        }
    }

    pub(super) fn is_current(&self, slot: usize, operation: u64) -> bool {
        self.slots[slot].busy && self.slots[slot].operation == operation
    }

    pub(super) fn has(&self, slot: usize, grant: usize) -> bool {
        self.slots[slot].holds && self.slots[slot].grant == grant
    }

    /// What an acquire asks for.
    pub(super) fn asked(&self, slot: usize, mut asked: Value) -> Value {
        match self.laws.shared {
            Shared::Semaphore => asked["capacity"] = json!(PERMITS),
            shared if shared.reads(slot) => asked["mode"] = json!("shared"),
            _ => {}
        }
        asked
    }

    /// Records the invocation of an operation.
    pub(super) fn invoke(&mut self, slot: usize, f: &'static str, value: Value) {
        let now = self.now;
        let of = &mut self.slots[slot];
        (of.f, of.busy, of.asked_at) = (f, true, now);
        of.operation += 1;
        self.history.client(now, of.process, "invoke", f, value, None);
    }

    pub(super) fn complete(&mut self, slot: usize, kind: &str, value: Value, error: Option<&str>) -> u64 {
        let of = &mut self.slots[slot];
        of.busy = false;
        self.history.client(self.now, of.process, kind, of.f, value, error)
    }

    fn fault(&mut self, at: usize, stage: Stage) {
        let Planned { kind, target, by_ms, .. } = &self.plan[at];
        let (kind, target, by_ms) = (*kind, target.clone(), *by_ms);
        self.history.fault(self.now, at as u64, &self.plan[at], stage);
        match (kind, stage) {
            ("pause", Stage::Inject) => drop(self.waiting.entry(target).or_default()),
            ("pause", Stage::Heal) => {
                for act in self.waiting.remove(&target).unwrap_or_default() {
                    self.soon(act);
                }
            }
            ("kill", Stage::Inject) => self.lock.end(self.now),
            ("kill", Stage::Heal) => self.lock.down = false,
            ("clock-jump", Stage::Inject) => self.lock.move_clock(by_ms * 1_000),
            ("clock-jump", Stage::Heal) => self.lock.move_clock(-by_ms * 1_000),
            ("partition", Stage::Inject) => self.parted.push(target),
            ("partition", Stage::Heal) => self.parted.retain(|node| *node != target),
            _ => {}
        }
    }

    /// The closing acquire and read, by a process of its own.
    fn close(&mut self) {
        self.now += 50_000;
        self.history.phase(self.now, "closing");
        let slot = SLOTS - 1;
        self.slots[slot].process += SLOTS as u64;
        // Until every lease of the right length is over, whatever the clocks did.
        let mut tries = 0;
        let granted = loop {
            let ms = self.ttl as f64 / 1e3;
            let asked = self.asked(slot, json!({"timeout_ms": ms, "ttl_ms": ms}));
            self.invoke(slot, f::ACQUIRE, asked);
            self.now += self.ttl;
            let reply = self.lock.answer(self.now, slot, Request::Acquire, &mut self.random);
            let reply = match reply {
                Reply::Free => self.lock.answer(self.now, slot, Request::Take, &mut self.random),
                other => other,
            };
            tries += 1;
            match reply {
                Reply::Granted { grant, token } => {
                    let value = json!({"granted_by": [SERVER], "token": token});
                    let index = self.complete(slot, "ok", value, None);
                    self.lock.grants[grant].recorded = Some(index);
                    self.slots[slot].grant = grant;
                    break true;
                }
                _ => drop(self.complete(slot, "fail", Value::Null, Some("taken"))),
            }
            if tries == 4 {
                break false;
            }
        };
        self.now += 500;
        if self.laws.shared == Shared::Mutex {
            self.invoke(slot, f::READ, Value::Null);
            let value = self.register;
            self.history.stored(self.slots[slot].process, None);
            self.now += 500;
            self.complete(slot, "ok", json!(value), None);
        }
        if granted {
            self.invoke(slot, f::RELEASE, Value::Null);
            self.now += 500;
            let grant = self.slots[slot].grant;
            self.lock.answer(self.now, slot, Request::Release(grant), &mut self.random);
            self.complete(slot, "ok", json!({"believed": true, "removed": true}), None);
        }
        self.history.finish(self.now);
    }
}

/// The client that hosts a slot.
pub fn client(slot: usize) -> String {
    format!("c{}", slot % CLIENTS + 1)
}
