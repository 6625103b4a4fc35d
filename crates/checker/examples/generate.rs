//! Writes a history as JSON lines:
//! `cargo run --release -p fencepost-checker --example generate -- MODEL OPERATIONS PROCESSES INDETERMINATE KEYS`,
//! for instance `register 1000000 20 0.01 1`. MODEL may also be a kind of locks: `read-write` (readers, and a
//! writer among six) or `semaphore` (three permits), for the model `shared-lock`.

use fencepost_checker::models::{
    FencedMutex, Mutex, OwnerMutex, ReentrantMutex, Register, ShareOp, SharedLock,
};
use fencepost_checker::{Claim, History, Model, ModelName};
use fencepost_history::Stream;
use generate::{Behaviour, Shape, generate};
use rand::RngExt;
use serde_json::{Value, json};
use std::error::Error;
use std::io::{BufWriter, Write};

#[path = "../tests/generate/mod.rs"]
mod generate;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, operations, processes, indeterminate, keys] = &arguments[..] else {
        return Err("five arguments: MODEL OPERATIONS PROCESSES INDETERMINATE KEYS".into());
    };
    let number = |text: &String| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    let keys = number(keys)?;
    let shape = |seed| -> Result<Shape, Box<dyn Error>> {
        Ok(Shape {
            seed,
            operations: number(operations)? as usize / keys as usize,
            processes: number(processes)? as u32,
            indeterminate: indeterminate.parse().map_err(|error| format!("{indeterminate}: {error}"))?,
        })
    };
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    for key in 0..keys {
        let shape = shape(key)?;
        match &**model {
            "read-write" => {
                let claims = &[Claim::EXCLUSIVE, SHARED, SHARED, SHARED, SHARED, SHARED];
                write(&mut out, &OfKind(claims), &shape, key);
                continue;
            }
            "semaphore" => {
                write(&mut out, &OfKind(&[Claim { weight: 1, capacity: 3 }]), &shape, key);
                continue;
            }
            _ => {}
        }
        // Values of operations and results are written from how the models show them.
        match model.parse::<ModelName>()? {
            ModelName::Mutex => write(&mut out, &Mutex, &shape, key),
            ModelName::OwnerMutex => write(&mut out, &OwnerMutex, &shape, key),
            ModelName::ReentrantMutex => write(&mut out, &ReentrantMutex, &shape, key),
            ModelName::SharedLock => write(&mut out, &SharedLock, &shape, key),
            ModelName::FencedMutex => write(&mut out, &FencedMutex, &shape, key),
            ModelName::Register => write(&mut out, &Register::default(), &shape, key),
            other => return Err(format!("{other} is not generated").into()),
        }
    }
    Ok(out.flush()?)
}

const SHARED: Claim = Claim::SHARED;

/// A lock that several hold together, whose processes ask for one of these.
struct OfKind(&'static [Claim]);

impl Model for OfKind {
    type State = <SharedLock as Model>::State;
    type Op = ShareOp;
    type Ret = ();

    fn start(&self) -> Self::State {
        SharedLock.start()
    }

    fn step(&self, state: &Self::State, op: &ShareOp, ret: Option<&()>) -> Option<Self::State> {
        SharedLock.step(state, op, ret)
    }

    fn show(&self, op: &ShareOp, ret: Option<&()>) -> String {
        SharedLock.show(op, ret)
    }

    fn show_state(&self, state: &Self::State) -> String {
        SharedLock.show_state(state)
    }
}

impl Behaviour for OfKind {
    fn next(&self, random: &mut Stream, process: u32, last: Option<&ShareOp>, _count: u32) -> ShareOp {
        match last {
            Some(ShareOp::Acquire(..)) => ShareOp::Release(process),
            _ => ShareOp::Acquire(process, self.0[random.random_range(0..self.0.len())]),
        }
    }

    fn result(&self, random: &mut Stream, state: &Self::State, op: &ShareOp) -> Option<()> {
        SharedLock.result(random, state, op)
    }

    fn may_linger(&self, op: &ShareOp) -> bool {
        SharedLock.may_linger(op)
    }
}

/// Processes of a key have numbers of their own, so that no process has two operations open.
fn write<M: Behaviour>(out: &mut impl Write, model: &M, shape: &Shape, key: u64) {
    let history: History<M> = generate(model, shape);
    for (index, &event) in history.order.iter().enumerate() {
        let at = (event >> 1) as usize;
        let (operation, source) = (&history.list[at], &history.sources[at]);
        let shown = model.show(&operation.op, operation.ret.as_ref()).replace('#', "");
        let (call, result) =
            shown.split_once(" → ").map_or((&*shown, None), |(call, result)| (call, Some(result)));
        let (f, argument) = call.split_once(' ').map_or((call, None), |(f, argument)| (f, Some(argument)));
        let value = |text: Option<&str>| {
            text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or(Value::Null))
        };
        let (kind, time, value) = match event & 1 {
            0 => ("invoke", source.invoke_ns, value(argument)),
            _ => ("ok", source.complete_ns, result.map_or_else(|| value(argument), returned)),
        };
        let line = json!({
            "index": index, "time": time, "process": source.process + key * 1_000_000, "type": kind, "f": f,
            "key": format!("k{key}"), "value": value,
        });
        let _ = writeln!(out, "{line}");
    }
}

fn returned(text: &str) -> Value {
    match text.strip_prefix("token ") {
        Some(token) => json!({"token": token.parse::<i64>().unwrap_or(0)}),
        None => serde_json::from_str(text).unwrap_or(Value::Null),
    }
}
