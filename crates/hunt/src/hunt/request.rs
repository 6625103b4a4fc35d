//! What a hunt is asked to do.

use crate::search::DrawnOptions;
use fencepost_engine::RunOptions;
use fencepost_history::{Seed, TimeSpan};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a hunt is asked to do: everything that it takes to begin it, or to go on with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HuntRequest {
    /// The options that all schedules share.
    pub options: RunOptions,
    pub drawn: DrawnOptions,
    /// Names of the nemeses, all of which fit the lock and this machine.
    pub nemeses: Vec<String>,
    pub seed: Seed,
    pub jobs: usize,
    /// How long to hunt, all sittings together.
    pub budget: TimeSpan,
    /// A folder of earlier findings, to be replayed first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<PathBuf>,
    /// Repeats the hunt.
    pub command: String,
}
