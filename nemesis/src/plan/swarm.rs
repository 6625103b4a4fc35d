//! A swarm: each run draws which nemeses are enabled, and how strong and frequent their faults are. Faults
//! hide each other's effects: runs with a few reach more ("Swarm Testing", Groce et al., 2012).

use crate::nemesis::{Nemesis, NemesisSettings};
use crate::plan::distributions::{draw_log, millis};
use crate::plan::draw_plan::draw_beside;
use crate::plan::topology::Topology;
use crate::plan::{Enabled, Plan};
use crate::registry::registry;
use fencepost_cluster::Capability;
use fencepost_history::{Seed, Stream};
use rand::RngExt;
use std::time::Duration;

/// On the command line, in place of the name of a nemesis.
pub const SWARM: &str = "swarm";

/// What a swarm draws for one nemesis, from its own stream: a missing nemesis changes no other.
struct SwarmDraw {
    nemesis: &'static dyn Nemesis,
    enabled: bool,
    /// Where none is enabled, the one with the lowest rank is.
    rank: f64,
    strength: f64,
    interval_factor: f64,
}

impl SwarmDraw {
    fn draw(nemesis: &'static dyn Nemesis, share: f64, seed: Seed) -> SwarmDraw {
        let random: &mut Stream = &mut seed.stream(&format!("swarm-{}", nemesis.name()));
        let rank = random.random_range(0.0..1.0);
        let strength = draw_log(0.25, 2.0, random);
        SwarmDraw {
            nemesis,
            enabled: rank < share,
            rank,
            strength,
            interval_factor: draw_log(0.5, 3.0, random),
        }
    }
}

/// Draws a swarm's plan among the possible nemeses; at least one is enabled, if any has a fitting fault.
pub fn swarm(offered: &[Capability], topology: &Topology, settings: &NemesisSettings, seed: Seed) -> Plan {
    let share = seed.stream("swarm").random_range(0.15..0.6);
    let possible = registry().iter().filter(|nemesis| nemesis.description().unmet(offered).is_none());
    let mut draws: Vec<SwarmDraw> = possible.map(|nemesis| SwarmDraw::draw(*nemesis, share, seed)).collect();
    let mut plan = Plan::default();
    for drawn in draws.iter().filter(|drawn| drawn.enabled) {
        plan.enable(drawn, topology, settings, seed);
    }
    draws.sort_by(|one, other| one.rank.total_cmp(&other.rank));
    for drawn in draws.iter().filter(|drawn| !drawn.enabled) {
        if plan.faults.is_empty() {
            plan.enable(drawn, topology, settings, seed);
        }
    }
    plan.faults.sort_by_key(|fault| fault.at_ms);
    plan
}

impl Plan {
    fn enable(&mut self, drawn: &SwarmDraw, topology: &Topology, settings: &NemesisSettings, seed: Seed) {
        let topology = Topology { ttl: topology.ttl.mul_f64(drawn.strength), ..topology.clone() };
        let interval = settings.interval.mul_f64(drawn.interval_factor).max(Duration::from_millis(1));
        let settings = NemesisSettings { interval, ..settings.clone() };
        let faults = draw_beside(&self.faults, drawn.nemesis, &topology, &settings, seed);
        if !faults.is_empty() {
            let nemesis = drawn.nemesis.name().to_owned();
            self.swarm.push(Enabled { nemesis, strength: drawn.strength, every_ms: millis(interval) });
            self.faults.extend(faults);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::find;
    use crate::testing::{settings, topology};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn names(plan: &Plan) -> BTreeSet<&str> {
        plan.swarm.iter().map(|enabled| enabled.nemesis.as_str()).collect()
    }

    proptest! {
        #[test]
        fn same_seed_same_swarm_of_what_is_possible(
            seed in 0..1_u64 << 53, servers in 1..7_usize, clients in 1..7_usize, limit_s in 5..60_u64,
            offered in proptest::sample::subsequence(Capability::ALL.to_vec(), 0..=Capability::ALL.len()),
        ) {
            let (topology, settings) = (topology(servers, clients), settings(limit_s));
            let plan = swarm(&offered, &topology, &settings, Seed(seed));
            prop_assert_eq!(&plan, &swarm(&offered, &topology, &settings, Seed(seed)));
            prop_assert_eq!(&Plan::parse(&plan.to_toml(), &topology), &Ok(plan.clone()));
            for name in names(&plan) {
                prop_assert_eq!(find(name).expect("registered").description().unmet(&offered), None);
            }
            let used: BTreeSet<_> = plan.faults.iter().map(|fault| fault.fault.as_str()).collect();
            prop_assert_eq!(used, names(&plan));
            prop_assert!(plan.faults.iter().all(|fault| fault.at_ms + fault.for_ms <= limit_s * 1000));
        }
    }

    #[test]
    fn swarms_differ_in_what_is_enabled_and_none_is_idle() {
        let swarms: Vec<Plan> = (0..200)
            .map(|seed| swarm(&Capability::ALL, &topology(5, 5), &settings(20), Seed(seed)))
            .collect();
        assert!(swarms.iter().all(|plan| !plan.faults.is_empty()));
        let kinds: BTreeSet<_> = swarms.iter().map(names).collect();
        assert!(kinds.len() > 150, "only {} different sets", kinds.len());
        let ever: BTreeSet<_> = swarms.iter().flat_map(names).collect();
        assert_eq!(ever.len(), registry().len(), "some nemesis is never enabled");
    }

    #[test]
    fn what_a_driver_lacks_changes_no_other() {
        let (topology, settings) = (topology(5, 5), settings(20));
        for seed in (0..50).map(Seed) {
            let all = swarm(&Capability::ALL, &topology, &settings, seed);
            let fewer = swarm(&[Capability::Signal, Capability::PacketFilter], &topology, &settings, seed);
            let possible = |name: &str| {
                let offered = [Capability::Signal, Capability::PacketFilter];
                find(name).is_some_and(|nemesis| nemesis.description().unmet(&offered).is_none())
            };
            for enabled in all.swarm.iter().filter(|enabled| possible(&enabled.nemesis)) {
                assert!(fewer.swarm.contains(enabled), "{enabled} is not in {:?}", fewer.swarm);
            }
        }
    }
}
