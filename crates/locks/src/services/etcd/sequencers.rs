//! Sequencers: whether the grant that one stands for still holds. Source: CheckSequencer in Mike Burrows,
//! "The Chubby lock service for loosely-coupled distributed systems" (OSDI 2006), section 2.4. Here a
//! sequencer is `NAME:MODE:GENERATION`, valid as long as a key has the generation as its create revision.

use super::api::RangeRequest;
use super::members::Members;
use async_trait::async_trait;
use fencepost_history::Mode;
use fencepost_storage::Sequencers;
use std::time::Duration;
use tokio::time::Instant;

/// The prefix of the keys that hold this lock in this mode; none for a mode that it does not have.
pub(super) type Holders = fn(name: &str, mode: Mode) -> Option<String>;

const ANSWER: Duration = Duration::from_secs(1);

pub(super) struct SequencerCheck {
    pub(super) holders: Holders,
    pub(super) members: Members,
}

#[async_trait]
impl Sequencers for SequencerCheck {
    async fn valid(&self, sequencer: &str) -> std::io::Result<bool> {
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
        let found = self.members.ask(&only, Instant::now() + ANSWER).await;
        match found {
            Ok(found) => Ok(!found.answer.kvs.is_empty()),
            Err(error) => Err(std::io::Error::other(error.why().to_string())),
        }
    }
}

pub(super) fn sequencer(key: &str, mode: Mode, generation: i64) -> String {
    format!("{key}:{}:{generation}", name(mode))
}

/// Name, mode and generation. A name may have colons in it.
fn parse(sequencer: &str) -> Option<(&str, Mode, i64)> {
    let mut parts = sequencer.rsplitn(3, ':');
    let (generation, mode, key) = (parts.next()?, parts.next()?, parts.next()?);
    let mode = [Mode::Exclusive, Mode::Shared].into_iter().find(|known| name(*known) == mode)?;
    Some((key, mode, generation.parse().ok().filter(|generation| *generation > 0)?))
}

pub(super) fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequencer_is_taken_apart() {
        assert_eq!(parse(&sequencer("a", Mode::Exclusive, 33)), Some(("a", Mode::Exclusive, 33)));
        assert_eq!(sequencer("a:b", Mode::Shared, 7), "a:b:shared:7");
        assert_eq!(parse("a:b:shared:7"), Some(("a:b", Mode::Shared, 7)));
        for other in ["a:exclusive:x", "a:exclusive:0", "a:exclusive:-3", "a:33", "a:mutual:33"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
