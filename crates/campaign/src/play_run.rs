//! Plays a run to its verdict: one of many, beside others.

use crate::run_player::{RunPlayer, RunRequest};
use anyhow::{Result, anyhow};
use fencepost_checker::{Outcome, RunVerdict, check_run};
use fencepost_engine::{DirectedScript, RunSpec, Stop, StopReason, Unobserved};
use fencepost_history::run::RunFolder;
use fencepost_history::{Event, read_history};
use fencepost_report::prepare_threads;
use fencepost_report::runs::keep_failure;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A run that was carried out and judged.
#[derive(Clone, Debug)]
pub struct Played {
    pub folder: PathBuf,
    pub verdict: RunVerdict,
    pub history: Vec<Event>,
}

/// Where a run is carried out, and how much is written about it.
#[derive(Clone, Copy)]
pub struct RunPlace<'a> {
    pub player: &'a dyn RunPlayer,
    pub results: &'a Path,
    /// Whether page, pictures and verdict are written; `fencepost analyze` can do it later.
    pub report: bool,
    pub stop: &'a Stop,
}

/// Plays and judges one of several runs; `command` repeats it, given its folder. An interrupted run counts
/// only if it shows a violation. Errors: the environment failed, a fault was not healed, or Ctrl-C.
pub async fn play_run(
    spec: &RunSpec,
    script: Option<&DirectedScript>,
    command: impl FnOnce(&Path) -> String,
    place: RunPlace<'_>,
) -> Result<Played> {
    let folder = RunFolder::create(place.results, &spec.options.settings())?;
    let command = command(&folder.path);
    let observer = Arc::new(Unobserved);
    let run = RunRequest { spec, script, command: &command, folder: &folder, stop: place.stop, observer };
    let recorded = place.player.record(run).await;
    let interrupted = place.stop.reason() == Some(&StopReason::Interrupted);
    let failed = match recorded {
        Ok(outcome) => {
            let errors = outcome.cleanup_errors;
            (!errors.is_empty()).then(|| anyhow!(errors.join("; ")))
        }
        Err(error) => Some(error),
    };
    let report = place.report;
    // Judging takes a moment of a core, and the clocks of other runs must not stand still meanwhile.
    tokio::task::spawn_blocking(move || match failed {
        Some(error) if interrupted || !shows_a_violation(&folder) => {
            keep_failure(&folder.path, &format!("{error:#}"));
            Err(error)
        }
        _ => judged(folder, report),
    })
    .await?
}

fn judged(folder: RunFolder, report: bool) -> Result<Played> {
    let (verdict, history) = match report {
        true => {
            let judged = fencepost_report::judge(&folder)?;
            match judged.unwritten {
                Some(error) if judged.verdict.outcome != Outcome::Violation => return Err(error),
                _ => (judged.verdict, judged.history),
            }
        }
        false => {
            prepare_threads();
            let history = read_history(&folder.history())?;
            (check_run(&history), history)
        }
    };
    Ok(Played { folder: folder.path, verdict, history })
}

fn shows_a_violation(folder: &RunFolder) -> bool {
    prepare_threads();
    read_history(&folder.history()).is_ok_and(|events| check_run(&events).outcome == Outcome::Violation)
}

impl Played {
    /// Removes its folder. One that cannot be removed stays, and is named in a warning.
    pub fn discard(self) {
        if self.folder.as_os_str().is_empty() {
            return;
        }
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            log::warn!("cannot remove the run {}: {error}", self.folder.display());
        }
    }
}
