//! Random histories of a lock that grants whatever it likes, for property tests.

use fencepost_history::{Event, Kind, Process, f};
use proptest::prelude::*;
use serde_json::{Value, json};

const PROCESSES: usize = 4;

/// What one step of a random history does: a process, a key, an action, and the time that passes before.
type RandomStep = (usize, usize, u8, u64);

/// Histories of four processes in two clients, two servers, two keys, and faults of two kinds.
pub fn histories() -> impl Strategy<Value = Vec<Event>> {
    let step = (0..PROCESSES, 0..2_usize, 0..20_u8, 0..3_u64);
    prop::collection::vec(step, 0..60).prop_map(|steps| history(&steps))
}

#[derive(Default)]
struct RandomRecorder {
    events: Vec<Event>,
    time: u64,
    faults: u64,
}

impl RandomRecorder {
    fn add(&mut self, process: Process, kind: Kind, f: &str, key: Option<&str>, value: Value) {
        let (index, time) = (self.events.len() as u64, self.time * 1_000_000);
        let (f, key, value) = (f.into(), key.map(Into::into), value.into());
        self.events.push(Event { index, time, process, kind, f, key, value, error: None });
    }

    fn fault(&mut self, action: u8, target: usize) {
        let name = if action.is_multiple_of(2) { "pause" } else { "kill" };
        let on = ["c1", "c2", "n1", "n2"][target % 4];
        let value = |effective: bool| json!({"id": self.faults, "stage": "inject", "targets": [on], "effective": effective});
        let (begin, end) = (value(false), value(action < 19));
        self.add(Process::Nemesis, Kind::Invoke, name, None, begin);
        self.add(Process::Nemesis, Kind::Ok, name, None, end);
        self.faults += 1;
    }
}

fn history(steps: &[RandomStep]) -> Vec<Event> {
    let mut recorder = RandomRecorder::default();
    recorder.add(Process::Nemesis, Kind::Info, "nemeses", None, json!(["pause", "kill"]));
    recorder.add(Process::Nemesis, Kind::Info, "servers", None, json!(["n1", "n2"]));
    recorder.add(Process::Nemesis, Kind::Info, "nodes", None, json!({"slots": ["c1", "c2"]}));
    let mut open: [Option<(&str, &str)>; PROCESSES] = [None; PROCESSES];
    for &(at, key, action, passes) in steps {
        recorder.time += passes;
        let (process, key) = (Process::Client(at as u64), ["a", "b"][key]);
        if action >= 16 {
            recorder.fault(action, at);
            continue;
        }
        if let Some((f, key)) = open[at].take() {
            let (kind, value) = completion(f, action, at);
            recorder.add(process, kind, f, Some(key), value);
            continue;
        }
        let f = match action {
            0..7 => f::ACQUIRE,
            7..9 => f::WRITE,
            9..11 => f::HOLDS,
            11..14 => f::RELEASE,
            _ => {
                recorder.add(
                    process,
                    Kind::Info,
                    [f::LOST, f::RENEWED][usize::from(action) % 2],
                    Some(key),
                    json!(null),
                );
                continue;
            }
        };
        let value = if f == f::ACQUIRE { json!({"ttl_ms": 10}) } else { json!(null) };
        recorder.add(process, Kind::Invoke, f, Some(key), value);
        open[at] = Some((f, key));
    }
    recorder.events
}

fn completion(f: &str, action: u8, at: usize) -> (Kind, Value) {
    match (f, action) {
        (_, 0) => (Kind::Info, json!(null)),
        (_, 1) => (Kind::Fail, json!(null)),
        (f::ACQUIRE, _) => (Kind::Ok, json!({"granted_by": [(["n1", "n2"][at % 2])]})),
        (f::HOLDS, _) => (Kind::Ok, json!(!action.is_multiple_of(3))),
        (f::RELEASE, _) => (Kind::Ok, json!({"believed": !action.is_multiple_of(3)})),
        _ => (Kind::Ok, json!(null)),
    }
}
