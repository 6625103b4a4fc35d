//! Test servers on real nodes: a driver's servers, and a node for each client.

use super::run::{RuleResult, check_all};
use super::test_servers::{CLIENTS, LockTerms, ServerStreams, ServersState, TestServers};
use crate::run::client_start::{ClientSetup, KnownNodes};
use crate::run::deployment::{self, StartedServices, nodes_of};
use crate::settings::names::BadUsage;
use crate::settings::node_specs::{node_specs, run_name};
use crate::settings::options::RunOptions;
use crate::settings::validation::RunSpec;
use crate::stop::Stop;
use crate::watch::node_log;
use anyhow::{Result, anyhow, bail};
use async_trait::async_trait;
use fencepost_cluster::{Cluster, ClusterSpec, Node};
use fencepost_history::{NodeKind, Refusal};
use fencepost_locks::protocol::Hello;
use fencepost_locks::{Access, LockService};
use fencepost_nemesis::FaultContext;
use futures_util::future::try_join_all;
use nix::sys::signal::Signal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long servers may take to serve again after a pause.
const READY: Duration = Duration::from_secs(15);

const KILLED: Duration = Duration::from_secs(5);

/// What is reported while a client is checked.
pub trait ConformanceObserver: Send {
    /// The servers run; their versions, and what the lock's version command printed.
    fn started(&mut self, servers: &[String], version: Option<&str>);
    fn checked(&mut self, rule: &RuleResult);
}

/// The validated options of a check: three clients, no faults, no storage. Errors: what cannot work.
pub fn conformance_spec(options: RunOptions) -> Result<RunSpec, BadUsage> {
    options.existing.check_unused()?;
    RunSpec::new(RunOptions {
        workload: "lock".to_owned(),
        clients: CLIENTS,
        concurrency: CLIENTS,
        ..options
    })
}

/// Starts servers, and checks on them whether the lock's client keeps the client protocol. `logs` is a folder
/// for the logs of the nodes. Errors: a failure of Fencepost or the environment; all is taken down before.
pub async fn check_conformance(
    spec: &RunSpec,
    logs: &Path,
    stop: &Arc<Stop>,
    observer: &mut dyn ConformanceObserver,
) -> Result<Vec<RuleResult>> {
    let driver = fencepost_cluster::select(&spec.options.driver).await?;
    let (_, clean_up) = fencepost_cluster::clean_up_before(driver.as_ref()).await?;
    let cluster = ClusterSpec { run: run_name(spec), nodes: node_specs(spec), logs: logs.to_owned() };
    let cluster = stop.unless_pulled(async { Ok(driver.start(&cluster).await?) }).await?;
    // From here on the cluster is taken down whatever happens.
    let checked = stop.unless_pulled(check_on(spec, logs, &cluster, observer)).await;
    let stopped = cluster.stop().await;
    clean_up.finish().await;
    let checked = checked?;
    stopped?;
    Ok(checked)
}

async fn check_on(
    spec: &RunSpec,
    logs: &Path,
    cluster: &Cluster,
    observer: &mut dyn ConformanceObserver,
) -> Result<Vec<RuleResult>> {
    let StartedServices { services, access } = deployment::start_services(spec, cluster, logs).await?;
    let [servers, clients] = [NodeKind::Server, NodeKind::Client].map(|kind| nodes_of(cluster, kind));
    let versions = deployment::versions(spec, &servers).await?;
    let setup = ClientSetup::of(spec)?;
    let version = setup.version(&clients).await?;
    observer.started(&versions, version.as_deref());
    let context = FaultContext::new(&cluster.nodes, services, Box::new(|_| None), None, None);
    let facts = spec.lock.facts(&spec.options.lock_options, None, &[]);
    let capabilities = spec.lock.capabilities(&spec.options.lock_options);
    let step = facts.ttl_step.map(|step| step.0).unwrap_or_default();
    let terms = LockTerms {
        kind: facts.kind,
        lease: facts.lease,
        ttl: spec.options.ttl.0,
        lag: step + capabilities.lock_delay,
        start_time: setup.start_time,
    };
    let (service, logs) = (spec.lock.service, logs.to_owned());
    let test_servers = NodeTestServers { setup, service, terms, context, servers, clients, access, logs };
    check_all(Arc::new(test_servers), &mut |rule| observer.checked(rule)).await
}

struct NodeTestServers {
    setup: ClientSetup,
    service: &'static LockService,
    terms: LockTerms,
    context: FaultContext,
    servers: Vec<Arc<dyn Node>>,
    clients: Vec<Arc<dyn Node>>,
    access: Option<Access>,
    logs: std::path::PathBuf,
}

impl NodeTestServers {
    async fn signal_servers(&self, signal: Signal) -> Result<()> {
        let signalled = self.servers.iter().map(|node| async move {
            let pid = self.context.pid(node.name())?;
            let reached = node.signal_tree(pid, signal as i32).await?;
            if !reached && signal != Signal::SIGKILL {
                bail!("{} ended by itself; its log says why", node.name());
            }
            if signal == Signal::SIGKILL {
                node.await_exit(pid, KILLED).await?;
            }
            Ok::<_, anyhow::Error>(())
        });
        try_join_all(signalled).await?;
        Ok(())
    }
}

#[async_trait]
impl TestServers for NodeTestServers {
    fn terms(&self) -> &LockTerms {
        &self.terms
    }

    fn check_announced(&self, can: &[String]) -> Result<(), Refusal> {
        self.setup.check_announced(can)
    }

    async fn start_client(&self, place: usize) -> Result<(Hello, ServerStreams)> {
        let node = &self.clients[place];
        let attached = self.setup.attach(node).await?;
        let (servers, access) = (&self.servers, self.access.clone());
        let known = KnownNodes { servers, storages: &[], existing: None, access, logs: &self.logs };
        let hello = self.setup.hello(node, &known);
        Ok((hello, ServerStreams { stdin: attached.stdin, stdout: attached.stdout }))
    }

    async fn kill_client(&self, place: usize, pid: i32) -> Result<()> {
        // A wrong process number in a hello: that the client goes on tells it.
        let _ = self.clients[place].signal_tree(pid, Signal::SIGKILL as i32).await;
        Ok(())
    }

    async fn explained(&self, place: usize, sentence: String) -> String {
        node_log::explained(&sentence, &self.logs, self.clients[place].name(), "").await
    }

    async fn set_state(&self, state: ServersState) -> Result<()> {
        match state {
            ServersState::Paused => self.signal_servers(Signal::SIGSTOP).await,
            ServersState::Killed => self.signal_servers(Signal::SIGKILL).await,
            ServersState::Resumed => {
                self.signal_servers(Signal::SIGCONT).await?;
                let ready = self.service.await_ready(&self.servers);
                let ready = tokio::time::timeout(READY, ready).await;
                Ok(ready.map_err(|_| {
                    anyhow!("the servers did not serve again within {} s after a pause", READY.as_secs())
                })??)
            }
        }
    }
}
