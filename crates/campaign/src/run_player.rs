//! Whatever can carry out a run: real servers, and in tests a history that was written beforehand.

use anyhow::Result;
use async_trait::async_trait;
use fencepost_engine::{
    DirectedScript, RunObserver, RunOutcome, RunSpec, Stop, make_images, run_beside_others,
};
use fencepost_history::run::RunFolder;
use std::sync::Arc;

/// A run to be carried out.
pub struct RunRequest<'a> {
    pub spec: &'a RunSpec,
    pub script: Option<&'a DirectedScript>,
    /// Repeats the run.
    pub command: &'a str,
    pub folder: &'a RunFolder,
    pub stop: &'a Stop,
    pub observer: Arc<dyn RunObserver>,
}

/// Carries out runs, several at a time.
#[async_trait]
pub trait RunPlayer: Send + Sync {
    /// Makes all that the first of these runs would have to make, which would disturb the others.
    async fn prepare(&self, runs: &[&RunSpec], stop: &Stop);

    /// Carries out a run into its folder. Errors: the environment failed, or Ctrl-C.
    async fn record(&self, run: RunRequest<'_>) -> Result<RunOutcome>;
}

/// Real servers, under the driver that a run names.
pub struct Servers;

#[async_trait]
impl RunPlayer for Servers {
    async fn prepare(&self, runs: &[&RunSpec], stop: &Stop) {
        if let Some(first) = runs.first() {
            make_images(&first.options.driver, runs.iter().copied(), stop).await;
        }
    }

    async fn record(&self, run: RunRequest<'_>) -> Result<RunOutcome> {
        let RunRequest { spec, script, command, folder, stop, observer } = run;
        run_beside_others(spec, command, folder, stop, script, observer).await
    }
}
