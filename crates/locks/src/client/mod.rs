//! The built-in client program: carries out the controller's operations (`docs/client-protocol.md`). One task
//! reads lines, one for each process carries out its operations, one writes the answers.

pub(crate) mod client_clock;
pub(crate) mod client_program;
mod context;
pub(crate) mod pause_points;
mod process;

use crate::definition::LockDefinition;
use crate::error::ClientError;
use crate::protocol::{Command, Hello, HelloAnswer, ToClient, VERSION};
use context::ClientContext;
use fencepost_wire::{LineReader, LineWriter, beginning, stdin, stdout};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

const LINE_MAX: usize = 64 << 20;

/// The program `fencepost client`: serves on standard input and output until the input ends. Gives the exit
/// code: 254 where the controller's words make no sense, 255 where the environment failed, else 0. A
/// current-thread runtime serves it best: everything it does is short.
pub async fn run_client() -> i32 {
    match serve_client(stdin(), stdout(), crate::services::find).await {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            match error {
                ClientError::BadHello(_) => 254,
                ClientError::Environment(_) => 255,
            }
        }
    }
}

/// Serves one controller, with the locks that `find` knows. The end of the input is no error.
pub async fn serve_client(
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
    find: impl Fn(&str) -> Option<&'static LockDefinition>,
) -> Result<(), ClientError> {
    let mut input = LineReader::new(input, LINE_MAX);
    let unreadable = |error| ClientError::Environment(format!("the controller cannot be read: {error}"));
    let Some(line) = input.next_line().await.map_err(unreadable)? else {
        return Err(ClientError::BadHello("the input ended before the hello".to_owned()));
    };
    let hello = parse_hello(&line)?;
    let context = Arc::new(ClientContext::enter(&hello, find).await?);

    let (out, writer) = LineWriter::start(output);
    let hello_answer = HelloAnswer {
        hello: VERSION,
        can: context.capabilities.announced(),
        pid: std::process::id().cast_signed(),
    };
    out.send(&hello_answer);
    let mut processes: HashMap<u64, mpsc::UnboundedSender<Command>> = HashMap::new();
    while let Some(line) = input.next_line().await.map_err(unreadable)? {
        let command = match parse_line(&line)? {
            ToClient::Command(command) => command,
            ToClient::Event(event) => {
                // It never announces that calls can be cancelled, so a process can only be over.
                processes.remove(&event.process);
                continue;
            }
        };
        let number = command.process;
        let commands = processes.entry(number).or_insert_with(|| process::start(&context, number, &out));
        if let Err(mpsc::error::SendError(command)) = commands.send(command) {
            // This process ended with an indeterminate operation; a controller does not use its number again.
            *commands = process::start(&context, number, &out);
            let _ = commands.send(command);
        }
    }
    // The controller is gone or done. What is still open will be indeterminate, and keys go with their TTL.
    drop((processes, out));
    let _ = tokio::time::timeout(Duration::from_millis(10), writer).await;
    Ok(())
}

fn parse_line(line: &str) -> Result<ToClient, ClientError> {
    serde_json::from_str(line).map_err(|error| {
        ClientError::BadHello(format!(
            "the controller sent a line that is no command ({error}): `{}`",
            beginning(line)
        ))
    })
}

fn parse_hello(line: &str) -> Result<Hello, ClientError> {
    let bad = |why: String| ClientError::BadHello(why);
    let value: Value = serde_json::from_str(line)
        .map_err(|error| bad(format!("the first line is no hello ({error}): `{}`", beginning(line))))?;
    match value.get("hello").and_then(Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            return Err(bad(format!(
                "the controller speaks version {version} of the client protocol, and this is version {VERSION}"
            )));
        }
        None => return Err(bad(format!("the first line is no hello: `{}`", beginning(line)))),
    }
    serde_json::from_value(value).map_err(|error| bad(format!("the hello is not complete: {error}")))
}

#[cfg(test)]
mod tests;
