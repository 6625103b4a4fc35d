//! What came of a scenario that was played.

use fencepost_engine::scenario::ExpectationAnswer;
use fencepost_history::Seed;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

fencepost_history::worded! {
    /// How a scenario ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Ending {
        Agrees = "agrees",
        /// Reality is known to differ from the source, and did; the evidence is in the answers.
        DiffersFromTheSource = "differs from the source",
        Disagrees = "does not agree",
        /// The scenario did not come to pass: an event was missing, a fault had no effect, or a script did
        /// not end.
        DidNotHappen = "did not happen",
        /// Against another lock: no checker found a violation.
        Holds = "the lock holds",
        /// Against another lock: a checker found a violation.
        Broken = "the lock is broken",
        /// It belongs to a part that was not merged, or did not finish.
        Missing = "missing",
    }
    /// In a word or a few.
    pub fn text;
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    pub folder: PathBuf,
    /// The sentences whose event came, with seconds since the run began.
    pub narration: Vec<(f64, String)>,
    pub answers: Vec<ExpectationAnswer>,
    /// Why the run did not come about as directed; empty where it did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Whether every fault was observed to take effect.
    pub effective: bool,
    pub servers: Vec<String>,
}

/// The outcome of a scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    pub name: String,
    pub source: String,
    pub about: String,
    pub expected: String,
    /// Whether a page about it shows the timeline of its violation.
    #[serde(skip)]
    pub picture: bool,
    pub ending: Ending,
    /// Why reality differs from the source, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs: Option<String>,
    pub runs: Vec<RunReport>,
    pub driver: String,
    pub seed: Seed,
    pub seconds: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl Report {
    /// Whether the scenario need not be played again.
    pub fn is_done(&self) -> bool {
        self.failed.is_none() && self.ending != Ending::Missing
    }
}
