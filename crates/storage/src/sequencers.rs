//! How a guard asks the lock service about a sequencer.

use async_trait::async_trait;

/// Asks a lock service about sequencers. A lock whose grants have sequencers implements it, for its guard.
#[async_trait]
pub trait Sequencers: Send + Sync {
    /// Whether the holder of this sequencer still holds the lock. Errors: it could not be asked.
    async fn valid(&self, sequencer: &str) -> std::io::Result<bool>;
}
