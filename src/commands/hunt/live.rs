//! What the terminal shows while a hunt goes on.

use crate::output::Terminal;
use fencepost_campaign::ProgressLine;
use fencepost_hunt::hunt::{HuntObserver, Status};
use std::sync::Arc;
use std::time::Duration;

/// How often a plain line is printed where there is no terminal.
const PLAIN: Duration = Duration::from_secs(15);

pub struct Live(ProgressLine);

impl Live {
    pub fn new() -> Live {
        Live(ProgressLine::new(Arc::new(Terminal)))
    }
}

impl HuntObserver for Live {
    fn message(&self, sentence: &str) {
        self.0.say(sentence);
    }

    fn progress(&self, status: &Status) {
        self.0.show_time(status.spent, status.budget, line(status), PLAIN);
    }
}

/// `3:20 left · 210 played, 64 a minute · 31 of 54 situations · 2 findings · nearest miss …`.
fn line(status: &Status) -> String {
    let left = status.budget.saturating_sub(status.spent).as_secs();
    let nearest =
        status.nearest_ms.map(|ms| format!("nearest miss of schedules without a violation {ms:.0} ms"));
    let findings = match status.findings {
        0 => "nothing found against this lock".to_owned(),
        1 => "1 finding".to_owned(),
        many => format!("{many} findings"),
    };
    let found = [findings].into_iter().chain(status.shared.clone()).chain(nearest).collect::<Vec<_>>();
    format!(
        "{}:{:02} left · {} played, {:.0} a minute · {} of {} situations · {}",
        left / 60,
        left % 60,
        status.schedules,
        status.per_minute,
        status.covered,
        status.possible,
        found.join(" · ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_says_rate_coverage_findings_and_nearest_miss() {
        let mut status = Status {
            spent: Duration::from_secs(400),
            budget: Duration::from_secs(600),
            schedules: 210,
            per_minute: 63.7,
            covered: 31,
            possible: 54,
            nearest_ms: Some(84.2),
            findings: 2,
            shared: None,
        };
        let played = "3:20 left · 210 played, 64 a minute · 31 of 54 situations";
        let nearest = "nearest miss of schedules without a violation 84 ms";
        assert_eq!(line(&status), format!("{played} · 2 findings · {nearest}"));
        let shared = "4 violations that redis-single shows too";
        (status.findings, status.shared) = (0, Some(shared.to_owned()));
        assert_eq!(
            line(&status),
            format!("{played} · nothing found against this lock · {shared} · {nearest}")
        );
    }
}
