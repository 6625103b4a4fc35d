//! Skews the clocks of a running process, by patching its vDSO.
//!
//! Programs ask for the time by calling the vDSO, a small library that the kernel maps into each process.
//! An instruction's bytes at the entry of its functions are replaced by a jump to a stub that asks the kernel
//! and adds a skew. That needs no restart, no preloaded library and no help from the program, and reaches C
//! and Go alike. `docs/clocks.md` says what it does not reach.
//!
//! All functions block, and need the right to trace (CAP_SYS_PTRACE). While one runs, nothing in the *calling
//! program* may wait for the target if that is its own child: the kernel reports a traced child's stops to
//! every waiting thread of the tracer's program, and `std`'s `Child::try_wait` takes a stop for an end.

use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

pub mod faketime;
mod inject;
mod patch;
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod processor;
mod reach;
mod stub;
mod threads;
mod vdso;
pub use patch::{Patched, check, install, observe, observe_by, read_skew};

/// How the two clocks of one process differ from the true ones. The default is no skew.
///
/// Wall: CLOCK_REALTIME, its coarse and alarm forms, TAI, `gettimeofday`, `time`. Monotonic: CLOCK_MONOTONIC,
/// its raw and coarse forms, CLOCK_BOOTTIME. Clocks that count processor time are never touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Skew {
    /// How far ahead the wall clock is at the moment this is set, in nanoseconds.
    pub wall_ns: i64,
    pub monotonic_ns: i64,
    /// What the wall clock gains, in millionths: 0 runs true, 3,000,000 four times as fast.
    pub wall_drift_ppm: i64,
    pub monotonic_drift_ppm: i64,
}

impl Skew {
    /// The drift of a clock that stands still. None may be lower: clocks jump back, but do not run backwards.
    pub const FROZEN_PPM: i64 = -1_000_000;
    /// The fastest drift: a hundred times the true rate.
    pub const DRIFT_PPM_MAX: i64 = 99_000_000;
}

/// How far the clocks that a process sees are ahead of the true ones, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    pub wall_ns: i64,
    pub monotonic_ns: i64,
    /// The most by which either may be wrong: half the time of the reading, and what a drift gained in it.
    pub error_ns: u64,
}

/// Why a clock could not be skewed, restored or observed.
#[derive(Debug, thiserror::Error)]
pub enum ClockError {
    #[error("{0}")]
    Unsupported(&'static str),
    #[error("process {pid} is gone, or has replaced itself by exec")]
    Gone { pid: i32 },
    #[error(
        "not allowed to trace process {pid}: it takes root or CAP_SYS_PTRACE, and a kernel that permits it"
    )]
    NotAllowed { pid: i32 },
    #[error("process {pid} is already traced by process {by}")]
    Traced { pid: i32, by: i32 },
    #[error("the clock of process {pid} cannot be patched: {why}")]
    NotPatchable { pid: i32, why: &'static str },
    #[error("process {pid} does not call the clock which a fault can move: {why}")]
    NotReached { pid: i32, why: &'static str },
    #[error("thread {tid} of process {pid} did not stop within {limit:?}: is its node paused?")]
    Stuck { pid: i32, tid: i32, limit: Duration },
    #[error("threads of process {pid} never left the code to be overwritten")]
    Busy { pid: i32 },
    #[error("a drift of {0} ppm is outside -1,000,000 to 99,000,000")]
    Drift(i64),
    #[error("this skew would put the {0} clock before its zero or beyond the year 2099")]
    Range(&'static str),
    #[error("cannot write to {}: {source}", path.display())]
    Faketime { path: PathBuf, source: std::io::Error },
    #[error("process {pid}: cannot {doing}")]
    Io { pid: i32, doing: &'static str, source: std::io::Error },
}

impl ClockError {
    fn from_io(pid: i32, doing: &'static str, source: std::io::Error) -> ClockError {
        use std::io::ErrorKind::{NotFound, PermissionDenied, UnexpectedEof, WriteZero};
        match source.kind() {
            // What an opened /proc/PID/mem answers once its memory is gone.
            NotFound | UnexpectedEof | WriteZero => ClockError::Gone { pid },
            PermissionDenied => ClockError::NotAllowed { pid },
            _ if source.raw_os_error() == Some(Errno::ESRCH as i32) => ClockError::Gone { pid },
            _ => ClockError::Io { pid, doing, source },
        }
    }
}

fn now_ns(clock: i32) -> i64 {
    let now =
        nix::time::clock_gettime(clock.into()).expect("every Linux has the clocks that are asked for here");
    now.tv_sec() * 1_000_000_000 + now.tv_nsec()
}
