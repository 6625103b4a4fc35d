//! `fencepost fault … --pid`: a fault of a program that Fencepost did not start, while the command runs.

use crate::exit::FAILED;
use crate::output::{complain, say};
use crate::runtime::{listen_for_signals, runtime};
use anyhow::{Context, Result};
use console::style;
use fencepost_checker::Outcome;
use fencepost_engine::{BadUsage, Stop, refuse};
use fencepost_history::TimeSpan;
use fencepost_nemesis::ProcessFault;
use serde_json::{Map, Value, json};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Without --for.
const LONGEST: Duration = Duration::from_secs(3600);

/// How often one looks whether the process is still there.
const LOOK: Duration = Duration::from_millis(50);

/// Faults that end the process: there is nothing to wait for, and nothing to heal.
const ENDS: [&str; 2] = ["kill", "terminate"];

/// Injects this fault until its time, Ctrl-C, or the end of the process. Exit code 2: no effect observed.
pub fn fault_of_process(mut keys: Map<String, Value>, pid: i32, json: bool) -> Result<i32> {
    let nemesis = keys.remove("fault").and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
    if keys.remove("on").is_some() {
        refuse!("a fault hits nodes, or the process of --pid: name one of both");
    }
    let time = match keys.remove("for").as_ref().and_then(Value::as_str).map(str::parse::<TimeSpan>) {
        None => LONGEST,
        Some(Ok(time)) => time.0,
        Some(Err(why)) => return Err(BadUsage::at("for", why.to_string()).into()),
    };
    let refused = |refusal: fencepost_nemesis::Refusal| BadUsage::new(refusal.sentence);
    let mut fault = ProcessFault::new(pid, &nemesis, with_ms(keys)).map_err(refused)?;
    runtime()?.block_on(async {
        let stop = Arc::new(Stop::default());
        let listening = tokio::spawn(listen_for_signals(stop.clone()));
        let guard = Guard::of(pid)?;
        let outcome = hit(&mut fault, &nemesis, time, json, &stop).await;
        let healed = fault.heal().await;
        listening.abort();
        guard.dismiss();
        let lives = fault.lives();
        match (&outcome, healed) {
            (_, Err(why)) => anyhow::bail!("it could not be healed: {why}"),
            (Ok(_), _) if ENDS.contains(&nemesis.as_str()) => {}
            (Ok(_), _) if !lives => complain!("fencepost: the process has ended meanwhile"),
            (Ok(_), Ok(seen)) if json => say!("{}", json!({"state": "healed", "observed": seen})),
            (Ok(_), Ok(_)) => say!("{:<12} {}", "healed", fault.describe(&Map::new()).healing),
            (Err(_), _) => {}
        }
        outcome
    })
}

async fn hit(
    fault: &mut ProcessFault,
    nemesis: &str,
    time: Duration,
    json: bool,
    stop: &Stop,
) -> Result<i32> {
    let seen =
        fault.inject().await.map_err(|why| BadUsage::new(format!("{nemesis} was not injected: {why}")))?;
    let sentence = fault.describe(&seen.observed).sentence;
    if !seen.effective {
        complain!("fencepost: {sentence}: no effect was observed, and it was healed");
        return Ok(i32::from(Outcome::Vacuous.exit_code()));
    }
    match json {
        true => {
            say!(
                "{}",
                json!({"state": "in-force", "fault": nemesis, "sentence": sentence, "observed": seen.observed})
            );
        }
        false => say!("{:<12} {sentence}", "in force"),
    }
    if ENDS.contains(&nemesis) {
        return Ok(0);
    }
    if !json && time == LONGEST {
        say!("{}", style("Ctrl-C ends it, or an hour").dim());
    }
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        () = stop.pulled() => {}
        () = ended(fault) => {}
    }
    Ok(0)
}

async fn ended(fault: &ProcessFault) {
    while fault.lives() {
        tokio::time::sleep(LOOK).await;
    }
}

/// Times of a plan's fault are written as `stop = "80ms"`, and read in milliseconds.
fn with_ms(keys: Map<String, Value>) -> Map<String, Value> {
    let read =
        |(key, value): (String, Value)| match value.as_str().and_then(|text| text.parse::<TimeSpan>().ok()) {
            Some(time) => (format!("{key}_ms"), json!(time.0.as_millis() as u64)),
            None => (key, value),
        };
    keys.into_iter().map(read).collect()
}

/// Another process, which wakes the one that is hit if this one is killed.
struct Guard {
    child: Child,
    alive: ChildStdin,
}

impl Guard {
    fn of(pid: i32) -> Result<Guard> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.args(["wake", "--pid", &pid.to_string()]).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().context("cannot start this program once more")?;
        let alive = child.stdin.take().context("it has no standard input")?;
        Ok(Guard { child, alive })
    }

    fn dismiss(mut self) {
        let _ = self.alive.write_all(b"healed");
        drop(self.alive);
        let _ = self.child.wait();
    }
}

/// `fencepost wake`: the guard. It wakes the process unless it reads that it was healed.
pub fn wake(pid: i32) -> Result<i32> {
    let mut word = String::new();
    let _ = std::io::stdin().read_to_string(&mut word);
    if word.is_empty() {
        fencepost_nemesis::wake(pid)?;
    }
    Ok(if word.is_empty() { FAILED } else { 0 })
}
