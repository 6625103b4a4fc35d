//! Sequencers: whether the grant that one stands for still holds.
//!
//! Source: CheckSequencer in Mike Burrows, "The Chubby lock service for loosely-coupled distributed systems" (OSDI 2006),
//! section 2.4. Here a sequencer is `NAME:MODE:GENERATION`, the generation being the create revision of the holder's
//! key, and it is valid as long as a key with that create revision stands there.

use super::api::RangeRequest;
use super::members::Members;
use async_trait::async_trait;
use fencepost_storage::Sequencers;
use std::time::Duration;
use tokio::time::Instant;

/// How long the lock service has to answer a storage.
const ANSWER: Duration = Duration::from_secs(1);

/// The storage's way to the lock service.
pub(super) struct SequencerCheck {
    /// The prefix of the keys that hold the lock of this name in this mode.
    pub(super) holders: fn(name: &str, mode: &str) -> Option<String>,
    pub(super) members: Members,
}

#[async_trait]
impl Sequencers for SequencerCheck {
    async fn valid(&self, sequencer: &str) -> Result<bool, String> {
        let Some((name, mode, generation)) = parse(sequencer) else { return Ok(false) };
        let Some(prefix) = (self.holders)(name, mode) else { return Ok(false) };
        let only = RangeRequest {
            min_create_revision: generation,
            max_create_revision: generation,
            // Not the count: that counts every key under the prefix, whatever its revision.
            keys_only: true,
            ..RangeRequest::prefix(&prefix)
        };
        // Linearizable, as every read of etcd that does not ask for less: a majority answers for it.
        let found = self
            .members
            .call(Instant::now() + ANSWER, |client| {
                let only = only.clone();
                async move { client.range(only).await }
            })
            .await;
        match found {
            Ok(found) => Ok(!found.answer.kvs.is_empty()),
            Err(error) => Err(error.why().to_string()),
        }
    }
}

/// Name, mode and generation. A name may have colons in it.
fn parse(sequencer: &str) -> Option<(&str, &str, i64)> {
    let mut parts = sequencer.rsplitn(3, ':');
    let (generation, mode, name) = (parts.next()?, parts.next()?, parts.next()?);
    Some((name, mode, generation.parse().ok().filter(|generation| *generation > 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequencer_is_taken_apart() {
        assert_eq!(parse("a:exclusive:33"), Some(("a", "exclusive", 33)));
        assert_eq!(parse("a:b:shared:7"), Some(("a:b", "shared", 7)));
        assert_eq!((parse("a:exclusive:x"), parse("a:exclusive:0"), parse("a:33")), (None, None, None));
    }
}
