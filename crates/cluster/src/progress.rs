//! Telling the user about what takes long.

use std::io::Write;
use std::sync::Arc;

/// Takes one line at a time.
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// Lines on standard error.
pub fn progress_to_stderr() -> Progress {
    // The terminal may be gone: the work goes on.
    Arc::new(|line| drop(writeln!(std::io::stderr(), "{line}")))
}
