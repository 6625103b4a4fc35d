//! `clock-drift`: clocks run fast or slow, each in one of four ways, and are set right at the healing.

use crate::clocks::clock_fault::{ClockNemesis, Moved, Words};
use crate::clocks::motion::{Clock, DriftModel, Motion};
use crate::nemesis::Drawing;
use crate::plan::distributions::{around_ttl, draw_log};
use rand::RngExt;
use rand::seq::IndexedRandom;
use serde::{Deserialize, Serialize};

pub(crate) const CLOCK_DRIFT: ClockNemesis<DriftParameters> = ClockNemesis {
    name: "clock-drift",
    about: "clocks of servers or clients run fast or slow: steadily, in waves, in steps, or like a cheap quartz",
    options: &["clock", "clock-drift-ppm", "clock-mechanism"],
    around: (1.0, 3.0),
    draw,
    make_lease_end_early: |drawn, _| DriftParameters { drift_ppm: drawn.drift_ppm.abs(), ..drawn },
    make_lease_seem_longer: |drawn| {
        let drift_ppm = -drawn.drift_ppm.abs().min(SLOWEST_PPM);
        DriftParameters { drift_ppm, ..drawn }
    },
    motions: |parameters| {
        let DriftParameters { clock, model, drift_ppm, period_ms, seed } = *parameters;
        clock.moved(Motion::Drift { model, drift_ppm, period_ms, seed })
    },
    words: Words {
        sentence,
        label: |moved| format!("clock {:+.1} %", drift(moved).1),
        summary: "clocks ran fast or slow",
    },
};

/// As slow as a clock is made: it loses 95 of 100 seconds.
const SLOWEST_PPM: i64 = 950_000;

fn drift(moved: &Moved) -> (DriftModel, f64) {
    match moved.motion() {
        Some(Motion::Drift { model, drift_ppm, .. }) => (model, drift_ppm as f64 / 1e4),
        _ => (DriftModel::Linear, 0.0),
    }
}

fn sentence(moved: &Moved) -> String {
    let (model, percent) = drift(moved);
    let way = if percent < 0.0 { "slow" } else { "fast" };
    let how = match model {
        DriftModel::Linear => "",
        DriftModel::Periodic => ", in waves",
        DriftModel::Step => ", in steps",
        DriftModel::NonIdeal => ", unsteadily",
    };
    format!("{} began to run up to {:.1} % too {way}{how}", moved.clock(), percent.abs())
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DriftParameters {
    clock: Clock,
    model: DriftModel,
    drift_ppm: i64,
    /// Of a periodic, step or non-ideal drift.
    period_ms: u64,
    /// Of a non-ideal one.
    seed: u32,
}

impl Default for DriftParameters {
    fn default() -> DriftParameters {
        DriftParameters {
            clock: Clock::Wall,
            model: DriftModel::Linear,
            drift_ppm: 0,
            period_ms: 1000,
            seed: 0,
        }
    }
}

/// A tenth of drift matters to a client that trusts its lease to the last tenth; at fifty times the rate the
/// lease is over before a client could use it. The gain is of the size of the TTL, or many times that.
fn draw(from: &mut Drawing<'_>) -> DriftParameters {
    let Drawing { topology, settings, random } = from;
    let all = [DriftModel::Linear, DriftModel::Periodic, DriftModel::Step, DriftModel::NonIdeal];
    let model = all.choose(random).copied().unwrap_or_default();
    let fast = random.random_bool(2.0 / 3.0);
    // A slow clock cannot lose more than all, nor a wave swing further back than that.
    let most: f64 = if fast && model != DriftModel::Periodic { 50.0 } else { SLOWEST_PPM as f64 / 1e6 };
    let drawn = draw_log(0.1, most, random);
    let requested = settings.options.clock_drift_ppm.map(|ppm| f64::from(ppm.get()) / 1e6);
    // What was requested is the user's choice, where a clock can do it.
    let limit = if fast && model != DriftModel::Periodic { f64::INFINITY } else { most };
    let size_ppm = (requested.unwrap_or(drawn).min(limit) * 1e6).round() as i64;
    DriftParameters {
        clock: settings.options.clock,
        model,
        drift_ppm: if fast { size_ppm } else { -size_ppm },
        period_ms: around_ttl(topology.ttl, 0.1, 1.0, random).as_millis().max(10) as u64,
        seed: random.random(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nemesis::NemesisSettings;
    use fencepost_history::Seed;
    use std::num::NonZeroU32;

    fn drawn(settings: &NemesisSettings) -> Vec<(DriftModel, f64)> {
        let mut random = Seed(5).stream("drift");
        let topology = crate::testing::topology(5, 5);
        let mut from = Drawing { topology: &topology, settings, random: &mut random };
        let all = (0..1000).map(|_| draw(&mut from));
        all.map(|parameters| (parameters.model, parameters.drift_ppm as f64)).collect()
    }

    #[test]
    fn every_model_is_drawn_with_rates_that_a_lease_feels() {
        let drawn = drawn(&crate::testing::settings(20));
        for model in [DriftModel::Linear, DriftModel::Periodic, DriftModel::Step, DriftModel::NonIdeal] {
            assert!(drawn.iter().any(|(each, _)| *each == model), "{model:?}");
        }
        let rates: Vec<f64> = drawn.iter().map(|(_, ppm)| *ppm).collect();
        assert!(rates.iter().all(|ppm| (1e5 - 1.0..=5e7 + 1.0).contains(&ppm.abs()) && *ppm > -1e6));
        assert!(rates.iter().any(|ppm| *ppm > 1e7) && rates.iter().any(|ppm| *ppm < -5e5));
    }

    #[test]
    fn a_rate_that_was_asked_for_is_kept() {
        let mut settings = crate::testing::settings(20);
        settings.options.clock_drift_ppm = NonZeroU32::new(100_000);
        assert!(drawn(&settings).iter().all(|(_, ppm)| ppm.abs() == 1e5));
    }
}
