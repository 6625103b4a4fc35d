//! How clocks go wrong: which of them, what a clock does next, and for how long.

use crate::tools::clock::Skew;
use chacha20::ChaCha8Rng;
use fencepost_history::Refusal;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The time of day, by which Redis expires keys.
    #[default]
    Wall,
    /// The time since some beginning, by which etcd counts down leases and clients their time-outs.
    Monotonic,
    Both,
}

/// What a fault does to each clock of its targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Motions {
    #[serde(default)]
    pub wall: Option<Motion>,
    #[serde(default)]
    pub monotonic: Option<Motion>,
}

impl Clock {
    pub(crate) fn moved(self, motion: Motion) -> Motions {
        let when = |wanted: bool| wanted.then_some(motion);
        Motions { wall: when(self != Clock::Monotonic), monotonic: when(self != Clock::Wall) }
    }
}

/// One clock's way of going wrong. Times in milliseconds, rates in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Motion {
    /// Leaps, and goes on from there at the true rate.
    Jump {
        by_ms: i64,
    },
    /// Is ahead for half of each period, and right for the other half.
    Strobe {
        size_ms: i64,
        period_ms: u64,
    },
    Freeze,
    Drift {
        model: DriftModel,
        drift_ppm: i64,
        period_ms: u64,
        seed: u32,
    },
}

/// How the rate of a drifting clock changes over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriftModel {
    /// One rate from beginning to end.
    #[default]
    Linear,
    /// Faster and slower in turn, as a sine: by day it is warm, by night it is cold.
    Periodic,
    /// The true rate, and once a period a leap by what a linear drift would gain: a clock that is often set.
    Step,
    /// A rate that wanders between none and the one that is said, and jitter on top: a cheap quartz.
    NonIdeal,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Move {
    pub leap_ns: i64,
    pub drift_ppm: i64,
    /// Until the next move; none: for good.
    pub lasts_ns: Option<u64>,
}

const MS: i64 = 1_000_000;
/// In so many straight pieces a wave is drawn, unless they would be shorter than [`PIECE_MS_MIN`].
const PIECES: u64 = 32;
const PIECE_MS_MIN: u64 = 5;
const PERIOD_MS_MIN: u64 = 10;
/// How far a non-ideal clock is off by chance at any moment, at most.
const JITTER_NS: i64 = 2 * MS;
/// What lets a periodic or non-ideal clock run backwards.
const PPM_STILL: i64 = -Skew::FROZEN_PPM;

impl Motion {
    /// Refuses what no clock can be made to do, in one sentence.
    pub fn check(&self) -> Result<(), Refusal> {
        let period = |period_ms: u64| match period_ms {
            PERIOD_MS_MIN.. => Ok(()),
            _ => {
                let sentence =
                    format!("a period of {period_ms} ms is too short; take {PERIOD_MS_MIN} ms or more");
                Err(Refusal::at("period_ms", sentence))
            }
        };
        match *self {
            Motion::Jump { .. } | Motion::Freeze => Ok(()),
            Motion::Strobe { period_ms, .. } => period(period_ms),
            Motion::Drift { model, drift_ppm, period_ms, .. } => {
                if !(Skew::FROZEN_PPM..=Skew::DRIFT_PPM_MAX).contains(&drift_ppm) {
                    let (least, most) = (Skew::FROZEN_PPM, Skew::DRIFT_PPM_MAX);
                    let sentence = format!("a drift of {drift_ppm} ppm is not between {least} and {most}");
                    return Err(Refusal::at("drift_ppm", sentence));
                }
                if model == DriftModel::Periodic && drift_ppm.abs() >= PPM_STILL {
                    let sentence = format!(
                        "a periodic drift of {drift_ppm} ppm would run backwards; stay below {PPM_STILL}"
                    );
                    return Err(Refusal::at("drift_ppm", sentence));
                }
                if model == DriftModel::Linear { Ok(()) } else { period(period_ms) }
            }
        }
    }

    /// The move of that number, from 0. Between two moves the clock goes straight on.
    pub(crate) fn step(&self, number: u64) -> Move {
        match *self {
            Motion::Jump { by_ms } => Move { leap_ns: by_ms.saturating_mul(MS), ..Move::default() },
            Motion::Freeze => Move { drift_ppm: Skew::FROZEN_PPM, ..Move::default() },
            Motion::Strobe { size_ms, period_ms } => {
                let size_ns = size_ms.saturating_mul(MS);
                let leap_ns = if number.is_multiple_of(2) { size_ns } else { -size_ns };
                Move { leap_ns, drift_ppm: 0, lasts_ns: Some(period_ms * MS as u64 / 2) }
            }
            Motion::Drift { model, drift_ppm, period_ms, seed } => match model {
                DriftModel::Linear => Move { drift_ppm, ..Move::default() },
                DriftModel::Step => {
                    let leap_ns = i128::from(drift_ppm) * i128::from(period_ms);
                    let leap_ns = i64::try_from(leap_ns).unwrap_or(i64::MAX);
                    Move { leap_ns, drift_ppm: 0, lasts_ns: Some(period_ms * MS as u64) }
                }
                DriftModel::Periodic => {
                    let (piece_ns, turns) = piece(number, period_ms);
                    let drift_ppm = (drift_ppm as f64 * (turns * TAU).sin()).round() as i64;
                    Move { leap_ns: 0, drift_ppm, lasts_ns: Some(piece_ns) }
                }
                DriftModel::NonIdeal => {
                    let (piece_ns, turns) = piece(number, period_ms);
                    let drift_ppm = (drift_ppm as f64 * wander(seed, turns)).round() as i64;
                    let before_ns = number.checked_sub(1).map_or(0, |before| jitter_ns(seed, before));
                    let leap_ns = jitter_ns(seed, number) - before_ns;
                    Move { leap_ns, drift_ppm, lasts_ns: Some(piece_ns) }
                }
            },
        }
    }
}

/// The length of a straight piece, and the middle of piece `number` in periods.
fn piece(number: u64, period_ms: u64) -> (u64, f64) {
    let piece_ns = (period_ms * MS as u64 / PIECES).max(PIECE_MS_MIN * MS as u64);
    let turns = (number as f64 + 0.5) * piece_ns as f64 / (period_ms as f64 * MS as f64);
    (piece_ns, turns)
}

/// Between 0 and 1, never the same again: waves of incommensurable lengths, each with its own phase.
fn wander(seed: u32, turns: f64) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed.into());
    let waves = [0.38, 1.0, 2.62].map(|often| (TAU * (often * turns + random.random::<f64>())).sin());
    0.5 + waves.iter().sum::<f64>() / 6.0
}

fn jitter_ns(seed: u32, number: u64) -> i64 {
    let mut random = ChaCha8Rng::seed_from_u64(u64::from(seed) << 32 ^ number);
    random.random_range(-JITTER_NS..=JITTER_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drift(model: DriftModel, drift_ppm: i64) -> Motion {
        Motion::Drift { model, drift_ppm, period_ms: 800, seed: 7 }
    }

    #[test]
    fn a_wave_comes_back_to_where_it_began() {
        let motion = drift(DriftModel::Periodic, 500_000);
        let moves = (0..32).map(|number| motion.step(number));
        let gained: i64 =
            moves.map(|each| each.drift_ppm * each.lasts_ns.expect("a piece of a wave ends") as i64).sum();
        assert!((gained / 1_000_000).abs() < MS, "{gained}");
    }

    #[test]
    fn steps_gain_as_much_as_a_line() {
        assert_eq!(
            drift(DriftModel::Step, -50_000).step(3),
            Move { leap_ns: -40 * MS, drift_ppm: 0, lasts_ns: Some(800_000_000) }
        );
    }

    #[test]
    fn a_cheap_quartz_stays_between_true_and_as_wrong_as_was_said() {
        let motion = drift(DriftModel::NonIdeal, -300_000);
        let moves: Vec<Move> = (0..1000).map(|number| motion.step(number)).collect();
        assert!(moves.iter().all(|each| (-300_000..=0).contains(&each.drift_ppm)));
        assert!(moves.iter().any(|each| each.drift_ppm < -200_000));
        assert!(moves.iter().any(|each| each.drift_ppm > -100_000));
        // Jitter never adds up.
        let off: Vec<i64> = moves
            .iter()
            .scan(0, |off, each| {
                *off += each.leap_ns;
                Some(*off)
            })
            .collect();
        assert!(off.iter().all(|off| off.abs() <= JITTER_NS));
    }

    #[test]
    fn what_no_clock_can_do_is_refused() {
        let refused = |motion: Motion| motion.check().unwrap_err().sentence;
        assert!(refused(drift(DriftModel::Linear, -1_000_001)).contains("between"));
        assert!(refused(drift(DriftModel::Periodic, 1_000_000)).contains("backwards"));
        assert!(refused(Motion::Strobe { size_ms: 5, period_ms: 0 }).contains("too short"));
        assert!(drift(DriftModel::Linear, Skew::DRIFT_PPM_MAX).check().is_ok());
    }
}
