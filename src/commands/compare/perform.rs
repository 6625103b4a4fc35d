//! Plays the runs of a matrix that are not there yet, several side by side.

use super::matrix::Turn;
use crate::output::say;
use anyhow::Result;
use fencepost_checker::Outcome;
use fencepost_engine::{RunOptions, Stop};
use fencepost_hunt::{Place, play_run};
use futures_util::StreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Plays them. Gives the runs that failed, each with a sentence; they stay to be done. After Ctrl-C no new one begins.
pub async fn perform(
    turns: Vec<Turn>,
    jobs: usize,
    results: &Path,
    stop: &Arc<Stop>,
) -> Vec<(RunOptions, String)> {
    if let Some(turn) = turns.first() {
        let runs = turns.iter().map(|turn| &turn.spec);
        fencepost_engine::make_images(&turn.spec.options.driver, runs, stop).await;
    }
    let progress = Progress::new(&turns, jobs);
    let plays = turns.into_iter().map(|turn| {
        let progress = &progress;
        async move {
            if stop.reason().is_some() {
                return None;
            }
            let played = play(&turn, results, stop).await;
            let interrupted = stop.reason().is_some() && played.is_err();
            if !interrupted {
                progress.ended(&turn, &played);
            }
            played.err().filter(|_| !interrupted).map(|error| (turn.spec.options, format!("{error:#}")))
        }
    });
    let failed: Vec<_> = futures_util::stream::iter(plays).buffer_unordered(jobs).collect().await;
    progress.bar.finish_and_clear();
    failed.into_iter().flatten().collect()
}

/// One run, to its verdict.
async fn play(turn: &Turn, results: &Path, all: &Stop) -> Result<Outcome> {
    turn.check_files()?;
    let command = |_: &Path| crate::commands::repeat::command(&turn.spec.options);
    let place = Place { results, report: true, stop: all };
    Ok(play_run(&turn.spec, None, command, place).await?.verdict.outcome)
}

/// The line that says how far it is: at the bottom of a terminal, and after each run everywhere.
struct Progress {
    bar: ProgressBar,
    begun: Instant,
    /// How long all of it takes, by what was asked for.
    expected: Duration,
    jobs: usize,
}

/// What a run takes besides what was asked for: start, end and verdict.
const AROUND: Duration = Duration::from_secs(3);

impl Progress {
    fn new(turns: &[Turn], jobs: usize) -> Progress {
        let bar = if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{bar:24.cyan/dim} {pos}/{len} runs · {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(turns.len() as u64).with_style(style.progress_chars("━╸─"))
        } else {
            ProgressBar::with_draw_target(Some(turns.len() as u64), indicatif::ProgressDrawTarget::hidden())
        };
        let length = |turn: &Turn| turn.spec.options.time_limit.0 + 2 * turn.spec.options.ttl.0 + AROUND;
        let expected = turns.iter().map(length).sum::<Duration>() / u32::try_from(jobs).unwrap_or(1);
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

    fn ended(&self, turn: &Turn, played: &Result<Outcome>) {
        self.bar.inc(1);
        let left = self.left();
        let outcome = match played {
            Ok(outcome) => outcome.to_string(),
            Err(error) => format!("failed: {error:#}"),
        };
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let after = if done < all { format!(" · {left}") } else { String::new() };
        self.bar.suspend(|| say!("{done:>4}/{all}  {}: {outcome}{after}", turn.label));
        self.bar.set_message(left);
    }
}
