//! A player that plays so many schedules at a time, in the order in which they are asked for. The hunt and
//! the work on its findings share one, so that findings get their share and neither waits for the other.

use crate::player::Player;
use crate::schedule::Schedule;
use anyhow::Result;
use async_trait::async_trait;
use fencepost_campaign::Played;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

pub struct Limited {
    player: Arc<dyn Player>,
    permits: Semaphore,
    usual_time: Mutex<Duration>,
}

/// What the last play counts for in the usual time.
const OF_LAST: f64 = 0.2;

impl Limited {
    /// At most `jobs` plays at a time.
    pub fn new(player: Arc<dyn Player>, jobs: usize) -> Limited {
        Limited { player, permits: Semaphore::new(jobs.max(1)), usual_time: Mutex::default() }
    }

    fn note_time(&self, took: Duration) {
        let mut usual = self.usual_time.lock();
        *usual = match usual.is_zero() {
            true => took,
            false => usual.mul_f64(1.0 - OF_LAST) + took.mul_f64(OF_LAST),
        };
    }
}

#[async_trait]
impl Player for Limited {
    async fn play(&self, schedule: &Schedule) -> Result<Played> {
        let _permit = self.permits.acquire().await?;
        let begun = Instant::now();
        let played = self.player.play(schedule).await;
        self.note_time(begun.elapsed());
        played
    }

    fn usual_time(&self) -> Duration {
        *self.usual_time.lock()
    }
}
