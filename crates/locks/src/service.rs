//! What a lock service is: its servers, how they are started, and how they say that they serve and which of
//! them leads. It is a value: a built-in service is a static of it, and a table `[service]` becomes one.

use crate::error::OptionError;
use crate::existing::ExistingService;
use crate::options::{Options, Persistence};
use crate::readiness::Awaited;
use crate::run_access::{AccessFile, RunAccess};
use fencepost_cluster::images::{self, ServerChoice};
use fencepost_cluster::protocol::{CommandOutput, Service};
use fencepost_cluster::{ClockMechanism, ClusterError, Environment, Node};
use fencepost_history::{Lease, Refusal};
use futures_util::future::{BoxFuture, try_join_all};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

pub(crate) const TLS_AND_AUTH: &[&str] = &["tls", "auth"];

/// A server may take longer to tell its version, on a machine that is slow.
const VERSION_TIME: Duration = Duration::from_secs(20);
/// One that says something else is asked again after this.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// What servers answer, in time.
pub type ServersAnswer<'a, T> = BoxFuture<'a, Result<T, ClusterError>>;
type Nodes = [Arc<dyn Node>];
type Order<T> = for<'a> fn(&'a Arc<dyn Node>, &'a str) -> ServersAnswer<'a, T>;
type StartServers = fn(&LockService, usize, &Nodes, &Options) -> Service;
type Secure = for<'a> fn(&'a Nodes, &'a RunAccess) -> ServersAnswer<'a, ()>;
type OfServer<T> = for<'a> fn(&'a LockService, &'a Arc<dyn Node>, &'a Nodes) -> ServersAnswer<'a, T>;
type OfServers<T> = for<'a> fn(&'a LockService, &'a Nodes) -> ServersAnswer<'a, T>;
type ToServer = for<'a> fn(&'a LockService, &'a Nodes, usize) -> ServersAnswer<'a, ()>;

/// The servers beneath a lock. Its data are fields, and so are the few functions that a service has code of
/// its own for; what it leaves out is `DESCRIBED` (described.rs), which goes by the data alone.
#[derive(Clone, Copy)]
pub struct LockService {
    /// As in documentation and messages (`redis-sentinel`).
    pub name: &'static str,
    /// The same in words, for a new lock on it (`one Redis server`).
    pub about: &'static str,
    /// What ends a hold of a client that is gone, with most locks on it.
    pub lease: Lease,
    /// The kinds of servers that it can run on, by release, the usual first; empty for none or a user's.
    pub servers: &'static [&'static str],
    /// Its servers, in the order of their nodes. Where there is one kind, the user may say how many.
    pub kinds: &'static [ServerKind],
    /// How many servers may be down at once while it still grants locks, where not any minority may.
    pub may_be_down: Option<usize>,
    /// About how long it takes to start its servers until they serve, and to end them.
    pub setup_time: Duration,
    pub start_time: Duration,
    /// Its own options, as on the command line without the dashes (`redis-persistence`).
    pub options: &'static [&'static str],
    /// How the clocks of its servers can be moved, the best way first: for a JVM faketime, then vdso.
    pub clock_mechanisms: &'static [ClockMechanism],
    /// What a server logs when it cannot read its own data; only for servers whose answers are durable.
    pub unreadable_data: &'static [&'static str],
    pub packages: &'static [&'static str],
    pub environment: Option<&'static Arc<Environment>>,
    /// A command that prints the name of the server that leads.
    pub leader: &'static [&'static str],
    /// A command that asks the leader, on which it runs, to let another server lead.
    pub transfer: &'static [&'static str],
    /// Lines for the shell that run on the first server, once, when all of them serve.
    pub after_start: &'static [&'static str],
    /// How its servers are set up where a run does not say otherwise.
    pub defaults: ServiceDefaults,
    pub check_nodes: fn(&LockService, usize) -> Result<(), OptionError>,
    /// Refuses a TTL that its servers cannot keep.
    pub check_ttl: fn(Duration) -> Result<(), OptionError>,
    /// The process that server `index` of these nodes runs.
    pub start: StartServers,
    /// The files of its own by which its servers ask for a password or speak TLS. Only for `tls` and `auth`.
    pub access_files: fn(&RunAccess) -> Vec<AccessFile>,
    /// Gives orders to servers that serve, where they ask for a password only after such orders.
    pub secure: Secure,
    /// Why a server, of all of these, does not serve yet; none if it does.
    pub trouble: OfServer<Option<String>>,
    /// Waits for what servers that serve still have to do together (elect, replicate) before a run.
    pub gather: OfServers<()>,
    /// Name and version (`redis-server 7.0.15`), from the first line that the command for it prints.
    pub version: fn(&str) -> Option<String>,
    /// How to find the leader. None: all servers are equal, and a leader's fault takes a drawn one.
    pub leadership: Option<ServiceLeadership>,
    /// Whether its servers send clients on to each other's addresses.
    pub sends_clients_on: bool,
    /// How to work on servers that exist without the run. None: a run has to start its servers itself.
    pub existing: Option<&'static dyn ExistingService>,
    /// Faults that its servers inject into themselves when they are ordered to. None where there are none.
    pub orders: Option<ServiceOrders>,
}

/// Servers made alike. Commands may have `{address}`, `{name}`, `{index}`, `{port}`, `{peers}`, `{data}`.
#[derive(Clone, Copy)]
pub struct ServerKind {
    pub name: &'static str,
    /// How many there are when the user does not say.
    pub count: usize,
    /// As messages call it: `PostgreSQL`.
    pub server: &'static str,
    pub processes: &'static [&'static str],
    pub port: u16,
    pub for_clients: bool,
    pub program: &'static [&'static str],
    /// Lines for the shell that run before its first start.
    pub prepare: &'static [&'static str],
    /// A command that succeeds when it serves. Empty: it serves as soon as its port accepts a connection.
    pub ready: &'static [&'static str],
    /// A command that prints its name and version. Empty: it has only a name.
    pub version: &'static [&'static str],
}

/// The set-up where a run does not say otherwise: by a `lock.toml`, or the end of a lock's name.
#[derive(Clone, Copy, Default)]
pub struct ServiceDefaults {
    pub nodes: Option<usize>,
    pub server: Option<ServerChoice>,
    pub redis_persistence: Option<Persistence>,
}

#[derive(Clone, Copy)]
pub struct ServiceLeadership {
    /// The place of the leading server, by the servers' own word and newest term; none without a leader.
    pub leader: OfServers<Option<usize>>,
    /// Asks for another leader than this one. Returns once accepted; the leader shows whether it was done.
    pub transfer: ToServer,
}

/// What servers can be ordered to do that is a fault: by orders that their operators give them, too.
#[derive(Clone, Copy)]
pub struct ServiceOrders {
    /// The nemesis, and what it orders: `error-replies:readonly`.
    pub names: &'static [&'static str],
    /// Gives what was seen of it, and whether it took effect.
    pub begin: Order<(Value, bool)>,
    /// Undoes it, and looks whether it is undone.
    pub end: Order<Value>,
}

impl LockService {
    /// Image of its servers, as these options choose it; none for a service without servers.
    pub fn image(&self, options: &Options) -> Option<&'static str> {
        if self.environment.is_some() {
            return Some("client");
        }
        let usual = self.servers.first().copied()?;
        match self.set_up(options).server {
            Some(ServerChoice::Release(release)) => Some(images::name_of(release).unwrap_or(usual)),
            Some(ServerChoice::Own(_)) => Some("client"),
            None => Some(usual),
        }
    }

    /// The user's programs for its servers; none for Debian's. Errors: what was chosen is no such server.
    pub fn environment(&self, options: &Options) -> Result<Option<Arc<Environment>>, Refusal> {
        match (self.servers.first(), self.set_up(options).server) {
            (Some(kind), Some(ServerChoice::Own(own))) => own.environment(kind).map(Some),
            _ => Ok(self.environment.cloned()),
        }
    }

    /// How many servers it has when the user does not say.
    pub fn default_nodes(&self) -> usize {
        self.defaults.nodes.unwrap_or_else(|| self.kinds.iter().map(|kind| kind.count).sum())
    }

    /// The options by which its servers are really set up, where a run has these.
    pub fn set_up(&self, options: &Options) -> Options {
        let persistence = match options.redis_persistence == Persistence::default() {
            true => self.defaults.redis_persistence.unwrap_or_default(),
            false => options.redis_persistence,
        };
        Options {
            nodes: options.nodes.or(self.defaults.nodes),
            server: options.server.or(self.defaults.server),
            redis_persistence: persistence,
            ..options.clone()
        }
    }

    /// Refuses a number of servers that makes no sense. The error says what is possible.
    pub fn check(&self, options: &Options) -> Result<(), OptionError> {
        self.set_up(options).nodes.map_or(Ok(()), |nodes| (self.check_nodes)(self, nodes))
    }

    pub(crate) fn kind(&self, index: usize) -> &'static ServerKind {
        let mut end = 0;
        let found = self.kinds.iter().find(|kind| {
            end += kind.count;
            index < end
        });
        found.unwrap_or(&self.kinds[0])
    }

    /// Port at which clients reach its servers.
    pub fn port(&self) -> u16 {
        let for_clients = self.kinds.iter().find(|kind| kind.for_clients);
        for_clients.map_or(0, |kind| kind.port)
    }

    pub fn port_of(&self, index: usize) -> u16 {
        self.kind(index).port
    }

    pub fn is_for_clients(&self, index: usize) -> bool {
        self.kind(index).for_clients
    }

    pub fn start_command(&self, index: usize, nodes: &[Arc<dyn Node>], options: &Options) -> Service {
        (self.start)(self, index, nodes, &self.set_up(options))
    }

    /// Returns when the servers, all started, serve (elected, replicated). The error says which does not.
    pub async fn await_ready(&self, nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
        try_join_all(nodes.iter().map(|node| self.await_serving(node, nodes))).await?;
        (self.gather)(self, nodes).await
    }

    /// Returns when one server of these serves, also after a restart. The error says why it does not.
    pub async fn await_serving(
        &self,
        node: &Arc<dyn Node>,
        all: &[Arc<dyn Node>],
    ) -> Result<(), ClusterError> {
        let ServerKind { server, processes: services, .. } = *self.kind(place_of(node));
        let awaited = Awaited { node, server, services, within: self.start_time };
        awaited.serves(|| (self.trouble)(self, node, all)).await
    }

    /// Name and version of a server, in its own words (`redis-server 7.0.15`). Errors: it could not be asked.
    pub async fn version(&self, node: &Arc<dyn Node>, all: &[Arc<dyn Node>]) -> Result<String, ClusterError> {
        let kind = self.kind(place_of(node));
        if kind.version.is_empty() {
            return Ok(kind.server.to_owned());
        }
        let give_up = Instant::now() + VERSION_TIME;
        loop {
            let output = self.ask(kind.version, VERSION_TIME, node, all).await?;
            let line = first_line(&output);
            let has_answered = output.code == Some(0) && !line.is_empty();
            match (self.version)(line).filter(|_| has_answered) {
                Some(version) => return Ok(version),
                // A ZooKeeper that served a moment ago may be looking for its quorum again.
                None if has_answered && Instant::now() < give_up => sleep(ASK_AGAIN).await,
                None => {
                    return Err(ClusterError::new(format!(
                        "{} on {} does not report its version: `{}` says {line:?}",
                        kind.server,
                        node.name(),
                        kind.version.join(" ")
                    )));
                }
            }
        }
    }

    pub(crate) async fn ask(
        &self,
        command: &[&str],
        within: Duration,
        node: &Arc<dyn Node>,
        nodes: &[Arc<dyn Node>],
    ) -> Result<CommandOutput, ClusterError> {
        let words: Vec<String> = command.iter().map(|word| self.filled(word, node, nodes)).collect();
        node.exec(&words.iter().map(String::as_str).collect::<Vec<_>>(), within).await
    }

    /// A text with everything put in but the data folder, which the node knows.
    pub(crate) fn filled(&self, text: &str, node: &Arc<dyn Node>, nodes: &[Arc<dyn Node>]) -> String {
        let index = place_of(node);
        let kind = self.kind(index);
        let filled = text
            .replace("{address}", &node.address().to_string())
            .replace("{name}", node.name())
            .replace("{index}", &index.to_string())
            .replace("{port}", &kind.port.to_string())
            .replace("{peers}", &self.addresses(kind, nodes));
        let named = self.kinds.iter().filter(|kind| !kind.name.is_empty());
        named.fold(filled, |text, kind| {
            text.replace(&format!("{{{}}}", kind.name), &self.addresses(kind, nodes))
        })
    }

    fn addresses(&self, kind: &ServerKind, nodes: &[Arc<dyn Node>]) -> String {
        let of_kind = nodes.iter().enumerate().filter(|(place, _)| std::ptr::eq(self.kind(*place), kind));
        of_kind.map(|(_, node)| node.address().to_string()).collect::<Vec<_>>().join(",")
    }
}

/// The place of a server among all: they are n1, n2, …
pub(crate) fn place_of(node: &Arc<dyn Node>) -> usize {
    node.name().trim_start_matches('n').parse().unwrap_or(1_usize).saturating_sub(1)
}

pub(crate) fn first_line(output: &CommandOutput) -> &str {
    let lines = output.stdout.lines().chain(output.stderr.lines());
    lines.map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}
