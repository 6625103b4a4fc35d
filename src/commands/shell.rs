//! `fencepost shell`: a shell, or a command, in a node of servers that stand.

use crate::commands::faults::{WhichCluster, request};
use crate::commands::up::inside::{PROTOCOL, ShellRequest};
use crate::commands::up::standing::{ControlFile, find};
use crate::exit::{BAD_USAGE, FAILED};
use crate::output::{Output, complain, say};
use crate::runtime::small_runtime;
use anyhow::{Context, Result};
use axum::body::{Body, to_bytes};
use axum::http::header::{AUTHORIZATION, CONNECTION, UPGRADE};
use axum::http::{Method, Request, StatusCode};
use clap::Args;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use tokio::io::{AsyncWriteExt, copy};

/// Where, and what to run there.
#[derive(Debug, Args)]
pub struct ShellArgs {
    /// The node: n1, …, or c1, from which programs of this machine reach the servers.
    #[arg(index = 1)]
    pub node: String,
    #[command(flatten)]
    pub cluster: WhichCluster,
    /// A command in place of a shell. `shell` exits with its exit code, and ends it after ten minutes.
    #[arg(index = 2, last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

pub fn shell(args: &ShellArgs) -> Result<i32> {
    let (_, control) = find(args.cluster.name.as_deref())?;
    let runtime = small_runtime()?;
    if !args.command.is_empty() {
        return runtime.block_on(run(args, &control));
    }
    let ended = runtime.block_on(converse(&args.node, &control, std::io::stdin().is_terminal()));
    // A read of the terminal may still be going on.
    runtime.shutdown_background();
    ended
}

async fn run(args: &ShellArgs, control: &ControlFile) -> Result<i32> {
    let body = json!(ShellRequest { command: args.command.clone() });
    let path = format!("/nodes/{}/run", args.node);
    let (status, answer) = request(control, Method::POST, &path, Some(&body)).await?;
    if !status.is_success() {
        return Ok(refused(&answer));
    }
    let text = |name: &str| answer[name].as_str().unwrap_or_default();
    if args.cluster.json {
        say!("{answer}");
    } else {
        Output.write_all(text("stdout").as_bytes())?;
        std::io::stderr().write_all(text("stderr").as_bytes())?;
    }
    let code = answer["code"].as_i64().and_then(|code| i32::try_from(code).ok());
    Ok(code.unwrap_or(FAILED))
}

fn refused(answer: &Value) -> i32 {
    complain!("fencepost: {}", answer["error"].as_str().unwrap_or("the cluster gave no reason"));
    BAD_USAGE
}

async fn converse(node: &str, control: &ControlFile, prompts: bool) -> Result<i32> {
    let address = format!("{}/nodes/{node}/shell?prompts={prompts}", control.api);
    let request = Request::builder()
        .method(Method::POST)
        .uri(address)
        .header(AUTHORIZATION, format!("Bearer {}", control.token))
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, PROTOCOL)
        .body(Body::empty())?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let answer = client.request(request).await.with_context(|| format!("{} does not answer", control.api))?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let body = to_bytes(Body::new(answer.into_body()), 1 << 20).await.context("the answer broke off")?;
        return Ok(refused(&serde_json::from_slice(&body).unwrap_or_default()));
    }
    let connection = hyper::upgrade::on(answer).await.context("the connection became no shell")?;
    let (mut from, mut to) = tokio::io::split(TokioIo::new(connection));
    let typed = tokio::spawn(async move {
        let _ = copy(&mut tokio::io::stdin(), &mut to).await;
        let _ = to.shutdown().await;
    });
    let said = copy(&mut from, &mut tokio::io::stdout()).await;
    tokio::io::stdout().flush().await?;
    typed.abort();
    said.context("the shell broke off")?;
    Ok(0)
}
