//! What the user sees while a test runs: one line that moves on a terminal, plain lines elsewhere.

use crate::recorder::Recorder;
use crate::strikes::Strikes;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

/// How often the moving line is drawn.
const FRAME: Duration = Duration::from_millis(200);

/// How often a plain line is printed where there is no terminal.
const PLAIN: Duration = Duration::from_secs(5);

/// Shows the progress of the main phase until it is dropped from its `select`.
pub async fn show(recorder: Arc<Recorder>, strikes: &Strikes, limit: Duration) {
    let terminal = std::io::stderr().is_terminal();
    let bar = ProgressBar::new(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    if terminal {
        bar.set_style(
            ProgressStyle::with_template("{bar:24.cyan/dim} {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("━╸─"),
        );
    }
    let begun = recorder.elapsed();
    let mut rate = Rate { operations: 0, at: begun, per_second: 0.0 };
    loop {
        tokio::time::sleep(if terminal { FRAME } else { PLAIN }).await;
        let elapsed = recorder.elapsed() - begun;
        if elapsed > limit {
            bar.finish_and_clear();
            return std::future::pending().await;
        }
        let line = line(&recorder, strikes, limit - elapsed, &mut rate);
        if terminal {
            bar.set_position(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
            bar.set_message(line);
        } else {
            eprintln!("{line}");
        }
    }
}

/// Operations a second since the last line.
struct Rate {
    operations: u64,
    at: Duration,
    per_second: f64,
}

impl Rate {
    fn next(&mut self, operations: u64, now: Duration) -> f64 {
        let seconds = (now - self.at).as_secs_f64();
        // Shorter slices than this only flicker.
        if seconds >= 1.0 {
            self.per_second = (operations - self.operations) as f64 / seconds;
            (self.operations, self.at) = (operations, now);
        }
        self.per_second
    }
}

fn line(recorder: &Recorder, strikes: &Strikes, left: Duration, rate: &mut Rate) -> String {
    let tally = recorder.tally();
    let per_second = rate.next(tally.operations, recorder.elapsed());
    let faults = strikes.in_force();
    let faults = if faults.is_empty() { "no fault".to_owned() } else { faults.join(" + ") };
    let violations = match tally.violations {
        0 => "no violation".to_owned(),
        1 => "1 VIOLATION".to_owned(),
        many => format!("{many} VIOLATIONS"),
    };
    format!(
        "{:>3.0} s left · {per_second:>5.0} ops/s · {} acquired · {faults} · {violations}",
        left.as_secs_f64(),
        tally.acquisitions
    )
}
