//! Redis servers that exist without the run.

use super::node::COMPARE_AND_DELETE;
use crate::access::Access;
use crate::dialer::Dialer;
use crate::existing::{
    ExistingService, PATIENCE, dialer, explained, lacks_rights, no_answer, no_login, rest,
};
use crate::protocol::Server;
use async_trait::async_trait;
use fencepost_cluster::OwnTask;
use fencepost_history::printable;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, RedisConnectionInfo, RedisError, ServerErrorKind,
};
use std::io;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

const SCANNED: u32 = 1000;

/// How many answers a SCAN has at most: a billion keys have so many.
const ANSWERS_MAX: u32 = 1_000_000;

const FOUND_MAX: usize = 1_000_000;

/// The longest answer, in bytes: a hundred times the longest that is expected here.
const SAID_MAX: usize = 16 << 20;

pub(crate) struct ExistingRedis;

/// Database 0; the password is sent by a command of its own.
static PLAIN: LazyLock<RedisConnectionInfo> = LazyLock::new(RedisConnectionInfo::default);

struct ServerLink {
    talk: MultiplexedConnection,
    _driver: OwnTask,
}

impl ServerLink {
    async fn open(server: &Server, access: &Access) -> Result<ServerLink, String> {
        let dialer = dialer(access)?;
        match timeout(PATIENCE, ServerLink::connect(&dialer, server)).await {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(why)) => Err(explained(&dialer, server, why).await),
            Err(_) => Err(explained(&dialer, server, late()).await),
        }
    }

    async fn connect(dialer: &Dialer, server: &Server) -> Result<ServerLink, String> {
        let stream = dialer.dial(server).await.map_err(|error| match error.kind() {
            std::io::ErrorKind::PermissionDenied => rest(server, &error.to_string()),
            _ => format!("does not answer: {error}"),
        })?;
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let stream = Bounded { stream, room: SAID_MAX };
        let connected = MultiplexedConnection::new_with_config(&PLAIN, stream, config).await;
        let (talk, driver) = connected.map_err(|error| said(&error))?;
        let mut link = ServerLink { talk, _driver: OwnTask::spawn(driver) };
        if let Some(password) = &dialer.access.password {
            let mut login = redis::cmd("AUTH");
            if let Some(user) = &dialer.access.user {
                login.arg(user);
            }
            link.ask::<()>(login.arg(password.reveal())).await?;
        }
        // The first question decides whether it is a Redis that takes this user.
        link.ask::<String>(&redis::cmd("PING")).await?;
        Ok(link)
    }

    async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, String> {
        let late = || RedisError::from((ErrorKind::Io, "no answer", late()));
        let answered = timeout(PATIENCE, command.query_async(&mut self.talk)).await;
        answered.unwrap_or_else(|_| Err(late())).map_err(|error| said(&error))
    }
}

/// A connection to a server that says no more than fits into memory, whatever it is.
struct Bounded<S> {
    stream: S,
    room: usize,
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        let came = into.filled().len() - before;
        match self.room.checked_sub(came) {
            Some(room) => self.room = room,
            None => {
                let sentence = format!("its answer is longer than {} MiB", SAID_MAX >> 20);
                return Poll::Ready(Err(io::Error::other(sentence)));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.room = SAID_MAX;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn late() -> String {
    no_answer("a Redis server")
}

/// What an error means, as the rest of a sentence that begins with the server.
fn said(error: &RedisError) -> String {
    let words = error.to_string();
    // One line, whatever a server of another kind has sent.
    let words = words.lines().next().unwrap_or_default().trim();
    let words = printable(words);
    match (error.kind(), error.code()) {
        _ if words.contains("without any password configured") => {
            "asks for no password, and one was given; leave it out".to_owned()
        }
        (_, Some("NOAUTH")) => {
            "asks for a password; give it in FENCEPOST_SERVERS_PASSWORD or by --password-file".to_owned()
        }
        (ErrorKind::AuthenticationFailed, _) | (_, Some("WRONGPASS")) => no_login(&words),
        (_, Some("NOPERM")) => lacks_rights(&words),
        (ErrorKind::Server(ServerErrorKind::ReadOnly), _) => {
            "is a replica, and takes no writes; name its primary".to_owned()
        }
        (
            ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::CrossSlot | ServerErrorKind::Ask),
            _,
        ) => in_cluster(),
        (ErrorKind::Server(_) | ErrorKind::Extension, _) => format!("refuses to write: {words}"),
        _ => format!(
            "does not speak as a Redis server does ({words}); is it another service, or TLS (rediss://)?"
        ),
    }
}

fn in_cluster() -> String {
    "belongs to a Redis Cluster, in which keys move between servers; no lock here is made for that".to_owned()
}

#[async_trait]
impl ExistingService for ExistingRedis {
    async fn version(&self, server: &Server, access: &Access) -> Result<String, String> {
        let mut link = ServerLink::open(server, access).await?;
        // A user may lack the right to ask.
        let Ok(info) = link.ask::<String>(redis::cmd("INFO").arg("server")).await else {
            return Ok("redis-server of a version that it does not say".to_owned());
        };
        let memory: String = link.ask(redis::cmd("INFO").arg("memory")).await.unwrap_or_default();
        Ok(version(&info)? + &eviction(&memory))
    }

    async fn try_write(&self, server: &Server, access: &Access, key: &str) -> Result<(), String> {
        let mut link = ServerLink::open(server, access).await?;
        let set = redis::cmd("SET").arg(key).arg("1").arg("NX").arg("PX").arg(10_000).to_owned();
        link.ask::<Option<String>>(&set).await?;
        let scanned = link.scan(key).await;
        let delete = redis::cmd("EVAL").arg(COMPARE_AND_DELETE).arg(1).arg(key).arg("1").to_owned();
        let deleted = link.ask::<i64>(&delete).await;
        // Whatever the script did.
        let gone = link.ask::<i64>(redis::cmd("DEL").arg(key)).await;
        scanned.and(deleted).and(gone).map(drop)
    }

    async fn remove(&self, server: &Server, access: &Access, prefix: &str) -> Result<u64, String> {
        let mut link = ServerLink::open(server, access).await?;
        let mut removed = 0;
        for key in link.scan(prefix).await? {
            removed += link.ask::<u64>(redis::cmd("DEL").arg(&key)).await?;
        }
        Ok(removed)
    }

    fn shares_keys(&self) -> bool {
        false
    }
}

impl ServerLink {
    /// The keys with this prefix, which has no character that a pattern gives a meaning to.
    async fn scan(&mut self, prefix: &str) -> Result<Vec<String>, String> {
        let mut scanning = Scanning::default();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(scanning.cursor).arg("MATCH").arg(format!("{prefix}*")).arg("COUNT").arg(SCANNED);
            let (next, keys): (u64, Vec<String>) = self.ask(&scan).await?;
            let keys = keys.into_iter().filter(|key| key.starts_with(prefix));
            if scanning.is_over(next, keys).map_err(|error| said(&error))? {
                return Ok(scanning.found);
            }
        }
    }
}

#[derive(Default)]
struct Scanning {
    cursor: u64,
    answers: u32,
    found: Vec<String>,
}

impl Scanning {
    /// Takes an answer in, and says whether it was the last one.
    fn is_over(&mut self, next: u64, keys: impl Iterator<Item = String>) -> Result<bool, RedisError> {
        self.found.extend(keys);
        self.answers += 1;
        let stands = next == self.cursor && next != 0;
        if stands || self.answers >= ANSWERS_MAX || self.found.len() > FOUND_MAX {
            return Err(RedisError::from((ErrorKind::Parse, "its SCAN comes to no end")));
        }
        self.cursor = next;
        Ok(next == 0)
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'))
}

/// From the section `memory` of INFO: that a server with full memory may remove a lock that is held.
fn eviction(info: &str) -> String {
    match (field(info, "maxmemory"), field(info, "maxmemory_policy")) {
        (Some("0") | None, _) | (_, None | Some("noeviction")) => String::new(),
        (Some(_), Some(policy)) => {
            format!(
                ", whose maxmemory-policy {policy} may remove a lock that is held: a lock needs noeviction"
            )
        }
    }
}

fn version(info: &str) -> Result<String, String> {
    let field = |name: &str| field(info, name);
    match field("redis_mode") {
        Some("cluster") => return Err(in_cluster()),
        Some("sentinel") => return Err("is a Sentinel, and keeps no keys; name its primary".to_owned()),
        _ => {}
    }
    Ok(match (field("valkey_version"), field("redis_version")) {
        (Some(valkey), _) => format!("valkey-server {valkey}"),
        (None, Some(redis)) => format!("redis-server {redis}"),
        (None, None) => "redis-server of a version that it does not say".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_may_remove_a_lock_says_so() {
        let memory = |most: &str, policy: &str| {
            eviction(&format!("# Memory\r\nmaxmemory:{most}\r\nmaxmemory_policy:{policy}\r\n"))
        };
        assert_eq!(
            memory("1048576", "allkeys-lru"),
            ", whose maxmemory-policy allkeys-lru may remove a lock that is held: a lock needs noeviction"
        );
        assert!(!memory("1048576", "volatile-ttl").is_empty(), "a lock has a TTL");
        assert_eq!(
            (memory("1048576", "noeviction"), memory("0", "allkeys-lru")),
            (String::new(), String::new())
        );
        assert_eq!(eviction(""), "");
    }

    #[test]
    fn a_server_says_what_it_is() {
        let redis = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n";
        assert_eq!(version(redis).as_deref(), Ok("redis-server 7.0.15"));
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n";
        assert_eq!(version(valkey).as_deref(), Ok("valkey-server 8.1.1"));
        assert!(version("redis_mode:cluster\r\n").unwrap_err().contains("Redis Cluster"));
        assert!(version("redis_mode:sentinel\r\n").unwrap_err().contains("name its primary"));
    }

    #[test]
    fn an_answer_is_explained() {
        let server = |kind| said(&RedisError::from((ErrorKind::Server(kind), "words")));
        assert!(server(ServerErrorKind::ReadOnly).contains("is a replica"));
        assert!(server(ServerErrorKind::Moved).contains("Redis Cluster"));
        assert!(server(ServerErrorKind::NoPerm).contains("does not let this user"));
        assert!(said(&RedisError::from((ErrorKind::Parse, "words"))).contains("another service"));
    }
    #[test]
    fn a_scan_without_an_end_has_one() {
        let one = |key: &str| std::iter::once(key.to_owned());
        let mut good = Scanning::default();
        assert!(!good.is_over(7, one("a")).unwrap() && !good.is_over(3, std::iter::empty()).unwrap());
        assert!(good.is_over(0, one("b")).unwrap());
        assert_eq!(good.found, ["a", "b"]);
        let mut stands = Scanning::default();
        assert!(!stands.is_over(1, one("a")).unwrap());
        let said = said(&stands.is_over(1, one("a")).unwrap_err());
        assert!(said.contains("its SCAN comes to no end"), "{said}");
        let mut turns = Scanning::default();
        assert!((1..u64::MAX).any(|number| turns.is_over(1 + number % 2, std::iter::empty()).is_err()));
        let mut many = Scanning::default();
        let keys = (0..=FOUND_MAX).map(|number| number.to_string());
        assert!(many.is_over(1, keys).is_err());
    }

    /// What a server says without an end is read up to a limit, which begins anew with each question.
    #[tokio::test]
    async fn an_answer_without_an_end_is_refused() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let endless = tokio::io::join(tokio::io::repeat(b'x'), tokio::io::sink());
        let mut bounded = Bounded { stream: endless, room: SAID_MAX };
        let mut bytes = vec![0; SAID_MAX];
        for _ in 0..3 {
            bounded.write_all(b"INFO").await.unwrap();
            bounded.read_exact(&mut bytes).await.unwrap();
        }
        let refused = bounded.read_exact(&mut bytes).await.unwrap_err().to_string();
        assert_eq!(refused, "its answer is longer than 16 MiB");
    }
}
