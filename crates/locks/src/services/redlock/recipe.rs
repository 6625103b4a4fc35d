//! The client's side of `redlock`: a connection to each server, shared by the processes of one client.

use super::lock::{self, RedlockLock};
use crate::attempts::Attempts;
use crate::capabilities::Capabilities;
use crate::client::pause_points;
use crate::definition::LockDefinition;
use crate::error::{ClientError, OptionError, bad_option};
use crate::options::TokenFrom;
use crate::protocol::Hello;
use crate::recipe::{Recipe, Session};
use crate::service::{LockService, ServerKind};
use crate::services::redis::node::{FIRST_CONNECT, RedisDialer, RedisNode};
use crate::services::redis::service::{INDEPENDENT, SERVER};
use async_trait::async_trait;
use fencepost_history::Seed;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "redlock",
    about: "the Redlock algorithm on a majority of independent Redis servers",
    claims: "exclusion while clocks run at about the same rate, delays and pauses are short against the TTL, and servers that lost data stay away for a TTL; ownership; progress; availability with any minority down; no fencing",
    service: &INDEPENDENT_SERVERS,
    recipe: &Redlock,
    options: &[
        "no-elapsed-check",
        "client-clock",
        "no-retry-jitter",
        "retry-delay",
        "release-where",
        "token",
    ],
    capabilities: |options| Capabilities {
        points: &[pause_points::BEFORE_REPLIES],
        token: options.token != TokenFrom::None,
        unique_value: true,
        validity: true,
        ..Capabilities::NONE
    },
};

static INDEPENDENT_SERVERS: LockService = LockService {
    name: "redis-independent",
    about: "five Redis servers that know nothing of each other",
    kinds: &[ServerKind { count: 5, ..SERVER }],
    check_nodes: |_, nodes| match nodes {
        ..3 => bad_option(
            "nodes",
            format!(
                "redlock on {nodes} servers cannot lose any; use --nodes 3 or more, or --lock redis-single"
            ),
        ),
        _ => Ok(()),
    },
    ..INDEPENDENT
};

struct Redlock;

#[async_trait]
impl Recipe for Redlock {
    fn check_ttl(&self, ttl: Duration) -> Result<(), OptionError> {
        if lock::is_long_enough(ttl) {
            return Ok(());
        }
        bad_option(
            "ttl",
            format!(
                "a TTL of {} ms is eaten up by Redlock's drift allowance and the time to ask; use 10 ms or more",
                ttl.as_millis()
            ),
        )
    }

    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError> {
        if hello.servers.is_empty() {
            return Err(ClientError::BadHello("redlock needs servers, and the hello names none".to_owned()));
        }
        let options = Arc::new(hello.options()?);
        let dialer = RedisDialer::of(hello).await?;
        let nodes: Arc<[_]> =
            hello.servers.iter().map(|server| Arc::new(RedisNode::open(server, &dialer))).collect();
        // Those that are down now may come up, and meanwhile a majority is enough.
        let deadline = Instant::now() + FIRST_CONNECT;
        for node in nodes.iter() {
            node.ready(deadline).await;
            if let Some(sentence) = node.denial() {
                return Err(ClientError::Environment(sentence));
            }
        }
        let (client, seed) = (hello.client.clone(), Seed(hello.seed));
        Ok(Box::new(move |process, notices| {
            let attempts = Attempts::new(&client, process, seed);
            Box::new(RedlockLock::new(nodes.clone(), options.clone(), attempts, notices))
        }))
    }
}
