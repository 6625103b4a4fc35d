//! Starts the client programs: says hello to each, and holds what it answers against what its lock claims.

use crate::existing::Existing;
use crate::run::client_connection::{ClientConnection, ClientEnd, ClientEvents, HelloError};
use crate::settings::options::RunOptions;
use crate::settings::topology::STORAGE_PORT;
use crate::settings::validation::RunSpec;
use crate::watch::node_log::as_last_rule;
use anyhow::{Context, Result, anyhow};
use fencepost_cluster::{Attached, Node};
use fencepost_history::Refusal;
use fencepost_locks::protocol::{Hello, Notice, Server, VERSION};
use fencepost_locks::{Access, ClientProgram, PauseAt};
use fencepost_nemesis::Plan;
use fencepost_storage::Need;
use futures_util::future::try_join_all;
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

/// How the clients of a run start, and what they must announce: the same for all.
pub(crate) struct ClientSetup {
    spec: RunSpec,
    command: Vec<String>,
    pub(crate) start_time: Duration,
    hello: Hello,
}

impl ClientSetup {
    /// Errors: the options of the lock are no JSON.
    pub(crate) fn of(spec: &RunSpec) -> Result<ClientSetup> {
        let (options, lock) = (&spec.options, spec.lock);
        let program = lock.recipe.program();
        let own_command = || vec!["fencepost".to_owned(), "client".to_owned()];
        let of_lock = program.map_or(HELLO, |program| program.start_time);
        let guard = fencepost_storage::find_guard(&options.guard);
        let lock_options = match program {
            Some(_) => serde_json::to_value(options.own_options(lock)?),
            None => serde_json::to_value(&options.lock_options),
        };
        let hello = Hello {
            hello: VERSION,
            lock: lock.name.to_owned(),
            guard: options.guard.clone(),
            marks_first: guard.is_some_and(|guard| guard.marks_first()),
            careful: options.careful,
            options: lock_options.context("the options of the lock are no JSON")?,
            ttl_ms: options.ttl.millis(),
            claims: program.map(ClientProgram::must_announce).unwrap_or_default(),
            lease: lock.facts(&options.lock_options, None, &[]).lease,
            pause_at: pauses(options, &spec.plan),
            ..Hello::default()
        };
        Ok(ClientSetup {
            spec: spec.clone(),
            command: program.map_or_else(own_command, |program| program.command.clone()),
            start_time: options.start_time.map_or(of_lock, |least| of_lock.max(least.0)),
            hello,
        })
    }

    /// Starts a client in each of these nodes. Gives their connections, and what they announced, the same for
    /// all. Errors: which client does not start, or does not fit its lock, and its own last words.
    pub(crate) async fn connect_all(
        &self,
        clients: &[Arc<dyn Node>],
        known: &KnownNodes<'_>,
        events: Arc<dyn ClientEvents>,
    ) -> Result<Vec<Arc<ClientConnection>>> {
        let connections =
            try_join_all(clients.iter().map(|node| self.connect(node, known, events.clone()))).await?;
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
        &self,
        node: &Arc<dyn Node>,
        known: &KnownNodes<'_>,
        events: Arc<dyn ClientEvents>,
    ) -> Result<Arc<ClientConnection>> {
        let name = node.name();
        let hello = self.hello(node, known);
        let attached = self.attach(node).await?;
        let key_prefix = known.existing.map_or("", |existing| &existing.prefix);
        let events = Arc::new(WithoutPrefix { events, key_prefix: key_prefix.to_owned() });
        let opened =
            ClientConnection::open(&hello, attached.stdin, attached.stdout, self.start_time, events).await;
        let connection = match opened {
            Ok(connection) => connection.with_key_prefix(key_prefix),
            Err(error) => return Err(self.not_opened(error, known.logs, name).await),
        };
        let pid = connection.hello.pid;
        // Process 1 is the agent of the node.
        if pid <= 1 || node.state(pid).await?.is_none() {
            return Err(anyhow!(
                "client {name} announced the pid {pid}, and there is no such process of a client in its node; announce the number that \
                 the client sees itself"
            ));
        }
        self.check_announced(&connection.hello.can)
            .map_err(|why| anyhow!("client {name} does not fit the lock {}: {why}", self.spec.lock.name))?;
        Ok(Arc::new(connection))
    }

    async fn not_opened(&self, error: HelloError, logs: &Path, client: &str) -> anyhow::Error {
        let more = match (&error, self.spec.lock.recipe.program()) {
            (HelloError::NoAnswer { .. }, Some(_)) => "; start-time in lock.toml allows more time",
            _ => "",
        };
        let said = as_last_rule(&error.to_string(), logs, client).await;
        let sentence = format!("{said} (started as `{}`){more}", self.command.join(" "));
        match error {
            HelloError::NoAnswer { .. } => NoTimeToStart(sentence).into(),
            _ => anyhow!(sentence),
        }
    }

    pub(crate) async fn attach(&self, node: &Arc<dyn Node>) -> Result<Attached> {
        node.attach(&self.command).await.map_err(|error| anyhow!("client {error}"))
    }

    /// Holds what a hello announces against what is known of the lock.
    pub(crate) fn check_announced(&self, can: &[String]) -> Result<(), Refusal> {
        let Some(program) = self.spec.lock.recipe.program() else {
            return self.spec.lock.capabilities(&self.spec.options.lock_options).check_announced(can);
        };
        let of_guard = match fencepost_storage::find_guard(&self.spec.options.guard).map(|guard| guard.needs)
        {
            Some(Need::Token) => Some("token"),
            Some(Need::UniqueValue) => Some("unique"),
            _ => None,
        };
        let of_guard = of_guard.map(|word| (word, "guard"));
        let of_cancel = (!self.spec.options.cancel.is_empty()).then_some(("cancel", "option --cancel"));
        let of_workload = self.spec.workload.needs.map(|word| (word, "workload"));
        let needs: Vec<_> = of_guard.into_iter().chain(of_workload).chain(of_cancel).collect();
        program.check_announced(can, &needs)
    }

    pub(crate) fn hello(&self, node: &Arc<dyn Node>, known: &KnownNodes<'_>) -> Hello {
        let name = node.name();
        let storages: Vec<String> =
            known.storages.iter().map(|storage| format!("{}:{STORAGE_PORT}", storage.address())).collect();
        let service = self.spec.lock.service;
        let server = |(index, server): (usize, &Arc<dyn Node>)| Server {
            name: server.name().to_owned(),
            address: match self.spec.options.by_name {
                true => format!("{}:{}", server.name(), service.port_of(index)),
                false => format!("{}:{}", server.address(), service.port_of(index)),
            },
            tls_name: known.existing.and_then(|existing| existing.tls_name(server.name())),
        };
        let servers = known.servers.iter().enumerate().filter(|(index, _)| service.is_for_clients(*index));
        Hello {
            client: name.to_owned(),
            servers: servers.map(server).collect(),
            access: known.access.clone(),
            storage: storages.first().cloned(),
            storage_replicas: if storages.len() > 1 { storages } else { Vec::new() },
            seed: rand::RngExt::random(&mut self.spec.seed.stream(&format!("client-{name}"))),
            ..self.hello.clone()
        }
    }

    /// What the lock's version command prints in a client's node; none without one. Errors: it failed.
    pub(crate) async fn version(&self, clients: &[Arc<dyn Node>]) -> Result<Option<String>> {
        let command = self.spec.lock.recipe.program().and_then(|program| program.version.as_ref());
        let (Some(command), Some(node)) = (command, clients.first()) else { return Ok(None) };
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let output = node.exec(&words, VERSION_TIME).await?;
        let said = |text: &str| text.trim().lines().last().map(|line| line.trim().to_owned());
        match said(&output.stdout) {
            Some(version) if output.code == Some(0) => Ok(Some(version)),
            _ => Err(anyhow!(
                "the version command of {} failed: `{}` {}: {}",
                self.spec.lock.name,
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
}

/// The points at which the clients pause: from options and plan, for a tenth of the TTL.
fn pauses(options: &RunOptions, plan: &Plan) -> Vec<PauseAt> {
    let mut pauses = options.pause_at.clone();
    let events = plan.faults.iter().flat_map(|fault| [&fault.when, &fault.then]).flatten();
    for point in events.filter_map(|event| event.point.clone()) {
        if !pauses.iter().any(|pause| pause.point == point) {
            pauses.push(PauseAt { point, time: options.ttl.0 / 10 });
        }
    }
    pauses
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
