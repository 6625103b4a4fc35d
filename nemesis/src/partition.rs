//! `partition`: packets between two sides are dropped, both ways, by rules inside the nodes (iptables).
//!
//! Shapes: halves (servers and clients fall apart into two sides), one node alone, one client cut off from a
//! majority of the servers. The storage is on everybody's side: what the lock protects stays reachable, as in the
//! stories of the debate.

use crate::{Aim, Fault, FaultError, Nemesis, Scene, Seen, Settings, Strike, World, around_ttl, subset};
use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::Stream;
use futures_util::future::{join_all, try_join_all};
use rand::Rng;
use rand::seq::IndexedRandom;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time to run one command of the packet filter.
const COMMAND: Duration = Duration::from_secs(5);

/// A connection that has not come about by then is cut: the bridge answers in well under a millisecond.
const PROBE: Duration = Duration::from_millis(250);

pub(crate) struct Partition;

/// The two sides; whoever stands on neither is reached by both.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dose {
    groups: (Vec<String>, Vec<String>),
}

impl Nemesis for Partition {
    fn name(&self) -> &'static str {
        "partition"
    }

    fn about(&self) -> &'static str {
        "drops all packets between two sides: halves, one node alone, or one client from a majority of the servers"
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::PacketFilter]
    }

    fn draw(&self, scene: &Scene, _: &Settings, random: &mut Stream) -> Option<Aim> {
        if scene.servers.is_empty() || scene.clients.is_empty() {
            return None;
        }
        let everyone: Vec<String> = scene.servers.iter().chain(&scene.clients).cloned().collect();
        let one_side = match random.random_range(0..3) {
            0 => {
                let mut half = subset(&scene.servers, scene.servers.len() / 2, random);
                half.extend(subset(&scene.clients, scene.clients.len().div_ceil(2), random));
                half
            }
            1 => vec![scene.servers.choose(random)?.clone()],
            _ => vec![scene.clients.choose(random)?.clone()],
        };
        let is_client = one_side.len() == 1 && scene.clients.contains(&one_side[0]);
        let other_side = if is_client {
            subset(&scene.servers, scene.servers.len() / 2 + 1, random)
        } else {
            everyone.into_iter().filter(|name| !one_side.contains(name)).collect()
        };
        let dose = json!(Dose { groups: (one_side.clone(), other_side) });
        Some(Aim { on: one_side, length: around_ttl(scene.ttl, 0.5, 2.0, random), dose })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        let dose: Dose = serde_json::from_value(strike.dose.clone())
            .map_err(|error| format!("partition takes two lists of names as groups: {error}"))?;
        // Chains are told apart by the time of the strike, which no two partitions of one run share.
        Ok(Box::new(Cut { sides: dose.groups, chain: format!("fencepost-{}", strike.at_ms), at: Vec::new() }))
    }
}

struct Cut {
    sides: (Vec<String>, Vec<String>),
    chain: String,
    /// Nodes in which rules may have been made.
    at: Vec<String>,
}

impl Cut {
    /// Pairs whose connection can be tried: the second is a server.
    fn probes(&self, world: &World) -> Vec<(String, String)> {
        let (left, right) = &self.sides;
        let towards = |from: &[String], to: &[String]| {
            to.iter()
                .filter(|to| world.server_address(to).is_some())
                .filter_map(|to| from.first().map(|from| (from.clone(), to.clone())))
                .collect::<Vec<_>>()
        };
        let mut pairs = towards(left, right);
        pairs.extend(towards(right, left));
        pairs
    }

    /// Tries each pair; gives which could connect.
    async fn probe(&self, world: &World) -> Result<BTreeMap<String, bool>, FaultError> {
        let tried = try_join_all(self.probes(world).into_iter().map(|(from, to)| async move {
            let address = world.server_address(&to).unwrap_or_default();
            let connected = world.node(&from)?.connect(&address, PROBE).await?.is_ok();
            Ok::<_, FaultError>((format!("{from}-{to}"), connected))
        }))
        .await?;
        Ok(tried.into_iter().collect())
    }

    /// Drops at `node` what comes from any of `others`.
    async fn cut_off(&self, world: &World, node: &str, others: &[String]) -> Result<(), FaultError> {
        iptables(world, node, &["-N", &self.chain]).await?;
        for other in others {
            let source = world.node(other)?.address().to_string();
            iptables(world, node, &["-A", &self.chain, "-s", &source, "-j", "DROP"]).await?;
        }
        // Last, so that the whole cut falls at one moment.
        iptables(world, node, &["-I", "INPUT", "-j", &self.chain]).await?;
        Ok(())
    }

    /// How many packets the node's rules dropped, and the rules are gone.
    async fn mend(&self, world: &World, node: &str) -> Result<u64, FaultError> {
        let listing = iptables(world, node, &["-nvxL", &self.chain]).await;
        // Half-made cuts lack the last steps: what is not there need not be removed, only what is left is an error.
        let _ = iptables(world, node, &["-D", "INPUT", "-j", &self.chain]).await;
        let Ok(listing) = listing else { return Ok(0) };
        iptables(world, node, &["-F", &self.chain]).await?;
        iptables(world, node, &["-X", &self.chain]).await?;
        let dropped = |line: &str| line.split_whitespace().next()?.parse::<u64>().ok();
        Ok(listing.lines().filter_map(dropped).sum())
    }
}

async fn iptables(world: &World, node: &str, args: &[&str]) -> Result<String, FaultError> {
    // -w: another run of iptables in the same node may hold the lock.
    let argv: Vec<&str> = ["iptables", "-w"].iter().chain(args).copied().collect();
    let output = world.node(node)?.exec(&argv, COMMAND).await?;
    if output.code == Some(0) {
        return Ok(output.stdout);
    }
    let said = output.stderr.trim().replace('\n', "; ");
    Err(FaultError::Other(format!("`{}` failed on {node}: {said}", argv.join(" "))))
}

#[async_trait]
impl Fault for Cut {
    async fn inject(&mut self, world: &World) -> Result<Seen, FaultError> {
        let before = self.probe(world).await?;
        let (left, right) = self.sides.clone();
        self.at = left.iter().chain(&right).cloned().collect();
        let cuts = left.iter().map(|node| (node, &right)).chain(right.iter().map(|node| (node, &left)));
        try_join_all(cuts.map(|(node, others)| self.cut_off(world, node, others))).await?;
        let after = self.probe(world).await?;
        let mut observed = Map::new();
        let mut effective = false;
        for (pair, connected) in after {
            let was_connected = before.get(&pair).copied().unwrap_or(false);
            effective |= was_connected && !connected;
            observed.insert(pair, json!({"connected_before": was_connected, "connected": connected}));
        }
        Ok(Seen { observed, effective })
    }

    async fn heal(&mut self, world: &World) -> Result<Value, FaultError> {
        // Every node is mended before the first error is reported.
        let cut = &*self;
        let mended = join_all(cut.at.iter().map(|node| async move {
            cut.mend(world, node).await.map(|dropped| (node.clone(), json!({"packets_dropped": dropped})))
        }))
        .await;
        mended.into_iter().collect::<Result<Map<_, _>, _>>().map(Value::Object)
    }
}
