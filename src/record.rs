//! Carries out a run into its folder: the engine's record of it, and `run.toml`.

use anyhow::Result;
use fencepost_engine::{Environment, Parts, Progress, RunObserver, RunOutcome, RunSpec, Script, Stop};
use fencepost_history::run::{COMPRESS_ABOVE_BYTES, RunFile, RunFolder, compress_history};
use fencepost_nemesis::Plan;
use std::sync::Arc;
use std::time::Duration;

/// Carries out a spec that runs alone.
///
/// # Errors
/// Fencepost or the environment failed.
pub async fn record(
    spec: &RunSpec,
    parts: &Parts,
    folder: &RunFolder,
    stop: &Arc<Stop>,
    observer: Arc<dyn RunObserver>,
) -> Result<RunOutcome> {
    let observer = run_file_kept(spec, folder, observer)?;
    let outcome = fencepost_engine::run(spec, parts, &folder.path, stop, None, observer).await?;
    compress(folder).await;
    Ok(outcome)
}

/// Carries out one of several specs, which Ctrl-C (`all`) ends together.
///
/// # Errors
/// Fencepost or the environment failed.
pub async fn record_beside_others(
    spec: &RunSpec,
    parts: &Parts,
    folder: &RunFolder,
    all: &Stop,
    script: Option<&Script>,
    observer: Arc<dyn RunObserver>,
) -> Result<RunOutcome> {
    let observer = run_file_kept(spec, folder, observer)?;
    let outcome =
        fencepost_engine::run_beside_others(spec, parts, &folder.path, all, script, observer).await?;
    compress(folder).await;
    Ok(outcome)
}

/// Writes `run.toml` now, and again once the servers are known.
fn run_file_kept(
    spec: &RunSpec,
    folder: &RunFolder,
    inner: Arc<dyn RunObserver>,
) -> Result<Arc<dyn RunObserver>> {
    let run = crate::repeat::run_file(spec);
    folder.write_run(&run)?;
    Ok(Arc::new(KeepsRunFile { run, folder: folder.clone(), inner }))
}

struct KeepsRunFile {
    run: RunFile,
    folder: RunFolder,
    inner: Arc<dyn RunObserver>,
}

impl RunObserver for KeepsRunFile {
    fn planned(&self, plan: &Plan) {
        self.inner.planned(plan);
    }

    fn leftover_removed(&self, sentence: &str) {
        self.inner.leftover_removed(sentence);
    }

    fn started(&self, environment: &Environment) -> Result<()> {
        let Environment { driver, servers } = environment.clone();
        self.folder.write_run(&RunFile { driver, servers, ..self.run.clone() })?;
        self.inner.started(environment)
    }

    fn progress(&self, progress: &Progress) {
        self.inner.progress(progress);
    }

    fn narrated(&self, time: Duration, sentence: &str) {
        self.inner.narrated(time, sentence);
    }
}

/// Compresses a large history. One that cannot be compressed stays as it is: only space is lost.
async fn compress(folder: &RunFolder) {
    let history = folder.history();
    let compressing = tokio::task::spawn_blocking(move || compress_history(&history, COMPRESS_ABOVE_BYTES));
    if let Ok(Err(error)) = compressing.await {
        tracing::warn!("the history stays uncompressed: {error:#}");
    }
}
