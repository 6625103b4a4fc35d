//! `clock-drift`: clocks run fast or slow, each in one of four ways, and are set right at the healing.

use crate::clocks::{Model, Motion, Moved, Words, WrongClock, read_dose};
use crate::network::draw_log;
use crate::{Clock, Scene, Settings, around_ttl};
use fencepost_history::Stream;
use rand::RngExt;
use rand::seq::IndexedRandom;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) const CLOCK_DRIFT: WrongClock = WrongClock {
    name: "clock-drift",
    about: "clocks of servers or clients run fast or slow: steadily, in waves, in steps, or like a cheap quartz",
    around: (1.0, 3.0),
    draw,
    motions: |dose| {
        let takes = "clock = \"wall\", \"monotonic\" or \"both\", model = \"linear\", \"periodic\", \"step\" or \
                     \"non-ideal\", drift_ppm, period_ms and seed";
        let Dose { clock, model, drift_ppm, period_ms, seed } = read_dose(dose, takes)?;
        Ok(clock.moved(Motion::Drift { model, drift_ppm, period_ms, seed }))
    },
    words: Words {
        sentence,
        label: |moved| format!("clock {:+.1} %", drift(moved).1),
        summary: "clocks ran fast or slow",
    },
};

/// How a drifting clock goes, and by how many percent it is too fast.
fn drift(moved: &Moved) -> (Model, f64) {
    match moved.motion() {
        Some(Motion::Drift { model, drift_ppm, .. }) => (model, drift_ppm as f64 / 1e4),
        _ => (Model::Linear, 0.0),
    }
}

fn sentence(moved: &Moved) -> String {
    let (model, percent) = drift(moved);
    let way = if percent < 0.0 { "slow" } else { "fast" };
    let how = match model {
        Model::Linear => "",
        Model::Periodic => ", in waves",
        Model::Step => ", in steps",
        Model::NonIdeal => ", unsteadily",
    };
    format!("{} began to run up to {:.1} % too {way}{how}", moved.clock(), percent.abs())
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Dose {
    clock: Clock,
    model: Model,
    /// What the clock gains, in parts per million.
    drift_ppm: i64,
    /// Of a periodic, step or non-ideal drift.
    period_ms: u64,
    /// Of a non-ideal one.
    seed: u32,
}

impl Default for Dose {
    fn default() -> Dose {
        Dose { clock: Clock::Wall, model: Model::Linear, drift_ppm: 0, period_ms: 1000, seed: 0 }
    }
}

/// A lease shortens by the drift: a tenth matters to whoever trusts a lease to its last tenth, and at fifty times the
/// rate it is over before anybody could have used it. What is gained over the strike is of the size of the TTL, or
/// many times that.
fn draw(scene: &Scene, settings: &Settings, random: &mut Stream) -> Value {
    let all = [Model::Linear, Model::Periodic, Model::Step, Model::NonIdeal];
    let model = all.choose(random).copied().unwrap_or_default();
    let fast = random.random_bool(2.0 / 3.0);
    // A slow clock cannot lose more than all, nor a wave swing further back than that.
    let most: f64 = if fast && model != Model::Periodic { 50.0 } else { 0.95 };
    let drawn = draw_log(0.1, most, random);
    let asked = settings.clock_drift_ppm.map(|ppm| f64::from(ppm.get()) / 1e6);
    // What was asked for is the user's, where a clock can do it.
    let limit = if fast && model != Model::Periodic { f64::INFINITY } else { most };
    let size_ppm = (asked.unwrap_or(drawn).min(limit) * 1e6).round() as i64;
    let dose = Dose {
        clock: settings.clock,
        model,
        drift_ppm: if fast { size_ppm } else { -size_ppm },
        period_ms: around_ttl(scene.ttl, 0.1, 1.0, random).as_millis().max(10) as u64,
        seed: random.random(),
    };
    json!(dose)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_history::Seed;
    use std::num::NonZeroU32;

    fn drawn(settings: &Settings) -> Vec<(String, f64)> {
        let mut random = Seed(5).stream("drift");
        let scene = crate::testing::scene(5, 5);
        let doses = (0..1000).map(|_| draw(&scene, settings, &mut random));
        doses
            .map(|dose| (dose["model"].as_str().unwrap().to_owned(), dose["drift_ppm"].as_f64().unwrap()))
            .collect()
    }

    #[test]
    fn every_model_is_drawn_with_rates_that_a_lease_feels() {
        let doses = drawn(&crate::testing::settings(20));
        for model in ["linear", "periodic", "step", "non-ideal"] {
            assert!(doses.iter().any(|(drawn, _)| drawn == model), "{model}");
        }
        let rates: Vec<f64> = doses.iter().map(|(_, ppm)| *ppm).collect();
        assert!(rates.iter().all(|ppm| (1e5 - 1.0..=5e7 + 1.0).contains(&ppm.abs()) && *ppm > -1e6));
        assert!(rates.iter().any(|ppm| *ppm > 1e7) && rates.iter().any(|ppm| *ppm < -5e5));
    }

    #[test]
    fn a_rate_that_was_asked_for_is_kept() {
        let mut settings = crate::testing::settings(20);
        settings.clock_drift_ppm = NonZeroU32::new(100_000);
        assert!(drawn(&settings).iter().all(|(_, ppm)| ppm.abs() == 1e5));
    }
}
