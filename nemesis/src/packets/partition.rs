//! `partition`: packets between some nodes are dropped, both ways or one way, by iptables inside the nodes.
//!
//! Shapes: halves (servers and clients on two sides), one server alone, one client cut off from a majority, a
//! bridge (two sides that meet in one server), a ring (each node reaches a majority, no two the same),
//! answers lost, requests lost, a client cut off from the storage; or the requested sets. In all but the last
//! two the storage is on all sides, as in the debate's stories.

use crate::context::FaultContext;
use crate::fault::{Fault, FaultError, Observation, heal_each};
use crate::nemesis::{Draw, Drawing, NemesisDescription, NemesisRow, NemesisSettings};
use crate::packets::groups::{self, Groups};
use crate::plan::aim::{Aim, Moment, OtherEnd};
use crate::plan::distributions::around_ttl;
use crate::plan::roles::Role;
use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::{FaultDescription, FaultEffect};
use futures_util::future::try_join_all;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time to run one command of the packet filter. The kernel changes filters one at a time, on the whole
/// machine, and waits for others that are being taken down: on a busy machine that takes seconds.
const COMMAND: Duration = Duration::from_secs(20);

/// A connection that has not come about by then is cut: the bridge answers in well under a millisecond.
const PROBE: Duration = Duration::from_millis(250);

pub(crate) const PARTITION: NemesisRow<Groups> = NemesisRow {
    description: NemesisDescription {
        kind: None,
        options: &["partition"],
        needs: &[Capability::PacketFilter],
        on_packets: true,
        parts_groups: true,
        aims: AIMS,
        ..NemesisDescription::new(
            "partition",
            "drops packets: halves, one node, a client from a majority, bridge, ring, one way only, a client from the storage",
        )
    },
    draw: |Drawing { topology, settings, random }| {
        let length = around_ttl(topology.ttl, 0.5, 2.0, random);
        let groups = named_groups(settings).or_else(|| groups::draw(topology, random))?;
        Some(Draw { on: groups.targets(), length, parameters: groups })
    },
    adapt_to_aim: |drawn, aim, Drawing { topology, settings, random }| {
        // Groups that the command line names stay as they are, and take the moment of the aim.
        let is_half = aim.aim.other_end == Some(OtherEnd::OtherHalf);
        let groups = named_groups(settings)
            .or_else(|| is_half.then(|| groups::halves(topology, random)).flatten())
            .unwrap_or_else(|| Groups::apart(aim.on.clone(), aim.peers.clone()));
        Draw { on: groups.targets(), length: drawn.length, parameters: groups }
    },
    prepare: |_, groups| {
        groups.check()?;
        // Partitions may overlap: each has a chain of its own.
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let chain = format!("fencepost-cut-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        Ok(Box::new(Cut { drops_from: groups.drops_from(), groups, chain, at: Vec::new() }))
    },
};

/// The groups that the command line names. They fit the nodes, or the run would have been refused.
fn named_groups(settings: &NemesisSettings) -> Option<Groups> {
    settings.options.partition.as_deref().map(Groups::of_text)
}

/// The holder from its servers, so that its lease ends, and from the storage, where its write arrives later;
/// or from one of the two; the leader from its followers; the waiter from a majority, whose votes it must not
/// invent; and a minority of the servers with half of the clients, which must not take itself for a majority.
const AIMS: &[Aim] = &[
    Aim::between(Role::Holder, OtherEnd::ServersAndStorage, &[Moment::BeforeWrite])
        .lasting((1.5, 2.5))
        .until(&[Moment::Read]),
    Aim::between(
        Role::Holder,
        OtherEnd::Servers,
        &[Moment::GrantedForLong, Moment::BeforeWrite, Moment::Releasing],
    )
    .lasting((1.1, 2.0)),
    Aim::between(Role::Holder, OtherEnd::Storage, &[Moment::BeforeWrite]),
    Aim::between(Role::Leader, OtherEnd::Followers, &[Moment::GrantedForLong, Moment::Collecting])
        .lasting((1.1, 2.0)),
    Aim::between(Role::Waiter, OtherEnd::Majority, &[Moment::GrantedForLong]).lasting((1.1, 2.0)),
    Aim::between(Role::Waiter, OtherEnd::OtherHalf, &[Moment::Collecting]).lasting((2.0, 3.0)),
];

struct Cut {
    groups: Groups,
    drops_from: BTreeMap<String, BTreeSet<String>>,
    chain: String,
    /// Nodes in which rules may have been made.
    at: Vec<String>,
}

impl Cut {
    /// Pairs whose connection can be tried: the second is a server.
    fn probes(&self, context: &FaultContext) -> BTreeSet<(String, String)> {
        let serves = |name: &String| context.server_address(name).is_some();
        let pairs =
            self.drops_from.iter().flat_map(|(node, others)| others.iter().map(move |other| (node, other)));
        let tried = pairs.filter_map(|(node, other)| match (serves(node), serves(other)) {
            (true, true) => Some((node.min(other), node.max(other))),
            (true, false) => Some((other, node)),
            (false, true) => Some((node, other)),
            (false, false) => None,
        });
        tried.map(|(from, to)| (from.clone(), to.clone())).collect()
    }

    /// Tries each pair; gives which could connect.
    async fn probe(&self, context: &FaultContext) -> Result<BTreeMap<String, bool>, FaultError> {
        let tried = try_join_all(self.probes(context).into_iter().map(|(from, to)| async move {
            let address = context.server_address(&to).unwrap_or_default();
            let connected = context.node(&from)?.connect(&address, PROBE).await?.is_ok();
            Ok::<_, FaultError>((format!("{from}-{to}"), connected))
        }))
        .await?;
        Ok(tried.into_iter().collect())
    }

    async fn drop_from(
        &self,
        context: &FaultContext,
        node: &str,
        others: &BTreeSet<String>,
    ) -> Result<(), FaultError> {
        iptables(context, node, &["-N", &self.chain]).await?;
        for other in others {
            let source = context.node(other)?.address().to_string();
            iptables(context, node, &["-A", &self.chain, "-s", &source, "-j", "DROP"]).await?;
        }
        // Last, so that the whole cut falls at one moment.
        iptables(context, node, &["-I", "INPUT", "-j", &self.chain]).await?;
        Ok(())
    }

    /// How many packets the node's rules dropped, and the rules are gone.
    async fn mend(&self, context: &FaultContext, node: &str) -> Result<u64, FaultError> {
        let listing = iptables(context, node, &["-nvxL", &self.chain]).await;
        // A half-made cut lacks the last steps: only what is left afterwards is an error.
        let _ = iptables(context, node, &["-D", "INPUT", "-j", &self.chain]).await;
        let Ok(listing) = listing else { return Ok(0) };
        iptables(context, node, &["-F", &self.chain]).await?;
        iptables(context, node, &["-X", &self.chain]).await?;
        let dropped = |line: &str| line.split_whitespace().next()?.parse::<u64>().ok();
        Ok(listing.lines().filter_map(dropped).sum())
    }
}

async fn iptables(context: &FaultContext, node: &str, args: &[&str]) -> Result<String, FaultError> {
    // -w: another run of iptables in the same node may hold the lock.
    let argv: Vec<&str> = ["iptables", "-w"].iter().chain(args).copied().collect();
    let output = context.node(node)?.exec(&argv, COMMAND).await?;
    if output.code == Some(0) {
        return Ok(output.stdout);
    }
    let said = output.stderr.trim().replace('\n', "; ");
    let code =
        output.code.map_or(format!("killed, or not done after {COMMAND:?}"), |code| format!("exit {code}"));
    Err(FaultError::Other(format!("`{}` failed on {node} ({code}): {said}", argv.join(" "))))
}

#[async_trait]
impl Fault for Cut {
    fn names(&self) -> Vec<String> {
        self.drops_from.iter().flat_map(|(node, others)| others.iter().chain([node])).cloned().collect()
    }

    fn describe(&self, _: &Map<String, Value>) -> FaultDescription {
        // What still passes one way may arrive.
        let is_whole = self.groups.one_way.is_none() && self.groups.drops_from.is_empty();
        FaultDescription {
            effects: vec![if is_whole { FaultEffect::Parts } else { FaultEffect::Delays }],
            keeps_memory: true,
            between: self.groups.groups.clone(),
            sentence: self.groups.sentence(),
            healing: "the network was whole again".to_owned(),
            label: self.groups.label(),
            summary: "the network was cut".to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let before = self.probe(context).await?;
        self.at = self.drops_from.keys().cloned().collect();
        let cut = &*self;
        try_join_all(self.drops_from.iter().map(|(node, others)| cut.drop_from(context, node, others)))
            .await?;
        let after = self.probe(context).await?;
        let seen = after.into_iter().map(|(pair, connected)| {
            let before = before.get(&pair).copied().unwrap_or(false);
            (pair, (json!({"connected_before": before, "connected": connected}), before && !connected))
        });
        Ok(seen.collect())
    }

    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        let cut = &*self;
        let mut observed: Map<String, Value> = heal_each(&cut.at, |node| async move {
            Ok(json!({"packets_dropped": cut.mend(context, node).await?}))
        })
        .await?;
        // What does not connect now may be down, or cut off by another fault; the rules are certainly gone.
        let pairs = self.probe(context).await?.into_iter();
        observed.extend(pairs.map(|(pair, connected)| (pair, json!({"connected": connected}))));
        Ok(Value::Object(observed))
    }
}
