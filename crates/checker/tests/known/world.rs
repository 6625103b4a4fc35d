//! A world with a lock in it, of which everything is known: one server, five clients with two processes each,
//! a register, and a controller that writes the history as that of a real run is written.
//!
//! Time passes only in a queue of acts. A node that is stopped does its acts when it runs again, and a message
//! between nodes that are parted is lost. The controller is never stopped: what it asks a stopped client to do
//! is recorded when it asks.

use super::lock::{Keeps, Lock, Mistake, Reply, Request};
use super::record::History;
use fencepost_history::{Event, Seed, Stream, f};
use rand::RngExt;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Microseconds since the world began.
pub type Time = u64;

pub const CLIENTS: usize = 5;
pub const SLOTS: usize = 10;
pub const SERVER: &str = "n1";
const SECOND: Time = 1_000_000;
/// After so long a client gives up on an answer.
const PATIENCE: Time = 400_000;

/// What kind of world it is.
#[derive(Clone, Copy, Debug)]
pub struct Laws {
    pub seed: u64,
    pub keeps: Keeps,
    pub faults: bool,
    pub mistake: Option<Mistake>,
    /// Some sections are longer than the TTL, though nothing renews the lock.
    pub outlasts: bool,
}

/// Something that happens at a time.
enum Act {
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
enum Step {
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
struct Slot {
    process: u64,
    /// Counts its operations: an answer to an earlier one is not heard.
    operation: u64,
    /// Counts its requests within an operation.
    request: u64,
    f: &'static str,
    busy: bool,
    asked_at: Time,
    attempt_at: Time,
    deadline: Time,
    granted_at: Time,
    valid_until: Time,
    grant: usize,
    /// Whether it has the grant, as far as its library knows.
    holds: bool,
    /// Whether it was told of a loss in the middle of an operation.
    lost: bool,
    hold: Time,
    read_at: Time,
    write_at: Time,
}

/// A fault of the plan.
pub struct Planned {
    pub kind: &'static str,
    pub target: String,
    pub from: Time,
    pub until: Time,
    pub by_ms: i64,
}

pub struct World {
    laws: Laws,
    pub ttl: Time,
    random: Stream,
    now: Time,
    order: u64,
    queue: BinaryHeap<Reverse<(Time, u64)>>,
    acts: HashMap<u64, Act>,
    slots: Vec<Slot>,
    /// The acts of nodes that are stopped, until they run.
    waiting: HashMap<String, Vec<Act>>,
    parted: Vec<String>,
    pub lock: Lock,
    register: i64,
    plan: Vec<Planned>,
    closing: bool,
    pub history: History,
}

impl World {
    /// Lets a world pass, and gives it as it was at the end.
    pub fn of(laws: Laws) -> World {
        let mut random = Seed(laws.seed).stream("world");
        let ttl = [500_000, SECOND, 2 * SECOND][random.random_range(0..3)];
        // That one process is left out is no chance only after some hundreds of grants.
        let longer = if laws.mistake == Some(Mistake::LeavesOneOut) { 8 } else { 1 };
        let length = random.random_range(6..12) * longer * SECOND;
        let plan = if laws.faults { plan(&mut random, ttl, length) } else { Vec::new() };
        let mut world = World {
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
            lock: Lock::new(ttl, laws.keeps, laws.mistake),
            register: 0,
            plan,
            closing: false,
            history: History::begin(laws.faults, laws.keeps),
        };
        for slot in 0..SLOTS {
            let at = world.random.random_range(0..20_000);
            world.at(at, Act::Begin(slot));
        }
        for fault in 0..world.plan.len() {
            let (from, until) = (world.plan[fault].from, world.plan[fault].until);
            let took = world.random.random_range(500..20_000);
            world.at(from, Act::Fault(fault, Stage::Inject));
            world.at(from + took, Act::Fault(fault, Stage::Injected));
            world.at(until, Act::Fault(fault, Stage::Heal));
            world.at(until + took, Act::Fault(fault, Stage::Healed));
        }
        let settled = length + 4 * ttl;
        world.at(length, Act::Phase("heal"));
        world.at(length + 1, Act::Phase("liveness"));
        world.at(settled, Act::Phase("end"));
        world.run();
        world
    }

    pub fn events(&self) -> &[Event] {
        &self.history.events
    }

    fn at(&mut self, time: Time, act: Act) {
        self.order += 1;
        self.queue.push(Reverse((time.max(self.now), self.order)));
        self.acts.insert(self.order, act);
    }

    fn soon(&mut self, act: Act) {
        let delay = self.random.random_range(100..2_000);
        self.at(self.now + delay, act);
    }

    fn run(&mut self) {
        while let Some(Reverse((time, order))) = self.queue.pop() {
            self.now = time;
            assert!(self.order < 1_000_000, "{:?} never ends", self.laws);
            let act = self.acts.remove(&order).expect("each act is kept once");
            let node = match &act {
                Act::Ask(slot, _)
                | Act::Attempt(slot, _)
                | Act::AtClient(slot, ..)
                | Act::GiveUp(slot, ..) => client(*slot),
                Act::FromStorage(slot, ..)
                | Act::Renew(slot, _)
                | Act::Renewed(slot, ..)
                | Act::Look(slot, _) => client(*slot),
                Act::AtServer(..) | Act::RenewAtServer(..) => SERVER.to_owned(),
                _ => String::new(),
            };
            match self.waiting.get_mut(&node) {
                Some(waiting) => waiting.push(act),
                None => self.act(act),
            }
        }
        self.close();
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Begin(slot) => self.begin(slot),
            Act::Step(slot, operation, step) => self.step(slot, operation, step),
            Act::Attempt(slot, operation) if self.is_current(slot, operation) => {
                self.slots[slot].attempt_at = self.now;
                self.ask(slot, Request::Acquire);
            }
            Act::Ask(slot, operation) if self.is_current(slot, operation) => {
                self.ask(slot, Request::Release(self.slots[slot].grant))
            }
            Act::AtServer(slot, operation, request) => self.at_server(slot, operation, request),
            Act::AtClient(slot, operation, reply) if self.is_current(slot, operation) => {
                self.heard(slot, reply)
            }
            Act::AtStorage(slot, operation, write) => {
                let process = self.slots[slot].process;
                if let Some(value) = write {
                    self.register = value;
                }
                self.history.stored(process, write);
                let value = self.register;
                self.soon(Act::FromStorage(slot, operation, value));
            }
            Act::FromStorage(slot, operation, value) if self.is_current(slot, operation) => {
                let (f, rest) = (self.slots[slot].f, self.slots[slot].write_at);
                self.complete(slot, "ok", json!(value), None);
                if self.slots[slot].lost {
                    return self.release(slot);
                }
                let step = if f == f::READ { Step::Write(value + 1) } else { Step::Release };
                let after = if f == f::READ { rest } else { self.slots[slot].hold };
                self.next(slot, after, step);
            }
            Act::GiveUp(slot, operation, request)
                if self.is_current(slot, operation) && self.slots[slot].request == request =>
            {
                self.complete(slot, "info", Value::Null, Some("timeout"));
                self.slots[slot].holds = false;
                self.slots[slot].process += SLOTS as u64;
                self.rest(slot);
            }
            Act::Renew(slot, grant) => self.renew(slot, grant),
            Act::RenewAtServer(slot, grant, sent) => {
                let reply = self.lock.answer(self.now, slot, Request::Renew(grant), &mut self.random);
                if let Reply::Renewed { still } = reply
                    && !self.is_parted(slot)
                {
                    self.soon(Act::Renewed(slot, grant, sent, still));
                }
            }
            Act::Renewed(slot, grant, sent, still) if self.has(slot, grant) => match still {
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
                    self.at(due, Act::Look(slot, grant));
                }
                false => self.lost(slot),
            },
            Act::Look(slot, grant) if self.has(slot, grant) => {
                let is_silent = self.laws.mistake == Some(Mistake::StopsRenewing);
                if self.now >= self.slots[slot].valid_until && !is_silent {
                    self.lost(slot);
                }
            }
            Act::Fault(fault, stage) => self.fault(fault, stage),
            Act::Phase("end") => self.closing = true,
            Act::Phase(name) => self.history.phase(self.now, name),
            Act::Attempt(..) | Act::AtClient(..) | Act::FromStorage(..) | Act::GiveUp(..) => {}
            Act::Renewed(..) | Act::Look(..) | Act::Ask(..) => {}
        }
    }

    fn is_current(&self, slot: usize, operation: u64) -> bool {
        self.slots[slot].busy && self.slots[slot].operation == operation
    }

    fn has(&self, slot: usize, grant: usize) -> bool {
        self.slots[slot].holds && self.slots[slot].grant == grant
    }

    fn renew(&mut self, slot: usize, grant: usize) {
        if !self.has(slot, grant) {
            return;
        }
        if !self.is_parted(slot) {
            self.soon(Act::RenewAtServer(slot, grant, self.now));
        }
        if self.laws.mistake != Some(Mistake::StopsRenewing) {
            self.at(self.now + self.ttl / 3, Act::Renew(slot, grant));
        }
    }

    /// The library reports that the lock is lost: the process does nothing more under it.
    fn lost(&mut self, slot: usize) {
        let of = &mut self.slots[slot];
        (of.holds, of.lost) = (false, true);
        self.history.client(self.now, of.process, "info", f::LOST, Value::Null, None);
        if !of.busy {
            self.release(slot);
        }
    }

    fn release(&mut self, slot: usize) {
        // What was planned of the section is void.
        self.slots[slot].operation += 1;
        let operation = self.slots[slot].operation;
        self.at(self.now, Act::Step(slot, operation, Step::Release));
    }

    /// Records the invocation of an operation.
    fn invoke(&mut self, slot: usize, f: &'static str, value: Value) {
        let now = self.now;
        let of = &mut self.slots[slot];
        (of.f, of.busy, of.asked_at) = (f, true, now);
        of.operation += 1;
        self.history.client(now, of.process, "invoke", f, value, None);
    }

    fn complete(&mut self, slot: usize, kind: &str, value: Value, error: Option<&str>) -> u64 {
        let of = &mut self.slots[slot];
        of.busy = false;
        self.history.client(self.now, of.process, kind, of.f, value, error)
    }

    fn rest(&mut self, slot: usize) {
        let rest = self.random.random_range(1_000..80_000);
        self.at(self.now + rest, Act::Begin(slot));
    }

    /// The next step of a section, so long after the grant.
    fn next(&mut self, slot: usize, after: Time, step: Step) {
        let of = &self.slots[slot];
        let (due, operation) = (of.granted_at + after, of.operation);
        self.at(due, Act::Step(slot, operation, step));
    }

    fn begin(&mut self, slot: usize) {
        if self.closing {
            return;
        }
        let ttl = self.ttl;
        let is_long = self.laws.outlasts || self.laws.keeps != Keeps::Lease;
        let hold = match is_long && self.random.random_bool(0.1) {
            true => ttl + self.random.random_range(ttl / 10..ttl),
            false => self.random.random_range(2_000..ttl / 3),
        };
        let timeout = ttl + self.random.random_range(0..ttl);
        let write_at = self.random.random_range(0..hold);
        let read_at = self.random.random_range(0..=write_at);
        let ms = |time: Time| time as f64 / 1e3;
        self.invoke(
            slot,
            f::ACQUIRE,
            json!({"hold_ms": ms(hold), "timeout_ms": ms(timeout), "ttl_ms": ms(ttl)}),
        );
        let now = self.now;
        let of = &mut self.slots[slot];
        (of.hold, of.read_at, of.write_at, of.deadline) = (hold, read_at, write_at, now + timeout);
        let operation = of.operation;
        self.soon(Act::Attempt(slot, operation));
    }

    /// A client's request to the server.
    fn ask(&mut self, slot: usize, request: Request) {
        self.slots[slot].request += 1;
        let (operation, number) = (self.slots[slot].operation, self.slots[slot].request);
        if !self.is_parted(slot) {
            self.soon(Act::AtServer(slot, operation, request));
        }
        self.at(self.now + PATIENCE, Act::GiveUp(slot, operation, number));
    }

    fn is_parted(&self, slot: usize) -> bool {
        self.parted.contains(&client(slot)) || self.parted.iter().any(|node| node == SERVER)
    }

    fn at_server(&mut self, slot: usize, operation: u64, request: Request) {
        let reply = self.lock.answer(self.now, slot, request, &mut self.random);
        // A lock that looks first and takes later sends a second request.
        if let Reply::Free = reply {
            return self.soon(Act::AtServer(slot, operation, Request::Take));
        }
        if !self.is_parted(slot) {
            self.soon(Act::AtClient(slot, operation, reply));
        }
    }

    /// An answer of the server has come.
    fn heard(&mut self, slot: usize, reply: Reply) {
        let now = self.now;
        match reply {
            Reply::Granted { grant, token } => {
                let of = &mut self.slots[slot];
                let valid = (of.attempt_at + self.ttl).saturating_sub(now);
                if valid == 0 {
                    self.complete(slot, "fail", Value::Null, Some("expired"));
                    return self.rest(slot);
                }
                (of.grant, of.granted_at, of.valid_until) = (grant, now, now + valid);
                (of.holds, of.lost) = (true, false);
                let due = of.valid_until;
                if self.laws.keeps != Keeps::Lease {
                    self.at(now + self.ttl / 3, Act::Renew(slot, grant));
                    self.at(due, Act::Look(slot, grant));
                }
                let of = &self.slots[slot];
                let ms = |time: Time| time as f64 / 1e3;
                let told =
                    if self.laws.mistake == Some(Mistake::LongValidity) { 3 * self.ttl } else { valid };
                let waited = of.attempt_at - of.asked_at;
                let value = json!({
                    "granted_by": [SERVER], "token": token, "validity_ms": ms(told), "waited_ms": ms(waited),
                });
                let index = self.complete(slot, "ok", value, None);
                self.lock.grants[grant].recorded = Some(index);
                let read_at = self.slots[slot].read_at;
                self.next(slot, read_at, Step::Read);
            }
            Reply::Taken => {
                let pause = self.random.random_range(5_000..40_000);
                if now + pause > self.slots[slot].deadline {
                    self.complete(slot, "fail", Value::Null, Some("taken"));
                    return self.rest(slot);
                }
                // The answer has come: what gives up on it has nothing to give up.
                self.slots[slot].request += 1;
                let operation = self.slots[slot].operation;
                self.at(now + pause, Act::Attempt(slot, operation));
            }
            Reply::Refused => {
                self.slots[slot].holds = false;
                self.complete(slot, "fail", Value::Null, Some("unreachable"));
                self.rest(slot);
            }
            Reply::Released { removed } => {
                let of = &mut self.slots[slot];
                let believed = of.asked_at < of.valid_until && !of.lost;
                of.holds = false;
                self.complete(slot, "ok", json!({"believed": believed, "removed": removed}), None);
                self.rest(slot);
            }
            Reply::Free | Reply::Renewed { .. } => unreachable!("it stays at the server"),
        }
    }

    fn step(&mut self, slot: usize, operation: u64, step: Step) {
        if self.slots[slot].operation != operation {
            return;
        }
        match step {
            Step::Read | Step::Write(_) => {
                let (f, write) = match step {
                    Step::Write(value) => (f::WRITE, Some(value)),
                    _ => (f::READ, None),
                };
                self.invoke(slot, f, write.map_or(Value::Null, |value| json!(value)));
                let operation = self.slots[slot].operation;
                // The client sends it when it runs.
                match self.waiting.get_mut(&client(slot)) {
                    Some(waiting) => waiting.push(Act::AtStorage(slot, operation, write)),
                    None => self.soon(Act::AtStorage(slot, operation, write)),
                }
            }
            Step::Release => {
                self.invoke(slot, f::RELEASE, Value::Null);
                let ask = Act::Ask(slot, self.slots[slot].operation);
                self.soon(ask);
            }
        }
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
            self.invoke(
                slot,
                f::ACQUIRE,
                json!({"timeout_ms": self.ttl as f64 / 1e3, "ttl_ms": self.ttl as f64 / 1e3}),
            );
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
        self.invoke(slot, f::READ, Value::Null);
        let value = self.register;
        self.history.stored(self.slots[slot].process, None);
        self.now += 500;
        self.complete(slot, "ok", json!(value), None);
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

/// Faults of a few kinds, no two of a kind on one target at a time.
fn plan(random: &mut Stream, ttl: Time, length: Time) -> Vec<Planned> {
    let mut plan: Vec<Planned> = Vec::new();
    for _ in 0..random.random_range(1..7) {
        let kind = ["pause", "pause", "kill", "clock-jump", "partition"][random.random_range(0..5)];
        let of_client = kind == "partition" || kind == "pause" && random.random_bool(0.7);
        let target = match of_client {
            true => client(random.random_range(0..CLIENTS)),
            false => SERVER.to_owned(),
        };
        let from = random.random_range(200_000..length - SECOND);
        let until = from + 30_000 + random.random_range(ttl / 4..2 * ttl);
        let by_ms = (ttl / 1_000) as i64 * random.random_range(-3..30);
        let is_apart = |other: &Planned| {
            other.kind != kind
                || other.target != target
                || until + 30_000 < other.from
                || other.until + 30_000 < from
        };
        // A server that is down has no clock, and what is stopped is not killed: each alone.
        let is_alone = |other: &Planned| {
            target != SERVER
                || other.target != SERVER
                || until + 30_000 < other.from
                || other.until + 30_000 < from
        };
        if until < length && plan.iter().all(|other| is_apart(other) && is_alone(other)) {
            plan.push(Planned { kind, target, from, until, by_ms });
        }
    }
    plan
}
