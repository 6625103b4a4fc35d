//! What the disk and the threads that serve the kernel share.

use super::volume::Volume;
use parking_lot::Mutex;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the disk and the threads that serve the kernel share.
pub(super) struct Shared {
    pub(super) volume: Mutex<Volume>,
    pub(super) delays: Delays,
    /// The folder beneath the mount, where the content of files lies.
    pub(super) beneath: File,
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
