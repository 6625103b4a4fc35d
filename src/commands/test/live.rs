//! What the terminal shows while a test runs.

use super::keep_data::KeepData;
use crate::output::{Terminal, complain, say};
use fencepost_campaign::ProgressLine;
use fencepost_engine::{Progress, RunObserver};
use fencepost_history::run::{RunFile, RunFolder};
use fencepost_nemesis::Plan;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// How often a plain line is printed where there is no terminal.
const PLAIN: Duration = Duration::from_secs(5);

pub struct TestLive {
    line: ProgressLine,
    rate: Mutex<LiveRate>,
    keep_data: KeepData,
}

impl TestLive {
    pub fn new(keep_data: KeepData) -> TestLive {
        TestLive { line: ProgressLine::new(Arc::new(Terminal)), rate: Mutex::default(), keep_data }
    }
}

impl RunObserver for TestLive {
    fn planned(&self, plan: &Plan) {
        if !plan.swarm.is_empty() {
            let enabled: Vec<String> = plan.swarm.iter().map(ToString::to_string).collect();
            say!("swarm     {}", enabled.join("\n          "));
        }
    }

    fn leftover_removed(&self, sentence: &str) {
        complain!("{sentence}");
    }

    fn started(&self, run: &RunFile) {
        say!("{}", fencepost_report::terminal::ground_text(&fencepost_report::heading(run)));
    }

    fn keeps_data(&self, folder: &RunFolder) -> bool {
        match self.keep_data {
            KeepData::Always => true,
            KeepData::Never => false,
            KeepData::Violation => fencepost_report::is_violated(folder),
        }
    }

    fn progress(&self, progress: &Progress) {
        if progress.elapsed > progress.limit {
            return self.line.clear();
        }
        let per_second = self.rate.lock().next(progress.operations, progress.elapsed);
        let message = line(progress, per_second);
        self.line.show_time(progress.elapsed, progress.limit, message, PLAIN);
    }
}

#[derive(Default)]
struct LiveRate {
    operations: u64,
    at: Duration,
    per_second: f64,
}

impl LiveRate {
    fn next(&mut self, operations: u64, now: Duration) -> f64 {
        let seconds = now.saturating_sub(self.at).as_secs_f64();
        // Shorter slices than this only flicker.
        if seconds >= 1.0 {
            self.per_second = (operations - self.operations) as f64 / seconds;
            (self.operations, self.at) = (operations, now);
        }
        self.per_second
    }
}

fn line(progress: &Progress, per_second: f64) -> String {
    let left = progress.limit.saturating_sub(progress.elapsed);
    let faults = match progress.faults.as_slice() {
        [] => "no fault".to_owned(),
        faults => faults.join(" + "),
    };
    let violations = match progress.violations {
        0 => "no violation".to_owned(),
        1 => "1 VIOLATION".to_owned(),
        many => format!("{many} VIOLATIONS"),
    };
    format!(
        "{:>3.0} s left · {per_second:>5.0} ops/s · {} acquired · {faults} · {violations}",
        left.as_secs_f64(),
        progress.acquisitions
    )
}
