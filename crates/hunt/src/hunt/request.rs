use crate::search::DrawnOptions;
use fencepost_engine::RunOptions;
use fencepost_history::{Seed, Shard, TimeSpan};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a hunt is asked to do: all that it takes to begin it, or to go on with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HuntRequest {
    pub options: RunOptions,
    pub drawn: DrawnOptions,
    /// They fit the lock and this machine.
    pub nemeses: Vec<String>,
    pub seed: Seed,
    pub jobs: usize,
    /// The part that is done here. None: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// The folder of earlier hunts, with whose schedules this one began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<PathBuf>,
    /// Total time of the hunt, `--resume` included.
    pub budget: TimeSpan,
    /// A folder of earlier findings, to be replayed first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<PathBuf>,
    /// The built-in lock that shows what any lock does on these servers. None: nothing is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// Whether the lock announced that it prolongs what it holds.
    #[serde(default)]
    pub renews: bool,
    pub command: String,
}

impl HuntRequest {
    /// What all parts of a hunt have in common: nothing of the machine, of replays or of the first check.
    pub fn common(&self) -> HuntRequest {
        let command = String::new();
        HuntRequest {
            shard: None,
            corpus: None,
            known: None,
            jobs: 0,
            renews: false,
            command,
            ..self.clone()
        }
    }

    /// The number of the first schedule, and the step from one to the next.
    pub fn numbering(&self) -> (u64, u64) {
        let shard = self.shard.unwrap_or(Shard::WHOLE);
        (shard.number().into(), shard.of().get().into())
    }
}
