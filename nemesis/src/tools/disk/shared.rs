//! What the disk and the threads that serve the kernel share.

use super::volume::Volume;
use parking_lot::Mutex;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What the disk and the threads that serve the kernel share.
pub(super) struct Shared {
    pub(super) volume: Mutex<Volume>,
    pub(super) delays: Delays,
    pub(super) lies: Lies,
    pub(super) errors: Mutex<CallErrors>,
    /// The folder beneath the mount, where the content of files lies.
    pub(super) beneath: File,
}

/// Whether an fsync says yes and keeps nothing, and how many did.
#[derive(Default)]
pub(super) struct Lies {
    pub(super) lying: AtomicBool,
    pub(super) lied: AtomicU64,
}

impl Lies {
    /// Whether this fsync is one of those.
    pub(super) fn lie(&self) -> bool {
        let lies = self.lying.load(Ordering::Relaxed);
        self.lied.fetch_add(u64::from(lies), Ordering::Relaxed);
        lies
    }
}

/// The calls that a failing disk answers with EIO, or does not carry out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failing {
    pub call: DiskCallKind,
    /// Share of these calls, 0 to 1; with `nth`, this one alone.
    #[serde(default)]
    pub share: f64,
    /// The only call that fails, counted from 1; 0 leaves it to `share`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nth: u32,
    /// Only calls on files whose path contains this, and on those that have no name any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The disk says yes to these writes, and leaves what was there before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskCallKind {
    Read,
    Write,
    Fsync,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[derive(Default)]
pub(super) struct CallErrors {
    pub(super) failing: Option<Failing>,
    pub(super) calls: u64,
    pub(super) failed: u64,
}

impl CallErrors {
    /// Whether this call fails; `path` is that of its file, if it has one.
    pub(super) fn fails(&mut self, call: DiskCallKind, path: impl FnOnce() -> Option<String>) -> bool {
        let Some(failing) = self.failing.as_ref().filter(|failing| failing.call == call) else {
            return false;
        };
        let is_of = |part: &String| path().is_none_or(|path| path.contains(part));
        if !failing.path.as_ref().is_none_or(is_of) {
            return false;
        }
        self.calls += 1;
        let fails = match failing.nth {
            0 => rand::rng().random_bool(failing.share),
            nth => self.calls == u64::from(nth),
        };
        self.failed += u64::from(fails);
        fails
    }

    /// Whether a write that fails is lost, and said to be done.
    pub(super) fn loses(&self) -> bool {
        self.failing.as_ref().is_some_and(|failing| failing.lost)
    }
}

#[derive(Default)]
pub(super) struct Delays {
    pub(super) read: Delay,
    pub(super) write: Delay,
    pub(super) sync: Delay,
}

#[derive(Default)]
pub(super) struct Delay {
    pub(super) ms: AtomicU64,
    pub(super) waited: AtomicU64,
}

impl Delay {
    pub(super) fn wait(&self) {
        let ms = self.ms.load(Ordering::Relaxed);
        if ms > 0 {
            self.waited.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(ms));
        }
    }
}
