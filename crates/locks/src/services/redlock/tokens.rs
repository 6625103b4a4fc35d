//! Fencing tokens that people bolt on to Redlock: counters in Redis. Source: Martin Kleppmann, "How to do
//! distributed locking" (2016), "Making the lock safe with fencing".

use crate::options::TokenFrom;
use crate::reply::Reply;
use crate::services::redis::node::RedisNode;
use fencepost_history::{ErrorCode, OperationError};
use std::sync::Arc;
use tokio::time::Instant;

/// A token for a lock that these nodes granted, if wanted. Err: why there is none.
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
    let counter = format!("{key}:token");
    let asked = places.iter().map(|place| async {
        let node = &nodes[*place];
        (&*node.name, node.connection().increment(&counter, deadline).await)
    });
    token(futures_util::future::join_all(asked).await)
}

/// The token by what these nodes counted: the highest number. All must have counted.
fn token(counted: Vec<(&str, Reply<u64>)>) -> Result<Option<u64>, OperationError> {
    let mut highest = None;
    for (node, reply) in counted {
        let failed = |why| ErrorCode::Other.error(format_args!("no-token: {node} did not count; {why}"));
        highest = highest.max(Some(reply.answered().map_err(failed)?));
    }
    Ok(highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_token_if_all_have_counted() {
        let why = || OperationError::from("timeout: n2");
        assert_eq!(token(vec![("n1", Reply::Answer(7))]), Ok(Some(7)));
        assert_eq!(
            token(vec![("n1", Reply::Answer(7)), ("n2", Reply::Answer(9)), ("n3", Reply::Answer(8))]),
            Ok(Some(9))
        );
        for failed in [Reply::Refused(why()), Reply::Unsent(why()), Reply::Unknown(why())] {
            let counted = token(vec![("n1", Reply::Answer(7)), ("n2", failed)]);
            assert_eq!(counted, Err("no-token: n2 did not count; timeout: n2".into()));
        }
    }
}
