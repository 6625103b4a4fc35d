//! A swarm: each run draws which nemeses are enabled at all, how strongly and how often they strike, and then when.
//!
//! Faults that are always all there hide each other's effects; a run with a few of them, each run with others, reaches
//! more ("Swarm Testing", Groce et al., 2012).

use crate::network::draw_log;
use crate::plan::{Plan, draw_beside, millis, span};
use crate::{Nemesis, Scene, Settings};
use fencepost_cluster::Capability;
use fencepost_history::{Seed, Stream};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// On the command line, in place of the name of a nemesis.
pub const SWARM: &str = "swarm";

/// A nemesis that a swarm has enabled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enabled {
    pub nemesis: String,
    /// It strikes as if the TTL were so many times as long: the lengths, delays and jumps that are drawn around it grow
    /// and shrink with it.
    pub strength: f64,
    /// Mean time between the end of a strike and the next.
    #[serde(rename = "every", with = "span")]
    pub every_ms: u64,
}

impl fmt::Display for Enabled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let every = humantime::format_duration(Duration::from_millis(self.every_ms));
        write!(out, "{} ×{} every {every}", self.nemesis, self.strength)
    }
}

/// One nemesis's lot in a swarm. Drawn from a stream of its own, so that a driver which lacks one changes no other.
struct Lot {
    nemesis: &'static dyn Nemesis,
    enabled: bool,
    /// Where none is enabled, the one with the lowest rank is.
    rank: f64,
    strength: f64,
    interval_factor: f64,
}

impl Lot {
    fn draw(nemesis: &'static dyn Nemesis, share: f64, seed: Seed) -> Lot {
        let random: &mut Stream = &mut seed.stream(&format!("swarm-{}", nemesis.name()));
        let rank = random.random_range(0.0..1.0);
        let strength = draw_log(0.25, 2.0, random);
        Lot { nemesis, enabled: rank < share, rank, strength, interval_factor: draw_log(0.5, 3.0, random) }
    }
}

/// Draws the plan of a swarm among the nemeses that these capabilities and this scene allow. At least one is enabled,
/// if any can strike within the time limit.
pub fn swarm(offered: &[Capability], scene: &Scene, settings: &Settings, seed: Seed) -> Plan {
    let share = seed.stream("swarm").random_range(0.15..0.6);
    let possible = crate::registry().iter().filter(|nemesis| nemesis.unmet(offered).is_none());
    let mut lots: Vec<Lot> = possible.map(|nemesis| Lot::draw(*nemesis, share, seed)).collect();
    let mut plan = Plan::default();
    for lot in lots.iter().filter(|lot| lot.enabled) {
        plan.enable(lot, scene, settings, seed);
    }
    lots.sort_by(|one, other| one.rank.total_cmp(&other.rank));
    for lot in lots.iter().filter(|lot| !lot.enabled) {
        if plan.strikes.is_empty() {
            plan.enable(lot, scene, settings, seed);
        }
    }
    plan.strikes.sort_by_key(|strike| strike.at_ms);
    plan
}

impl Plan {
    fn enable(&mut self, lot: &Lot, scene: &Scene, settings: &Settings, seed: Seed) {
        let scene = Scene { ttl: scene.ttl.mul_f64(lot.strength), ..scene.clone() };
        let interval = settings.interval.mul_f64(lot.interval_factor).max(Duration::from_millis(1));
        let settings = Settings { interval, ..settings.clone() };
        let strikes = draw_beside(&self.strikes, lot.nemesis, &scene, &settings, seed);
        if !strikes.is_empty() {
            let nemesis = lot.nemesis.name().to_owned();
            self.swarm.push(Enabled { nemesis, strength: lot.strength, every_ms: millis(interval) });
            self.strikes.extend(strikes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{scene, settings};
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
            let (scene, settings) = (scene(servers, clients), settings(limit_s));
            let plan = swarm(&offered, &scene, &settings, Seed(seed));
            prop_assert_eq!(&plan, &swarm(&offered, &scene, &settings, Seed(seed)));
            prop_assert_eq!(&Plan::parse(&plan.to_toml(), &scene), &Ok(plan.clone()));
            for name in names(&plan) {
                prop_assert_eq!(crate::find(name).expect("registered").unmet(&offered), None);
            }
            let struck: BTreeSet<_> = plan.strikes.iter().map(|strike| strike.fault.as_str()).collect();
            prop_assert_eq!(struck, names(&plan));
            prop_assert!(plan.strikes.iter().all(|strike| strike.at_ms + strike.for_ms <= limit_s * 1000));
        }
    }

    #[test]
    fn swarms_differ_in_what_is_enabled_and_none_is_idle() {
        let swarms: Vec<Plan> =
            (0..200).map(|seed| swarm(&Capability::ALL, &scene(5, 5), &settings(20), Seed(seed))).collect();
        assert!(swarms.iter().all(|plan| !plan.strikes.is_empty()));
        let kinds: BTreeSet<_> = swarms.iter().map(names).collect();
        assert!(kinds.len() > 150, "only {} different sets", kinds.len());
        let ever: BTreeSet<_> = swarms.iter().flat_map(names).collect();
        assert_eq!(ever.len(), crate::registry().len(), "some nemesis is never enabled");
    }

    #[test]
    fn what_a_driver_lacks_changes_no_other() {
        let (scene, settings) = (scene(5, 5), settings(20));
        for seed in (0..50).map(Seed) {
            let all = swarm(&Capability::ALL, &scene, &settings, seed);
            let fewer = swarm(&[Capability::Signal, Capability::PacketFilter], &scene, &settings, seed);
            let possible = |name: &str| {
                let offered = [Capability::Signal, Capability::PacketFilter];
                crate::find(name).is_some_and(|nemesis| nemesis.unmet(&offered).is_none())
            };
            for enabled in all.swarm.iter().filter(|enabled| possible(&enabled.nemesis)) {
                assert!(fewer.swarm.contains(enabled), "{enabled} is not in {:?}", fewer.swarm);
            }
        }
    }
}
