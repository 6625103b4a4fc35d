//! Servers that a `lock.toml` describes: how they are started, and how they say that they serve and which of
//! them leads.

use super::file::CommandWords;
use super::service_table::{NodeTable, ServiceTable};
use super::texts;
use crate::error::{OptionError, bad_option};
use crate::options::Options;
use crate::readiness::{Awaited, START_TIME};
use crate::service::{LockService, ServiceLeadership};
use async_trait::async_trait;
use fencepost_cluster::images::Release;
use fencepost_cluster::protocol::{Output, Service};
use fencepost_cluster::{ClockMechanism, ClusterError, Environment, Node};
use fencepost_history::Refusal;
use futures_util::future::{join_all, try_join_all};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The name of the process that a server runs.
const SERVICE: &str = "server";
const ASK: Duration = Duration::from_secs(5);

/// Prepares the server's data once, and becomes the server. The arguments are the program's. What was
/// prepared is as durable as what was installed long ago: a loss of power later must not take it away.
const SCRIPT: &str = r#"
if [ ! -e "{data}/.prepared" ]; then
    ( set -e
    {lines}
    ) >&2 || { echo "its preparation failed" >&2; exit 1; }
    : > "{data}/.prepared"
    find "{data}" -exec sync {} +
fi
exec "$@"
"#;

/// Runs lines once in the life of a run's first server.
const AFTER_START: &str = r#"
[ -e "{data}/.after-start" ] && exit 0
set -e
{lines}
: > "{data}/.after-start"
"#;

/// A service out of a table `[service]`.
pub(super) struct OwnService {
    /// As messages call it: the name of the program that clients talk to.
    name: &'static str,
    table: ServiceTable,
    /// In the order of their nodes.
    kinds: Vec<ServerKind>,
    clocks: &'static [ClockMechanism],
    leader: Option<Vec<String>>,
    transfer: Option<Vec<String>>,
    start_time: Duration,
    environment: Arc<Environment>,
}

/// Servers that are made alike.
struct ServerKind {
    /// As messages call it: its program's name.
    program_name: String,
    table: NodeTable,
    program: Vec<String>,
    ready: Option<Vec<String>>,
    version: Option<Vec<String>>,
}

impl ServerKind {
    fn new(table: NodeTable) -> Result<ServerKind, Refusal> {
        let words = |words: &Option<CommandWords>| words.as_ref().map(CommandWords::words).transpose();
        let program = table.program.words()?;
        let program_name = Path::new(&program[0]).file_name();
        let program_name =
            program_name.map_or_else(|| program[0].clone(), |it| it.to_string_lossy().into_owned());
        Ok(ServerKind {
            program_name,
            ready: words(&table.ready)?.filter(|words| *words != ["tcp"]),
            version: words(&table.version)?,
            program,
            table,
        })
    }
}

/// Refuses a release of a server that the table does not install.
pub(super) fn check_release(table: &ServiceTable, release: &Release) -> Result<(), Refusal> {
    let packages = release.packages();
    match packages.iter().any(|package| table.packages.contains(package)) {
        true => Ok(()),
        false => Err(Refusal::new(format!(
            "{release} is no version of its server: the packages of its [service] have no {}",
            packages[0]
        ))),
    }
}

impl OwnService {
    /// Its servers run in `environment`. The table was checked.
    ///
    /// # Errors
    /// One sentence: what in the table is wrong.
    pub(super) fn new(table: ServiceTable, environment: Arc<Environment>) -> Result<OwnService, Refusal> {
        let words = |words: &Option<CommandWords>| words.as_ref().map(CommandWords::words).transpose();
        let kinds: Vec<ServerKind> =
            table.kinds()?.into_iter().map(ServerKind::new).collect::<Result<_, _>>()?;
        let for_clients = kinds.iter().find(|kind| kind.table.for_clients);
        let name = for_clients.map(|kind| kind.program_name.clone()).unwrap_or_default();
        Ok(OwnService {
            name: name.leak(),
            leader: words(&table.leader)?,
            transfer: words(&table.transfer)?,
            clocks: table.clocks.clone().unwrap_or_else(|| vec![ClockMechanism::Vdso]).leak(),
            start_time: texts::start_time(table.start_time, START_TIME)?,
            kinds,
            table,
            environment,
        })
    }

    /// The kind of the server in this place. Where there is one kind, the user says how many there are.
    fn kind(&self, index: usize) -> &ServerKind {
        let mut end = 0;
        let found = self.kinds.iter().find(|kind| {
            end += kind.table.count;
            index < end
        });
        found.unwrap_or(&self.kinds[0])
    }

    /// The addresses of the servers of a kind among all servers, as commands get them.
    fn addresses(&self, kind: &ServerKind, nodes: &[Arc<dyn Node>]) -> String {
        let of_kind = nodes.iter().enumerate().filter(|(place, _)| std::ptr::eq(self.kind(*place), kind));
        of_kind.map(|(_, node)| node.address().to_string()).collect::<Vec<_>>().join(",")
    }

    /// A text with everything put in but the data folder, which the node knows.
    fn filled(&self, text: &str, node: &Arc<dyn Node>, nodes: &[Arc<dyn Node>]) -> String {
        let index = place_of(node);
        let kind = self.kind(index);
        let filled = text
            .replace("{address}", &node.address().to_string())
            .replace("{name}", node.name())
            .replace("{index}", &index.to_string())
            .replace("{port}", &kind.table.port.to_string())
            .replace("{peers}", &self.addresses(kind, nodes));
        let named = self.kinds.iter().filter(|kind| !kind.table.name.is_empty());
        named.fold(filled, |text, kind| {
            text.replace(&format!("{{{}}}", kind.table.name), &self.addresses(kind, nodes))
        })
    }

    async fn ask(
        &self,
        command: &[String],
        node: &Arc<dyn Node>,
        nodes: &[Arc<dyn Node>],
    ) -> Result<Output, ClusterError> {
        let words: Vec<String> = command.iter().map(|word| self.filled(word, node, nodes)).collect();
        node.exec(&words.iter().map(String::as_str).collect::<Vec<_>>(), ASK).await
    }

    /// Why this server does not serve yet; none if it does.
    async fn why_not_ready(
        &self,
        node: &Arc<dyn Node>,
        all: &[Arc<dyn Node>],
    ) -> Result<Option<String>, ClusterError> {
        let kind = self.kind(place_of(node));
        let Some(command) = &kind.ready else {
            let address = format!("{}:{}", node.address(), kind.table.port);
            let refused = node.connect(&address, Duration::from_secs(1)).await?.err();
            return Ok(refused.map(|why| why.to_string()));
        };
        let output = self.ask(command, node, all).await?;
        Ok(match output.code {
            Some(0) => None,
            _ => Some(format!("`{}` says {:?}", command.join(" "), first_line(&output))),
        })
    }

    async fn await_one(&self, node: &Arc<dyn Node>, all: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
        let within = self.start_time;
        let server = &self.kind(place_of(node)).program_name;
        let awaited = Awaited { node, server, services: &[SERVICE], within };
        awaited.serves(|| self.why_not_ready(node, all)).await
    }

    /// Runs what is to run when all servers serve, for the first time.
    async fn after_start(&self, nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
        let (Some(first), false) = (nodes.first(), self.table.after_start.is_empty()) else { return Ok(()) };
        let lines: Vec<String> =
            self.table.after_start.iter().map(|line| self.filled(line, first, nodes)).collect();
        let script = AFTER_START.replace("{lines}", &lines.join("\n"));
        let output = first.exec(&["sh", "-c", &script], self.start_time).await?;
        match output.code {
            Some(0) => Ok(()),
            _ => Err(ClusterError::new(format!(
                "`after-start` failed on {}: {}",
                first.name(),
                last_line(&output)
            ))),
        }
    }
}

/// The place of a server among all: they are n1, n2, …
fn place_of(node: &Arc<dyn Node>) -> usize {
    node.name().trim_start_matches('n').parse().unwrap_or(1_usize).saturating_sub(1)
}

/// What a command says last, wherever it says it.
fn last_line(output: &Output) -> String {
    let lines = output.stdout.lines().chain(output.stderr.lines());
    lines.map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing").to_owned()
}

/// What a command says first, wherever it says it.
fn first_line(output: &Output) -> String {
    let lines = output.stdout.lines().chain(output.stderr.lines());
    lines.map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

#[async_trait]
impl LockService for OwnService {
    fn name(&self) -> &'static str {
        self.name
    }

    fn image(&self, _: &Options) -> Option<&'static str> {
        Some("client")
    }

    fn environment(&self, _options: &Options) -> Result<Option<Arc<Environment>>, Refusal> {
        Ok(Some(self.environment.clone()))
    }

    fn default_nodes(&self) -> usize {
        self.kinds.iter().map(|kind| kind.table.count).sum()
    }

    fn check(&self, options: &Options) -> Result<(), OptionError> {
        match options.nodes {
            Some(0) => bad_option("nodes", "--nodes 0: a service has at least 1 server".to_owned()),
            Some(_) if self.kinds.len() > 1 => bad_option(
                "nodes",
                "--nodes: this service has several kinds of servers; their counts are in its lock.toml"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }

    fn port(&self) -> u16 {
        let for_clients = self.kinds.iter().find(|kind| kind.table.for_clients);
        for_clients.map_or(0, |kind| kind.table.port)
    }

    fn port_of(&self, index: usize) -> u16 {
        self.kind(index).table.port
    }

    fn is_for_clients(&self, index: usize) -> bool {
        self.kind(index).table.for_clients
    }

    fn start_command(&self, index: usize, nodes: &[Arc<dyn Node>], _options: &Options) -> Service {
        let filled = |text: &String| self.filled(text, &nodes[index], nodes);
        let kind = self.kind(index);
        let program = kind.program.iter().map(filled);
        let argv = match kind.table.prepare.is_empty() {
            true => program.collect(),
            false => {
                let lines: Vec<String> = kind.table.prepare.iter().map(filled).collect();
                let script = SCRIPT.replace("{lines}", &lines.join("\n"));
                let shell = ["sh", "-c", &script, "sh"].map(str::to_owned);
                shell.into_iter().chain(program).collect()
            }
        };
        Service { name: SERVICE.to_owned(), argv, env: Vec::new(), refuses_root: false }
    }

    fn clock_mechanisms(&self) -> &'static [ClockMechanism] {
        self.clocks
    }

    async fn await_ready(&self, nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
        try_join_all(nodes.iter().map(|node| self.await_one(node, nodes))).await?;
        self.after_start(nodes).await
    }

    async fn await_serving(&self, node: &Arc<dyn Node>, all: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
        self.await_one(node, all).await
    }

    async fn version(&self, node: &Arc<dyn Node>, all: &[Arc<dyn Node>]) -> Result<String, ClusterError> {
        let kind = self.kind(place_of(node));
        let Some(command) = &kind.version else { return Ok(kind.program_name.clone()) };
        let output = self.ask(command, node, all).await?;
        match first_line(&output) {
            line if output.code == Some(0) && !line.is_empty() => Ok(line),
            line => Err(ClusterError::new(format!(
                "{} on {} does not report its version: `{}` says {line:?}",
                kind.program_name,
                node.name(),
                command.join(" ")
            ))),
        }
    }

    fn leadership(&self) -> Option<&dyn ServiceLeadership> {
        self.leader.is_some().then_some(self)
    }
}

#[async_trait]
impl ServiceLeadership for OwnService {
    /// The server that most of those name that answer.
    async fn leader(&self, nodes: &[Arc<dyn Node>]) -> Result<Option<usize>, ClusterError> {
        let Some(command) = &self.leader else { return Ok(None) };
        let mut votes: BTreeMap<usize, usize> = BTreeMap::new();
        let answers = join_all(nodes.iter().map(|node| self.ask(command, node, nodes))).await;
        // A server that is stopped or cut off does not answer, and has no vote.
        for output in answers.into_iter().flatten() {
            let named = first_line(&output);
            let place =
                nodes.iter().position(|node| node.name() == named || node.address().to_string() == named);
            if let Some(place) = place.filter(|_| output.code == Some(0)) {
                *votes.entry(place).or_default() += 1;
            }
        }
        Ok(votes.into_iter().max_by_key(|(_, votes)| *votes).map(|(place, _)| place))
    }

    async fn transfer_leadership(&self, nodes: &[Arc<dyn Node>], from: usize) -> Result<(), ClusterError> {
        let Some(command) = &self.transfer else {
            return Err(ClusterError::new(
                "the [service] of lock.toml has no command `transfer`, by which its leader lets another server lead",
            ));
        };
        let output = self.ask(command, &nodes[from], nodes).await?;
        match output.code {
            Some(0) => Ok(()),
            _ => Err(ClusterError::new(format!(
                "{} does not let another server lead: {:?}",
                nodes[from].name(),
                first_line(&output)
            ))),
        }
    }
}
