//! Random histories of one object, as lines of JSON: what processes saw, with now and then an answer that is
//! not what the object would have said.

use fencepost_history::{Seed, Stream};
use rand::RngExt;
use serde_json::{Value, json};

const PROCESSES: usize = 3;

struct Object {
    random: Stream,
    holder: Option<u64>,
    /// Processes that were granted it, and have not released it.
    believe: Vec<u64>,
    token: i64,
    value: i64,
    written: i64,
}

/// The history of a seed, for a model of this name.
pub fn history_of(model: &str, seed: u64) -> String {
    let random = Seed(seed).stream(model);
    let mut object = Object { random, holder: None, believe: Vec::new(), token: 0, value: 0, written: 0 };
    let mut numbers: [u64; PROCESSES] = [0, 1, 2];
    let mut open: [Option<(&'static str, Value)>; PROCESSES] = Default::default();
    let (mut lines, mut now_ms) = (String::new(), 0);
    for _ in 0..object.random.random_range(12..30) {
        let at = object.random.random_range(0..PROCESSES);
        now_ms += object.random.random_range(0..4);
        let process = numbers[at];
        let mut say = |kind: &str, f: &str, value: &Value, error: Option<&str>| {
            let line = json!({
                "process": process, "type": kind, "f": f, "value": value, "error": error, "time": now_ms * 1_000_000,
            });
            lines.push_str(&format!("{line}\n"));
        };
        let Some((f, value)) = open[at].take() else {
            let (f, value) = object.next(model, process);
            say("invoke", f, &value, None);
            open[at] = Some((f, value));
            continue;
        };
        match object.random.random_range(0..12) {
            0 => {
                say("info", f, &value, Some("timeout"));
                if object.random.random_bool(0.5) {
                    object.answer(process, f, &value);
                }
                numbers[at] += 10;
            }
            1 => say("fail", f, &value, Some("refused")),
            _ => match object.answer(process, f, &value) {
                Some(answer) => say("ok", f, &answer, None),
                None => say("fail", f, &value, Some("mismatch")),
            },
        }
    }
    lines
}

impl Object {
    fn next(&mut self, model: &str, process: u64) -> (&'static str, Value) {
        if model.contains("mutex") || model == "shared-lock" {
            let has = self.believe.contains(&process);
            let releases = if self.random.random_bool(0.9) { has } else { !has };
            let asks = match model {
                "lease-mutex" => json!({"ttl_ms": 5}),
                "shared-lock" if process % 2 == 0 => json!({"mode": "shared"}),
                _ => Value::Null,
            };
            return if releases { ("release", Value::Null) } else { ("acquire", asks) };
        }
        match self.random.random_range(0..3) {
            0 => ("read", Value::Null),
            1 if model.starts_with("cas") => {
                let to = self.random.random_range(1..4);
                ("cas", json!([self.value, to]))
            }
            _ => {
                self.written += 1;
                let value =
                    if model.starts_with("cas") { self.random.random_range(1..4) } else { self.written };
                ("write", json!(value))
            }
        }
    }

    /// What the object answers as it does the operation; none where it refuses it. Now and then it errs.
    fn answer(&mut self, process: u64, f: &str, value: &Value) -> Option<Value> {
        let errs = self.random.random_bool(0.15);
        match f {
            "acquire" if value["mode"] == "shared" && (self.holder.is_none() || errs) => {
                self.believe.push(process);
                Some(Value::Null)
            }
            "acquire" if self.holder.is_none() || errs => {
                self.holder = Some(process);
                self.believe.push(process);
                self.token += if errs { 0 } else { 1 };
                Some(json!({"token": self.token}))
            }
            "acquire" => None,
            "release" => {
                self.holder = self.holder.filter(|holder| *holder != process);
                self.believe.retain(|believing| *believing != process);
                Some(Value::Null)
            }
            "read" => {
                let value = if errs { self.value - 1 } else { self.value };
                // Before the first write there is nothing.
                Some(if value < 1 { Value::Null } else { json!(value) })
            }
            "write" => {
                self.value = value.as_i64().filter(|_| !errs).unwrap_or(self.value);
                Some(value.clone())
            }
            _ => {
                let [from, to] = [0, 1].map(|at| value[at].as_i64());
                if from != Some(self.value) && !errs {
                    return None;
                }
                self.value = to.unwrap_or(self.value);
                Some(value.clone())
            }
        }
    }
}
