//! A Redis server: how it is started, and how it says that it serves. Every service of Redis servers uses
//! this.

use super::access;
pub(crate) use super::ask::{PORT, ask};
use super::existing::ExistingRedis;
use super::refusals;
use crate::error::OptionError;
use crate::existing::ExistingService;
use crate::options::{Options, Persistence};
use crate::readiness::{Awaited, START_TIME};
use crate::run_access::{AccessFile, RunAccess};
use crate::service::{LockService, ServiceRefusals};
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClockMechanism, ClusterError, Node};
use std::sync::Arc;
use std::time::Duration;

/// Servers that speak as Redis does.
pub(crate) const SERVERS: &[&str] = &["redis", "valkey"];
/// The options of a Redis server.
pub(crate) const OPTIONS: &[&str] = &["redis-persistence", "tls", "auth"];
/// Redis is C, and takes its time through libc, which takes it from the vDSO.
pub(crate) const CLOCK_MECHANISMS: &[ClockMechanism] = &[ClockMechanism::Vdso, ClockMechanism::Faketime];

/// Redis servers that know nothing of each other.
pub(crate) struct RedisServers {
    pub name: &'static str,
    /// The kinds of servers, as in [`LockService::servers`].
    pub servers: &'static [&'static str],
    pub default_nodes: usize,
    /// Refuses a number of servers that the lock cannot be on.
    pub check: fn(nodes: usize) -> Result<(), OptionError>,
}

#[async_trait]
impl LockService for RedisServers {
    fn name(&self) -> &'static str {
        self.name
    }

    fn servers(&self) -> &'static [&'static str] {
        self.servers
    }

    fn default_nodes(&self) -> usize {
        self.default_nodes
    }

    fn options(&self) -> &'static [&'static str] {
        OPTIONS
    }

    fn check(&self, options: &Options) -> Result<(), OptionError> {
        options.nodes.map_or(Ok(()), self.check)
    }

    fn port(&self) -> u16 {
        PORT
    }

    fn start_command(&self, _index: usize, _nodes: &[Arc<dyn Node>], options: &Options) -> Service {
        start_command(options)
    }

    fn access_files(&self, access: &RunAccess) -> Vec<AccessFile> {
        access::files(access, None)
    }

    fn clock_mechanisms(&self) -> &'static [ClockMechanism] {
        CLOCK_MECHANISMS
    }

    async fn await_ready(&self, nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
        await_ready(nodes).await
    }

    async fn version(&self, node: &Arc<dyn Node>, _all: &[Arc<dyn Node>]) -> Result<String, ClusterError> {
        version(node).await
    }

    fn existing(&self) -> Option<&dyn ExistingService> {
        Some(&ExistingRedis)
    }

    fn refusals(&self) -> Option<&dyn ServiceRefusals> {
        Some(&refusals::INDEPENDENT)
    }
}

/// The process that a node runs.
pub(crate) fn start_command(options: &Options) -> Service {
    let mut argv = vec!["redis-server".to_owned()];
    if options.tls || options.auth {
        argv.push(access::CONFIGURATION.to_owned());
    }
    argv.extend(arguments(options));
    Service { name: "redis".to_owned(), argv, env: Vec::new(), refuses_root: false }
}

/// What every server of Redis here is started with.
pub(crate) fn arguments(options: &Options) -> Vec<String> {
    // `--save ''`: no snapshots. What survives a restart is then exactly what the append-only file holds.
    let fixed = ["--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--dir", "{data}"];
    let mut argv: Vec<String> = fixed.map(str::to_owned).to_vec();
    if options.tls {
        argv.extend(["--port", "0", "--tls-port"].map(str::to_owned));
    } else {
        argv.push("--port".to_owned());
    }
    argv.push(PORT.to_string());
    let append: &[&str] = match options.redis_persistence {
        Persistence::None => &["--appendonly", "no"],
        Persistence::Everysec => &["--appendonly", "yes", "--appendfsync", "everysec"],
        Persistence::Always => &["--appendonly", "yes", "--appendfsync", "always"],
    };
    argv.extend(append.iter().map(|word| (*word).to_owned()));
    argv
}

/// Returns when every server takes connections. One that still loads its file answers LOADING, and clients
/// treat that as a refusal and try again.
pub(crate) async fn await_ready(nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
    for node in nodes {
        let address = format!("{}:{PORT}", node.address());
        let refusal = async || {
            Ok(node.connect(&address, Duration::from_millis(500)).await?.err().map(|why| why.to_string()))
        };
        let services = &["redis", "sentinel"];
        Awaited { node, server: "Redis", services, within: START_TIME }.serves(refusal).await?;
    }
    Ok(())
}

/// How long a server may take to tell its version, on a machine that is slow.
const VERSION_TIME: Duration = Duration::from_secs(20);

/// `redis-server 7.0.15`, or `valkey-server 8.1.1`: what it is called, the server says itself.
pub(crate) async fn version(node: &Arc<dyn Node>) -> Result<String, ClusterError> {
    let output = node.exec(&["redis-server", "--version"], VERSION_TIME).await?;
    parse_version(&output.stdout).ok_or_else(|| {
        let why = match output.stderr.trim() {
            "" => format!("it said nothing within {} s", VERSION_TIME.as_secs()),
            said => said.to_owned(),
        };
        ClusterError::new(format!("redis-server on {} did not tell its version: {why}", node.name()))
    })
}

/// From `Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=…`, or `Valkey server v=…`.
fn parse_version(stdout: &str) -> Option<String> {
    let (name, rest) = stdout.trim_start().split_once(" server ")?;
    let version = rest.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    Some(format!("{}-server {version}", name.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_the_servers_own_words() {
        let line = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0";
        assert_eq!(parse_version(line).as_deref(), Some("redis-server 7.0.15"));
        let valkey = "Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1a2b";
        assert_eq!(parse_version(valkey).as_deref(), Some("valkey-server 8.1.1"));
        assert_eq!(parse_version("sh: redis-server: not found"), None);
    }

    #[test]
    fn persistence_reaches_the_command_line() {
        let line = |redis_persistence| {
            start_command(&Options { redis_persistence, ..Options::default() }).argv.join(" ")
        };
        assert!(line(Persistence::None).ends_with("--appendonly no"));
        assert!(line(Persistence::Always).ends_with("--appendonly yes --appendfsync always"));
    }
}
