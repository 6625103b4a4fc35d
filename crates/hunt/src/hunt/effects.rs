//! Which faults take effect on this machine, as the histories of schedules show it.

use fencepost_history::{Event, FaultEvent, FaultStage, Kind};
use std::collections::BTreeMap;

/// If none of its first faults took effect, a nemesis has none here: a working half shows in 63 of 64 cases.
const TRIES: u64 = 6;

/// One whose first injections fail cannot be injected here.
const FAILURES: u64 = 3;

#[derive(Default)]
struct FaultTally {
    tried: u64,
    effective: u64,
    failed: u64,
}

#[derive(Default)]
pub(super) struct Effects(BTreeMap<String, FaultTally>);

impl Effects {
    pub(super) fn note(&mut self, history: &[Event]) {
        let injected = history.iter().filter(|event| matches!(event.kind, Kind::Ok | Kind::Info));
        for event in injected {
            let Some(fault) = FaultEvent::read(event).filter(|fault| fault.stage == FaultStage::Inject)
            else {
                continue;
            };
            let tally = self.0.entry(event.f.to_string()).or_default();
            tally.tried += 1;
            tally.effective += u64::from(fault.effective);
            tally.failed += u64::from(event.kind == Kind::Info);
        }
    }

    pub(super) fn has_none(&self, nemesis: &str) -> bool {
        self.0.get(nemesis).is_some_and(|&FaultTally { tried, effective, failed }| {
            effective == 0 && (tried >= TRIES || failed >= FAILURES && failed == tried)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_history::Process;
    use serde_json::json;

    fn injected(kind: Kind, effective: bool) -> Event {
        let value = json!({"id": 0, "stage": "inject", "targets": ["n1"], "effective": effective});
        let (process, f) = (Process::Nemesis, "reorder".into());
        Event { index: 0, time: 0, process, kind, f, key: None, value: value.into(), error: None }
    }

    #[test]
    fn faults_that_never_took_effect_have_none_and_one_effect_is_enough() {
        let has_none = |faults: &[(Kind, bool)]| {
            let mut effects = Effects::default();
            let history: Vec<Event> =
                faults.iter().map(|&(kind, effective)| injected(kind, effective)).collect();
            effects.note(&history);
            effects.has_none("reorder")
        };
        assert!(has_none(&[(Kind::Ok, false); 6]) && !has_none(&[(Kind::Ok, false); 5]));
        assert!(has_none(&[(Kind::Info, false); 3]) && !has_none(&[(Kind::Info, false); 2]));
        let mut once = [(Kind::Ok, false); 9];
        once[4].1 = true;
        assert!(!has_none(&once) && !has_none(&[]));
        assert!(!has_none(&[(Kind::Invoke, false); 9]), "one that only began is not judged");
    }
}
