//! What the terminal shows while a hunt goes on: one line that moves on a terminal, plain lines elsewhere.

use crate::output::{complain, say};
use fencepost_hunt::hunt::{HuntObserver, Status};
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How often a plain line is printed where there is no terminal.
const PLAIN: Duration = Duration::from_secs(15);

/// Shows a hunt on the terminal.
pub struct Live {
    bar: ProgressBar,
    terminal: bool,
    printed: Mutex<Instant>,
}

impl Live {
    pub fn new() -> Live {
        let terminal = std::io::stderr().is_terminal();
        let bar = if terminal { ProgressBar::new(0) } else { ProgressBar::hidden() };
        bar.set_style(
            ProgressStyle::with_template("{bar:24.cyan/dim} {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("━╸─"),
        );
        Live { bar, terminal, printed: Mutex::new(Instant::now()) }
    }
}

impl HuntObserver for Live {
    fn message(&self, sentence: &str) {
        self.bar.suspend(|| say!("{sentence}"));
    }

    fn progress(&self, status: &Status) {
        if self.terminal {
            self.bar.set_length(status.budget.as_secs());
            self.bar.set_position(status.spent.as_secs());
            self.bar.set_message(line(status));
            return;
        }
        let mut printed = self.printed.lock();
        if printed.elapsed() >= PLAIN {
            *printed = Instant::now();
            complain!("{}", line(status));
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// `3:20 left · 210 played, 64 a minute · 31 of 54 situations · nearest miss 84 ms · 2 findings`.
fn line(status: &Status) -> String {
    let left = status.budget.saturating_sub(status.spent).as_secs();
    let nearest = status.nearest_ms.map_or(String::new(), |ms| format!(" · nearest miss {ms:.0} ms"));
    let findings = match status.findings {
        0 => "no finding".to_owned(),
        1 => "1 finding".to_owned(),
        many => format!("{many} findings"),
    };
    format!(
        "{}:{:02} left · {} played, {:.0} a minute · {} of {} situations{nearest} · {findings}",
        left / 60,
        left % 60,
        status.schedules,
        status.per_minute,
        status.covered,
        status.possible
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_says_rate_coverage_nearest_miss_and_findings() {
        let status = Status {
            spent: Duration::from_secs(400),
            budget: Duration::from_secs(600),
            schedules: 210,
            per_minute: 63.7,
            covered: 31,
            possible: 54,
            nearest_ms: Some(84.2),
            findings: 2,
        };
        assert_eq!(
            line(&status),
            "3:20 left · 210 played, 64 a minute · 31 of 54 situations · nearest miss 84 ms · 2 findings"
        );
    }
}
