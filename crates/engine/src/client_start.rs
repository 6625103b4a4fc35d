//! Starts the client programs: says hello to each, and holds what it answers against what its lock claims.

use crate::client_connection::{ClientConnection, ClientEnd, ClientEvents, HelloError};
use crate::existing::Existing;
use crate::node_log::as_last_rule;
use crate::topology::STORAGE_PORT;
use crate::validation::RunSpec;
use anyhow::{Context, Result, anyhow};
use fencepost_cluster::{Attached, Node};
use fencepost_history::Refusal;
use fencepost_locks::protocol::{Hello, Notice, Server, VERSION};
use fencepost_locks::{Access, ClientProgram, PauseAt};
use fencepost_storage::{Guard, Need};
use futures_util::future::try_join_all;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A client connects to its servers before it answers the hello.
const HELLO: Duration = Duration::from_secs(20);

const VERSION_TIME: Duration = Duration::from_secs(20);

/// A client did not answer the hello in time: it hangs, or the machine is too busy to start it. One sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoTimeToStart(pub String);

pub(crate) struct KnownNodes<'a> {
    pub(crate) servers: &'a [Arc<dyn Node>],
    pub(crate) storages: &'a [Arc<dyn Node>],
    pub(crate) existing: Option<&'a Existing>,
    pub(crate) access: Option<Access>,
    pub(crate) logs: &'a Path,
}

/// Starts a client in each of these nodes. Gives their connections, and what they announced, the same for
/// all. Errors: which client does not start, or does not fit its lock, and its own last words.
pub(crate) async fn connect_all(
    spec: &RunSpec,
    clients: &[Arc<dyn Node>],
    known: &KnownNodes<'_>,
    events: Arc<dyn ClientEvents>,
) -> Result<Vec<Arc<ClientConnection>>> {
    let connections =
        try_join_all(clients.iter().map(|node| connect(spec, node, known, events.clone()))).await?;
    let announced = |connection: &ClientConnection| {
        let mut can = connection.hello.can.clone();
        can.sort();
        can
    };
    if let Some((first, others)) = connections.split_first()
        && let Some(other) = others.iter().find(|other| announced(other) != announced(first))
    {
        return Err(anyhow!(
            "the clients {} and {} announce different things in their hellos: [{}] and [{}]; all must announce the same",
            first.name(),
            other.name(),
            first.hello.can.join(", "),
            other.hello.can.join(", ")
        ));
    }
    Ok(connections)
}

async fn connect(
    spec: &RunSpec,
    node: &Arc<dyn Node>,
    known: &KnownNodes<'_>,
    events: Arc<dyn ClientEvents>,
) -> Result<Arc<ClientConnection>> {
    let name = node.name();
    let attached = attach(spec, node).await?;
    let hello = hello(spec, node, known)?;
    let key_prefix = known.existing.map_or("", Existing::prefix);
    let events = Arc::new(WithoutPrefix { events, key_prefix: key_prefix.to_owned() });
    let opened =
        ClientConnection::open(&hello, attached.stdin, attached.stdout, start_time(spec), events).await;
    let connection = match opened {
        Ok(connection) => connection.with_key_prefix(key_prefix),
        Err(error) => {
            let more = match (&error, spec.lock.recipe.program()) {
                (HelloError::NoAnswer { .. }, Some(_)) => "; start-time in lock.toml allows more time",
                _ => "",
            };
            let said = as_last_rule(&error.to_string(), known.logs, name).await;
            let sentence = format!("{said} (started as `{}`){more}", command(spec).join(" "));
            return Err(match error {
                HelloError::NoAnswer { .. } => NoTimeToStart(sentence).into(),
                _ => anyhow!(sentence),
            });
        }
    };
    let pid = connection.hello.pid;
    // Process 1 is the agent of the node.
    if pid <= 1 || node.state(pid).await?.is_none() {
        return Err(anyhow!(
            "client {name} announced the pid {pid}, and there is no such process of a client in its node; announce the number that the \
             client sees itself"
        ));
    }
    check_announced(spec, &connection.hello.can)
        .map_err(|why| anyhow!("client {name} does not fit the lock {}: {why}", spec.lock.name))?;
    Ok(Arc::new(connection))
}

struct WithoutPrefix {
    events: Arc<dyn ClientEvents>,
    key_prefix: String,
}

impl ClientEvents for WithoutPrefix {
    fn notice(&self, notice: Notice) {
        let key = notice.key.strip_prefix(&*self.key_prefix).map_or(notice.key.clone(), str::to_owned);
        self.events.notice(Notice { key, ..notice });
    }

    fn gone(&self, client: &str, end: ClientEnd) {
        self.events.gone(client, end);
    }
}

pub(crate) async fn attach(spec: &RunSpec, node: &Arc<dyn Node>) -> Result<Attached> {
    node.attach(&command(spec)).await.map_err(|error| anyhow!("client {error}"))
}

fn command(spec: &RunSpec) -> Vec<String> {
    match spec.lock.recipe.program() {
        Some(program) => program.command.clone(),
        None => vec!["fencepost".to_owned(), "client".to_owned()],
    }
}

pub(crate) fn start_time(spec: &RunSpec) -> Duration {
    let of_lock = spec.lock.recipe.program().map_or(HELLO, |program| program.start_time);
    spec.options.start_time.map_or(of_lock, |least| of_lock.max(least.0))
}

/// Holds what a hello announces against what is known of the lock.
pub(crate) fn check_announced(spec: &RunSpec, can: &[String]) -> Result<(), Refusal> {
    let Some(program) = spec.lock.recipe.program() else {
        return spec.lock.capabilities(&spec.options.lock_options).check_announced(can);
    };
    let needs = guard(spec).map(|guard| guard.needs());
    program.check_announced(
        can,
        match needs {
            Some(Need::Token) => Some("token"),
            Some(Need::UniqueValue) => Some("unique"),
            _ => None,
        },
    )
}

fn guard(spec: &RunSpec) -> Option<&'static dyn Guard> {
    fencepost_storage::find_guard(&spec.options.guard)
}

pub(crate) fn hello(spec: &RunSpec, node: &Arc<dyn Node>, known: &KnownNodes<'_>) -> Result<Hello> {
    let name = node.name();
    let storages: Vec<String> =
        known.storages.iter().map(|storage| format!("{}:{STORAGE_PORT}", storage.address())).collect();
    let service = spec.lock.service;
    let server = |(index, server): (usize, &Arc<dyn Node>)| Server {
        name: server.name().to_owned(),
        address: format!("{}:{}", server.address(), service.port_of(index)),
        tls_name: known.existing.and_then(|existing| existing.tls_name(server.name())),
    };
    let servers = known.servers.iter().enumerate().filter(|(index, _)| service.is_for_clients(*index));
    let program = spec.lock.recipe.program();
    Ok(Hello {
        hello: VERSION,
        client: name.to_owned(),
        lock: spec.lock.name.to_owned(),
        servers: servers.map(server).collect(),
        access: known.access.clone(),
        storage: storages.first().cloned(),
        storage_replicas: if storages.len() > 1 { storages } else { Vec::new() },
        guard: spec.options.guard.clone(),
        marks_first: guard(spec).is_some_and(|guard| guard.marks_first()),
        careful: spec.options.careful,
        seed: rand::RngExt::random(&mut spec.seed.stream(&format!("client-{name}"))),
        options: options(spec)?,
        ttl_ms: spec.options.ttl.millis(),
        claims: program.map(ClientProgram::must_announce).unwrap_or_default(),
        lease: spec.lock.facts(&spec.options.lock_options, None, &[]).lease,
        pause_at: pauses(spec),
    })
}

/// The points at which the clients pause: those of the options, and those at which a fault of the plan is to
/// find them, for a tenth of the TTL, so that the fault takes effect meanwhile.
fn pauses(spec: &RunSpec) -> Vec<PauseAt> {
    let mut pauses = spec.options.pause_at.clone();
    let events = spec.plan.faults.iter().flat_map(|fault| [&fault.when, &fault.then]).flatten();
    for point in events.filter_map(|event| event.point.clone()) {
        if !pauses.iter().any(|pause| pause.point == point) {
            pauses.push(PauseAt { point, time: spec.options.ttl.0 / 10 });
        }
    }
    pauses
}

fn options(spec: &RunSpec) -> Result<Value> {
    let options = match spec.lock.recipe.program() {
        Some(_) => serde_json::to_value(spec.options.own_options(spec.lock)?),
        None => serde_json::to_value(&spec.options.lock_options),
    };
    options.context("the options of the lock are no JSON")
}

/// What the lock's version command prints, run where a client runs; none for a lock without one. Errors: the
/// command failed; its own last words.
pub(crate) async fn version(spec: &RunSpec, clients: &[Arc<dyn Node>]) -> Result<Option<String>> {
    let command = spec.lock.recipe.program().and_then(|program| program.version.as_ref());
    let (Some(command), Some(node)) = (command, clients.first()) else { return Ok(None) };
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let output = node.exec(&words, VERSION_TIME).await?;
    let said = |text: &str| text.trim().lines().last().map(|line| line.trim().to_owned());
    match said(&output.stdout) {
        Some(version) if output.code == Some(0) => Ok(Some(version)),
        _ => Err(anyhow!(
            "the version command of {} failed: `{}` {}: {}",
            spec.lock.name,
            command.join(" "),
            match output.code {
                Some(code) => format!("ended with {code}"),
                None => format!(
                    "was ended: it takes longer than {} s, or prints too much",
                    VERSION_TIME.as_secs()
                ),
            },
            said(&output.stderr).unwrap_or_else(|| "it printed nothing".to_owned())
        )),
    }
}
