//! What a lock tells its user unasked: that it was lost, that it was renewed, that its recipe has reached a point.

use crate::points::Linger;
use crate::protocol::Notice;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Where the lock of one process reports. Clones report to the same place.
#[derive(Clone)]
pub struct Notices {
    process: u64,
    out: mpsc::UnboundedSender<Notice>,
    lingers: Arc<[Linger]>,
}

impl Notices {
    /// Reports of `process`, to `out`; `lingers` are the points at which the client was told to stay.
    pub fn new(process: u64, out: mpsc::UnboundedSender<Notice>, lingers: Arc<[Linger]>) -> Notices {
        Notices { process, out, lingers }
    }

    /// The lock is lost, and why.
    pub fn lost(&self, key: &str, reason: impl Into<String>) {
        self.send(Notice::lost(self.process, key, reason));
    }

    /// The lease was prolonged; `age` is how long ago that was asked for.
    pub fn renewed(&self, key: &str, age: Duration) {
        self.send(Notice::renewed(self.process, key, age));
    }

    /// The recipe has reached this point. Returns at once, unless the client was told to stay there: then it says so,
    /// and stays.
    pub async fn reached(&self, key: &str, point: &str) {
        if let Some(linger) = self.linger_at(point) {
            self.send(Notice::at(self.process, key, point));
            tokio::time::sleep(linger).await;
        }
    }

    /// How long the client was told to stay at this point, if it was. For a recipe that has to bring a point about.
    pub fn linger_at(&self, point: &str) -> Option<Duration> {
        self.lingers.iter().find(|linger| linger.point == point).map(|linger| linger.time)
    }

    /// A client that ends hears nothing any more.
    fn send(&self, notice: Notice) {
        let _ = self.out.send(notice);
    }
}
