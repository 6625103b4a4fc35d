//! Writes a history as JSON lines:
//! `cargo run --release -p fencepost-checker --example generate -- MODEL OPERATIONS PROCESSES INDETERMINATE KEYS`,
//! for instance `register 1000000 20 0.01 1`.

use fencepost_checker::models::{FencedMutex, Mutex, OwnerMutex, ReentrantMutex, Register, SharedLock};
use fencepost_checker::{History, ModelName};
use generate::{Behaviour, Shape, generate};
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
