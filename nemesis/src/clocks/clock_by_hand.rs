//! The clocks of programs that are no nodes, looked at and moved by hand.

use crate::clocks::clock_tool::patiently;
pub use crate::clocks::clock_tool::with_descendants;
use crate::tools::clock::{self, ClockError, Observed, Skew};
use serde::Serialize;
use std::time::Instant;

#[derive(Clone, Debug, Serialize)]
pub struct ProcessClock {
    pub pid: i32,
    /// The name of its program, as the kernel has it.
    pub program: String,
    /// All of them share the clocks.
    pub threads: usize,
    /// What the patch makes them show; null where there is none.
    pub set: Option<Skew>,
    /// What one of its threads saw.
    pub seen: Observed,
}

pub type ClockChange<'a> = &'a dyn Fn(Skew) -> Skew;

/// After a change, by how much a clock may differ from what was asked for: it was read a little later.
const LATE_NS: u64 = 50_000_000;

/// Reads the clocks of a process. Errors: it cannot be asked, or is gone.
pub fn look(pid: i32) -> Result<ProcessClock, ClockError> {
    let seen = patiently(|| clock::observe(pid))?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    Ok(ProcessClock {
        pid,
        program: name.trim_end().to_owned(),
        threads: tasks,
        set: clock::read_skew(pid)?,
        seen,
    })
}

/// Changes what the clocks of a process show, from what they show now, and reads them. Errors: it cannot be
/// done, the program does not use the clock that can be moved, or the process does not see the change.
pub fn change(pid: i32, change: ClockChange<'_>) -> Result<ProcessClock, ClockError> {
    if clock::read_skew(pid)?.is_none() {
        patiently(|| clock::check(pid))?;
    }
    let wanted = patiently(|| {
        let patched = clock::install(pid)?;
        let wanted = change(patched.skew()?);
        patched.set(wanted).map(|()| wanted)
    })?;
    let begun = Instant::now();
    let now = look(pid)?;
    let shown = now.set.unwrap_or_default();
    let between_ns = begun.elapsed().as_nanos() as f64;
    let differs = |seen: i64, shown: i64, drift_ppm: i64| {
        // A clock that drifts goes on between the two readings.
        let gone_ns = (between_ns * drift_ppm.unsigned_abs() as f64 / 1e6) as u64;
        seen.abs_diff(shown) > LATE_NS + now.seen.error_ns + gone_ns
    };
    if differs(now.seen.wall_ns, shown.wall_ns, wanted.wall_drift_ppm)
        || differs(now.seen.monotonic_ns, shown.monotonic_ns, wanted.monotonic_drift_ppm)
    {
        return Err(ClockError::NotPatchable { pid, why: "it does not see what was set" });
    }
    Ok(now)
}

/// Takes the change out of a process, byte for byte, and reads its clocks. Errors: as [`change`].
pub fn reset(pid: i32) -> Result<ProcessClock, ClockError> {
    if clock::read_skew(pid)?.is_some() {
        patiently(|| clock::install(pid)?.remove())?;
    }
    look(pid)
}
