use crate::schedule::Schedule;
use anyhow::Result;
use async_trait::async_trait;
use fencepost_campaign::{Played, RunPlace, RunPlayer, play_run};
use fencepost_engine::Stop;
use fencepost_history::shell_path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Plays schedules, several at a time: on real servers, or in tests on a model that is broken in a known way.
#[async_trait]
pub trait Player: Send + Sync {
    /// Plays one to its verdict. An error where it cannot be played, the environment failed, or after Ctrl-C.
    async fn play(&self, schedule: &Schedule) -> Result<Played>;

    /// How long a play takes, from those so far.
    fn usual_time(&self) -> Duration {
        Duration::ZERO
    }
}

pub struct SchedulePlayer {
    pub player: Arc<dyn RunPlayer>,
    pub results: PathBuf,
    pub report: bool,
    /// How the program is called, in commands that repeat a run: `fencepost`.
    pub program: String,
    pub stop: Arc<Stop>,
}

#[async_trait]
impl Player for SchedulePlayer {
    async fn play(&self, schedule: &Schedule) -> Result<Played> {
        let mut spec = schedule.spec()?;
        // The plan is the schedule's own, whatever the options say about drawing one.
        spec.options.nemesis.clear();
        spec.options.nemesis_file = (!schedule.plan.faults.is_empty()).then(|| PLAN.into());
        let command = |folder: &std::path::Path| format!("{} replay {}", self.program, shell_path(folder));
        let place =
            RunPlace { player: &*self.player, results: &self.results, report: self.report, stop: &self.stop };
        play_run(&spec, schedule.script.as_ref(), command, place).await
    }
}

pub(crate) const PLAN: &str = "plan.toml";
