//! `--against`: the reference plays what the lock has played, and the differences are shown.

use crate::commands::context::program;
use crate::output::{complain, say};
use crate::store::Results;
use anyhow::Result;
use fencepost_campaign::{ResultsStore, RunPlace, Servers, play_run};
use fencepost_checker::RunVerdict;
use fencepost_engine::{BadUsage, RUNS_MAX, RunSpec, Stop, StopReason, check_count, named_reference};
use fencepost_history::run::{RunFolder, point_latest};
use fencepost_history::shell_path;
use fencepost_report::against::{Against, ReferencePlay, compare, text, why_not_compared};
use fencepost_report::terminal;
use std::path::Path;

/// The lock that another one is compared with, and its run.
pub struct Reference {
    name: String,
    spec: RunSpec,
    runs: usize,
}

impl Reference {
    /// Errors: unknown, on other servers, or unable to play the run's plan.
    pub fn of(against: Option<&str>, runs: usize, spec: &RunSpec) -> Result<Option<Reference>, BadUsage> {
        check_count("--against-runs", runs, RUNS_MAX)?;
        let Some(against) = against else { return Ok(None) };
        let Some(name) = named_reference(&spec.options.lock, against)? else { return Ok(None) };
        let mut spec = spec.of_reference(&name).map_err(|refused| {
            BadUsage::at(
                "against",
                format!("--against {name}: it cannot play this run: {}", refused.sentence),
            )
        })?;
        // Ended by its first violation, it would not show the others that it has.
        spec.options.fail_fast = false;
        Ok(Some(Reference { name, spec, runs }))
    }

    /// Plays the reference after the lock's own run was judged, and prints what differs. Ctrl-C ends it; the
    /// lock's verdict stays. Errors: the comparison cannot be written beside the lock's run.
    pub async fn compare(&self, own: &OwnRun<'_>, results: &Results, stop: &Stop) -> Result<()> {
        let against = match why_not_compared(own.verdict.outcome).or_else(|| interrupted(stop)) {
            Some(why) => Against::not_made(own.lock, &self.name, why),
            None => {
                let plays = self.play(results, stop).await;
                // The run that was asked for, not the last one of the reference.
                if let Some(name) = own.folder.path.file_name().and_then(|name| name.to_str()) {
                    point_latest(results, name)?;
                }
                match interrupted(stop) {
                    Some(why) => Against::not_made(own.lock, &self.name, why),
                    None => compare(own.lock, &self.name, own.verdict, &plays, own.is_whole),
                }
            }
        };
        say!("{}", text(&against).trim_end());
        Ok(against.write(own.folder)?)
    }

    pub fn not_compared(&self) {
        let failed = Against::not_made("", &self.name, "the lock's own run ended early".to_owned());
        say!("{}", text(&failed).trim_end());
    }

    async fn play(&self, results: &Results, stop: &Stop) -> Vec<ReferencePlay> {
        let row = |name: &str, text: &str| say!("{}", terminal::rows(&[(name, text)]).trim_end());
        row("playing", &format!("{}, under the same faults", self.name));
        let mut plays = Vec::new();
        for number in 1..=self.runs {
            let command = |folder: &Path| format!("{} replay {}", program(), shell_path(folder));
            let place = RunPlace { player: &Servers, results, report: true, stop };
            let played = play_run(&self.spec, None, command, place).await;
            if stop.reason() == Some(&StopReason::Interrupted) {
                break;
            }
            plays.push(match played {
                Ok(played) => {
                    results.send(&played.folder).await;
                    let folder = played.folder.display();
                    row("", &format!("run {number} of {}: {}, {folder}", self.runs, played.verdict.outcome));
                    let name = played.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    ReferencePlay::Judged(name, played.verdict.into())
                }
                Err(error) => {
                    complain!("fencepost: run {number} of {}: failed: {error:#}", self.name);
                    ReferencePlay::Failed(format!("{error:#}"))
                }
            });
        }
        plays
    }
}

/// The run of the lock itself, which was judged.
pub struct OwnRun<'a> {
    pub lock: &'a str,
    pub folder: &'a RunFolder,
    pub verdict: &'a RunVerdict,
    /// Whether it was not ended by its first violation.
    pub is_whole: bool,
}

fn interrupted(stop: &Stop) -> Option<String> {
    (stop.reason() == Some(&StopReason::Interrupted)).then(|| "the test was interrupted".to_owned())
}
