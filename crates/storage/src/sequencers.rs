//! How a guard asks the lock service about a sequencer.

use async_trait::async_trait;

/// Asks a lock service whether sequencers are still valid.
///
/// A lock whose grants come with sequencers implements it; the guard `sequencer` uses it before each write.
#[async_trait]
pub trait Sequencers: Send + Sync {
    /// Whether the holder that got this sequencer still holds the lock.
    ///
    /// # Errors
    /// It could not be asked.
    async fn valid(&self, sequencer: &str) -> std::io::Result<bool>;
}
