//! `clock-jump`: clocks jump, forward or back, and jump back at the healing.

use crate::clocks::clock_fault::{ClockNemesis, Moved, Words, draw_beyond_ttl_ms, draw_size_ms};
use crate::clocks::motion::{Clock, Motion, Motions};
use fencepost_history::prose::and;
use serde::{Deserialize, Serialize};

pub(crate) const CLOCK_JUMP: ClockNemesis<JumpParameters> = ClockNemesis {
    name: "clock-jump",
    about: "clocks of servers or clients jump forward or back, and jump back when the fault is healed",
    options: &["clock", "clock-amplitude", "clock-mechanism"],
    around: (0.25, 1.0),
    draw: |from| JumpParameters::of(draw_size_ms(from), from.settings.options.clock),
    make_lease_end_early: |_, from| JumpParameters::of(draw_beyond_ttl_ms(from), from.settings.options.clock),
    make_lease_seem_longer: |drawn| JumpParameters {
        wall_ms: -drawn.wall_ms.abs(),
        monotonic_ms: -drawn.monotonic_ms.abs(),
    },
    motions: |parameters| {
        let jump = |by_ms: i64| (by_ms != 0).then_some(Motion::Jump { by_ms });
        Motions { wall: jump(parameters.wall_ms), monotonic: jump(parameters.monotonic_ms) }
    },
    words: Words { sentence, label, summary: "clocks of nodes jumped" },
};

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct JumpParameters {
    /// How far the wall clock jumps; negative: back.
    wall_ms: i64,
    monotonic_ms: i64,
}

impl JumpParameters {
    fn of(jump_ms: i64, clock: Clock) -> JumpParameters {
        let only = |wanted: bool| if wanted { jump_ms } else { 0 };
        JumpParameters { wall_ms: only(clock != Clock::Monotonic), monotonic_ms: only(clock != Clock::Wall) }
    }
}

/// Less is how well a clock can be read.
const LEAST_MS: f64 = 5.0;
const ALIKE_MS: f64 = 100.0;

fn sentence(moved: &Moved) -> String {
    let mut jumps: Vec<(String, Vec<&str>)> = Vec::new();
    for target in moved.on {
        let how = jump(moved, target);
        match jumps.iter_mut().find(|(other, _)| *other == how) {
            Some((_, targets)) => targets.push(target),
            None => jumps.push((how, vec![target])),
        }
    }
    let clause = |(how, targets): (String, Vec<&str>)| {
        let clock = if targets.len() == 1 { "clock" } else { "clocks" };
        how.replacen("clock", &format!("{clock} of {}", and(&targets)), 1)
    };
    jumps.into_iter().map(clause).collect::<Vec<_>>().join("; ")
}

/// In milliseconds, as observed in the node, or else as requested; none for a clock that was left alone.
fn jumped_ms(moved: &Moved, target: &str) -> [Option<f64>; 2] {
    let jumps = [("wall_ms", moved.motions.wall), ("monotonic_ms", moved.motions.monotonic)];
    jumps.map(|(name, motion)| {
        let Some(Motion::Jump { by_ms }) = motion else { return None };
        let requested = by_ms as f64;
        let seen = moved.observed.get(target).and_then(|seen| seen.get(name)?.as_f64()).unwrap_or(requested);
        // Jumps of several nodes differ by the moment at which each was looked at, which no reader needs.
        let alike = moved.on.len() > 1 && (requested - seen).abs() < ALIKE_MS;
        Some(if alike { requested } else { seen }).filter(|ms| ms.abs() >= LEAST_MS)
    })
}

fn jump(moved: &Moved, target: &str) -> String {
    let by = |ms: f64| {
        let way = if ms < 0.0 { "back" } else { "forward" };
        format!("{way} by {:.3} s", ms.abs() / 1e3)
    };
    match jumped_ms(moved, target) {
        [Some(wall), Some(monotonic)] if (wall - monotonic).abs() < ALIKE_MS => {
            format!("the clock jumped {}", by(wall))
        }
        [Some(wall), Some(monotonic)] => {
            format!("the wall clock jumped {}, the monotonic one {}", by(wall), by(monotonic))
        }
        [Some(wall), None] => format!("the wall clock jumped {}", by(wall)),
        [None, Some(monotonic)] => format!("the monotonic clock jumped {}", by(monotonic)),
        [None, None] => "the clock was left where it was".to_owned(),
    }
}

/// "clock +60.0 s", by the first target.
fn label(moved: &Moved) -> String {
    let [wall, monotonic] = moved.on.first().map_or([None, None], |target| jumped_ms(moved, target));
    wall.or(monotonic).map_or("clock".to_owned(), |ms| format!("clock {:+.1} s", ms / 1e3))
}
