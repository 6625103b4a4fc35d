//! Notices of a lock: it was lost, it was renewed, its recipe has reached a point.

use crate::client::pause_points::PauseAt;
use crate::protocol::Notice;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Where the lock of one process reports. Clones report to the same place.
#[derive(Clone)]
pub struct Notices {
    process: u64,
    out: mpsc::UnboundedSender<Notice>,
    pauses: Arc<[PauseAt]>,
    reports_loss: bool,
}

impl Notices {
    /// Reports of `process`, to `out`; `pauses` are the points at which the client pauses.
    pub fn new(process: u64, out: mpsc::UnboundedSender<Notice>, pauses: Arc<[PauseAt]>) -> Notices {
        Notices { process, out, pauses, reports_loss: true }
    }

    /// The same without a word of losses, if `unwatched`: a client that does not watch what keeps its lock.
    pub(crate) fn unwatched(self, unwatched: bool) -> Notices {
        Notices { reports_loss: self.reports_loss && !unwatched, ..self }
    }

    /// The process whose lock reports here.
    pub(crate) fn process(&self) -> u64 {
        self.process
    }

    /// The lock is lost, and why.
    pub fn lost(&self, key: &str, reason: impl Into<String>) {
        if !self.reports_loss {
            return;
        }
        self.send(Notice::lost(self.process, key, reason));
    }

    /// The lease was prolonged; `age` is how long ago that was asked for.
    pub fn renewed(&self, key: &str, age: Duration) {
        self.send(Notice::renewed(self.process, key, age));
    }

    /// The recipe is at this point. Returns at once, unless the client is to pause there, after a notice.
    pub async fn reached(&self, key: &str, point: &str) {
        if let Some(pause) = self.pause_at(point) {
            self.send(Notice::at(self.process, key, point));
            tokio::time::sleep(pause).await;
        }
    }

    /// How long the client is to pause at this point, if it is. For a recipe that has to bring a point about.
    pub fn pause_at(&self, point: &str) -> Option<Duration> {
        self.pauses.iter().find(|pause| pause.point == point).map(|pause| pause.time)
    }

    /// A client that ends hears nothing any more.
    fn send(&self, notice: Notice) {
        let _ = self.out.send(notice);
    }
}
