//! Fencing tokens that people bolt on to Redlock: counters in Redis.
//!
//! Source: Martin Kleppmann, "How to do distributed locking" (2016), "Making the lock safe with fencing": one counter goes
//! with its node, and counters on several nodes get out of step.

use crate::options::TokenFrom;
use crate::redis::node::{RedisNode, Reply};
use fencepost_history::{ErrorCode, OperationError};
use std::sync::Arc;
use tokio::time::Instant;

/// A token for a lock that these nodes granted; none where none is wanted.
///
/// # Errors
/// Why there is no token, and so no lock. A number that was counted unseen is skipped, which does no harm.
pub(super) async fn fetch(
    nodes: &[Arc<RedisNode>],
    source: TokenFrom,
    key: &str,
    granted: &[usize],
    deadline: Instant,
) -> Result<Option<u64>, OperationError> {
    let places = match source {
        TokenFrom::None => return Ok(None),
        TokenFrom::IncrOne => &[0],
        TokenFrom::IncrEach => granted,
    };
    let counter = format!("fencepost:token:{key}");
    let asked = places.iter().map(|place| count(&nodes[*place], &counter, deadline));
    let mut highest = None;
    for counted in futures_util::future::join_all(asked).await {
        highest = highest.max(Some(counted?));
    }
    Ok(highest)
}

async fn count(node: &RedisNode, counter: &str, deadline: Instant) -> Result<u64, OperationError> {
    let reply = match node.connection() {
        Some(connection) => node.increment(&connection, counter, deadline).await,
        None => node.unreachable(),
    };
    match reply {
        Reply::Answer(count) => Ok(count),
        Reply::Refused(why) | Reply::Unsent(why) | Reply::Unknown(why) => {
            Err(ErrorCode::Other.error(format_args!("no-token: {} did not count; {why}", node.name)))
        }
    }
}
