//! Telling the user about what takes long.

use std::sync::Arc;

/// Takes one line at a time.
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// Lines on standard error.
pub fn progress_to_stderr() -> Progress {
    Arc::new(|line| eprintln!("{line}"))
}
