//! What the locks on PostgreSQL and on MariaDB share: connections, failures of statements, and keepalives.

use crate::dialer::Dialer;
use crate::end::End;
use crate::error::{ClientError, OptionError, refuse};
use crate::notices::Notices;
use crate::options::Options;
use crate::protocol::{Hello, Server};
use crate::recipe::{Lock, Recipe, Session};
use async_trait::async_trait;
use fencepost_history::{ErrorCode, OperationError, Seed};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// How long the server may take before a client says hello without it.
const FIRST_CONNECT: Duration = Duration::from_secs(2);

pub(crate) trait SqlServer: Send + Sync + 'static {
    const NAME: &'static str;
    type Connected: Send;
    type Error: Send;

    fn new(server: Server, dialer: Dialer) -> Self;
    /// Connects. `settings` are for this connection only (`-c lock_timeout=5s`), where the server takes any.
    fn connect(&self, settings: &str) -> impl Future<Output = Result<Self::Connected, Self::Error>> + Send;
    /// The sentence that says why the server never takes the access of this client, where it is that.
    fn denial(&self, error: &Self::Error) -> Option<String>;
    fn words(error: &Self::Error) -> String;
}

pub(crate) async fn connect<S: SqlServer>(
    server: &S,
    settings: &str,
    deadline: Instant,
) -> Result<S::Connected, OperationError> {
    match timeout_at(deadline, server.connect(settings)).await {
        Ok(Ok(connected)) => Ok(connected),
        Ok(Err(error)) => {
            let why = server.denial(&error).unwrap_or_else(|| S::words(&error));
            Err(ErrorCode::Unreachable.error(format_args!("no connection to {}: {why}", S::NAME)))
        }
        Err(_) => {
            Err(ErrorCode::Timeout.error(format_args!("{} did not take the connection in time", S::NAME)))
        }
    }
}

/// What the processes of a client share. Each has its own connection, since locks belong to connections.
pub(crate) struct SqlClient<S> {
    pub(crate) server: Arc<S>,
    pub(crate) options: Options,
    pub(crate) name: String,
    pub(crate) seed: Seed,
}

type NewLock<S> = fn(Arc<SqlClient<S>>, process: u64, Notices) -> Box<dyn Lock>;

pub(crate) struct SqlRecipe<S: 'static> {
    /// The shortest TTL within which the server can notice that a holder is gone.
    pub(crate) ttl_min: Duration,
    pub(crate) lock: NewLock<S>,
}

#[async_trait]
impl<S: SqlServer> Recipe for SqlRecipe<S> {
    fn check_ttl(&self, ttl: Duration) -> Result<(), OptionError> {
        if ttl >= self.ttl_min {
            return Ok(());
        }
        refuse!(
            "ttl",
            "{} cannot notice within {} ms that a holder is gone; use --ttl {}ms or more",
            S::NAME,
            ttl.as_millis(),
            self.ttl_min.as_millis()
        )
    }

    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError> {
        let server = S::new(hello.one_server(S::NAME)?.clone(), Dialer::of(hello)?);
        if hello.access.is_some()
            && let Ok(Err(error)) = timeout(FIRST_CONNECT, server.connect("")).await
            && let Some(sentence) = server.denial(&error)
        {
            return Err(ClientError::Environment(sentence));
        }
        let client = Arc::new(SqlClient {
            server: Arc::new(server),
            options: hello.options()?,
            name: hello.client.clone(),
            seed: Seed(hello.seed),
        });
        let lock = self.lock;
        Ok(Box::new(move |process, notices| lock(client.clone(), process, notices)))
    }
}

#[derive(Debug, PartialEq)]
pub(crate) enum Failed {
    /// The server refused it: it was not carried out.
    Refused { why: OperationError, lock_timeout: bool },
    /// The connection broke, or the answer did not come in time: it may have been carried out.
    Unknown(OperationError),
}

impl Failed {
    pub(crate) fn refused(words: &str) -> Failed {
        Failed::Refused { why: ErrorCode::Refused.error(words), lock_timeout: false }
    }

    pub(crate) fn why(self) -> OperationError {
        match self {
            Failed::Refused { why, .. } | Failed::Unknown(why) => why,
        }
    }
}

/// After a probe, where the grant was answered later than the TTL. The error is how the acquire ends.
pub(crate) fn after_probe(reply: Result<(), Failed>) -> Result<(), End> {
    reply.map_err(|failed| End::unknown(failed.why()))
}

/// How many probes, one a second, let the server find a silent connection dead at about the TTL.
pub(crate) fn keepalive_probes(ttl: Duration) -> u64 {
    (ttl.as_secs_f64().ceil() as u64 - 1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_connection_is_found_when_the_ttl_is_over() {
        // One second of silence, and then a second for each probe.
        for (ttl_ms, probes) in [(2000, 1), (2500, 2), (10_000, 9)] {
            assert_eq!(keepalive_probes(Duration::from_millis(ttl_ms)), probes);
        }
    }

    #[test]
    fn a_probe_that_fails_leaves_the_grant_unknown() {
        let probed = |reply| after_probe(reply).map_err(|end| end.said());
        assert_eq!(probed(Ok(())), Ok(()));
        assert_eq!(probed(Err(Failed::refused("x"))), Err("info refused, dropped".to_owned()));
        let late = Failed::Unknown("timeout: x".into());
        assert_eq!(probed(Err(late)), Err("info timeout, dropped".to_owned()));
    }
}
