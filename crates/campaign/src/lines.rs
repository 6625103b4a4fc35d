//! Where the lines of a command go, and the one at the bottom of a terminal that says how far it is.

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

pub trait LinePrinter: Send + Sync {
    fn say(&self, line: &str);
    fn complain(&self, line: &str);
}

/// One line that moves on a terminal, and plain lines elsewhere.
pub struct ProgressLine {
    lines: Arc<dyn LinePrinter>,
    bar: ProgressBar,
    is_terminal: bool,
    printed: Mutex<Option<Duration>>,
}

impl ProgressLine {
    /// On standard error, where that is a terminal.
    pub fn new(lines: Arc<dyn LinePrinter>) -> ProgressLine {
        let is_terminal = std::io::stderr().is_terminal();
        let bar = if is_terminal { ProgressBar::new(0) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:24.cyan/dim} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("━╸─"));
        ProgressLine { lines, bar, is_terminal, printed: Mutex::default() }
    }

    /// One that is never shown: only what is said meanwhile is.
    pub fn hidden(lines: Arc<dyn LinePrinter>) -> ProgressLine {
        ProgressLine { lines, bar: ProgressBar::hidden(), is_terminal: false, printed: Mutex::default() }
    }

    /// Prints a line above it.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| self.lines.say(line));
    }

    pub fn show(&self, position: u64, length: u64, message: String) {
        if self.is_terminal {
            self.bar.set_length(length);
            self.bar.set_position(position);
            self.bar.set_message(message);
        }
    }

    /// Moves it to this time of a whole. Without a terminal, prints a plain line at each such interval.
    pub fn show_time(&self, spent: Duration, whole: Duration, message: String, plain_every: Duration) {
        let as_ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        if self.is_terminal {
            return self.show(as_ms(spent), as_ms(whole), message);
        }
        let mut printed = self.printed.lock();
        if spent >= *printed.get_or_insert(spent) + plain_every {
            *printed = Some(spent);
            self.lines.complain(&message);
        }
    }

    /// Removes it.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Printed;

    #[test]
    fn without_a_terminal_a_plain_line_is_printed_every_so_often() {
        let printed = Arc::new(Printed::default());
        let line = ProgressLine::hidden(printed.clone());
        for seconds in [100, 104, 105, 109, 117] {
            let message = format!("{seconds} s");
            line.show_time(
                Duration::from_secs(seconds),
                Duration::from_secs(120),
                message,
                Duration::from_secs(5),
            );
        }
        line.say("a run ended");
        assert_eq!(printed.complained(), ["105 s", "117 s"]);
        assert_eq!(printed.said(), ["a run ended"]);
    }
}
