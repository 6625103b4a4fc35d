//! What the engine reports while a run goes on.

use fencepost_history::run::{RunFile, RunFolder};
use fencepost_nemesis::Plan;
use std::time::Duration;

/// Is called as a run goes on. What is not implemented does nothing.
pub trait RunObserver: Send + Sync {
    /// The driver is chosen, and the plan is drawn for it.
    fn planned(&self, _plan: &Plan) {}
    /// Something that a run which crashed had left on this machine was removed: one sentence.
    fn leftover_removed(&self, _sentence: &str) {}
    /// The servers run, and their versions are known; the first operation follows.
    fn started(&self, _run: &RunFile) {}
    /// The history is complete, and the servers still stand: whether their data are to be kept in the folder.
    fn keeps_data(&self, _folder: &RunFolder) -> bool {
        false
    }
    /// Called every 200 ms while faults are injected.
    fn progress(&self, _progress: &Progress) {}
    /// An event came that a directed run's script has a sentence for; `time` is since the run began.
    fn narrated(&self, _time: Duration, _sentence: &str) {}
}

/// Observes nothing.
pub struct Unobserved;

impl RunObserver for Unobserved {}

#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Time since the faults began, and the time at which they end.
    pub elapsed: Duration,
    pub limit: Duration,
    /// Completed operations, and successful acquires among them.
    pub operations: u64,
    pub acquisitions: u64,
    pub violations: u64,
    /// `clock-jump n2,n3`.
    pub faults: Vec<String>,
}
