//! The client: reads the controller's lines, and hands each operation to the thread of its process.

use crate::env::Env;
use crate::hello::{access, options, servers, shown, Client};
use crate::process::{Handle, Maker};
use crate::{Error, Lock};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Serves the controller on standard input and output, and exits.
///
/// `can` names what the lock can do: `lost` (it calls [`Env::lost`]), `extend` (it renews, and calls
/// [`Env::renewed`]), `prolong` ([`Lock::prolong`]), `leader` ([`Lock::leader`]); `token` and `unique` too,
/// unless `lock.toml` says so.
/// `make` makes the lock of one process; it must not wait for servers.
pub fn run<L: Lock + 'static>(
    can: &[&str],
    make: impl Fn(Env) -> Result<L, Error> + Send + Sync + 'static,
) -> ! {
    let (input, output) = take_streams().unwrap_or_else(|error| {
        eprintln!("standard input and output cannot be taken over: {error}");
        std::process::exit(255);
    });
    match serve(BufReader::with_capacity(64 << 10, input), output, can, make) {
        Ok(()) => std::process::exit(0),
        Err(sentence) => {
            eprintln!("{sentence}");
            std::process::exit(254);
        }
    }
}

/// Keeps the streams for the controller. What the library prints goes to standard error instead.
fn take_streams() -> io::Result<(File, File)> {
    // Clones of descriptors are not inherited by child processes.
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok((input.into(), output.into()))
}

/// Serves one controller until its input ends.
///
/// # Errors
/// The controller's words make no sense: one sentence.
pub fn serve<L: Lock + 'static>(
    mut input: impl BufRead,
    output: impl Write + Send + 'static,
    can: &[&str],
    make: impl Fn(Env) -> Result<L, Error> + Send + Sync + 'static,
) -> Result<(), String> {
    let hello = next_line(&mut input)?.ok_or("the input ended before the hello")?;
    let client = Arc::new(Client::new(&hello, output)?);
    let servers = servers(&client.hello)?;
    let options = options(&client.hello);
    let access = access(&client.hello);
    let hello = client.hello.clone();
    let text = move |name: &str| hello[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| client.hello[name].as_u64().unwrap_or_default();
    let (ttl, seed, lease) = (Duration::from_millis(number("ttl_ms")), number("seed"), client.lease());
    let make: Arc<Maker> = Arc::new(move |shared| {
        let env = Env {
            client: text("client"),
            lock: text("lock"),
            process: shared.number,
            servers: servers.clone(),
            access: access.clone(),
            options: options.clone(),
            ttl,
            lease: lease.clone(),
            seed,
            shared,
        };
        Ok(Box::new(make(env)?))
    });
    client.send(&json!({"hello": 1, "can": client.announced(can), "pid": std::process::id()}));

    let mut processes: HashMap<u64, Handle> = HashMap::new();
    while let Some(line) = next_line(&mut input)? {
        let command: Value = serde_json::from_str(&line).map_err(|error| {
            format!("the controller sent a line that is no command ({error}): {}", shown(&line))
        })?;
        let Some(number) = command["process"].as_u64() else { continue };
        if command["event"] == "over" {
            if let Some(process) = processes.remove(&number) {
                process.over();
            }
        } else if command["f"].is_string() {
            let rejected = match processes.get(&number) {
                Some(process) => process.enqueue(command),
                None => Some(command),
            };
            // There is none of this number, or it is over: this is a new process.
            if let Some(command) = rejected {
                let process = Handle::start(&client, number, &make);
                process.enqueue(command);
                processes.insert(number, process);
            }
        }
    }
    Ok(())
}

/// The next line that is not empty; none at the end.
fn next_line(input: &mut impl BufRead) -> Result<Option<String>, String> {
    loop {
        let mut line = String::new();
        match input.read_line(&mut line) {
            Ok(0) => return Ok(None),
            Ok(_) if line.trim().is_empty() => {}
            Ok(_) => return Ok(Some(line)),
            Err(error) => return Err(format!("the controller cannot be read: {error}")),
        }
    }
}
