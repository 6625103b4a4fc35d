//! `clock-jump`: clocks jump, forward or back, and jump back at the healing.

use crate::Clock;
use crate::clocks::{Motion, Motions, WrongClock, draw_size_ms, read_dose};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub(crate) const CLOCK_JUMP: WrongClock = WrongClock {
    name: "clock-jump",
    about: "clocks of servers or clients jump forward or back, and return at the healing",
    around: (0.25, 1.0),
    draw: |scene, settings, random| {
        let jump_ms = draw_size_ms(scene, settings, random);
        let only = |wanted: bool| if wanted { jump_ms } else { 0 };
        json!(Dose {
            wall_ms: only(settings.clock != Clock::Monotonic),
            monotonic_ms: only(settings.clock != Clock::Wall),
        })
    },
    motions: |dose| {
        let dose: Dose = read_dose(dose, "wall_ms and monotonic_ms, in milliseconds")?;
        let jump = |by_ms: i64| (by_ms != 0).then_some(Motion::Jump { by_ms });
        Ok(Motions { wall: jump(dose.wall_ms), monotonic: jump(dose.monotonic_ms) })
    },
};

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Dose {
    wall_ms: i64,
    monotonic_ms: i64,
}
