use fencepost_report::Rate;
use std::fmt;

/// Checkers whose violations are seen as they happen (`--fail-fast`).
pub(super) const ENDED_EARLY: [&str; 2] = ["exclusion", "fencing"];

/// A candidate that shrinking tried, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What was tried: `2 clients and 2 processes`.
    pub tried: String,
    pub kept: bool,
    pub rate: Rate,
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { tried, kept, rate } = self;
        let outcome = match (kept, rate.violations) {
            (true, _) => "kept, the violation still comes",
            (false, 0) => "given up, the violation does not come",
            (false, _) => "given up, the violation comes too rarely",
        };
        write!(out, "{tried}: {outcome} ({rate} plays)")
    }
}
