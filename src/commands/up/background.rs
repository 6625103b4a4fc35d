//! `fencepost up --env`: servers that stand in the background, and variables for the shell that asked.

use super::standing::{ControlFile, in_words, variables};
use crate::exit::FAILED;
use crate::output::{complain, say};
use anyhow::{Context, Result};
use fencepost_history::TimeSpan;
use serde_json::Value;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, copy, stderr};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Starts the same command again, until the servers stand. Gives its exit code if not. Errors: no start.
pub fn start(time: TimeSpan) -> Result<i32> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.args(in_the_background(std::env::args_os().skip(1)));
    // A Ctrl-C is for what the shell does next.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start this program once more")?;
    let errors = child.stderr.take().context("it has no standard error")?;
    let passed_on = std::thread::spawn(move || copy(&mut BufReader::new(errors), &mut stderr()));
    let mut line = String::new();
    let output = child.stdout.take().context("it has no standard output")?;
    BufReader::new(output).read_line(&mut line).context("it says nothing")?;
    if line.is_empty() {
        let ended = child.wait().context("it cannot be waited for")?;
        let _ = passed_on.join();
        return Ok(ended.code().unwrap_or(FAILED));
    }
    let about: Value = serde_json::from_str(&line).context("what it says is no JSON")?;
    let file = about["control"].as_str().context("it names no control file")?;
    let control = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let control: ControlFile = serde_json::from_str(&control).context("the control file makes no sense")?;
    for (name, value) in variables(&about, &control.token) {
        say!("export {name}='{value}'");
    }
    let name = about["name"].as_str().unwrap_or_default();
    complain!("{name} runs until `fencepost down --name {name}`, or {} has passed", in_words(time));
    Ok(0)
}

/// The arguments of the program in the background: it says what it made as JSON.
fn in_the_background(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    args.map(|arg| if arg == "--env" { OsString::from("--json") } else { arg }).collect()
}
