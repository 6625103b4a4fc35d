//! Plays the runs of a matrix that are not there yet, several side by side.

use super::matrix::MatrixRun;
use super::part::Part;
use crate::output::say;
use crate::store::Results;
use anyhow::Result;
use fencepost_checker::Outcome;
use fencepost_engine::Stop;
use fencepost_hunt::{Place, Played, play_run};
use futures_util::StreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Plays them, and keeps in `part` what came of each. Gives the numbers of the runs that failed, each with a sentence; they stay
/// to be done. After Ctrl-C no new one begins.
pub async fn perform(
    planned_runs: Vec<MatrixRun>,
    jobs: usize,
    results: &Results,
    part: &Part,
    stop: &Arc<Stop>,
) -> Vec<(u64, String)> {
    if let Some(planned) = planned_runs.first() {
        let runs = planned_runs.iter().map(|planned| &planned.spec);
        fencepost_engine::make_images(&planned.spec.options.driver, runs, stop).await;
    }
    let progress = Progress::new(&planned_runs, jobs);
    let plays = planned_runs.into_iter().map(|planned| {
        let progress = &progress;
        async move {
            if stop.reason().is_some() {
                return None;
            }
            let begun = Instant::now();
            let played = play(&planned, results, stop).await;
            let interrupted = stop.reason().is_some() && played.is_err();
            if interrupted {
                return None;
            }
            // Kept before it is shown: a comparison that is killed afterwards has shown nothing that is lost.
            let folder = played.as_ref().map(|played| &*played.folder).map_err(|error| format!("{error:#}"));
            let noted = part.note(&planned, folder, begun.elapsed());
            progress.ended(&planned, played.as_ref().map(|played| played.verdict.outcome));
            let failed = played.map(drop).and(noted).err();
            failed.map(|error| (planned.run, format!("{error:#}")))
        }
    });
    let failed: Vec<_> = futures_util::stream::iter(plays).buffer_unordered(jobs).collect().await;
    progress.bar.finish_and_clear();
    failed.into_iter().flatten().collect()
}

/// One run, to its verdict.
async fn play(planned: &MatrixRun, results: &Results, all: &Stop) -> Result<Played> {
    planned.check_files()?;
    let command = |_: &Path| crate::commands::repeat::command(&planned.spec.options);
    let place = Place { results, report: true, stop: all };
    let played = play_run(&planned.spec, None, command, place).await?;
    results.send(&played.folder).await;
    // A history may be large, and is in its file.
    Ok(Played { history: Vec::new(), ..played })
}

/// The line that says how far it is: at the bottom of a terminal, and after each run everywhere.
struct Progress {
    bar: ProgressBar,
    begun: Instant,
    /// How long all of it takes, by what was asked for.
    expected: Duration,
    jobs: usize,
}

impl Progress {
    fn new(planned_runs: &[MatrixRun], jobs: usize) -> Progress {
        let bar = if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{bar:24.cyan/dim} {pos}/{len} runs · {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(planned_runs.len() as u64).with_style(style.progress_chars("━╸─"))
        } else {
            ProgressBar::with_draw_target(
                Some(planned_runs.len() as u64),
                indicatif::ProgressDrawTarget::hidden(),
            )
        };
        let expected = planned_runs.iter().map(|planned| planned.spec.expected()).sum::<Duration>();
        let expected = expected / u32::try_from(jobs).unwrap_or(1);
        let progress = Progress { bar, begun: Instant::now(), expected, jobs };
        progress.bar.set_message(progress.left());
        progress.bar.enable_steady_tick(Duration::from_secs(1));
        progress
    }

    /// `about 3 min left`: by what was asked for, and once each job has done some runs by how long they took.
    fn left(&self) -> String {
        let (done, all) = (self.bar.position() as f64, self.bar.length().unwrap_or(0) as f64);
        let whole = if done >= 2.0 * self.jobs as f64 {
            self.begun.elapsed().mul_f64(all / done)
        } else {
            self.expected
        };
        let seconds = whole.saturating_sub(self.begun.elapsed()).as_secs();
        match seconds {
            0..90 => format!("about {seconds} s left"),
            _ => format!("about {} min left", seconds.div_ceil(60)),
        }
    }

    fn ended(&self, planned: &MatrixRun, played: Result<Outcome, &anyhow::Error>) {
        self.bar.inc(1);
        let left = self.left();
        let outcome = match played {
            Ok(outcome) => outcome.to_string(),
            Err(error) => format!("failed: {error:#}"),
        };
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let after = if done < all { format!(" · {left}") } else { String::new() };
        self.bar.suspend(|| say!("{done:>4}/{all}  {}: {outcome}{after}", planned.label));
        self.bar.set_message(left);
    }
}
