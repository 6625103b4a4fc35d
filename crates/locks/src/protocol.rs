//! The client protocol: JSON lines on a client's standard input and output (`docs/client-protocol.md`).

use crate::access::Access;
use crate::client::pause_points::PauseAt;
use crate::error::ClientError;
use crate::options::Options;
use fencepost_history::{Completion, ErrorCode, Lease, OperationError, f};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::time::Duration;

/// The version that both sides name in their hello.
pub const VERSION: u32 = 1;

/// The controller's first line.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Hello {
    pub hello: u32,
    pub client: String,
    pub lock: String,
    pub servers: Vec<Server>,
    /// What the servers ask of a client; none: neither a password nor TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// `host:port` of the storage; none where the workload protects nothing.
    #[serde(default)]
    pub storage: Option<String>,
    /// All of them, where the guard has replicas of the storage; `storage` is the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage_replicas: Vec<String>,
    /// Name of the storage's guard: a client sends with each write what its guard needs.
    #[serde(default)]
    pub guard: String,
    /// The guard wants a mark before the first read or write of each grant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marks_first: bool,
    #[serde(default)]
    pub careful: bool,
    /// For the client's own random choices.
    pub seed: u64,
    #[serde(default)]
    pub options: Value,
    /// The TTL of the run: some libraries want it before the first acquire.
    #[serde(default)]
    pub ttl_ms: u64,
    /// What the client must announce in `can`, because its `lock.toml` promises it: `token`, `unique`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
    /// What ends a grant that its holder does not release.
    #[serde(default)]
    pub lease: Lease,
    /// Points of the recipe at which to report and pause, in scenarios.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pause_at: Vec<PauseAt>,
}

impl Hello {
    /// The one server of a lock that has no more. Errors: there is none, or several. `lock` is for messages.
    pub(crate) fn one_server(&self, lock: &str) -> Result<&Server, ClientError> {
        match self.servers.as_slice() {
            [server] => Ok(server),
            servers => Err(ClientError::BadHello(format!(
                "{lock} needs one server, and the hello names {}",
                servers.len()
            ))),
        }
    }

    /// Errors: the hello does not name as many servers as this lock has.
    pub(crate) fn all_servers(&self, lock: &str, wanted: usize) -> Result<(), ClientError> {
        match self.servers.len() {
            named if named == wanted => Ok(()),
            named => Err(ClientError::BadHello(format!(
                "{lock} needs {wanted} servers, and the hello names {named}"
            ))),
        }
    }

    /// The lock's options, or the defaults. Errors: they are not options of this version of Fencepost.
    pub fn options(&self) -> Result<Options, ClientError> {
        if self.options.is_null() {
            return Ok(Options::default());
        }
        serde_json::from_value(self.options.clone())
            .map_err(|error| ClientError::BadHello(format!("the hello's options cannot be read: {error}")))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    pub name: String,
    pub address: String,
    /// The name that its certificate must have, where that is not the host of its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_name: Option<String>,
}

/// The client's first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HelloAnswer {
    pub hello: u32,
    /// Among `token`, `unique`, `validity`, `lost`, `extend`.
    #[serde(default)]
    pub can: Vec<String>,
    /// The client's process number, as it sees it itself.
    pub pid: i32,
}

/// An operation: one line to a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Command {
    pub id: u64,
    pub process: u64,
    pub f: Cow<'static, str>,
    pub key: Cow<'static, str>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub value: Value,
    /// With `acquire` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// How long the client may try; the client answers by then at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// One line to a client, after the hello.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToClient {
    Command(Command),
    Event(ProcessEvent),
}

/// One line to a client that is no command. `over`: an operation of the process ended in `info`; its locks
/// must be prolonged no more, and its connections can be closed. `cancel`: the caller gives the call `id` up.
/// `goes-on`: a program whose acquire was given up goes on, with what it has, under the number `next`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessEvent {
    pub event: Cow<'static, str>,
    pub process: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// One line from a client: the answer to a command, or a notice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FromClient {
    Answer(Answer),
    Notice(Notice),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub id: u64,
    #[serde(rename = "type")]
    pub kind: AnswerKind,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub value: Value,
    /// Why it is a `fail` or an `info`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<OperationError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerKind {
    Ok,
    Fail,
    Info,
}

/// What a lock library reports by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// `lost`, `renewed` or `at`.
    pub event: String,
    pub process: u64,
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// With `renewed`: the age of the keepalive that prolonged the lease, by the client's own clock. The
    /// lease runs for its TTL from some moment since then; a client that was stopped reads old answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// With `at`: the point that the recipe has reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<String>,
}

impl ProcessEvent {
    pub fn over(process: u64) -> ProcessEvent {
        ProcessEvent { event: Cow::Borrowed("over"), process, id: None, next: None }
    }

    pub fn cancel(process: u64, id: u64) -> ProcessEvent {
        ProcessEvent { event: Cow::Borrowed("cancel"), id: Some(id), ..ProcessEvent::over(process) }
    }

    pub fn goes_on(process: u64, next: u64) -> ProcessEvent {
        ProcessEvent { event: Cow::Borrowed("goes-on"), next: Some(next), ..ProcessEvent::over(process) }
    }
}

impl Notice {
    pub fn lost(process: u64, key: &str, reason: impl Into<String>) -> Notice {
        Notice { reason: Some(reason.into()), ..Notice::new(f::LOST, process, key) }
    }

    pub fn renewed(process: u64, key: &str, age: Duration) -> Notice {
        let age_ms = u64::try_from(age.as_millis()).ok();
        Notice { age_ms, ..Notice::new(f::RENEWED, process, key) }
    }

    pub fn at(process: u64, key: &str, point: &str) -> Notice {
        Notice { point: Some(point.to_owned()), ..Notice::new(f::AT, process, key) }
    }

    fn new(event: &str, process: u64, key: &str) -> Notice {
        Notice { event: event.to_owned(), process, key: key.to_owned(), ..Notice::default() }
    }
}

impl Answer {
    pub fn new(id: u64, completion: Completion) -> Answer {
        let not_ok = |kind, error| Answer { id, kind, value: Value::Null, error: Some(error) };
        match completion {
            Completion::Ok(value) => Answer { id, kind: AnswerKind::Ok, value, error: None },
            Completion::Fail(error) => not_ok(AnswerKind::Fail, error),
            Completion::Info(error) => not_ok(AnswerKind::Info, error),
        }
    }

    /// How the operation ended, and what a `fail` or an `info` still says. `who` may have given no reason.
    pub fn ended(self, who: &str) -> (Completion, Value) {
        let no_reason = || ErrorCode::NoReason.error(format_args!("{who} gave no reason"));
        let why = self.error.unwrap_or_else(no_reason);
        match self.kind {
            AnswerKind::Ok => (Completion::Ok(self.value), Value::Null),
            AnswerKind::Fail => (Completion::Fail(why), self.value),
            AnswerKind::Info => (Completion::Info(why), self.value),
        }
    }
}
