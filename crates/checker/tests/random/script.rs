//! Random runs of a lock that grants now and then what it should not: few processes, coarse times, so that
//! many things come at the same moment, or exactly at the end of something.

use fencepost_history::{Event, Kind, Process, Seed, Stream, f};
use rand::RngExt;
use serde_json::{Value, json};

const PROCESSES: usize = 4;
const SERVERS: [&str; 3] = ["n1", "n2", "n3"];
const TTL_MS: u64 = 500;
const STEPS_MS: [u64; 12] = [0, 0, 1, 2, 5, 10, 50, 100, 100, 250, 500, 1_000];

struct Script {
    random: Stream,
    events: Vec<Event>,
    now_ms: u64,
    servers: usize,
    has_renewals: bool,
    /// What each slot is doing: the number of its process, the operation that is open, and whether it holds.
    slots: [Slot; PROCESSES],
    faults: Vec<Fault>,
    register: i64,
    token: i64,
    log: Vec<Value>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    process: u64,
    open: Option<&'static str>,
    holds: bool,
    key: &'static str,
}

struct Fault {
    id: u64,
    name: &'static str,
    target: &'static str,
    healed: bool,
}

/// The run of a seed.
pub fn run_of(seed: u64) -> Vec<Event> {
    let mut random = Seed(seed).stream("script");
    let (servers, steps) = (random.random_range(1..=3), random.random_range(30..70));
    let has_renewals = random.random_bool(0.3);
    let slot = |process: usize| Slot { process: process as u64, key: "a", ..Slot::default() };
    let mut script = Script {
        random,
        events: Vec::new(),
        now_ms: 0,
        servers,
        has_renewals,
        slots: std::array::from_fn(slot),
        faults: Vec::new(),
        register: 0,
        token: 0,
        log: Vec::new(),
    };
    script.begin(seed);
    for _ in 0..steps {
        let step = script.random.random_range(0..STEPS_MS.len());
        script.now_ms += STEPS_MS[step];
        match script.random.random_range(0..20) {
            0 => script.inject(),
            1 => script.heal(),
            2 if script.random.random_bool(0.2) => script.happens_to_a_node(),
            _ => script.step(),
        }
    }
    script.close();
    script.events
}

impl Script {
    fn chance(&mut self, share: f64) -> bool {
        self.random.random_bool(share)
    }

    fn add(
        &mut self,
        process: Process,
        kind: Kind,
        f: &str,
        key: Option<&str>,
        value: Value,
        error: Option<&str>,
    ) {
        let (index, time) = (self.events.len() as u64, self.now_ms * 1_000_000);
        let (key, error) = (key.map(Into::into), error.map(Into::into));
        self.events.push(Event { index, time, process, kind, f: f.into(), key, value: value.into(), error });
    }

    fn nemesis(&mut self, kind: Kind, f: &str, value: Value) {
        self.add(Process::Nemesis, kind, f, None, value, None);
    }

    fn begin(&mut self, seed: u64) {
        let lease = if self.chance(0.2) { "session" } else { "ttl" };
        let mut can = vec!["token", "validity"];
        can.extend(self.has_renewals.then_some(["extend", "lost"]).into_iter().flatten());
        self.nemesis(
            Kind::Info,
            "lock",
            json!({"name": "drawn", "lease": lease, "can": can, "client": ["drawn"]}),
        );
        let nemeses = if seed.is_multiple_of(5) {
            json!([])
        } else {
            json!(["pause", "kill", "clock-jump", "partition"])
        };
        self.nemesis(Kind::Info, "nemeses", nemeses);
        self.nemesis(Kind::Info, "servers", json!(SERVERS[..self.servers]));
        let leads = self.servers > 1;
        let nodes = json!({"leader": leads, "slots": ["c1", "c2", "c3", "c3"], "storage": ["storage"]});
        self.nemesis(Kind::Info, "nodes", nodes);
        self.nemesis(Kind::Info, "storage", json!("register"));
        self.nemesis(Kind::Info, "phase", json!("main"));
        if !seed.is_multiple_of(5) {
            self.inject();
        }
    }

    fn step(&mut self) {
        let at = self.random.random_range(0..PROCESSES);
        let Slot { open, holds, .. } = self.slots[at];
        match open {
            Some(f) => self.complete(at, f),
            None if !holds => self.acquire(at),
            None => self.use_it(at),
        }
    }

    fn say(&mut self, at: usize, kind: Kind, f: &'static str, value: Value, error: Option<&str>) {
        let Slot { process, key, .. } = self.slots[at];
        self.slots[at].open = (kind == Kind::Invoke).then_some(f);
        self.add(Process::Client(process), kind, f, Some(key), value, error);
        if kind == Kind::Info {
            // A process of unknown end is gone; another takes its place.
            let slot = &mut self.slots[at];
            (slot.process, slot.holds) = (process + 10, false);
        }
    }

    fn acquire(&mut self, at: usize) {
        self.slots[at].key = if self.chance(0.9) { "a" } else { "b" };
        let (timeout_ms, hold_ms) =
            ([250, 500, 1_000][self.random.random_range(0..3)], STEPS_MS[self.random.random_range(2..12)]);
        self.say(
            at,
            Kind::Invoke,
            f::ACQUIRE,
            json!({"ttl_ms": TTL_MS, "timeout_ms": timeout_ms, "hold_ms": hold_ms}),
            None,
        );
    }

    fn use_it(&mut self, at: usize) {
        let Slot { process, key, .. } = self.slots[at];
        match self.random.random_range(0..10) {
            0..3 => self.say(at, Kind::Invoke, f::READ, Value::Null, None),
            3..5 => {
                let value = self.register + 1;
                self.say(at, Kind::Invoke, f::WRITE, json!(value), None);
            }
            5 => self.say(at, Kind::Invoke, f::HOLDS, Value::Null, None),
            6 if self.has_renewals => {
                let notice = if self.chance(0.2) { f::LOST } else { f::RENEWED };
                self.add(Process::Client(process), Kind::Info, notice, Some(key), json!({"age_ms": 5}), None);
            }
            _ => self.say(at, Kind::Invoke, f::RELEASE, Value::Null, None),
        }
    }

    fn complete(&mut self, at: usize, f: &'static str) {
        let held = self.slots.iter().any(|slot| slot.holds && slot.key == self.slots[at].key);
        let ends_well = if f == f::ACQUIRE && held { 0.35 } else { 0.9 };
        if !self.chance(ends_well) {
            return match self.random.random_range(0..4) {
                0 => self.say(at, Kind::Info, f, Value::Null, Some("timeout")),
                1 => self.say(at, Kind::Fail, f, Value::Null, Some("unreachable")),
                2 if f == f::ACQUIRE => self.say(at, Kind::Fail, f, Value::Null, Some("refused-by-library")),
                _ => self.say(at, Kind::Fail, f, Value::Null, Some("taken")),
            };
        }
        let process = self.slots[at].process;
        match f {
            f::ACQUIRE => {
                self.token += self.random.random_range(0..3);
                let by = &SERVERS[..self.random.random_range(1..=self.servers)];
                let validity_ms = [400, 490, 500, 0, 600][self.random.random_range(0..5)];
                let waited_ms = [0, 0, 10, 250][self.random.random_range(0..4)];
                let value = json!({"granted_by": by, "token": self.token, "validity_ms": validity_ms, "waited_ms": waited_ms});
                self.say(at, Kind::Ok, f, value, None);
                self.slots[at].holds = true;
            }
            f::READ => {
                let stale = i64::from(self.chance(0.1));
                self.log.push(json!(["a", process, "read", null]));
                self.say(at, Kind::Ok, f, json!((self.register - stale).max(0)), None);
            }
            f::WRITE => {
                self.register += 1;
                self.log.push(json!(["a", process, "write", self.register]));
                self.say(at, Kind::Ok, f, Value::Null, None);
            }
            f::HOLDS => {
                let holds = self.chance(0.8);
                self.say(at, Kind::Ok, f, json!(holds), None);
            }
            _ => {
                let (believed, removed) = (self.chance(0.8), self.chance(0.8));
                self.say(at, Kind::Ok, f, json!({"believed": believed, "removed": removed}), None);
                self.slots[at].holds = false;
            }
        }
    }

    fn inject(&mut self) {
        let name =
            ["pause", "kill", "clock-jump", "partition", "delay", "pause"][self.random.random_range(0..6)];
        let targets = ["c1", "c2", "c3", "storage", "n1", "n1", SERVERS[self.servers - 1]];
        let target = targets[self.random.random_range(0..targets.len())];
        if self.faults.iter().any(|fault| !fault.healed && fault.target == target) {
            return;
        }
        let effects = match name {
            "pause" => json!(["stops"]),
            "kill" => json!(["stops", "kills", "forgets"]),
            "clock-jump" => json!(["moves-clocks"]),
            "partition" => json!(["parts"]),
            _ => json!(["delays"]),
        };
        let between =
            if name == "partition" { json!([[target], SERVERS[..self.servers]]) } else { json!([]) };
        let id = self.faults.len() as u64;
        let description = json!({
            "effects": effects, "between": between, "sentence": format!("{target} had a {name}"),
            "healing": format!("the {name} of {target} was over"), "label": name, "summary": name,
        });
        let value = json!({"id": id, "stage": "inject", "targets": [target], "description": description});
        self.nemesis(Kind::Invoke, name, value.clone());
        self.now_ms += [0, 5, 10, 100][self.random.random_range(0..4)];
        let (mut value, effective) = (value, self.chance(0.9));
        value["effective"] = json!(effective);
        self.nemesis(Kind::Ok, name, value);
        self.faults.push(Fault { id, name, target, healed: false });
    }

    fn heal(&mut self) {
        let Some(at) = self.faults.iter().position(|fault| !fault.healed) else { return };
        let Fault { id, name, target, .. } = self.faults[at];
        let value = json!({"id": id, "stage": "heal", "targets": [target]});
        self.nemesis(Kind::Invoke, name, value.clone());
        self.now_ms += [0, 5, 50][self.random.random_range(0..3)];
        self.nemesis(Kind::Ok, name, value);
        self.faults[at].healed = true;
    }

    fn happens_to_a_node(&mut self) {
        match self.random.random_range(0..4) {
            0 => self.nemesis(
                Kind::Info,
                "server-ended",
                json!({"node": "n1", "status": "was ended by SIGSEGV"}),
            ),
            1 => self.nemesis(
                Kind::Info,
                "section-abandoned",
                json!({"process": 1, "key": "a", "late_ms": 100}),
            ),
            _ => {
                let node = ["c1", "c2", "n1"][self.random.random_range(0..3)];
                let for_ms = [50, 250, 500][self.random.random_range(0..3)];
                self.nemesis(Kind::Info, "stalled", json!({"node": node, "for_ms": for_ms}));
            }
        }
    }

    /// Ends what is open, heals all, and asks once more for the lock.
    fn close(&mut self) {
        self.nemesis(Kind::Info, "phase", json!("heal"));
        while self.faults.iter().any(|fault| !fault.healed) {
            self.heal();
        }
        self.nemesis(Kind::Info, "phase", json!("liveness"));
        for _ in 0..30 {
            self.now_ms += [50, 100, 250, 500][self.random.random_range(0..4)];
            self.step();
        }
        self.nemesis(Kind::Info, "phase", json!("closing"));
        self.now_ms += 2 * TTL_MS;
        let asks = json!({"ttl_ms": TTL_MS, "timeout_ms": 2 * TTL_MS});
        self.add(Process::Client(99), Kind::Invoke, f::ACQUIRE, Some("a"), asks, None);
        self.now_ms += [1, 10, 2 * TTL_MS][self.random.random_range(0..3)];
        let (token, granted) = (self.token + 1, self.chance(0.9));
        match granted {
            true => {
                let value = json!({"granted_by": ["n1"], "token": token});
                self.add(Process::Client(99), Kind::Ok, f::ACQUIRE, Some("a"), value, None);
                self.add(Process::Client(99), Kind::Invoke, f::READ, Some("a"), Value::Null, None);
                let value = json!(self.register);
                self.log.push(json!(["a", 99, "read", null]));
                self.add(Process::Client(99), Kind::Ok, f::READ, Some("a"), value, None);
            }
            false => {
                self.add(Process::Client(99), Kind::Fail, f::ACQUIRE, Some("a"), Value::Null, Some("taken"))
            }
        }
        let log = std::mem::take(&mut self.log);
        self.nemesis(Kind::Info, "storage-log", json!(log));
    }
}
