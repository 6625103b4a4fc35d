//! Which faults take effect, each tried on a throw-away node.

use super::report::TriedEffect;
use anyhow::{Result, anyhow};
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{Capability, Cluster, ClusterSpec, Driver, NodeSpec, PrivateFolder};
use fencepost_history::{NodeKind, ObservedTarget, Seed};
use fencepost_nemesis::{
    FaultContext, Nemesis, NemesisSettings, Observation, RunningService, ServerFaults, Topology,
};
use futures_util::future::try_join_all;
use std::collections::HashMap;
use std::time::Duration;

/// The names of the victims. Their service is the storage: Fencepost brings it along.
const SERVERS: [&str; 2] = ["n1", "n2"];
const CLIENT: &str = "c1";
const PORT: u16 = 7000;

/// Faults are as long and as hard as for a lock that lives so long.
const TTL: Duration = Duration::from_millis(100);

/// So many seeds are tried for a fault on servers: there are no clients.
const SEEDS: u64 = 100;

/// So many faults are tried until one shows an effect.
const TRIES: usize = 4;

/// No fault takes longer to take hold, not even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) async fn try_all(driver: &dyn Driver) -> Result<HashMap<&'static str, TriedEffect>> {
    let offered = driver.supports().await;
    let logs = PrivateFolder::create("doctor-logs")?;
    let node = |name: &str, kind| NodeSpec {
        name: name.to_owned(),
        kind,
        image: "client",
        may_mount: kind == NodeKind::Server && offered.contains(&Capability::Fuse),
        environment: None,
        limits: None,
        writes_hosts: kind == NodeKind::Client,
    };
    let mut nodes: Vec<NodeSpec> = SERVERS.iter().map(|name| node(name, NodeKind::Server)).collect();
    nodes.push(node(CLIENT, NodeKind::Client));
    let run = format!("doctor-{}-{}-0", driver.name(), std::process::id());
    let cluster = driver.start(&ClusterSpec { run, nodes, logs: logs.path().to_owned() }).await?;
    let tried = try_on(&cluster, &offered).await;
    let stopped = cluster.stop().await;
    stopped?;
    tried
}

async fn try_on(cluster: &Cluster, offered: &[Capability]) -> Result<HashMap<&'static str, TriedEffect>> {
    let services: HashMap<String, RunningService> = SERVERS
        .iter()
        .map(|name| ((*name).to_owned(), RunningService { service: victim(), port: PORT }))
        .collect();
    try_join_all(services.keys().map(|name| async move {
        let node = cluster.node(name).ok_or_else(|| anyhow!("the driver started no node {name}"))?;
        if offered.contains(&Capability::Fuse) {
            fencepost_nemesis::prepare_disk(node.as_ref()).await?;
        }
        node.start(&victim()).await?;
        Ok::<_, anyhow::Error>(())
    }))
    .await?;
    if let Some(client) = cluster.node(CLIENT) {
        fencepost_nemesis::name_nodes(client.as_ref(), &cluster.nodes).await?;
    }
    let context = FaultContext::new(&cluster.nodes, services, Box::new(|_| None), None, None);
    let mut answers = HashMap::new();
    for nemesis in fencepost_nemesis::registry() {
        let effect = match nemesis.description().unmet(offered) {
            Some(unmet) => TriedEffect::Impossible { reason: format!("it needs {unmet}") },
            None if nemesis.description().options.contains(&"fault-command") => {
                TriedEffect::Possible { mechanism: "your own commands".to_owned() }
            }
            // The machine has no part in it, and the nodes here run no Redis.
            None if nemesis.description().by_order => {
                TriedEffect::Possible { mechanism: "an order to the server".to_owned() }
            }
            None => match tokio::time::timeout(PATIENCE, try_one(*nemesis, &context)).await {
                Ok(Ok(observation)) => effect_of(*nemesis, &observation),
                Ok(Err(error)) => TriedEffect::Failed { reason: format!("{error}") },
                Err(_) => {
                    TriedEffect::Failed { reason: format!("it took longer than {} s", PATIENCE.as_secs()) }
                }
            },
        };
        answers.insert(nemesis.name(), effect);
    }
    Ok(answers)
}

fn victim() -> Service {
    let listen = format!("0.0.0.0:{PORT}");
    let argv = ["fencepost", "storage", "--listen", &listen, "--guard", "none"];
    Service {
        name: "storage".to_owned(),
        argv: argv.map(str::to_owned).to_vec(),
        env: Vec::new(),
        refuses_root: false,
    }
}

/// Injects a fault, and heals it. One that shows no effect may be too small to be seen, as a clock that
/// swings by a tenth for some milliseconds is: then another one is tried, [`TRIES`] in all.
async fn try_one(nemesis: &'static dyn Nemesis, context: &FaultContext) -> Result<Observation> {
    let topology = Topology {
        servers: SERVERS.map(str::to_owned).to_vec(),
        clients: vec![CLIENT.to_owned()],
        storage: None,
        has_leader: false,
        orders: &[],
        points: Vec::new(),
        ttl: TTL,
        server_faults: ServerFaults::All,
        by_name: true,
    };
    let settings =
        NemesisSettings { time_limit: Duration::from_secs(60), interval: TTL, ..NemesisSettings::default() };
    let drawn = (0..SEEDS)
        .flat_map(|seed| fencepost_nemesis::draw(&[nemesis], &topology, &settings, Seed(seed)).faults);
    let of_clients = nemesis.description().by_name;
    let on_servers =
        drawn.filter(|fault| of_clients || fault.on.iter().all(|target| topology.servers.contains(target)));
    let mut last = Err(anyhow!("none of its faults is on servers"));
    for planned in on_servers.take(TRIES) {
        let mut fault = nemesis.prepare(&planned.on, &planned.parameters)?;
        let seen = fault.inject(context).await;
        fault.heal(context).await?;
        let seen = seen?;
        if seen.effective {
            return Ok(seen);
        }
        last = Ok(seen);
    }
    last
}

fn effect_of(nemesis: &dyn Nemesis, observation: &Observation) -> TriedEffect {
    if !observation.effective {
        return TriedEffect::Vacuous;
    }
    let mechanism = observation.observed.values().find_map(|one| ObservedTarget::of(one).mechanism);
    let mechanism = mechanism.as_deref().unwrap_or(match nemesis.description().needs.last() {
        Some(Capability::PacketFilter) => "iptables",
        Some(Capability::Fuse) => "FUSE",
        Some(Capability::Ptrace) => "ptrace",
        _ => "signals",
    });
    TriedEffect::Effective { mechanism: mechanism.to_owned() }
}
