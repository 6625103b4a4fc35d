//! What a run is called on this machine.

use crate::settings::validation::RunSpec;
use std::sync::atomic::{AtomicU64, Ordering};

/// A name that no other run on this machine has, nor another run of this program.
pub(crate) fn run_name(spec: &RunSpec) -> String {
    static RUNS: AtomicU64 = AtomicU64::new(1);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}-{}", std::process::id(), spec.seed)
}
