//! A service as its data describe it: a table `[service]`, and what a built-in service leaves out.

use crate::error::{OptionError, refuse};
use crate::options::Options;
use crate::readiness::{ASK, START_TIME};
use crate::service::{LockService, ServerKind, ServiceDefaults, ServiceLeadership, first_line, place_of};
use fencepost_cluster::protocol::{CommandOutput, Service};
use fencepost_cluster::{ClockMechanism, ClusterError, Node};
use fencepost_history::Lease;
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const PROCESS: &str = "server";

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

const AFTER_START: &str = r#"
[ -e "{data}/.after-start" ] && exit 0
set -e
{lines}
: > "{data}/.after-start"
"#;

/// Servers of one kind that serve as soon as their ports accept a connection.
pub(crate) const DESCRIBED: LockService = LockService {
    name: "",
    about: "",
    lease: Lease::Ttl,
    servers: &[],
    kinds: &[],
    may_be_down: None,
    setup_time: Duration::from_secs(1),
    start_time: START_TIME,
    options: &[],
    clock_mechanisms: &[ClockMechanism::Vdso],
    unreadable_data: &[],
    packages: &[],
    environment: None,
    leader: &[],
    transfer: &[],
    after_start: &[],
    defaults: ServiceDefaults { nodes: None, server: None, redis_persistence: None },
    check_nodes,
    check_ttl: |_| Ok(()),
    start,
    access_files: |_| Vec::new(),
    secure: |_, _| Box::pin(async { Ok(()) }),
    trouble: |service, node, all| Box::pin(trouble(service, node, all)),
    gather: |service, nodes| Box::pin(after_start(service, nodes)),
    version: |line| Some(line.to_owned()),
    leadership: None,
    sends_clients_on: false,
    existing: None,
    orders: None,
};

pub(crate) const ONE: ServerKind = ServerKind {
    name: "",
    count: 1,
    server: "",
    processes: &[PROCESS],
    port: 0,
    for_clients: true,
    program: &[],
    prepare: &[],
    ready: &[],
    version: &[],
};

/// The leader is the server that most of those name that answer the command for it.
pub(crate) const BY_COMMANDS: ServiceLeadership = ServiceLeadership {
    leader: |service, nodes| Box::pin(leader(service, nodes)),
    transfer: |service, nodes, from| Box::pin(transfer(service, nodes, from)),
};

fn check_nodes(service: &LockService, nodes: usize) -> Result<(), OptionError> {
    match nodes {
        0 => refuse!("nodes", "--nodes 0: a service has at least 1 server"),
        _ if service.kinds.len() > 1 => refuse!(
            "nodes",
            "--nodes: this service has several kinds of servers; their counts are in its lock.toml"
        ),
        _ => Ok(()),
    }
}

fn start(service: &LockService, index: usize, nodes: &[Arc<dyn Node>], _options: &Options) -> Service {
    let filled = |text: &&str| service.filled(text, &nodes[index], nodes);
    let kind = service.kind(index);
    let program = kind.program.iter().map(filled);
    let argv = match kind.prepare.is_empty() {
        true => program.collect(),
        false => {
            let lines: Vec<String> = kind.prepare.iter().map(filled).collect();
            let script = SCRIPT.replace("{lines}", &lines.join("\n"));
            let shell = ["sh", "-c", &script, "sh"].map(str::to_owned);
            shell.into_iter().chain(program).collect()
        }
    };
    Service { name: PROCESS.to_owned(), argv, env: Vec::new(), refuses_root: false }
}

async fn trouble(
    service: &LockService,
    node: &Arc<dyn Node>,
    all: &[Arc<dyn Node>],
) -> Result<Option<String>, ClusterError> {
    let kind = service.kind(place_of(node));
    if kind.ready.is_empty() {
        let address = format!("{}:{}", node.address(), kind.port);
        let refused = node.connect(&address, Duration::from_secs(1)).await?.err();
        return Ok(refused.map(|why| why.to_string()));
    }
    let output = service.ask(kind.ready, ASK, node, all).await?;
    Ok(match output.code {
        Some(0) => None,
        _ => Some(format!("`{}` says {:?}", kind.ready.join(" "), first_line(&output))),
    })
}

async fn after_start(service: &LockService, nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
    let (Some(first), false) = (nodes.first(), service.after_start.is_empty()) else { return Ok(()) };
    let lines: Vec<String> =
        service.after_start.iter().map(|line| service.filled(line, first, nodes)).collect();
    let script = AFTER_START.replace("{lines}", &lines.join("\n"));
    let output = first.exec(&["sh", "-c", &script], service.start_time).await?;
    match output.code {
        Some(0) => Ok(()),
        _ => Err(ClusterError::new(format!(
            "`after-start` failed on {}: {}",
            first.name(),
            last_line(&output)
        ))),
    }
}

fn last_line(output: &CommandOutput) -> &str {
    let lines = output.stdout.lines().chain(output.stderr.lines());
    lines.map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing")
}

async fn leader(service: &LockService, nodes: &[Arc<dyn Node>]) -> Result<Option<usize>, ClusterError> {
    let mut votes: BTreeMap<usize, usize> = BTreeMap::new();
    let answers = join_all(nodes.iter().map(|node| service.ask(service.leader, ASK, node, nodes))).await;
    // A server that is stopped or cut off does not answer, and has no vote.
    for output in answers.into_iter().flatten() {
        let named = first_line(&output);
        let place = nodes.iter().position(|node| node.name() == named || node.address().to_string() == named);
        if let Some(place) = place.filter(|_| output.code == Some(0)) {
            *votes.entry(place).or_default() += 1;
        }
    }
    Ok(votes.into_iter().max_by_key(|(_, votes)| *votes).map(|(place, _)| place))
}

async fn transfer(service: &LockService, nodes: &[Arc<dyn Node>], from: usize) -> Result<(), ClusterError> {
    if service.transfer.is_empty() {
        return Err(ClusterError::new(
            "the [service] of lock.toml has no command `transfer`, by which its leader lets another server lead",
        ));
    }
    let output = service.ask(service.transfer, ASK, &nodes[from], nodes).await?;
    match output.code {
        Some(0) => Ok(()),
        _ => Err(ClusterError::new(format!(
            "{} does not let another server lead: {:?}",
            nodes[from].name(),
            first_line(&output)
        ))),
    }
}
