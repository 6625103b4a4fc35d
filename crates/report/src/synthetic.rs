//! Histories of any size for tests: Redlock on five simulated nodes whose clocks jump.

use fencepost_history::prose::and;
use fencepost_history::{Event, Kind, PHASE, Process, RunPhase, Seed, Stream, f};
use rand::RngExt;
use rand::seq::SliceRandom;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MS: u64 = 1_000_000;
const NODES: usize = 5;
const TTL: u64 = 2000 * MS;

pub struct SyntheticSize {
    pub processes: u64,
    pub keys: usize,
    pub seconds: u64,
    /// How long a critical section lasts.
    pub hold_ms: u64,
    /// One in so many operations has an unknown outcome; 0: none.
    pub unsure: u32,
}

enum At {
    Idle,
    Acquiring { until: u64 },
    Held,
    Reading,
    Working(i64),
    Writing(i64),
    Releasing,
}

struct Actor {
    process: u64,
    key: usize,
    at: At,
}

struct Simulation {
    size: SyntheticSize,
    random: Stream,
    now: u64,
    events: Vec<Event>,
    /// Of each key and node: who has it, until when.
    nodes: Vec<[Option<(u64, u64)>; NODES]>,
    storage: Vec<i64>,
    jumped: Option<(u64, Vec<usize>)>,
    faults: u64,
}

/// A history of about two dozen events a critical section; the same for the same size.
pub fn redlock(size: SyntheticSize) -> Vec<Event> {
    let (end, processes) = (size.seconds * 1000 * MS, size.processes);
    let mut run = Simulation {
        random: Seed(7).stream("synthetic"),
        now: 0,
        events: Vec::new(),
        nodes: vec![[None; NODES]; size.keys],
        storage: vec![0; size.keys],
        jumped: None,
        faults: 0,
        size,
    };
    run.push(Process::Nemesis, Kind::Info, PHASE, None, json!(RunPhase::Main.name()), None);
    let mut actors: Vec<Actor> =
        (0..processes).map(|process| Actor { process, key: 0, at: At::Idle }).collect();
    // The last one is the nemesis.
    let mut queue: BinaryHeap<Reverse<(u64, usize)>> =
        (0..actors.len()).map(|at| Reverse((at as u64 * MS, at))).collect();
    queue.push(Reverse((1000 * MS, actors.len())));
    while let Some(Reverse((now, at))) = queue.pop() {
        run.now = now;
        let next = match actors.get_mut(at) {
            Some(actor) => run.step(actor, now > end),
            None if now > end && run.jumped.is_none() => None,
            None => Some(run.nemesis()),
        };
        queue.extend(next.map(|wait| Reverse((now + wait.max(1000), at))));
    }
    run.closing(processes);
    run.events
}

impl Simulation {
    fn push(
        &mut self,
        process: Process,
        kind: Kind,
        f: &'static str,
        key: Option<usize>,
        value: Value,
        error: Option<&'static str>,
    ) {
        let key = key.map(|key| format!("k{key}").into());
        let index = self.events.len() as u64;
        self.events.push(Event {
            index,
            time: self.now,
            process,
            kind,
            f: f.into(),
            key,
            value: value.into(),
            error: error.map(Into::into),
        });
    }

    fn act(&mut self, actor: &Actor, kind: Kind, f: &'static str, value: Value, error: Option<&'static str>) {
        self.push(Process::Client(actor.process), kind, f, Some(actor.key), value, error);
    }

    fn micros(&mut self, from: u64, to: u64) -> u64 {
        // Few are slow.
        let share = self.random.random::<f64>().powi(6);
        (from + ((to - from) as f64 * share) as u64) * 1000
    }

    /// One step of a process; gives how long until its next, and none once it is over.
    fn step(&mut self, actor: &mut Actor, over: bool) -> Option<u64> {
        match actor.at {
            At::Idle if over => None,
            At::Idle => {
                actor.key = self.random.random_range(0..self.size.keys);
                self.act(actor, Kind::Invoke, f::ACQUIRE, json!({"ttl_ms": 2000, "timeout_ms": 1000}), None);
                actor.at = At::Acquiring { until: self.now + 1000 * MS };
                Some(self.micros(900, 9000))
            }
            At::Acquiring { until } => Some(self.acquire(actor, until)),
            At::Held => {
                self.act(actor, Kind::Invoke, f::READ, Value::Null, None);
                actor.at = At::Reading;
                Some(self.micros(200, 3000))
            }
            At::Reading => {
                let value = self.storage[actor.key];
                self.act(actor, Kind::Ok, f::READ, json!(value), None);
                actor.at = At::Working(value);
                Some(self.size.hold_ms * MS)
            }
            At::Working(value) => {
                self.act(actor, Kind::Invoke, f::WRITE, json!(value + 1), None);
                actor.at = At::Writing(value + 1);
                Some(self.micros(200, 3000))
            }
            At::Writing(value) => {
                self.storage[actor.key] = value;
                if self.size.unsure > 0 && self.random.random_ratio(1, self.size.unsure) {
                    self.act(actor, Kind::Info, f::WRITE, Value::Null, Some("timeout"));
                    actor.process += self.size.processes;
                    actor.at = At::Idle;
                    return Some(self.micros(1000, 300_000));
                }
                self.act(actor, Kind::Ok, f::WRITE, json!(value), None);
                self.act(actor, Kind::Invoke, f::RELEASE, Value::Null, None);
                actor.at = At::Releasing;
                Some(self.micros(500, 5000))
            }
            At::Releasing => {
                self.free(actor);
                self.act(actor, Kind::Ok, f::RELEASE, json!({"believed": true}), None);
                actor.at = At::Idle;
                Some(self.size.hold_ms * MS + self.micros(100, 40_000))
            }
        }
    }

    fn acquire(&mut self, actor: &mut Actor, until: u64) -> u64 {
        let now = self.now;
        let nodes = &mut self.nodes[actor.key];
        let mut granted = Vec::new();
        for (at, node) in nodes.iter_mut().enumerate() {
            let free = node.is_none_or(|(owner, expires)| expires <= now || owner == actor.process);
            if free && self.random.random_bool(0.8) {
                *node = Some((actor.process, now + TTL));
                granted.push(format!("n{}", at + 1));
            }
        }
        if granted.len() > NODES / 2 {
            self.act(actor, Kind::Ok, f::ACQUIRE, json!({"validity_ms": 1974, "granted_by": granted}), None);
            actor.at = At::Held;
            return self.micros(50, 500);
        }
        self.free(actor);
        if now < until {
            return self.micros(2000, 60_000);
        }
        self.act(actor, Kind::Fail, f::ACQUIRE, Value::Null, Some("taken"));
        actor.at = At::Idle;
        self.micros(1000, 30_000)
    }

    fn free(&mut self, actor: &Actor) {
        for node in &mut self.nodes[actor.key] {
            *node = node.filter(|(owner, _)| *owner != actor.process);
        }
    }

    /// Sets the clocks of some nodes forward, or right again.
    fn nemesis(&mut self) -> u64 {
        if let Some((id, _)) = self.jumped.take() {
            let heal = json!({"id": id, "stage": "heal"});
            self.push(Process::Nemesis, Kind::Invoke, "clock-jump", None, heal.clone(), None);
            self.now += MS / 2;
            self.push(Process::Nemesis, Kind::Ok, "clock-jump", None, heal, None);
            return 900 * MS + self.micros(0, 1_500_000);
        }
        self.faults += 1;
        let mut nodes: Vec<usize> = (0..NODES).collect();
        nodes.shuffle(&mut self.random);
        nodes.truncate(self.random.random_range(1..=3));
        nodes.sort_unstable();
        let names: Vec<String> = nodes.iter().map(|node| format!("n{}", node + 1)).collect();
        let jump = json!({"wall_ms": 60_000, "monotonic_ms": 60_000});
        let observed: serde_json::Map<_, _> = names.iter().map(|name| (name.clone(), jump.clone())).collect();
        let (on, label) = (and(&names), format!("{} clock +60.0 s", names.join(" ")));
        let description = json!({
            "keeps_memory": true, "moves_clocks": true, "summary": "clocks of nodes jumped", "label": label,
            "sentence": format!("the clocks of {on} jumped forward by 60.000 s"),
            "healing": format!("the clock of {on} was set right"),
        });
        let inject = |more: Value| {
            let mut value = json!({"id": self.faults, "stage": "inject", "targets": names, "requested": jump, "description": description});
            value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            value
        };
        let (begun, done) = (inject(json!({})), inject(json!({"observed": observed, "effective": true})));
        self.push(Process::Nemesis, Kind::Invoke, "clock-jump", None, begun, None);
        for key in &mut self.nodes {
            nodes.iter().for_each(|node| key[*node] = None);
        }
        self.now += MS / 2;
        self.push(Process::Nemesis, Kind::Ok, "clock-jump", None, done, None);
        self.jumped = Some((self.faults, nodes));
        700 * MS + self.micros(0, 900_000)
    }

    /// A fresh process acquires, reads and releases each key.
    fn closing(&mut self, processes: u64) {
        self.push(Process::Nemesis, Kind::Info, PHASE, None, json!(RunPhase::Heal.name()), None);
        self.now += TTL;
        self.push(Process::Nemesis, Kind::Info, PHASE, None, json!(RunPhase::Closing.name()), None);
        for key in 0..self.size.keys {
            let actor = Actor { process: 1000 * processes + key as u64, key, at: At::Idle };
            let value = self.storage[key];
            let steps = [
                (f::ACQUIRE, json!({"ttl_ms": 2000}), json!({"granted_by": ["n1", "n2", "n3"]})),
                (f::READ, Value::Null, json!(value)),
                (f::RELEASE, Value::Null, json!({"believed": true})),
            ];
            for (f, asked, answered) in steps {
                self.act(&actor, Kind::Invoke, f, asked, None);
                self.now += MS;
                self.act(&actor, Kind::Ok, f, answered, None);
            }
        }
    }
}
