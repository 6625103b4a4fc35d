//! `clock-freeze`: clocks stand still until the healing: what should have ended meanwhile then ends at once.

use crate::clocks::clock_fault::{ClockNemesis, Words};
use crate::clocks::motion::{Clock, Motion};
use serde::{Deserialize, Serialize};

pub(crate) const CLOCK_FREEZE: ClockNemesis<FreezeParameters> = ClockNemesis {
    name: "clock-freeze",
    about: "clocks of servers or clients stand still for longer than the TTL",
    options: &["clock", "clock-mechanism"],
    around: (1.1, 2.5),
    draw: |from| FreezeParameters { clock: from.settings.options.clock },
    // A clock that stands still ends no lease early.
    make_lease_end_early: |drawn, _| drawn,
    make_lease_seem_longer: |drawn| drawn,
    motions: |parameters| parameters.clock.moved(Motion::Freeze),
    words: Words {
        sentence: |moved| format!("{} stood still", moved.clock()),
        label: |_| "clock frozen".to_owned(),
        summary: "clocks stood still",
    },
};

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FreezeParameters {
    clock: Clock,
}
