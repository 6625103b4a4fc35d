//! A fault that makes ways worse: set inside the nodes, counted only when echoes show it, taken back.

use crate::context::FaultContext;
use crate::fault::{Fault, FaultError, Observation, heal_each};
use crate::packets::network_parameters::{Direction, NetworkNemesis, NetworkParameters, Shown};
use crate::packets::packets_tool::{Kept, PacketsCall};
use crate::tools::packets::{Counts, Echoes, Impairment, Mechanism, Probe, State, Streams};
use async_trait::async_trait;
use fencepost_history::prose::and;
use fencepost_history::{FaultDescription, FaultEffect};
use futures_util::future::try_join_all;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

/// An undisturbed echo is back in well under a millisecond; that much patience is for a busy machine.
const PATIENCE_MS: f64 = 250.0;

/// The longest wait for echoes: a way that takes longer has shown enough.
const PATIENCE_MAX_MS: f64 = 1000.0;

/// How often a way is probed again before it counts as not healed.
const HEALING_LOOKS: u32 = 5;

pub(crate) struct Impaired {
    id: String,
    on: Vec<String>,
    parameters: NetworkParameters,
    nemesis: NetworkNemesis,
    before: Vec<Echoes>,
    /// Nodes in which something may have been set.
    at: BTreeSet<String>,
}

impl Impaired {
    pub(crate) fn new(
        id: String,
        on: Vec<String>,
        parameters: NetworkParameters,
        nemesis: NetworkNemesis,
    ) -> Impaired {
        Impaired { id, on, parameters, nemesis, before: Vec::new(), at: BTreeSet::new() }
    }

    fn peers(&self, context: &FaultContext) -> Vec<String> {
        let peers =
            if self.parameters.peers.is_empty() { context.names() } else { self.parameters.peers.clone() };
        peers.into_iter().filter(|name| !self.on.contains(name)).collect()
    }

    /// How long echoes may take, with some to spare.
    fn patience_ms(&self, count: u16, bytes: usize) -> f64 {
        let Impairment { delay_ms, jitter_ms, rate_kbit, .. } = self.parameters.impairment;
        let line_ms =
            if rate_kbit > 0 { f64::from(count) * bytes as f64 * 8.0 / rate_kbit as f64 } else { 0.0 };
        ((2.0 * (delay_ms + jitter_ms) + line_ms) * 1.5 + PATIENCE_MS).min(PATIENCE_MAX_MS).round()
    }

    async fn impair(
        &self,
        context: &FaultContext,
        node: &str,
        others: &[String],
    ) -> Result<Mechanism, FaultError> {
        let to = addresses(context, others)?;
        let (id, impairment) = (self.id.clone(), self.parameters.impairment);
        call(context, node, PacketsCall::Set { id, to, impairment }).await
    }

    async fn probe(
        &self,
        context: &FaultContext,
        peers: &[String],
        count: u16,
        bytes: usize,
        patience_ms: f64,
    ) -> Result<Vec<Echoes>, FaultError> {
        let to = addresses(context, peers)?;
        try_join_all(self.on.iter().map(|target| {
            let probes = to.iter().map(move |to| async move {
                let patience_ms = patience_ms as u64;
                let probe = Probe { to: *to, count, gap_ms: 1.0, bytes, patience_ms };
                call::<Echoes>(context, target, PacketsCall::Probe(probe)).await
            });
            async move { Ok(Echoes::sum(&try_join_all(probes).await?)) }
        }))
        .await
    }

    async fn connect(
        &self,
        context: &FaultContext,
        peers: &[String],
        count: u16,
    ) -> Result<Vec<Echoes>, FaultError> {
        let to = addresses(context, peers)?;
        try_join_all(self.on.iter().map(|target| {
            let each = peers.iter().zip(&to).map(move |(peer, to)| async move {
                let port: u16 = call(context, peer, PacketsCall::Listen).await?;
                let streams = PacketsCall::Streams(Streams { to: *to, port, count });
                // Where no connection is made, another fault has this way, and hides this one.
                let lasted: Option<u16> = call(context, target, streams).await.ok();
                let seen =
                    |lasted: u16| Echoes { sent: count.into(), answered: lasted.into(), ..Echoes::default() };
                Ok::<_, FaultError>(lasted.map_or(Echoes::default(), seen))
            });
            async move { Ok(Echoes::sum(&try_join_all(each).await?)) }
        }))
        .await
    }

    /// Opens a connection from each target to each peer for the look at the fault; else it has another way.
    async fn keep(&self, context: &FaultContext, peers: &[String]) -> Result<(), FaultError> {
        for (peer, to) in peers.iter().zip(addresses(context, peers)?) {
            for target in &self.on {
                let port: u16 = call(context, peer, PacketsCall::Listen).await?;
                let stream = Streams { to, port, count: 1 };
                let keep = PacketsCall::Keep { id: self.id.clone(), stream };
                let _ = call::<Value>(context, target, keep).await;
            }
        }
        Ok(())
    }

    /// As answers count connections that are not silent: all of them where new ones do not work, either.
    async fn look_at_kept(
        &self,
        context: &FaultContext,
        peers: &[String],
        count: u16,
    ) -> Result<Vec<Echoes>, FaultError> {
        let after_ms = self.parameters.impairment.idle_ms + 1;
        let kept = try_join_all(self.on.iter().map(|target| {
            let look = PacketsCall::LookAtKept { id: self.id.clone(), after_ms };
            call::<Kept>(context, target, look)
        }));
        let (kept, new) = (kept.await?, self.connect(context, peers, count).await?);
        let seen = kept.iter().zip(new).map(|(kept, new)| {
            let silent = if new.answered == 0 { 0 } else { kept.silent };
            Echoes { sent: kept.all, answered: kept.all - silent, ..Echoes::default() }
        });
        Ok(seen.collect())
    }

    async fn look(&self, context: &FaultContext, peers: &[String]) -> Result<(Vec<Echoes>, f64), FaultError> {
        let (count, bytes) = (self.nemesis.probes)(&self.parameters.impairment);
        let patience_ms = self.patience_ms(count, bytes);
        let seen = match self.nemesis.shown_by {
            Shown::Connections => self.connect(context, peers, count).await?,
            Shown::Echoes => self.probe(context, peers, count, bytes, patience_ms).await?,
            Shown::IdleConnections => self.look_at_kept(context, peers, count).await?,
        };
        Ok((seen, patience_ms))
    }

    fn observed(&self, by: Option<&Mechanism>, before: &Echoes, after: &Echoes, patience_ms: f64) -> Value {
        match self.nemesis.shown_by {
            Shown::Echoes => {}
            Shown::Connections => {
                return json!({"mechanism": by, "connections": after.sent, "lasted": after.answered});
            }
            Shown::IdleConnections => {
                let silent = after.sent - after.answered;
                return json!({"mechanism": by, "idle_connections": after.sent, "silent": silent});
            }
        }
        let mut observed = json!({
            "mechanism": by,
            "round_trip_ms_before": before.median_ms,
            "round_trip_ms": after.median_ms,
            "echoes": after,
        });
        if self.parameters.impairment.loss == 0.0 && after.answered * 2 < after.sent {
            // The median of those that were quick would say too little.
            observed["round_trip_ms"] = Value::Null;
            observed["round_trip_over_ms"] = json!(patience_ms);
        }
        observed
    }

    /// Probes until round trips are as before, or only another fault can make them differ.
    async fn look_healed(&self, context: &FaultContext, peers: &[String]) -> Result<Vec<Echoes>, FaultError> {
        let mut looks = 1;
        loop {
            let after = self.probe(context, peers, 3, 84, PATIENCE_MS).await?;
            let Some(slow) = self.still_slow(&after) else { return Ok(after) };
            if self.others_at_work(context, peers).await? {
                return Ok(after);
            }
            if looks == HEALING_LOOKS {
                return Err(FaultError::Other(slow));
            }
            looks += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The target that still waits as long as during the fault, in a sentence: a delay that is left makes
    /// every round trip longer, and a busy machine only some. No answer at all is no delay.
    fn still_slow(&self, after: &[Echoes]) -> Option<String> {
        let added_ms = self.parameters.round_trip_ms();
        let mut all = self.on.iter().zip(&self.before).zip(after);
        all.find_map(|((target, before), after)| {
            let (before_ms, now_ms) = (before.median_ms?, after.least_ms?);
            let is_slow = added_ms > 0.0 && now_ms > before_ms + (added_ms / 2.0).max(20.0);
            is_slow.then(|| {
                format!("round trips of {target} still take {now_ms} ms after healing, and took {before_ms} ms before the fault")
            })
        })
    }

    async fn others_at_work(&self, context: &FaultContext, peers: &[String]) -> Result<bool, FaultError> {
        let nodes = self.on.iter().chain(peers);
        let states = try_join_all(nodes.map(|node| call::<State>(context, node, PacketsCall::Look))).await?;
        Ok(states.iter().any(|state| !state.faults.is_empty()))
    }
}

#[async_trait]
impl Fault for Impaired {
    fn names(&self) -> Vec<String> {
        self.parameters.peers.clone()
    }

    fn describe(&self, _: &Map<String, Value>) -> FaultDescription {
        let targets = and(&self.on);
        let peers = if self.parameters.peers.is_empty() {
            "all others".to_owned()
        } else {
            and(&self.parameters.peers)
        };
        let way = match self.parameters.ways {
            Direction::Out => format!("from {targets} to {peers}"),
            Direction::In => format!("from {peers} to {targets}"),
            Direction::Both => format!("between {targets} and {peers}"),
        };
        let impairment = &self.parameters.impairment;
        let only_duplicates = Impairment { duplicate: 0.0, ..*impairment } == Impairment::default();
        let ends = [&self.on, &self.parameters.peers];
        FaultDescription {
            effects: vec![if only_duplicates { FaultEffect::Duplicates } else { FaultEffect::Delays }],
            keeps_memory: true,
            between: ends.into_iter().filter(|end| !end.is_empty()).cloned().collect(),
            sentence: format!("on the way {way}, {}", (self.nemesis.sentence)(impairment)),
            healing: format!("the network around {targets} was as before"),
            label: format!("{} {}", self.on.join(" "), (self.nemesis.label)(impairment)),
            summary: self.nemesis.summary.to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let peers = self.peers(context);
        self.before = self.probe(context, &peers, 3, 84, PATIENCE_MS).await?;
        if self.nemesis.shown_by == Shown::IdleConnections {
            self.keep(context, &peers).await?;
        }
        let (outward, inward) =
            (self.parameters.ways != Direction::In, self.parameters.ways != Direction::Out);
        let mut ways: Vec<(&String, &[String])> = Vec::new();
        ways.extend(self.on.iter().filter(|_| outward).map(|target| (target, &peers[..])));
        ways.extend(peers.iter().filter(|_| inward).map(|peer| (peer, &self.on[..])));
        self.at = ways.iter().map(|(node, _)| (*node).clone()).collect();
        let fault = &*self;
        let used =
            try_join_all(ways.iter().map(|(node, others)| fault.impair(context, node, others))).await?;

        let (after, patience_ms) = self.look(context, &peers).await?;
        let mut seen = Observation::default();
        for ((target, before), after) in self.on.iter().zip(&self.before).zip(&after) {
            // Where no echo came back before, another fault has this way already.
            seen.effective |= before.answered > 0 && (self.nemesis.shows)(&self.parameters, before, after);
            seen.observed.insert(target.clone(), self.observed(used.first(), before, after, patience_ms));
        }
        Ok(seen)
    }

    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        let fault = &*self;
        let mut observed: Map<String, Value> = heal_each(&fault.at, |node| async move {
            let clear = PacketsCall::Clear { id: fault.id.clone() };
            Ok(json!({"packets": call::<Counts>(context, node, clear).await?}))
        })
        .await?;
        if !self.before.is_empty() {
            let after = self.look_healed(context, &self.peers(context)).await?;
            for (target, after) in self.on.iter().zip(after) {
                let entry = observed.entry(target.clone()).or_insert_with(|| json!({}));
                entry["round_trip_ms"] = json!(after.median_ms);
            }
        }
        Ok(Value::Object(observed))
    }
}

fn addresses(context: &FaultContext, names: &[String]) -> Result<Vec<Ipv4Addr>, FaultError> {
    names.iter().map(|name| Ok(context.node(name)?.address())).collect()
}

async fn call<T: DeserializeOwned>(
    context: &FaultContext,
    node: &str,
    call: PacketsCall,
) -> Result<T, FaultError> {
    context.call(node, "packets", &call).await
}
