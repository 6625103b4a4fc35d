//! The command `doctor`: what this machine can do, and which faults take hold here, each tried on a
//! throw-away node.

use crate::exit::FAILED;
use crate::output::say;
use anyhow::{Result, anyhow};
use async_trait::async_trait;
use fencepost_cluster::doctor::{Answer, Check, usable};
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{Capability, Cluster, ClusterSpec, Driver, NodeSpec, PrivateFolder};
use fencepost_history::{NodeKind, ObservedTarget, Seed};
use fencepost_nemesis::{
    Clients, FaultContext, Nemesis, Observation, RunningService, ServerFaults, Settings, Topology,
};
use futures_util::future::{join_all, try_join_all};
use std::collections::HashMap;
use std::sync::Arc;
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

/// Exit code 0 if a driver can run, else 255.
pub async fn doctor() -> Result<i32> {
    let checks = fencepost_cluster::doctor::examine().await;
    print_checks(&checks);
    let drivers = fencepost_cluster::doctor::runnable(&checks).await;
    let tried = join_all(drivers.iter().map(|driver| try_all(driver.as_ref()))).await;
    say!("\nnemeses: whether each fault takes effect, tried on a throw-away node");
    for (driver, tried) in drivers.iter().zip(&tried) {
        if let Err(error) = tried {
            say!("  {} could not try any: {error}", driver.name());
        }
    }
    let width = fencepost_nemesis::registry().iter().map(|nemesis| nemesis.name().len()).max().unwrap_or(0);
    for nemesis in fencepost_nemesis::registry() {
        let answers = drivers.iter().zip(&tried).filter_map(|(driver, tried)| {
            Some((driver.name(), tried.as_ref().ok()?.get(nemesis.name())?.as_str()))
        });
        say!("  {:width$}  {}", nemesis.name(), by_answer(answers));
    }
    let usable: Vec<String> = usable(&checks).iter().map(|driver| format!("--driver {driver}")).collect();
    if usable.is_empty() {
        say!("\nNo test can run here yet: the lines with an arrow say what to do.");
        return Ok(FAILED);
    }
    say!("\nTests can run here, with {}.", usable.join(" or "));
    Ok(0)
}

/// `docker, local: yes, by signals`, or each driver with its own answer.
fn by_answer<'a>(answers: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut groups: Vec<(Vec<&str>, &str)> = Vec::new();
    for (driver, answer) in answers {
        match groups.iter_mut().find(|(_, same)| *same == answer) {
            Some((drivers, _)) => drivers.push(driver),
            None => groups.push((vec![driver], answer)),
        }
    }
    if groups.is_empty() {
        return "not tried: no driver can start a node here yet".to_owned();
    }
    let groups = groups.iter().map(|(drivers, answer)| format!("{}: {answer}", drivers.join(", ")));
    groups.collect::<Vec<_>>().join(" · ")
}

fn print_checks(checks: &[Check]) {
    let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    let mut area = "";
    for check in checks {
        if check.area != area {
            let kind = if check.area == "images" { "" } else { "driver " };
            say!("{}{kind}{}", if area.is_empty() { "" } else { "\n" }, check.area);
            area = check.area;
        }
        let answer = match check.answer {
            Answer::Yes => "yes",
            Answer::NotNeeded => "–",
            Answer::No => "no",
        };
        say!("  {answer:3}  {:width$}  {}", check.name, check.detail);
        if let Some(remedy) = &check.remedy {
            say!("       {:width$}  → {remedy}", "");
        }
    }
}

/// What came of each nemesis, by its name.
async fn try_all(driver: &dyn Driver) -> Result<HashMap<&'static str, String>> {
    let offered = driver.supports().await;
    let logs = PrivateFolder::create("doctor-logs")?;
    let node = |name: &str, kind| NodeSpec {
        name: name.to_owned(),
        kind,
        image: "client",
        may_mount: kind == NodeKind::Server && offered.contains(&Capability::Fuse),
        environment: None,
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

async fn try_on(cluster: &Cluster, offered: &[Capability]) -> Result<HashMap<&'static str, String>> {
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
    let context = FaultContext::new(&cluster.nodes, services, Arc::new(NoClients), None, None);
    let mut answers = HashMap::new();
    for nemesis in fencepost_nemesis::registry() {
        let answer = match nemesis.description().unmet(offered) {
            Some(unmet) => format!("no, it needs {unmet}"),
            // The machine has no part in it, and the nodes here run no Redis.
            None if nemesis.description().refuses_writes => "yes, by an order to the server".to_owned(),
            None => match tokio::time::timeout(PATIENCE, try_one(*nemesis, &context)).await {
                Ok(Ok(seen)) => in_words(*nemesis, &seen),
                Ok(Err(error)) => format!("no: {error}"),
                Err(_) => format!("no: it took longer than {} s", PATIENCE.as_secs()),
            },
        };
        answers.insert(nemesis.name(), answer);
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
        error_replies: &[],
        points: Vec::new(),
        ttl: TTL,
        server_faults: ServerFaults::All,
    };
    let settings = Settings { time_limit: Duration::from_secs(60), interval: TTL, ..Settings::default() };
    let drawn = (0..SEEDS)
        .flat_map(|seed| fencepost_nemesis::draw(&[nemesis], &topology, &settings, Seed(seed)).faults);
    let on_servers = drawn.filter(|fault| fault.on.iter().all(|target| topology.servers.contains(target)));
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

/// `yes, by signals`.
fn in_words(nemesis: &dyn Nemesis, seen: &Observation) -> String {
    if !seen.effective {
        return "no: it was injected, and no effect was observed".to_owned();
    }
    let mechanism = seen.observed.values().find_map(|seen| ObservedTarget::of(seen).mechanism);
    let mechanism = match mechanism.as_deref() {
        Some("vdso") => "a patched vDSO",
        Some("emulator") => "Fencepost's emulator",
        Some(other) => other,
        None => match nemesis.description().needs.last() {
            Some(Capability::PacketFilter) => "iptables",
            Some(Capability::Fuse) => "FUSE",
            _ => "signals",
        },
    };
    format!("yes, by {mechanism}")
}

/// There are no client programs.
struct NoClients;

#[async_trait]
impl Clients for NoClients {
    fn pid(&self, _client: &str) -> Option<i32> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::by_answer;

    #[test]
    fn drivers_with_the_same_answer_stand_together() {
        let same = [("docker", "yes, by signals"), ("local", "yes, by signals")];
        assert_eq!(by_answer(same.into_iter()), "docker, local: yes, by signals");
        let other = [("docker", "no, it needs FUSE"), ("local", "yes, by FUSE")];
        assert_eq!(by_answer(other.into_iter()), "docker: no, it needs FUSE · local: yes, by FUSE");
        assert!(by_answer(std::iter::empty()).starts_with("not tried"));
    }
}
