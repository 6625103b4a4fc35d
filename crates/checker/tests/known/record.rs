//! Writes the history of a known simulation, as that of a real run is written.

use super::lock::{Keeps, Shared};
use super::plan::Planned;
use super::simulation::{CLIENTS, SERVER, SLOTS, Stage, Time, client};
use fencepost_history::{Event, Kind, Process};
use serde_json::{Value, json};

const KEY: &str = "k0";

pub struct History {
    pub events: Vec<Event>,
    log: Vec<Value>,
}

impl History {
    /// What stands at the beginning of every run.
    pub fn begin(faults: bool, keeps: Keeps, shared: Shared) -> History {
        let mut history = History { events: Vec::new(), log: Vec::new() };
        let (lease, can) = match keeps {
            Keeps::Lease => ("ttl", json!(["token", "validity"])),
            Keeps::Renewed => ("ttl", json!(["token", "validity", "extend", "lost"])),
            Keeps::Session => ("session", json!(["token", "validity", "extend", "lost"])),
        };
        let mut facts = json!({"name": "known", "lease": lease, "can": can, "client": ["known"]});
        match shared {
            Shared::Mutex => {}
            Shared::Semaphore => facts["kind"] = json!("semaphore"),
            Shared::ReadWrite => facts["kind"] = json!("read-write"),
        }
        let nemeses = if faults { json!(["pause", "kill", "clock-jump", "partition"]) } else { json!([]) };
        let slots: Vec<String> = (0..SLOTS).map(client).collect();
        history.nemesis(0, Kind::Info, "lock", facts);
        history.nemesis(0, Kind::Info, "nemeses", nemeses);
        history.nemesis(0, Kind::Info, "servers", json!([SERVER]));
        history.nemesis(
            0,
            Kind::Info,
            "nodes",
            json!({"leader": false, "slots": slots, "storage": ["storage"]}),
        );
        history.nemesis(0, Kind::Info, "storage", json!("register"));
        history.phase(0, "main");
        history
    }

    fn add(&mut self, now: Time, process: Process, kind: Kind, f: &str, value: Value) -> u64 {
        let (index, time) = (self.events.len() as u64, now * 1_000);
        let key = matches!(process, Process::Client(_)).then(|| KEY.into());
        self.events.push(Event {
            index,
            time,
            process,
            kind,
            f: f.into(),
            key,
            value: value.into(),
            error: None,
        });
        index
    }

    fn nemesis(&mut self, now: Time, kind: Kind, f: &str, value: Value) {
        self.add(now, Process::Nemesis, kind, f, value);
    }

    pub fn phase(&mut self, now: Time, name: &str) {
        self.nemesis(now, Kind::Info, "phase", json!(name));
    }

    /// An event of a process; gives its index.
    pub fn client(
        &mut self,
        now: Time,
        process: u64,
        kind: &str,
        f: &str,
        value: Value,
        error: Option<&str>,
    ) -> u64 {
        let kind = serde_json::from_value(json!(kind)).expect("a kind of event");
        let index = self.add(now, Process::Client(process), kind, f, value);
        self.events[index as usize].error = error.map(Into::into);
        index
    }

    /// The storage did a read, or a write.
    pub fn stored(&mut self, process: u64, write: Option<i64>) {
        self.log.push(match write {
            None => json!([KEY, process, "read", null]),
            Some(value) => json!([KEY, process, "write", value]),
        });
    }

    pub fn fault(&mut self, now: Time, id: u64, planned: &Planned, stage: Stage) {
        let Planned { kind, target, by_ms, .. } = planned;
        let (effects, between) = match *kind {
            "pause" => (json!(["stops"]), json!([])),
            "kill" => (json!(["stops", "kills"]), json!([])),
            "clock-jump" => (json!(["moves-clocks"]), json!([])),
            _ => (json!(["parts"]), json!([[target], [SERVER]])),
        };
        let (at, name) = match stage {
            Stage::Inject => (Kind::Invoke, "inject"),
            Stage::Injected => (Kind::Ok, "inject"),
            Stage::Heal => (Kind::Invoke, "heal"),
            Stage::Healed => (Kind::Ok, "heal"),
        };
        let mut value = json!({"id": id, "stage": name, "targets": [target]});
        if name == "inject" {
            value["description"] = json!({
                "effects": effects, "between": between, "sentence": format!("{kind} of {target} by {by_ms}"),
                "healing": "healed", "label": kind, "summary": kind,
                "takes_down": (*kind == "pause" || *kind == "kill"), "keeps_memory": *kind != "kill",
                "moves_clocks": *kind == "clock-jump",
            });
        }
        if let Stage::Injected = stage {
            value["effective"] = json!(true);
        }
        self.nemesis(now, at, kind, value);
    }

    pub fn finish(&mut self, now: Time) {
        let log = std::mem::take(&mut self.log);
        if !log.is_empty() {
            self.nemesis(now, Kind::Info, "storage-log", json!(log));
        }
        debug_assert!(self.events.len() > CLIENTS);
    }
}
