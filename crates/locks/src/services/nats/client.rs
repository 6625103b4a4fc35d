//! A client's connection to NATS, and the requests of the recipe.

use super::decisions::{FoundEntry, Stored};
use crate::client::client_clock::whole_millis;
use crate::dialer::{self, Dialer, wrong_password};
use crate::error::ClientError;
use crate::protocol::{Hello, Server};
use crate::reply::Reply;
use async_nats::connection::State;
use async_nats::jetstream::context::{
    AccountError, AccountErrorKind, CreateStreamError, CreateStreamErrorKind, PublishError, PublishErrorKind,
};
use async_nats::jetstream::kv::{Config, Operation, Store};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectErrorKind, ConnectOptions};
use fencepost_history::{ErrorCode, OperationError};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// The beginning of the names of buckets: each TTL has its own (`locks-2000`), since a bucket has one TTL.
pub(super) const BUCKET: &str = "locks";

/// How long the servers may take before a client says hello without them.
const FIRST_CONNECT: Duration = Duration::from_secs(2);
/// A server that misses two pings is given up: the usual minute is longer than any lock waits.
const PING: Duration = Duration::from_millis(500);
const REPLICAS_MAX: usize = 5;

/// What a client writes in the header of the marker that says that an entry is deleted.
const OPERATION: (&str, &str) = ("KV-Operation", "DEL");

pub(super) struct NatsClient {
    client: Client,
    context: Context,
    replicas: usize,
    stores: Mutex<HashMap<Duration, Store>>,
}

impl NatsClient {
    /// Errors: the servers never take the access of this client.
    pub(super) async fn of(hello: &Hello) -> Result<NatsClient, ClientError> {
        let dialer = Dialer::of(hello)?;
        let addresses: Vec<String> =
            hello.servers.iter().map(|server| format!("nats://{}", server.address)).collect();
        let first = timeout(FIRST_CONNECT, options(&dialer).connect(&addresses)).await;
        let refused = first.as_ref().ok().and_then(|first| first.as_ref().err());
        if let Some(sentence) = refused.and_then(|error| denial(&hello.servers, &dialer, error)) {
            return Err(ClientError::Environment(sentence));
        }
        let client = match first {
            Ok(Ok(client)) => client,
            // Servers that are down now may come up: operations say so until they are there.
            Ok(Err(_)) | Err(_) => options(&dialer)
                .retry_on_initial_connect()
                .connect(&addresses)
                .await
                .map_err(|error| ClientError::Environment(error.to_string()))?,
        };
        let context = jetstream::new(client.clone());
        let replicas = hello.servers.len().min(REPLICAS_MAX);
        let client = NatsClient { client, context, replicas, stores: Mutex::default() };
        // The bucket is made while all servers are up: each is to have a replica.
        let ttl = Duration::from_millis(hello.ttl_ms);
        if !ttl.is_zero() {
            let _ = client.store(ttl, Instant::now() + FIRST_CONNECT).await;
        }
        Ok(client)
    }

    /// Stores a value, or none for a release; `expected`: the latest revision (0: none). Gives the new.
    pub(super) async fn write(
        &self,
        key: &str,
        value: Option<&str>,
        expected: Option<u64>,
        ttl: Duration,
        deadline: Instant,
    ) -> Reply<Stored> {
        if let Err(why) = self.store(ttl, deadline).await {
            return Reply::Unsent(why);
        }
        let mut message = PublishMessage::build();
        if let Some(revision) = expected {
            message = message.expected_last_subject_sequence(revision);
        }
        message = match value {
            Some(value) => message.payload(value.to_owned().into()),
            None => message.header(OPERATION.0, OPERATION.1),
        };
        if let Err(why) = self.connected() {
            return Reply::Unsent(why);
        }
        let subject = format!("$KV.{}.{key}", bucket(ttl));
        let stored = async { self.context.send_publish(subject, message).await?.await };
        let answered = timeout_at(deadline, stored).await.ok();
        if is_without_leader(answered.as_ref()) {
            // Servers that forgot the bucket are given it anew.
            self.stores.lock().remove(&ttl);
        }
        reply(answered).map(|stored| stored.map(|ack| ack.sequence))
    }

    /// The latest entry, as some replica knows it.
    pub(super) async fn look(
        &self,
        key: &str,
        ttl: Duration,
        deadline: Instant,
    ) -> Reply<Option<FoundEntry>> {
        let store = match self.store(ttl, deadline).await {
            Ok(store) => store,
            Err(why) => return Reply::Unsent(why),
        };
        match timeout_at(deadline, store.entry(key)).await {
            Ok(Ok(entry)) => Reply::Answer(entry.map(|entry| FoundEntry {
                revision: entry.revision,
                value: match entry.operation {
                    Operation::Put => String::from_utf8_lossy(&entry.value).into_owned(),
                    Operation::Delete | Operation::Purge => String::new(),
                },
            })),
            Ok(Err(error)) => Reply::Refused(refusal(&error).error(&error)),
            Err(_) => Reply::Unknown(late()),
        }
    }

    async fn store(&self, ttl: Duration, deadline: Instant) -> Result<Store, OperationError> {
        if let Some(store) = self.stores.lock().get(&ttl) {
            return Ok(store.clone());
        }
        self.connected()?;
        let config = Config {
            bucket: bucket(ttl),
            history: 1,
            max_age: ttl,
            num_replicas: self.replicas,
            ..Config::default()
        };
        let made = timeout_at(deadline, self.context.create_key_value(config)).await;
        let store = made
            .map_err(|_| late())?
            .map_err(|error| refusal(&error).error(format_args!("no bucket: {error}")))?;
        self.stores.lock().insert(ttl, store.clone());
        Ok(store)
    }

    /// Without a connection the library would keep a write, and send it later: an error.
    fn connected(&self) -> Result<(), OperationError> {
        match self.client.connection_state() {
            State::Connected => Ok(()),
            State::Pending | State::Disconnected => {
                Err(ErrorCode::Unreachable.error("no connection to NATS"))
            }
        }
    }
}

fn options(dialer: &Dialer) -> ConnectOptions {
    let mut options = ConnectOptions::new()
        .ping_interval(PING)
        .connection_timeout(FIRST_CONNECT / 2)
        .reconnect_delay_callback(|_| Duration::from_millis(25))
        // The run gives addresses by which each client reaches each server.
        .ignore_discovered_servers();
    if let Some(tls) = dialer.tls() {
        options = options.tls_client_config(tls).require_tls(true);
    }
    if let Some(password) = &dialer.access.password {
        let user = dialer.access.user.clone().unwrap_or_default();
        options = options.user_and_password(user, password.reveal().to_owned());
    }
    options
}

/// Why servers never take the access of this client, if so. They are all alike: it names the first.
fn denial(servers: &[Server], dialer: &Dialer, error: &async_nats::ConnectError) -> Option<String> {
    let server = servers.first()?;
    if error.kind() == ConnectErrorKind::AuthorizationViolation {
        return Some(wrong_password(server, &dialer.access, &error.to_string()).to_string());
    }
    let source = std::error::Error::source(error)?;
    match dialer::denial(server, source) {
        Some(sentence) => Some(sentence),
        None if error.kind() == ConnectErrorKind::Tls => Some(error.to_string()),
        None => None,
    }
}

fn bucket(ttl: Duration) -> String {
    format!("{BUCKET}-{}", whole_millis(ttl))
}

fn late() -> OperationError {
    ErrorCode::Timeout.error("NATS did not answer in time")
}

/// Whether the server says that no leader of the bucket listens: it has none, or there is no such bucket.
fn is_without_leader<T>(answered: Option<&Result<T, PublishError>>) -> bool {
    matches!(answered, Some(Err(error)) if error.kind() == PublishErrorKind::StreamNotFound)
}

/// The code of an error: the servers cannot serve now where they say so (status 503, as without a leader).
fn refusal(error: &(dyn std::error::Error + 'static)) -> ErrorCode {
    let is_503 = |said: &jetstream::Error| said.code() == 503;
    let by_account = |error: &AccountError| match error.kind() {
        AccountErrorKind::JetStream(said) => is_503(&said),
        kind => kind == AccountErrorKind::JetStreamUnavailable,
    };
    let by_stream = |error: &CreateStreamError| match error.kind() {
        CreateStreamErrorKind::JetStream(said) => is_503(&said),
        kind => kind == CreateStreamErrorKind::JetStreamUnavailable,
    };
    let mut causes = std::iter::successors(Some(error), |cause| cause.source());
    match causes.any(|cause| {
        cause.downcast_ref().is_some_and(is_503)
            || cause.downcast_ref().is_some_and(by_account)
            || cause.downcast_ref().is_some_and(by_stream)
    }) {
        true => ErrorCode::Unavailable,
        false => ErrorCode::Refused,
    }
}

/// What an answer says of its write; none: it did not come in time.
fn reply<T>(answered: Option<Result<T, PublishError>>) -> Reply<Option<T>> {
    match answered {
        Some(Ok(answer)) => Reply::Answer(Some(answer)),
        Some(Err(error)) => match error.kind() {
            PublishErrorKind::WrongLastSequence => Reply::Answer(None),
            // No leader listens to the bucket's subjects: the server that has the connection says so.
            PublishErrorKind::StreamNotFound => {
                Reply::Refused(ErrorCode::Unavailable.error("no leader of the bucket"))
            }
            PublishErrorKind::TimedOut => Reply::Unknown(late()),
            PublishErrorKind::BrokenPipe => {
                Reply::Unknown(ErrorCode::Disconnected.error("the connection to NATS broke"))
            }
            // The leader's own words, or the library's before it sent anything.
            PublishErrorKind::WrongLastMessageId
            | PublishErrorKind::MaxAckPending
            | PublishErrorKind::MaxPayloadExceeded
            | PublishErrorKind::Other => Reply::Refused(refusal(&error).error(&error)),
        },
        None => Reply::Unknown(late()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_nats::jetstream::context::{CreateKeyValueError, CreateKeyValueErrorKind};

    #[test]
    fn what_each_end_of_a_write_says_of_it() {
        use PublishErrorKind::{
            BrokenPipe, MaxAckPending, Other, StreamNotFound, TimedOut, WrongLastSequence,
        };
        let end = |kind| reply::<u64>(Some(Err(PublishError::new(kind))));
        assert_eq!(reply(Some(Ok(7))), Reply::Answer(Some(7)));
        assert_eq!(end(WrongLastSequence), Reply::Answer(None));
        for kind in [StreamNotFound, MaxAckPending, Other] {
            assert!(matches!(end(kind), Reply::Refused(_)), "{kind:?}");
        }
        let code = |reply| match reply {
            Reply::Refused(why) => why.code(),
            reply => panic!("{reply:?}"),
        };
        assert_eq!(
            [code(end(StreamNotFound)), code(end(Other))],
            [ErrorCode::Unavailable, ErrorCode::Refused]
        );
        for reply in [end(TimedOut), end(BrokenPipe), reply(None)] {
            assert!(matches!(reply, Reply::Unknown(_)), "{reply:?}");
        }
    }

    #[test]
    fn a_server_that_cannot_serve_now_says_so() {
        let said = |code: usize| -> jetstream::Error {
            serde_json::from_value(serde_json::json!({"code": code, "err_code": 10008})).unwrap()
        };
        let caused = |code| PublishError::with_source(PublishErrorKind::Other, said(code));
        assert_eq!(refusal(&caused(503)), ErrorCode::Unavailable);
        assert_eq!(refusal(&caused(400)), ErrorCode::Refused);
        let account = |code| AccountError::new(AccountErrorKind::JetStream(said(code)));
        let bucket = |cause| CreateKeyValueError::with_source(CreateKeyValueErrorKind::JetStream, cause);
        assert_eq!(refusal(&bucket(account(503))), ErrorCode::Unavailable);
        assert_eq!(refusal(&bucket(account(400))), ErrorCode::Refused);
        let stream = CreateStreamError::new(CreateStreamErrorKind::JetStreamUnavailable);
        assert_eq!(refusal(&stream), ErrorCode::Unavailable);
    }

    #[test]
    fn a_bucket_is_named_after_its_ttl() {
        assert_eq!(bucket(Duration::from_millis(2500)), format!("{BUCKET}-2500"));
    }
}
