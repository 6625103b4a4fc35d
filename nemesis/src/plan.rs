//! The schedule of a run: which fault strikes whom, when, and for how long. Drawn from the seed before anything
//! starts, and kept with the results.

use crate::{Nemesis, Scene, Settings};
use fencepost_history::Seed;
use rand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// One fault: named, aimed and dosed, with its beginning and its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Strike {
    /// Milliseconds from the start of the main phase to the injection.
    pub at_ms: u64,
    /// Milliseconds from the injection to the healing.
    pub for_ms: u64,
    /// Name of the nemesis.
    pub fault: String,
    /// Whom it strikes: `n1`, `c2`, `storage`.
    pub on: Vec<String>,
    /// The dose, in the nemesis's own terms.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub dose: Value,
}

/// All strikes of a run, by time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    #[serde(default, rename = "strike")]
    pub strikes: Vec<Strike>,
}

/// Draws the plan of a run: each nemesis from a random stream of its own, so that adding one shifts no other.
///
/// Strikes of one nemesis follow each other with a pause between half and one and a half times the interval.
/// Strikes of different ones overlap freely. Every strike is healed within `time_limit`.
pub fn draw(nemeses: &[&dyn Nemesis], scene: &Scene, settings: &Settings, seed: Seed) -> Plan {
    let mut strikes: Vec<Strike> =
        nemeses.iter().flat_map(|nemesis| draw_one(*nemesis, scene, settings, seed)).collect();
    strikes.sort_by_key(|strike| strike.at_ms);
    Plan { strikes }
}

fn draw_one(nemesis: &dyn Nemesis, scene: &Scene, settings: &Settings, seed: Seed) -> Vec<Strike> {
    let mut random = seed.stream(&format!("nemesis-{}", nemesis.name()));
    let limit_ms = millis(settings.time_limit);
    let gap_ms = |random: &mut fencepost_history::Stream| {
        let interval_ms = millis(settings.interval);
        random.random_range(interval_ms / 2..=interval_ms * 3 / 2).max(1)
    };
    let mut strikes = Vec::new();
    let mut at_ms = gap_ms(&mut random);
    loop {
        let Some(aim) = nemesis.draw(scene, settings, &mut random) else { break };
        let for_ms = millis(aim.length).max(1);
        if at_ms + for_ms > limit_ms {
            break;
        }
        let fault = nemesis.name().to_owned();
        strikes.push(Strike { at_ms, for_ms, fault, on: aim.on, dose: aim.dose });
        at_ms += for_ms + gap_ms(&mut random);
    }
    strikes
}

/// Whole milliseconds of a duration.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scene(servers: usize, clients: usize) -> Scene {
        let names = |letter: &str, count| (1..=count).map(|number| format!("{letter}{number}")).collect();
        Scene { servers: names("n", servers), clients: names("c", clients), ttl: Duration::from_secs(2) }
    }

    fn settings(limit_s: u64) -> Settings {
        Settings {
            time_limit: Duration::from_secs(limit_s),
            interval: Duration::from_secs(1),
            clock_amplitude: None,
        }
    }

    proptest! {
        #[test]
        fn same_seed_same_plan_and_healing_always_within_the_limit(
            seed in 0..1_u64 << 53, servers in 0..7_usize, clients in 1..7_usize, limit_s in 1..60_u64,
        ) {
            let (scene, settings) = (scene(servers, clients), settings(limit_s));
            let plan = draw(crate::registry(), &scene, &settings, Seed(seed));
            prop_assert_eq!(&plan, &draw(crate::registry(), &scene, &settings, Seed(seed)));
            for strike in &plan.strikes {
                prop_assert!(strike.at_ms + strike.for_ms <= limit_s * 1000);
                prop_assert!(!strike.on.is_empty());
                let known = |name: &String| scene.servers.contains(name) || scene.clients.contains(name);
                prop_assert!(strike.on.iter().all(known));
                let nemesis = crate::find(&strike.fault).expect("a registered nemesis");
                prop_assert!(nemesis.prepare(strike).is_ok());
            }
            for nemesis in crate::registry() {
                let own: Vec<_> = plan.strikes.iter().filter(|strike| strike.fault == nemesis.name()).collect();
                let apart = |pair: &[&Strike]| pair[0].at_ms + pair[0].for_ms <= pair[1].at_ms;
                prop_assert!(own.windows(2).all(apart), "strikes of one nemesis overlap");
            }
        }
    }

    #[test]
    fn a_nemesis_more_shifts_no_other() {
        let (scene, settings) = (scene(5, 5), settings(60));
        let alone = draw(&[crate::find("pause").unwrap()], &scene, &settings, Seed(7));
        let mut together = draw(crate::registry(), &scene, &settings, Seed(7));
        together.strikes.retain(|strike| strike.fault == "pause");
        assert_eq!(alone, together);
        assert!(alone.strikes.len() > 5);
    }

    #[test]
    fn a_plan_survives_json() {
        let plan = draw(crate::registry(), &scene(5, 5), &settings(20), Seed(1));
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }
}
