//! Commands and shells in the nodes of servers that stand, for `fencepost shell`.

use super::control::{Controlled, REFUSED, SharedControl, answer, error};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, UPGRADE};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use fencepost_cluster::{Attached, Node};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, copy};

/// What the connection becomes.
pub const PROTOCOL: &str = "fencepost-shell";

/// A command that takes longer is ended.
const COMMAND: Duration = Duration::from_secs(600);

/// What is asked of a shell: the words of a command, or, without any, a shell.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShellRequest {
    pub command: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct ShellQuery {
    prompts: bool,
}

/// What the control port answers of nodes.
pub fn routes() -> Router<Arc<Controlled>> {
    Router::new().route("/nodes/{name}/run", post(run)).route("/nodes/{name}/shell", post(shell))
}

async fn run(State(control): SharedControl, Path(name): Path<String>, body: Bytes) -> Response {
    let node = match node(&control, &name) {
        Ok(node) => node,
        Err(refusal) => return *refusal,
    };
    let words = match serde_json::from_slice(&body) {
        Ok(ShellRequest { command }) if !command.is_empty() => command,
        _ => {
            let sentence = "the body is no command, such as {\"command\": [\"redis-cli\", \"PING\"]}";
            return error(StatusCode::BAD_REQUEST, REFUSED, sentence);
        }
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match node.exec(&words, COMMAND).await {
        Ok(output) => answer(
            StatusCode::OK,
            &json!({"code": output.code, "stdout": output.stdout, "stderr": output.stderr}),
        ),
        Err(why) => error(StatusCode::BAD_REQUEST, REFUSED, why),
    }
}

/// Opens a shell, and lets the connection carry what it reads and says.
async fn shell(State(control): SharedControl, Path(name): Path<String>, mut request: Request) -> Response {
    let node = match node(&control, &name) {
        Ok(node) => node,
        Err(refusal) => return *refusal,
    };
    let query = serde_urlencoded::from_str::<ShellQuery>(request.uri().query().unwrap_or_default());
    let prompts = query.unwrap_or_default().prompts;
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        let sentence = format!("a shell asks for a connection that becomes {PROTOCOL}");
        return error(StatusCode::UPGRADE_REQUIRED, REFUSED, sentence);
    };
    match node.attach(&words(&name, prompts)).await {
        Ok(attached) => drop(tokio::spawn(carry(upgrade, attached))),
        Err(why) => return error(StatusCode::BAD_REQUEST, REFUSED, why),
    }
    (StatusCode::SWITCHING_PROTOCOLS, [(CONNECTION, "upgrade"), (UPGRADE, PROTOCOL)]).into_response()
}

/// It reads lines: the terminal of the one who types edits them.
fn words(node: &str, prompts: bool) -> Vec<String> {
    let begin = match prompts {
        true => format!("PS1='{node}# ' exec sh +m -i 2>&1"),
        false => "exec sh 2>&1".to_owned(),
    };
    vec!["sh".to_owned(), "-c".to_owned(), begin]
}

/// Until the shell ends, or the other end goes away: then the shell reads the end of its input.
async fn carry(upgrade: OnUpgrade, attached: Attached) {
    let Ok(connection) = upgrade.await else { return };
    let Attached { mut stdin, mut stdout } = attached;
    let (mut from, mut to) = tokio::io::split(TokioIo::new(connection));
    let typed = tokio::spawn(async move {
        let _ = copy(&mut from, &mut stdin).await;
        let _ = stdin.shutdown().await;
        // It is kept open until the shell has said its last words.
        std::future::pending::<()>().await;
    });
    let _ = copy(&mut stdout, &mut to).await;
    let _ = to.shutdown().await;
    typed.abort();
}

fn node(control: &Controlled, name: &str) -> Result<Arc<dyn Node>, Box<Response>> {
    let found = control.nodes.iter().find(|node| node.name() == name).cloned();
    found.ok_or_else(|| {
        let names: Vec<&str> = control.nodes.iter().map(|node| node.name()).collect();
        let sentence = format!("there is no node {name}; there are {}", names.join(", "));
        Box::new(error(StatusCode::NOT_FOUND, REFUSED, sentence))
    })
}
