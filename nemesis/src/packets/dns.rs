//! `dns`: where clients connect to servers by name (`--by-name`), some names have no address in their nodes,
//! or that of another server, as when a failover by DNS comes early, late or wrongly. Connections that are
//! open already stay: what is hit is who connects anew. Sources: managed databases fail over by a change of
//! DNS; Toxiproxy and Jepsen leave names alone.

use crate::context::FaultContext;
use crate::fault::{Fault, FaultError, Observation};
use crate::nemesis::{Draw, Drawing, NemesisDescription, NemesisRow};
use crate::packets::names_tool::{Addresses, NamesCall};
use crate::plan::aim::{Aim, Moment};
use crate::plan::distributions::{around_ttl, subset};
use crate::plan::roles::Role;
use crate::plan::topology::Topology;
use async_trait::async_trait;
use fencepost_cluster::{ClusterError, Node};
use fencepost_history::prose::and;
use fencepost_history::{FaultDescription, FaultEffect, Refusal, Stream};
use futures_util::future::try_join_all;
use rand::RngExt;
use rand::seq::IndexedRandom;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DnsParameters {
    /// The servers whose names are answered wrongly.
    names: Vec<String>,
    /// The server whose address they have; none: they have no address.
    answer: Option<String>,
}

/// Who waits connects next, and to another server than the holder did; a holder renews and releases.
const AIMS: &[Aim] = &[
    Aim::at(Role::Waiter, &[Moment::GrantedForLong]).lasting(LENGTHS),
    Aim::at(Role::Holder, &[Moment::GrantedForLong, Moment::Releasing]).lasting(LENGTHS),
];

/// Shortest and longest fault, in TTLs.
const LENGTHS: (f64, f64) = (0.5, 2.0);

pub(crate) const DNS: NemesisRow<DnsParameters> = NemesisRow {
    description: NemesisDescription {
        needs: &[],
        by_name: true,
        aims: AIMS,
        ..NemesisDescription::new(
            "dns",
            "makes servers' names resolve, in clients' nodes, to no address or to that of another server",
        )
    },
    draw: |Drawing { topology, random, .. }| {
        let parameters = draw_answer(topology, random)?;
        let on = subset(&topology.clients, random.random_range(1..=topology.clients.len()), random);
        let length = around_ttl(topology.ttl, LENGTHS.0, LENGTHS.1, random);
        Some(Draw { on, length, parameters })
    },
    adapt_to_aim: |drawn, _, _| drawn,
    prepare: |on, DnsParameters { names, answer }| {
        if names.is_empty() {
            return Err(Refusal::at("names", "`names` names no server"));
        }
        if answer.as_ref().is_some_and(|answer| names.contains(answer)) {
            let sentence = "`answer` is a server whose own name is answered: that would be right";
            return Err(Refusal::at("answer", sentence));
        }
        Ok(Box::new(WrongNames { on: on.to_vec(), names, answer }))
    },
};

/// A resolver that is away knows no name; a wrong one answers each name with the same address.
fn draw_answer(topology: &Topology, random: &mut Stream) -> Option<DnsParameters> {
    if !topology.by_name || topology.servers.is_empty() || topology.clients.is_empty() {
        return None;
    }
    if topology.servers.len() == 1 || random.random_bool(0.25) {
        return Some(DnsParameters { names: topology.servers.clone(), answer: None });
    }
    let answer = topology.servers.choose(random)?.clone();
    let names = topology.servers.iter().filter(|name| **name != answer).cloned().collect();
    Some(DnsParameters { names, answer: Some(answer) })
}

struct WrongNames {
    on: Vec<String>,
    names: Vec<String>,
    answer: Option<String>,
}

/// Lets the programs of a node find all nodes of the run by their names.
pub async fn name_nodes(of: &dyn Node, nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
    let hosts = nodes.iter().map(|node| (node.name().to_owned(), node.address())).collect();
    let call = NamesCall { set: Some(hosts), look_up: Vec::new() };
    of.tool("names", json!(call)).await.map(drop)
}

impl WrongNames {
    /// The node whose address a name has.
    fn stands_for<'a>(&'a self, name: &'a String, is_right: bool) -> Option<&'a str> {
        let is_its_own = is_right || !self.names.contains(name);
        if is_its_own { Some(name) } else { self.answer.as_deref() }
    }

    /// Writes all names into the targets' nodes where `is_right` says how, and looks up those of the fault.
    async fn call(
        &self,
        context: &FaultContext,
        is_right: Option<bool>,
    ) -> Result<Vec<Addresses>, FaultError> {
        let hosts = |is_right| {
            let names = context.names().into_iter();
            let stands_for = |name: String| match self.stands_for(&name, is_right) {
                Some(of) => Ok(Some((name.clone(), context.node(of)?.address()))),
                None => Ok(None),
            };
            names.filter_map(|name| stands_for(name).transpose()).collect::<Result<_, FaultError>>()
        };
        let call = &NamesCall { set: is_right.map(hosts).transpose()?, look_up: self.names.clone() };
        try_join_all(self.on.iter().map(|target| context.call(target, "names", call))).await
    }

    /// What the names are to stand for.
    fn expected(&self, context: &FaultContext, is_right: bool) -> Result<Addresses, FaultError> {
        let addresses = |name| match self.stands_for(name, is_right) {
            Some(of) => Ok::<_, FaultError>(vec![context.node(of)?.address()]),
            None => Ok(Vec::new()),
        };
        self.names.iter().map(|name| Ok((name.clone(), addresses(name)?))).collect()
    }

    fn per_target(&self, found: Vec<Addresses>) -> Map<String, Value> {
        let of_target = |addresses| json!({"addresses": addresses, "mechanism": "/etc/hosts"});
        self.on.iter().cloned().zip(found.into_iter().map(of_target)).collect()
    }
}

#[async_trait]
impl Fault for WrongNames {
    fn describe(&self, _: &Map<String, Value>) -> FaultDescription {
        let (targets, names) = (and(&self.on), and(&self.names));
        let many = if self.names.len() > 1 { "names" } else { "name" };
        let (sentence, label) = match &self.answer {
            Some(answer) => (
                format!("on {targets}, the {many} {names} had the address of {answer}"),
                format!("{}: {} = {answer}", self.on.join(" "), self.names.join(" ")),
            ),
            None => (
                format!("on {targets}, the {many} {names} had no address"),
                format!("{}: no address of {}", self.on.join(" "), self.names.join(" ")),
            ),
        };
        FaultDescription {
            // What it sends to another server, or to none, is late or lost.
            effects: vec![FaultEffect::Delays],
            keeps_memory: true,
            sentence,
            healing: format!("on {targets}, the right address was found for the {many} {names} again"),
            label,
            summary: "names of servers had another address, or none".to_owned(),
            ..FaultDescription::default()
        }
    }

    fn names(&self) -> Vec<String> {
        self.names.iter().chain(&self.answer).cloned().collect()
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let expected = self.expected(context, false)?;
        let before = self.call(context, None).await?;
        let after = self.call(context, Some(false)).await?;
        let effective = before != after && after.iter().all(|found| *found == expected);
        Ok(Observation { observed: self.per_target(after), effective })
    }

    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        let (expected, found) = (self.expected(context, true)?, self.call(context, Some(true)).await?);
        match found.iter().zip(&self.on).find(|(found, _)| **found != expected) {
            Some((_, target)) => Err(FaultError::Other(format!(
                "on {target}, the names of servers do not have the right addresses again"
            ))),
            None => Ok(Value::Object(self.per_target(found))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nemesis::NemesisSettings;
    use crate::registry::find;
    use crate::testing::topology;
    use fencepost_history::Seed;

    #[test]
    fn it_is_a_fault_of_clients_that_connect_by_name() {
        let dns = find("dns").unwrap();
        let refused = |on: &str, topology: &Topology| {
            dns.description().check_target(on, topology).map_err(|refusal| refusal.sentence)
        };
        let by_name = topology(3, 2);
        for on in ["c1", "holder", "waiter"] {
            assert_eq!(refused(on, &by_name), Ok(()), "{on}");
        }
        assert!(refused("n1", &by_name).unwrap_err().contains("is a fault of clients"));
        let by_address = Topology { by_name: false, ..by_name.clone() };
        assert!(refused("c1", &by_address).unwrap_err().contains("--by-name"));
        let draw = |topology: &Topology| {
            dns.draw(topology, &NemesisSettings::default(), &mut Seed(1).stream("dns")).is_some()
        };
        assert!(draw(&by_name) && !draw(&by_address) && !draw(&topology(0, 2)));
    }

    #[test]
    fn what_would_change_nothing_is_refused() {
        let prepared = |parameters: Value| {
            let parameters = parameters.as_object().cloned().unwrap();
            find("dns")
                .unwrap()
                .prepare(&["c1".to_owned()], &parameters)
                .map(drop)
                .map_err(|why| why.sentence)
        };
        assert_eq!(prepared(json!({"names": ["n1"], "answer": "n2"})), Ok(()));
        assert_eq!(prepared(json!({"names": ["n1"]})), Ok(()));
        assert!(prepared(json!({"names": []})).unwrap_err().contains("names no server"));
        assert!(prepared(json!({"names": ["n1"], "answer": "n1"})).unwrap_err().contains("would be right"));
    }

    #[test]
    fn with_one_server_no_other_answers() {
        for seed in 0..20 {
            let drawn = draw_answer(&topology(1, 2), &mut Seed(seed).stream("dns")).unwrap();
            assert_eq!((drawn.names, drawn.answer), (vec!["n1".to_owned()], None));
        }
    }
}
