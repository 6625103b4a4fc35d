//! Reads requests from standard input and has them carried out.

use super::attach;
use super::operations::{Agent, Tool};
use super::output::Out;
use super::stalls;
use crate::protocol::{FromAgent, LINE_MAX, Request};
use fencepost_wire::{LineError, LineReader};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The arguments of an agent's command line.
#[derive(Debug)]
pub struct AgentOptions {
    /// The node's data folder; `{data}` in arguments and paths stands for it.
    pub data: String,
    /// A socket over which the local driver sends the streams of programs to be attached.
    pub attach: Option<OwnedFd>,
}

/// Serves the controller until standard input closes, and then ends this process.
pub async fn run(tools: Vec<Box<dyn Tool>>, options: AgentOptions) -> ! {
    let out = Out::to_stdout();
    out.report(FromAgent::Hello { version: env!("CARGO_PKG_VERSION").to_owned() });
    let agent = Arc::new(Agent::new(options.data, tools, out));
    let reaper = agent.clone();
    tokio::spawn(async move { reaper.children.reap(&reaper.out).await });
    stalls::watch(agent.out.clone());
    if let Some(socket) = options.attach {
        attach::listen(socket, agent.clone());
    }
    let mut lines = LineReader::new(tokio::io::stdin(), LINE_MAX);
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str::<Request>(&line) {
            Ok(request) => {
                let agent = agent.clone();
                tokio::spawn(async move {
                    let answer = agent.carry_out(request.op).await;
                    agent.out.answer(request.id, answer);
                });
            }
            Err(error) => {
                let shown = LineError::garbage(&line);
                agent.out.log("agent", format!("cannot read a request: {shown} ({error})")).await;
            }
        }
    }
    std::process::exit(0)
}
