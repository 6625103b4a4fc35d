//! Locks on etcd, a cluster with consensus: the servers, and what its recipes share. One file a recipe: `mutex.rs`,
//! `lock_api.rs`, `chubby.rs`.

mod api;
mod chubby;
mod client;
mod leader;
mod lock_api;
mod members;
mod mutex;
mod queue;
mod recipe;
mod sequencer;
mod session;
mod user;

use crate::backend::{Backend, Lock, Session};
use crate::http::HttpTool;
use crate::notices::Notices;
use crate::options::Options;
use crate::protocol::{Hello, Server};
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClusterError, Node};
use fencepost_history::Seed;
use fencepost_storage::Sequencers;
use members::Members;
use recipe::Recipe;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use user::User;

const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;
const HEARTBEAT_MS: u64 = 100;
const ELECTION_MS: u64 = 1000;
/// A server grants no lease shorter than one and a half election time-outs, rounded up to seconds
/// (`minTTL` in etcd's `server.go`); it silently makes a shorter one longer.
const TTL_MIN: Duration = Duration::from_secs((ELECTION_MS * 3 / 2).div_ceil(1000));

const READY_WITHIN: Duration = Duration::from_secs(20);
const READY_POLL: Duration = Duration::from_millis(20);

pub(crate) use chubby::Chubby;
pub(crate) use lock_api::LockApi;
pub(crate) use mutex::Mutex;

/// A backend on etcd's servers, by its recipe.
pub(crate) struct Etcd(pub(crate) &'static dyn Recipe);

#[async_trait]
impl Backend for Etcd {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn about(&self) -> &'static str {
        self.0.about()
    }

    fn promises(&self) -> &'static str {
        self.0.promises()
    }

    fn has_token(&self, _options: &Options) -> bool {
        true
    }

    fn has_unique_value(&self, _options: &Options) -> bool {
        true
    }

    fn has_sequencer(&self) -> bool {
        self.0.holders("", "exclusive").is_some()
    }

    fn has_shared_mode(&self) -> bool {
        self.0.has_shared_mode()
    }

    fn stays_taken(&self, options: &Options) -> Duration {
        self.0.stays_taken(options)
    }

    fn options(&self) -> &'static [&'static str] {
        self.0.options()
    }

    fn image(&self) -> Option<&'static str> {
        Some("etcd")
    }

    fn default_nodes(&self) -> usize {
        3
    }

    fn check(&self, options: &Options) -> Result<(), String> {
        match options.nodes {
            Some(nodes) if nodes % 2 == 0 || nodes > 9 => Err(format!(
                "etcd wants an odd number of members, at most 9, not {nodes}; use --nodes 3 or --nodes 5"
            )),
            _ => self.0.check(options),
        }
    }

    fn check_ttl(&self, ttl: Duration) -> Result<(), String> {
        if ttl.subsec_nanos() == 0 && ttl >= TTL_MIN {
            return Ok(());
        }
        Err(format!(
            "etcd's leases last whole seconds, and these servers grant none under {} s; use --ttl {}s",
            TTL_MIN.as_secs(),
            ttl.as_secs_f64().ceil().max(TTL_MIN.as_secs_f64())
        ))
    }

    fn port(&self) -> u16 {
        CLIENT_PORT
    }

    fn service(&self, index: usize, nodes: &[Arc<dyn Node>], _options: &Options) -> Service {
        let node = &nodes[index];
        let peer = |node: &Arc<dyn Node>| format!("http://{}:{PEER_PORT}", node.address());
        let client = format!("http://{}:{CLIENT_PORT}", node.address());
        let cluster: Vec<String> =
            nodes.iter().map(|node| format!("{}={}", node.name(), peer(node))).collect();
        let options = [
            ("--name", node.name().to_owned()),
            ("--data-dir", "{data}/etcd".to_owned()),
            // Ignored by a member that is started again and finds its data.
            ("--initial-cluster", cluster.join(",")),
            ("--initial-cluster-state", "new".to_owned()),
            ("--initial-cluster-token", "fencepost".to_owned()),
            ("--listen-peer-urls", peer(node)),
            ("--initial-advertise-peer-urls", peer(node)),
            ("--listen-client-urls", client.clone()),
            ("--advertise-client-urls", client),
            ("--heartbeat-interval", HEARTBEAT_MS.to_string()),
            ("--election-timeout", ELECTION_MS.to_string()),
            ("--logger", "zap".to_owned()),
        ];
        let mut argv = vec!["etcd".to_owned()];
        argv.extend(options.into_iter().flat_map(|(option, value)| [option.to_owned(), value]));
        // etcd 3.4 refuses to start on this architecture without it; elsewhere it is ignored.
        let env = vec![("ETCD_UNSUPPORTED_ARCH".to_owned(), "arm64".to_owned())];
        Service { name: "etcd".to_owned(), argv, env }
    }

    /// Asks each member's `/health`, which is a linearizable read: it needs a leader and a majority.
    async fn await_ready(&self, nodes: &[Arc<dyn Node>], _options: &Options) -> Result<(), ClusterError> {
        let deadline = Instant::now() + READY_WITHIN;
        for node in nodes {
            let args = json!({
                "address": format!("{}:{CLIENT_PORT}", node.address()),
                "path": "/health",
                "timeout_ms": 500,
            });
            loop {
                let why_not = match node.tool(HttpTool::NAME, args.clone()).await {
                    Ok(answer) if answer["status"] == 200 => break,
                    Ok(answer) => answer.to_string(),
                    // Not listening yet, or gone for good: the deadline tells.
                    Err(error) => error.to_string(),
                };
                if Instant::now() > deadline {
                    return Err(ClusterError::new(format!(
                        "etcd on {} did not serve within {} s: {why_not}; its log says why",
                        node.name(),
                        READY_WITHIN.as_secs()
                    )));
                }
                sleep(READY_POLL).await;
            }
        }
        Ok(())
    }

    async fn version(&self, node: &Arc<dyn Node>) -> Result<String, ClusterError> {
        let output = node.exec(&["etcd", "--version"], Duration::from_secs(5)).await?;
        parse_version(&output.stdout).ok_or_else(|| {
            ClusterError::new(format!("etcd on {} did not tell its version: {}", node.name(), output.stderr))
        })
    }

    fn has_leader(&self) -> bool {
        true
    }

    async fn leader(
        &self,
        nodes: &[Arc<dyn Node>],
        _options: &Options,
    ) -> Result<Option<usize>, ClusterError> {
        Ok(leader::leader(nodes).await)
    }

    async fn hand_over(
        &self,
        nodes: &[Arc<dyn Node>],
        from: usize,
        _options: &Options,
    ) -> Result<(), ClusterError> {
        leader::hand_over(nodes, from).await
    }

    async fn connect(&self, hello: &Hello) -> Result<Box<dyn Session>, String> {
        let members = Arc::new(Members::open(&hello.servers, &hello.client).await?);
        let options = match &hello.options {
            Value::Null => Options::default(),
            given => Options::deserialize(given)
                .map_err(|error| format!("the hello's options are not to be read: {error}"))?,
        };
        Ok(Box::new(EtcdSession { recipe: self.0, members, options, seed: Seed(hello.seed) }))
    }

    async fn sequencers(&self, servers: &[Server]) -> Result<Box<dyn Sequencers>, String> {
        let members = Members::open(servers, "storage").await?;
        Ok(Box::new(sequencer::Asker { recipe: self.0, members }))
    }
}

struct EtcdSession {
    recipe: &'static dyn Recipe,
    options: Options,
    members: Arc<Members>,
    seed: Seed,
}

impl Session for EtcdSession {
    fn can(&self) -> Vec<String> {
        ["token", "validity", "lost", "extend"].map(str::to_owned).to_vec()
    }

    fn lock(&self, process: u64, notices: Notices) -> Box<dyn Lock> {
        let random = self.seed.stream(&format!("lock-{process}"));
        self.recipe.lock(User::new(self.members.clone(), notices, random), &self.options)
    }
}

/// From `etcd Version: 3.4.23`.
fn parse_version(stdout: &str) -> Option<String> {
    let version = stdout.lines().find_map(|line| line.strip_prefix("etcd Version: "))?;
    Some(format!("etcd {}", version.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttl_is_whole_seconds_that_the_server_grants() {
        let check = |millis| Etcd(&Mutex).check_ttl(Duration::from_millis(millis));
        assert_eq!(check(2000), Ok(()));
        assert_eq!(check(10_000), Ok(()));
        assert!(check(2500).is_err_and(|why| why.ends_with("use --ttl 3s")));
        assert!(check(1000).is_err_and(|why| why.ends_with("use --ttl 2s")));
    }

    #[test]
    fn version_is_read_from_the_servers_own_words() {
        let stdout = "etcd Version: 3.4.23\nGit SHA: Not provided\nGo Version: go1.19.8\n";
        assert_eq!(parse_version(stdout).as_deref(), Some("etcd 3.4.23"));
    }
}
