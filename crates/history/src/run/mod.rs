//! The folder of a run: all that is needed to judge and draw it again on another machine. Reports,
//! comparisons and the server of runs read it without the engine: `run.toml` has typed fields for the
//! settings that a report shows, and keeps all others as a table.

mod clock_samples;
mod file;
mod folder;
mod regular;
pub(crate) mod run_nodes;
pub(crate) mod run_phase;
mod time;
mod write;

pub use clock_samples::{ClockSample, read_clock_samples};
pub use file::{RunFile, RunHead, RunSettings, SettingsHead};
pub use folder::{RunFolder, is_running, point_latest};
pub use regular::{
    append_regular, open_folder, open_regular, read_bounded, read_end, read_regular, read_settings,
};
pub use time::{date, now, timestamp};
pub use write::{
    COMPRESS_ABOVE_BYTES, compress_history, fail_writes_beyond_limits, write_inside, write_inside_by,
    write_whole, write_whole_by,
};

use std::path::PathBuf;

/// A failure at the folder of a run. Each message names the path; the cause is the error's source.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    /// The path that the user named is not the folder of a run.
    #[error("{0}")]
    NotARun(String),
    #[error("{path}: {reason}")]
    Malformed { path: PathBuf, reason: String },
}
