//! A player that plays so many schedules at a time, in the order in which they are asked for. The hunt and
//! the work on its findings share one, so that findings get their share and neither waits for the other.

use crate::player::Player;
use crate::schedule::Schedule;
use anyhow::Result;
use async_trait::async_trait;
use fencepost_campaign::Played;
use std::sync::Arc;
use tokio::sync::Semaphore;

pub struct Limited {
    player: Arc<dyn Player>,
    permits: Semaphore,
}

impl Limited {
    /// At most `jobs` plays at a time.
    pub fn new(player: Arc<dyn Player>, jobs: usize) -> Limited {
        Limited { player, permits: Semaphore::new(jobs.max(1)) }
    }
}

#[async_trait]
impl Player for Limited {
    async fn play(&self, schedule: &Schedule) -> Result<Played> {
        let _permit = self.permits.acquire().await?;
        self.player.play(schedule).await
    }
}
