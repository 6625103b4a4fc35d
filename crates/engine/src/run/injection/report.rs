//! How far a fault is, for those who wait for it while the run goes on.

use fencepost_history::{FaultStage, Kind};
use fencepost_nemesis::{FaultError, Observation, PlannedFault};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultReport {
    pub id: u64,
    pub fault: String,
    /// The nodes that it is on; roles until it is injected.
    pub on: Vec<String>,
    pub state: FaultState,
    /// What it does, in the past tense.
    pub sentence: String,
    pub parameters: Map<String, Value>,
    /// Whether anything was observed to change.
    pub effective: bool,
    /// Per target, in the fault's own terms.
    pub observed: Map<String, Value>,
    /// Why it could not be injected, or not be healed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultState {
    #[default]
    Waiting,
    InForce,
    /// Only in part, or not at all.
    NotInjected,
    Healing,
    Healed,
    NotHealed,
    /// Another fault of its kind stood in its way, or no node played its role.
    LeftOut,
}

impl FaultReport {
    pub(super) fn of(id: u64, planned: &PlannedFault) -> FaultReport {
        FaultReport {
            id,
            fault: planned.fault.clone(),
            on: planned.on.clone(),
            parameters: planned.parameters.clone(),
            ..FaultReport::default()
        }
    }

    /// Whether it is over, and nothing of it is left.
    pub fn is_over(&self) -> bool {
        matches!(self.state, FaultState::Healed | FaultState::LeftOut)
    }

    pub(super) fn describe(&mut self, sentence: String, observation: &Observation) {
        self.sentence = sentence;
        self.effective = observation.effective;
        self.observed.clone_from(&observation.observed);
    }

    /// Takes over how far the fault is, by an event of it.
    pub(super) fn advance(&mut self, stage: FaultStage, kind: Kind, error: Option<&FaultError>) {
        self.state = match (stage, kind) {
            (FaultStage::Inject, Kind::Ok) => FaultState::InForce,
            (FaultStage::Inject, Kind::Info) => FaultState::NotInjected,
            (FaultStage::Inject, _) => FaultState::Waiting,
            (FaultStage::Heal, Kind::Ok) => FaultState::Healed,
            (FaultStage::Heal, Kind::Info) => FaultState::NotHealed,
            (FaultStage::Heal, _) => FaultState::Healing,
        };
        self.error = error.map(ToString::to_string).or(self.error.take());
    }
}
