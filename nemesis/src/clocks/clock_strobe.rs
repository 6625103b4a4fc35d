//! `clock-strobe`: clocks jump there and back, many times, as under two time services that disagree.

use crate::clocks::clock_fault::{ClockNemesis, Moved, Words, draw_beyond_ttl_ms, draw_size_ms};
use crate::clocks::motion::{Clock, Motion};
use crate::plan::distributions::draw_log;
use serde::{Deserialize, Serialize};

pub(crate) const CLOCK_STROBE: ClockNemesis<StrobeParameters> = ClockNemesis {
    name: "clock-strobe",
    about: "clocks of servers or clients jump there and back, many times",
    options: &["clock", "clock-amplitude", "clock-mechanism"],
    around: (0.5, 1.5),
    draw: |from| {
        let size_ms = draw_size_ms(from);
        // From faster than a critical section to slower than one.
        let period_ms = draw_log(20.0, 1000.0, from.random).round() as u64;
        StrobeParameters { clock: from.settings.options.clock, size_ms, period_ms }
    },
    make_lease_end_early: |drawn, from| StrobeParameters { size_ms: draw_beyond_ttl_ms(from), ..drawn },
    make_lease_seem_longer: |drawn| StrobeParameters {
        size_ms: -drawn.size_ms.abs(),
        period_ms: drawn.period_ms.min(SHORT_MS),
        ..drawn
    },
    motions: |parameters| {
        let StrobeParameters { clock, size_ms, period_ms } = *parameters;
        clock.moved(Motion::Strobe { size_ms, period_ms })
    },
    words: Words {
        sentence,
        label: |_| "clock strobes".to_owned(),
        summary: "clocks jumped there and back many times",
    },
};

/// A client that times its questions has answers within milliseconds: slower strobes hardly step in between.
const SHORT_MS: u64 = 40;

fn sentence(moved: &Moved) -> String {
    let size_ms = match moved.motion() {
        Some(Motion::Strobe { size_ms, .. }) => size_ms,
        _ => 0,
    };
    let way = if size_ms < 0 { "back" } else { "forward" };
    let size = size_ms.unsigned_abs() as f64 / 1e3;
    format!("{} began to jump {way} by {size:.3} s and return, over and over", moved.clock())
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StrobeParameters {
    clock: Clock,
    size_ms: i64,
    /// From one jump forward to the next.
    period_ms: u64,
}

impl Default for StrobeParameters {
    fn default() -> StrobeParameters {
        StrobeParameters { clock: Clock::Wall, size_ms: 0, period_ms: 100 }
    }
}
