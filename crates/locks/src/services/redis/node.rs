//! A client's way to one Redis server: the commands of the recipes, and what became of them.

use crate::client::client_clock::whole_millis;
use crate::dialer::{Dialer, explained, wrong_password};
use crate::error::ClientError;
use crate::protocol::{Hello, Server};
use crate::reply::Reply;
use fencepost_history::ErrorCode;
use fencepost_wire::{Connected, Reconnecting};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, RedisConnectionInfo, RedisError, ServerErrorKind,
};
use std::borrow::Cow;
use std::io::ErrorKind::PermissionDenied;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Deletes the key only while it holds this client's value, in one step. From the Redis documentation,
/// "Distributed locks with Redis", section "Correct implementation with a single instance".
pub(super) const COMPARE_AND_DELETE: &str =
    r#"if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end"#;

/// Prolongs the key only while it holds this client's value, in one step.
const COMPARE_AND_EXPIRE: &str = r#"if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end"#;

/// How long a client waits for its servers before it says hello without them.
pub(crate) const FIRST_CONNECT: Duration = Duration::from_secs(2);

pub(crate) struct RedisNode {
    pub(crate) name: String,
    link: Reconnecting<ServerConnection>,
    compare: ValueComparison,
    prefix: &'static str,
}

pub(crate) enum ValueComparison {
    /// By a script, which every Redis runs.
    Script,
    /// By Valkey's commands, `SET … IFEQ` (8.1) and `DELIFEQ` (9.0); the flag: the latter may be there.
    Commands(AtomicBool),
}

/// A connection that was up when looked for; commands are executed in order. If there was none, none is sent.
pub(crate) struct NodeConnection<'a> {
    node: &'a RedisNode,
    wire: Option<Connected<ServerConnection>>,
}

#[derive(Clone)]
pub(crate) struct ServerConnection {
    pub(crate) talk: MultiplexedConnection,
    pub(crate) server: Arc<str>,
}

impl RedisNode {
    /// Begins to connect to this server, and keeps at it.
    pub(crate) fn open(server: &Server, dialer: &RedisDialer) -> RedisNode {
        let (known, dialer, name) = (server.clone(), dialer.clone(), Arc::<str>::from(&*server.name));
        RedisNode::open_by(&server.name, move || {
            let (known, dialer, server) = (known.clone(), dialer.clone(), name.clone());
            async move {
                let (talk, driver) = dialer.dial(&known).await?;
                Ok((ServerConnection { talk, server }, driver))
            }
        })
    }

    /// [`RedisNode::open`] with the server that `dial` finds; `name` is for messages without one.
    pub(crate) fn open_by<Dial, Dialling, Driver>(name: &str, dial: Dial) -> RedisNode
    where
        Dial: Fn() -> Dialling + Send + 'static,
        Dialling: Future<Output = std::io::Result<(ServerConnection, Driver)>> + Send + 'static,
        Driver: Future<Output = ()> + Send + 'static,
    {
        let link = Reconnecting::open(dial);
        RedisNode { name: name.to_owned(), link, compare: ValueComparison::Script, prefix: "" }
    }

    /// The same with Valkey's commands in the place of scripts.
    pub(crate) fn with_commands(self) -> RedisNode {
        RedisNode { compare: ValueComparison::Commands(AtomicBool::new(true)), ..self }
    }

    /// The same with this before each key.
    pub(crate) fn with_prefix(self, prefix: &'static str) -> RedisNode {
        RedisNode { prefix, ..self }
    }

    fn key<'a>(&self, key: &'a str) -> Cow<'a, str> {
        if self.prefix.is_empty() { Cow::Borrowed(key) } else { Cow::Owned(format!("{}{key}", self.prefix)) }
    }

    /// Waits for the server. Errors: it does not take the access of this client, so it never will be ready.
    pub(crate) async fn ready(&self, deadline: Instant) -> Result<(), ClientError> {
        self.link.wait(deadline).await;
        match self.link.failure() {
            Some(error) if error.kind() == PermissionDenied => {
                Err(ClientError::Environment(error.to_string()))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn connection(&self) -> NodeConnection<'_> {
        NodeConnection { node: self, wire: self.link.current() }
    }
}

impl NodeConnection<'_> {
    pub(crate) fn server(&self) -> &str {
        self.wire.as_ref().map_or(&self.node.name, |wire| &wire.server)
    }

    /// `SET key value NX PX ttl`, or without `PX` where there is no TTL: true if the key was free.
    pub(crate) async fn set_if_free(
        &self,
        key: &str,
        value: &str,
        ttl: Option<Duration>,
        deadline: Instant,
    ) -> Reply<bool> {
        let mut command = redis::cmd("SET");
        command.arg(&*self.node.key(key)).arg(value).arg("NX");
        if let Some(ttl) = ttl {
            command.arg("PX").arg(whole_millis(ttl));
        }
        self.ask(&command, deadline).await
    }

    /// Deletes the key if it holds `value`: true if it did.
    pub(crate) async fn delete_if_mine(&self, key: &str, value: &str, deadline: Instant) -> Reply<bool> {
        if let ValueComparison::Commands(has_delifeq) = &self.node.compare
            && has_delifeq.load(Ordering::Relaxed)
        {
            let reply = self.ask(redis::cmd("DELIFEQ").arg(&*self.node.key(key)).arg(value), deadline).await;
            if !is_unknown_command(&reply) {
                return reply;
            }
            has_delifeq.store(false, Ordering::Relaxed);
        }
        // Not EVALSHA: one round trip, even if a restart cleared the script cache.
        let mut command = redis::cmd("EVAL");
        command.arg(COMPARE_AND_DELETE).arg(1).arg(&*self.node.key(key)).arg(value);
        self.ask(&command, deadline).await
    }

    /// As [`Self::delete_if_mine`], by the digest of the script, which it loads where that is not known yet.
    pub(crate) async fn delete_by_digest(
        &self,
        key: &str,
        value: &str,
        digest: &mut Option<String>,
        deadline: Instant,
    ) -> Reply<bool> {
        if digest.is_none() {
            match self.ask(redis::cmd("SCRIPT").arg("LOAD").arg(COMPARE_AND_DELETE), deadline).await {
                Reply::Answer(loaded) => *digest = Some(loaded),
                not_loaded => return not_loaded.map(|_: String| false),
            }
        }
        let mut command = redis::cmd("EVALSHA");
        command.arg(&*digest).arg(1).arg(&*self.node.key(key)).arg(value);
        self.ask(&command, deadline).await
    }

    /// Prolongs the key if it holds `value`: true if it did.
    pub(crate) async fn renew_if_mine(
        &self,
        key: &str,
        value: &str,
        ttl: Duration,
        deadline: Instant,
    ) -> Reply<bool> {
        let (key, ttl_ms) = (self.node.key(key), whole_millis(ttl));
        if let ValueComparison::Commands(_) = self.node.compare {
            let mut command = redis::cmd("SET");
            command.arg(&*key).arg(value).arg("IFEQ").arg(value).arg("PX").arg(ttl_ms);
            return self.ask(&command, deadline).await;
        }
        let mut command = redis::cmd("EVAL");
        command.arg(COMPARE_AND_EXPIRE).arg(1).arg(&*key).arg(value).arg(ttl_ms);
        self.ask(&command, deadline).await
    }

    /// `PEXPIRE key ttl`: true if there was such a key.
    pub(crate) async fn expire(&self, key: &str, ttl: Duration, deadline: Instant) -> Reply<bool> {
        self.ask(redis::cmd("PEXPIRE").arg(&*self.node.key(key)).arg(whole_millis(ttl)), deadline).await
    }

    pub(crate) async fn get(&self, key: &str, deadline: Instant) -> Reply<Option<String>> {
        self.ask(redis::cmd("GET").arg(&*self.node.key(key)), deadline).await
    }

    /// `DEL key`, whatever it holds: true if there was such a key.
    pub(crate) async fn delete(&self, key: &str, deadline: Instant) -> Reply<bool> {
        self.ask(redis::cmd("DEL").arg(&*self.node.key(key)), deadline).await
    }

    /// Runs a script on keys that begin with `key`: what it answers is 0 or 1.
    pub(crate) async fn run(
        &self,
        script: &str,
        keys: (&str, &[&str]),
        arguments: &[&str],
        deadline: Instant,
    ) -> Reply<bool> {
        let (key, parts) = keys;
        let keys = parts.iter().map(|part| format!("{key}:{part}"));
        self.count(script, keys, arguments, deadline).await.map(|answer| answer > 0)
    }

    /// Runs a script on these keys that answers with a number.
    pub(crate) async fn count(
        &self,
        script: &str,
        keys: impl ExactSizeIterator<Item = String>,
        arguments: &[&str],
        deadline: Instant,
    ) -> Reply<i64> {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(keys.len());
        for key in keys {
            command.arg(&*self.node.key(&key));
        }
        self.ask(command.arg(arguments), deadline).await
    }

    pub(crate) async fn increment(&self, key: &str, deadline: Instant) -> Reply<u64> {
        self.ask(redis::cmd("INCR").arg(&*self.node.key(key)), deadline).await
    }

    /// `WAIT replicas`: how many replicas have acknowledged all that was sent on this connection, once they
    /// are enough or after `patience`. Meanwhile the server executes nothing else of this connection.
    pub(crate) async fn wait(&self, replicas: u32, patience: Duration, deadline: Instant) -> Reply<u32> {
        // 0 would be for ever.
        let patience_ms = whole_millis(patience).max(1);
        self.ask(redis::cmd("WAIT").arg(replicas).arg(patience_ms), deadline).await
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd, deadline: Instant) -> Reply<T> {
        let Some(wire) = self.wire.as_ref().filter(|wire| !wire.is_dead()) else {
            let why = ErrorCode::Unreachable.error(format_args!("no connection to {}", self.node.name));
            return Reply::Unsent(why);
        };
        let ServerConnection { mut talk, server } = (**wire).clone();
        let answered = timeout_at(deadline, command.query_async(&mut talk)).await.ok();
        let moved = answered.as_ref().is_some_and(is_at_another_server);
        let reply = reply(answered, &server);
        if moved || matches!(reply, Reply::Unknown(_)) {
            self.node.link.doubt(wire);
        }
        reply
    }
}

/// Another server of a Redis Cluster has the key, or this one knows of none that has it.
fn is_at_another_server<T>(answered: &Result<T, RedisError>) -> bool {
    use ServerErrorKind::{Ask, ClusterDown, Moved};
    let kind = answered.as_ref().err().map(RedisError::kind);
    matches!(kind, Some(ErrorKind::Server(Moved | Ask | ClusterDown)))
}

/// Whether the server has no such command, as it says in words only.
fn is_unknown_command<T>(reply: &Reply<T>) -> bool {
    matches!(reply, Reply::Refused(why) if why.to_string().contains("unknown command"))
}

/// What an answer says of its command; none: it did not come in time.
fn reply<T>(answered: Option<Result<T, RedisError>>, server: &str) -> Reply<T> {
    match answered {
        Some(Ok(answer)) => Reply::Answer(answer),
        // The server's own words (LOADING, OOM, MISCONF, …): it looked at the command and did not run it.
        Some(Err(error)) if matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension) => {
            Reply::Refused(ErrorCode::Refused.error(format_args!("{server}: {error}")))
        }
        // The connection broke with the command on it, or it sent something that is not Redis: unknown.
        Some(Err(error)) => Reply::Unknown(ErrorCode::Disconnected.error(format_args!("{server}: {error}"))),
        // A write that timed out may have been executed, and may still be.
        None => Reply::Unknown(ErrorCode::Timeout.error(format_args!("{server} did not answer in time"))),
    }
}

/// Opens connections to servers of Redis. Clones share what was read from files.
#[derive(Clone)]
pub(crate) struct RedisDialer {
    pub(crate) dialer: Dialer,
    login: &'static RedisConnectionInfo,
}

impl RedisDialer {
    /// What the crate needs to log in is kept until the program ends, since its connections refer to it.
    pub(crate) async fn of(hello: &Hello) -> Result<RedisDialer, ClientError> {
        let dialer = Dialer::checked(hello).await?;
        // Database 0.
        let mut login = RedisConnectionInfo::default();
        if let Some(user) = &dialer.access.user {
            login = login.set_username(user);
        }
        if let Some(password) = &dialer.access.password {
            login = login.set_password(password.reveal());
        }
        Ok(RedisDialer { dialer, login: Box::leak(Box::new(login)) })
    }

    /// Connects, logs in, and awaits an answer: a stopped server's kernel accepts connections, too.
    pub(crate) async fn dial(
        &self,
        server: &Server,
    ) -> std::io::Result<(MultiplexedConnection, impl Future<Output = ()> + use<>)> {
        let stream = self.dialer.dial(server).await?;
        // Every request has its own deadline.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        match MultiplexedConnection::new_with_config(self.login, stream, config).await {
            Ok(connected) => Ok(connected),
            Err(error) if error.kind() == ErrorKind::AuthenticationFailed => {
                Err(wrong_password(server, &self.dialer.access, &error.to_string()))
            }
            Err(error) => Err(explained(server, std::io::Error::other(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::ServerErrorKind;

    #[test]
    fn what_each_answer_of_a_server_says_of_its_command() {
        let error = |kind| Some(Err::<bool, _>(RedisError::from((kind, "words"))));
        assert_eq!(reply(Some(Ok(true)), "n1"), Reply::Answer(true));
        assert_eq!(reply::<bool>(None, "n1"), Reply::Unknown("timeout: n1 did not answer in time".into()));
        for kind in [
            ServerErrorKind::ResponseError,
            ServerErrorKind::BusyLoading,
            ServerErrorKind::MasterDown,
            ServerErrorKind::NoPerm,
            // What a primary answers that became a replica.
            ServerErrorKind::ReadOnly,
        ] {
            let reply = reply(error(ErrorKind::Server(kind)), "n1");
            assert!(matches!(&reply, Reply::Refused(why) if why.code() == ErrorCode::Refused), "{reply:?}");
        }
        // OOM, MISCONF, NOREPLICAS: the crate does not know them.
        assert!(matches!(reply(error(ErrorKind::Extension), "n1"), Reply::Refused(_)));
        for kind in [ErrorKind::Io, ErrorKind::Parse, ErrorKind::UnexpectedReturnType, ErrorKind::Client] {
            let reply = reply(error(kind), "n1");
            assert!(
                matches!(&reply, Reply::Unknown(why) if why.code() == ErrorCode::Disconnected),
                "{kind:?}: {reply:?}"
            );
        }
    }
}
