//! The tool by which an agent changes the clocks of a process in its node.

use crate::tools::clock::{self, ClockError, Skew};
use fencepost_cluster::agent::Tool;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Takes `{"do":"set","pid":N,"skew":{…}}` or `{"do":"remove","pid":N}`; gives what the process itself saw before and
/// after: `{"before":{"wall_ns":…,"monotonic_ns":…},"after":{…}}`, each against the true clocks.
pub struct ClockTool;

/// How long a process may be traced by somebody else before that is an error.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
enum Args {
    Set { pid: i32, skew: Skew },
    Remove { pid: i32 },
}

impl Tool for ClockTool {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn call(&self, args: Value) -> Result<Value, String> {
        let args =
            serde_json::from_value(args).map_err(|error| format!("the clock tool was misused: {error}"))?;
        let begun = Instant::now();
        loop {
            match change(&args) {
                // The tracer before this one is a thread that has not quite ended yet.
                Err(ClockError::Traced { .. }) if begun.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                changed => return changed.map_err(|error| error.to_string()),
            }
        }
    }
}

fn change(args: &Args) -> Result<Value, ClockError> {
    let (Args::Set { pid, .. } | Args::Remove { pid }) = *args;
    let before = clock::observe(pid)?;
    match args {
        Args::Set { skew, .. } => clock::install(pid)?.set(*skew)?,
        Args::Remove { .. } => clock::install(pid)?.remove()?,
    }
    let after = clock::observe(pid)?;
    Ok(json!({"before": before, "after": after}))
}
