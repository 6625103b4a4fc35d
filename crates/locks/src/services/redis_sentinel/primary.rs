//! A client's way to the primary: asks a Sentinel, connects, lets it confirm its role; again when the
//! connection dies or a request is not answered. Source: the Redis documentation, "Sentinel client spec".

use super::configuration::GROUP;
use crate::protocol::Server;
use crate::services::redis::in_turn::{InTurn, hung_up, server_at};
use crate::services::redis::node::{RedisDialer, RedisNode, ServerConnection};
use redis::aio::MultiplexedConnection;
use std::io::Error;
use std::sync::Arc;

pub(super) fn open(data: &[Server], sentinels: &[Server], dialer: RedisDialer) -> RedisNode {
    let (data, sentinels) = (data.to_vec(), InTurn::new(sentinels, dialer));
    let known = Arc::new((data, sentinels));
    RedisNode::open_by("a primary", move || {
        let known = known.clone();
        async move {
            let (data, sentinels) = &*known;
            let (address, asked) = sentinels
                .ask(async |talk| address_by(talk).await)
                .await?
                .ok_or_else(|| Error::other("no Sentinel says who the primary is"))?;
            // The Sentinel that answered last is asked first.
            sentinels.begin_with(asked);
            let server = server_at(&address, data);
            let (mut talk, driver) = sentinels.dialer.dial(&server).await?;
            let driver = Box::pin(driver);
            // The connection only moves while its driver does.
            let (talk, driver) = confirmed(&mut talk, driver, &address).await.map(|driver| (talk, driver))?;
            Ok((ServerConnection { talk, server: server.name.into() }, driver))
        }
    })
}

/// The address of the primary, in the eyes of the Sentinel at the other end.
async fn address_by(talk: &mut MultiplexedConnection) -> std::io::Result<Option<String>> {
    let mut question = redis::cmd("SENTINEL");
    question.arg("get-master-addr-by-name").arg(GROUP);
    let place: Option<(String, u16)> = question.query_async(talk).await.map_err(Error::other)?;
    Ok(place.map(|(host, port)| format!("{host}:{port}")))
}

/// Lets the server say that it is a primary: the Sentinel, or the server, may not know the latest.
async fn confirmed<Driver: Future<Output = ()> + Unpin>(
    talk: &mut MultiplexedConnection,
    mut driver: Driver,
    address: &str,
) -> std::io::Result<Driver> {
    let question = redis::cmd("ROLE");
    let role: Vec<redis::Value> = tokio::select! {
        answer = question.query_async(talk) => answer.map_err(Error::other)?,
        () = &mut driver => return Err(hung_up()),
    };
    match is_primary(&role) {
        true => Ok(driver),
        false => Err(Error::other(format!("{address} is no primary: {:?}", role.first()))),
    }
}

fn is_primary(role: &[redis::Value]) -> bool {
    matches!(role.first(), Some(redis::Value::BulkString(role)) if role == b"master")
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::{Value, from_redis_value};

    #[test]
    fn a_primary_is_what_says_so_itself() {
        let word = |word: &str| Value::BulkString(word.as_bytes().to_vec());
        assert!(is_primary(&[word("master"), Value::Int(0), Value::Array(Vec::new())]));
        // What a Sentinel still calls the primary, after another was promoted.
        assert!(!is_primary(&[word("slave"), word("198.18.0.3"), Value::Int(6379)]));
        for other in [word("sentinel"), word("MASTER"), Value::Nil, Value::SimpleString("master".to_owned())]
        {
            assert!(!is_primary(&[other]));
        }
        assert!(!is_primary(&[]));
    }

    #[test]
    fn what_a_sentinel_says_of_the_primary() {
        let said = |value: Value| from_redis_value::<Option<(String, u16)>>(value).map_err(|_| ());
        let words = |words: &[&str]| {
            Value::Array(words.iter().map(|word| Value::BulkString(word.as_bytes().to_vec())).collect())
        };
        assert_eq!(said(words(&["198.18.0.3", "6379"])), Ok(Some(("198.18.0.3".to_owned(), 6379))));
        assert_eq!(said(Value::Nil), Ok(None), "it knows no such group");
        assert_eq!((said(words(&["198.18.0.3"])), said(words(&["198.18.0.3", "x"]))), (Err(()), Err(())));
    }
}
