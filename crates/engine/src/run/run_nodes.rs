//! What a history says of the nodes of its run, for checkers.

use crate::run::recorder::Placement;
use crate::settings::validation::RunSpec;
use fencepost_history::{NodeKind, RunNodes, Seed};
use fencepost_nemesis::{Nemesis, NemesisSettings, Topology};
use std::collections::BTreeSet;

/// How many faults are drawn to learn what a nemesis can hit: one in fifty is missed once in 25,000 runs.
const DRAWS: usize = 500;

pub(crate) fn run_nodes(spec: &RunSpec) -> RunNodes {
    let topology = &spec.topology;
    let placement = Placement { slots: spec.options.concurrency, clients: spec.options.clients };
    let clients = &topology.clients;
    let slots = 0..u64::try_from(placement.slots).unwrap_or(u64::MAX);
    let settings = spec.options.nemesis_settings(topology);
    let hit_by = |nemesis: &&dyn Nemesis| {
        let planned = spec.plan.faults.iter().filter(|fault| fault.fault == nemesis.name());
        let planned = planned.flat_map(|fault| &fault.on).flat_map(|name| kinds_of(name, topology));
        let drawn = settings.as_ref().map_or(BTreeSet::new(), |settings| drawn(*nemesis, topology, settings));
        let kinds: BTreeSet<NodeKind> = planned.chain(drawn).collect();
        (nemesis.name().to_owned(), kinds.into_iter().collect())
    };
    RunNodes {
        slots: slots.map(|slot| clients[placement.client_of(slot)].clone()).collect(),
        storage: spec.storages.clone(),
        leader: topology.has_leader,
        hit_by: spec.nemeses.iter().map(hit_by).collect(),
    }
}

/// The kinds of nodes that a nemesis draws here, learned by drawing: no list of them has to be kept.
fn drawn(nemesis: &dyn Nemesis, topology: &Topology, settings: &NemesisSettings) -> BTreeSet<NodeKind> {
    let mut random = Seed(0).stream("kinds-of-nodes");
    let draws = (0..DRAWS).filter_map(|_| nemesis.draw(topology, settings, &mut random));
    let drawn = draws.flat_map(|draw| draw.on);
    let aimed = fencepost_nemesis::aims(nemesis, topology).into_iter().flat_map(|aim| aim.on);
    drawn.chain(aimed).flat_map(|name| kinds_of(&name, topology)).collect()
}

/// What the nodes are that a target may stand for: one, or all that may play a role.
fn kinds_of(target: &str, topology: &Topology) -> Vec<NodeKind> {
    topology.candidates(target).iter().filter_map(|node| kind_of(node, topology)).collect()
}

fn kind_of(node: &str, topology: &Topology) -> Option<NodeKind> {
    let is_in = |names: &[String]| names.iter().any(|name| name == node);
    match node {
        _ if is_in(&topology.servers) => Some(NodeKind::Server),
        _ if is_in(&topology.clients) => Some(NodeKind::Client),
        _ if topology.storage.as_deref() == Some(node) => Some(NodeKind::Storage),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::options::RunOptions;

    fn nodes(lock: &str, nemeses: &[&str]) -> RunNodes {
        let nemesis = nemeses.iter().map(|name| (*name).to_owned()).collect();
        let options = RunOptions {
            lock: lock.to_owned(),
            nemesis,
            clients: 3,
            concurrency: 4,
            ..RunOptions::default()
        };
        run_nodes(&RunSpec::new(options).unwrap())
    }

    #[test]
    fn the_nodes_of_a_run_are_recorded_for_the_checkers() {
        let nodes = nodes("etcd", &["pause", "leader-kill"]);
        assert_eq!(nodes.slots, ["c1", "c2", "c3", "c1"]);
        assert_eq!((nodes.storage.as_slice(), nodes.leader), (&["storage".to_owned()][..], true));
        assert_eq!(nodes.hit_by["pause"], [NodeKind::Client, NodeKind::Server]);
        assert_eq!(nodes.hit_by["leader-kill"], [NodeKind::Server]);
    }

    #[test]
    fn what_a_nemesis_can_hit_is_the_same_for_every_seed() {
        let kinds = |seed| {
            let options = RunOptions { nemesis: vec!["pause".to_owned()], ..RunOptions::default() };
            let options = RunOptions { seed: Some(Seed(seed)), ..options };
            run_nodes(&RunSpec::new(options).unwrap()).hit_by
        };
        assert_eq!(kinds(1), kinds(2));
    }
}
