//! `clock-freeze`: clocks stand still, and are set right at the healing: what should have ended meanwhile ends at once.

use crate::Clock;
use crate::clocks::{Motion, Words, WrongClock, read_dose};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub(crate) const CLOCK_FREEZE: WrongClock = WrongClock {
    name: "clock-freeze",
    about: "clocks of servers or clients stand still for longer than the TTL",
    around: (1.1, 2.5),
    draw: |_, settings, _| json!(Dose { clock: settings.clock }),
    motions: |dose| {
        let Dose { clock } = read_dose(dose, "clock = \"wall\", \"monotonic\" or \"both\"")?;
        Ok(clock.moved(Motion::Freeze))
    },
    words: Words {
        sentence: |moved| format!("{} stood still", moved.clock()),
        label: |_| "clock frozen".to_owned(),
        summary: "clocks stood still",
    },
};

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Dose {
    clock: Clock,
}
