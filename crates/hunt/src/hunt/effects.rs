//! Which faults take effect on this machine, as the histories of schedules show it.

use fencepost_history::{Event, FaultEvent, FaultStage, Kind};
use std::collections::BTreeMap;

/// A nemesis none of whose first faults took effect has none here: one that works half of the time would show
/// that in 63 of 64 cases.
pub(super) const TRIES: u64 = 6;

/// Of each nemesis, how many of its faults were injected, and how many took effect.
#[derive(Default)]
pub(super) struct Effects(BTreeMap<String, (u64, u64)>);

impl Effects {
    /// Counts the faults of a run.
    pub(super) fn note(&mut self, history: &[Event]) {
        let injected = history.iter().filter(|event| matches!(event.kind, Kind::Ok | Kind::Info));
        for event in injected {
            let Some(fault) = FaultEvent::read(event).filter(|fault| fault.stage == FaultStage::Inject)
            else {
                continue;
            };
            let (tried, effective) = self.0.entry(event.f.to_string()).or_default();
            *tried += 1;
            *effective += u64::from(fault.effective);
        }
    }

    /// Whether faults of this nemesis never took effect, however often they were injected.
    pub(super) fn has_none(&self, nemesis: &str) -> bool {
        self.0.get(nemesis).is_some_and(|&(tried, effective)| tried >= TRIES && effective == 0)
    }
}
