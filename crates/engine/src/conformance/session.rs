//! What the check of one rule works with: clients, and processes and keys that no other rule uses.

use super::check_result::{CheckEnd, CheckResult};
use super::test_servers::{CLIENTS, LockTerms, TestServers};
use super::transcript::Transcript;
use crate::run::client_connection::{ClientConnection, ClientEnd, ClientEvents, HelloError};
use fencepost_history::{AcquireArguments, Completion, ErrorCode, Lease, LockKind, TimeSpan, f};
use fencepost_locks::protocol::{Command, Notice};
use parking_lot::Mutex;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::Instant;
use tokio_util::io::{InspectReader, InspectWriter};

/// Process numbers of one rule: the numbers of rule 3 are 3000 to 3999.
const PROCESSES_OF_POINT: u64 = 1000;

/// How long an operation on a lock that is free may take, at least ([`ClientProcess::free_timeout`]).
const FREE: Duration = Duration::from_secs(2);

const LATE: Duration = Duration::from_secs(3);

pub(super) struct CheckSession {
    pub(super) servers: Arc<dyn TestServers>,
    pub(super) transcript: Arc<Transcript>,
    clients: [AsyncMutex<Option<Arc<TestedClient>>>; CLIENTS],
    slowest: Arc<Mutex<Duration>>,
}

pub(super) struct TestedClient {
    pub(super) place: usize,
    pub(super) name: String,
    pub(super) can: Vec<String>,
    pub(super) pid: i32,
    pub(super) took: Duration,
    slowest: Arc<Mutex<Duration>>,
    connection: Mutex<Option<Arc<ClientConnection>>>,
    events: Arc<NoticeEvents>,
}

#[derive(Default)]
struct NoticeEvents {
    notices: watch::Sender<Vec<Notice>>,
    gone: watch::Sender<Option<String>>,
}

pub(super) struct RuleContext<'a> {
    pub(super) session: &'a CheckSession,
    number: u64,
    processes: AtomicU64,
}

pub(super) struct ClientProcess<'a> {
    context: &'a RuleContext<'a>,
    pub(super) client: Arc<TestedClient>,
    pub(super) number: u64,
}

#[derive(Debug)]
pub(super) struct Answered {
    pub(super) completion: Completion,
    pub(super) value: Value,
    pub(super) took: Duration,
    /// Whether no answer came for as long as it was waited for.
    pub(super) is_missing: bool,
}

impl CheckSession {
    pub(super) fn new(servers: Arc<dyn TestServers>) -> CheckSession {
        let (clients, slowest) = Default::default();
        CheckSession { servers, transcript: Transcript::begin(), clients, slowest }
    }

    async fn client(&self, place: usize) -> Result<Arc<TestedClient>, CheckEnd> {
        let mut client = self.clients[place].lock().await;
        match &*client {
            Some(running) if running.gone().is_none() => Ok(running.clone()),
            _ => Ok(client.insert(Arc::new(self.start(place).await?)).clone()),
        }
    }

    async fn start(&self, place: usize) -> Result<TestedClient, CheckEnd> {
        let begun = Instant::now();
        let (hello, streams) = self.servers.start_client(place).await?;
        let keep_lines = |to_client| self.transcript.keep_lines(&hello.client, to_client);
        let stdin = InspectWriter::new(streams.stdin, keep_lines(true));
        let stdout = InspectReader::new(streams.stdout, keep_lines(false));
        let events = Arc::new(NoticeEvents::default());
        let patience = self.servers.terms().start_time;
        let opened = ClientConnection::open(&hello, stdin, stdout, patience, events.clone()).await;
        let connection = match opened {
            Ok(connection) => connection,
            Err(error) => {
                let sentence = self.servers.explained(place, error.to_string()).await;
                return Err(match error {
                    HelloError::NoAnswer { .. } => CheckEnd::NoHello(sentence),
                    _ => CheckEnd::Gone(sentence),
                });
            }
        };
        let took = begun.elapsed();
        note_time(&self.slowest, took);
        Ok(TestedClient {
            place,
            name: hello.client,
            can: connection.hello.can.clone(),
            pid: connection.hello.pid,
            took,
            slowest: self.slowest.clone(),
            connection: Mutex::new(Some(Arc::new(connection))),
            events,
        })
    }
}

impl TestedClient {
    pub(super) fn can(&self, word: &str) -> bool {
        self.can.iter().any(|can| can == word)
    }

    /// Ends a rule that is about what this client does not announce.
    pub(super) fn needs(&self, word: &str) -> Result<(), CheckEnd> {
        if self.can(word) {
            return Ok(());
        }
        let reason = format!("the client's answer to the hello does not announce `{word}`");
        Err(CheckResult::not_applicable(reason).into())
    }

    pub(super) fn gone(&self) -> Option<String> {
        self.events.gone.borrow().clone()
    }

    pub(super) async fn await_gone(&self, patience: Duration) -> Option<String> {
        let mut gone = self.events.gone.subscribe();
        let reason = tokio::time::timeout(patience, gone.wait_for(Option::is_some)).await;
        reason.ok()?.ok()?.clone()
    }

    pub(super) fn end_process(&self, process: u64) {
        if let Some(connection) = &*self.connection.lock() {
            connection.end_process(process);
        }
    }

    pub(super) fn close_input(&self) {
        self.connection.lock().take();
    }

    pub(super) async fn await_notice(&self, event: &str, process: u64, patience: Duration) -> Option<Notice> {
        let mut notices = self.events.notices.subscribe();
        let is_it = |notice: &&Notice| notice.event == event && notice.process == process;
        let came = notices.wait_for(|notices| notices.iter().any(|notice| is_it(&notice)));
        let notices = tokio::time::timeout(patience, came).await.ok()?.ok()?;
        notices.iter().find(is_it).cloned()
    }
}

impl ClientEvents for NoticeEvents {
    fn notice(&self, notice: Notice) {
        self.notices.send_modify(|notices| notices.push(notice));
    }

    fn gone(&self, client: &str, end: ClientEnd) {
        let reason = match end {
            ClientEnd::Closed => format!("client {client} ended"),
            ClientEnd::Broke(sentence) => sentence,
        };
        self.gone.send_replace(Some(reason));
    }
}

impl<'a> RuleContext<'a> {
    pub(super) fn new(session: &'a CheckSession, number: usize) -> RuleContext<'a> {
        RuleContext { session, number: number as u64, processes: AtomicU64::new(0) }
    }

    pub(super) fn terms(&self) -> &LockTerms {
        self.session.servers.terms()
    }

    pub(super) fn has(&self, process: u64) -> bool {
        process / PROCESSES_OF_POINT == self.number
    }

    pub(super) fn key(&self, name: &str) -> String {
        format!("check-{}-{name}", self.number)
    }

    pub(super) async fn client(&self, place: usize) -> Result<Arc<TestedClient>, CheckEnd> {
        self.session.client(place).await
    }

    /// A process of the client in this place, with a number that was not used yet.
    pub(super) async fn process(&self, place: usize) -> Result<ClientProcess<'_>, CheckEnd> {
        let client = self.client(place).await?;
        let number = self.number * PROCESSES_OF_POINT + self.processes.fetch_add(1, Ordering::Relaxed);
        Ok(ClientProcess { context: self, client, number })
    }

    async fn gone(&self, client: &TestedClient) -> CheckEnd {
        let reason = client.await_gone(LATE).await;
        let reason = reason.unwrap_or_else(|| format!("client {} ended", client.name));
        CheckEnd::Gone(self.session.servers.explained(client.place, reason).await)
    }

    /// Ends a rule that is about holds that run out by time, of a lock that has none.
    pub(super) fn needs_ttl(&self) -> Result<(), CheckEnd> {
        match self.terms().lease {
            Lease::Ttl => Ok(()),
            lease => {
                let reason = format!("a hold does not run out by time: lease = \"{lease}\"");
                Err(CheckResult::not_applicable(reason).into())
            }
        }
    }
}

impl ClientProcess<'_> {
    /// Performs an operation; waits this much longer than the client. Of a semaphore: its only permit.
    pub(super) async fn perform(
        &self,
        f: &'static str,
        key: &str,
        timeout: Duration,
        late: Duration,
    ) -> Result<Answered, CheckEnd> {
        self.perform_with(f, key, self.alone(f), (timeout, late, None)).await
    }

    fn alone(&self, f: &str) -> Value {
        match self.context.terms().kind {
            LockKind::Semaphore if f == f::ACQUIRE => {
                AcquireArguments { capacity: Some(1), ..Default::default() }.into()
            }
            _ => Value::Null,
        }
    }

    /// The same, with the value of the operation, and the time after which its caller gives it up.
    async fn perform_with(
        &self,
        f: &'static str,
        key: &str,
        value: Value,
        (timeout, late, cancel_after): (Duration, Duration, Option<Duration>),
    ) -> Result<Answered, CheckEnd> {
        let has_ttl = [f::ACQUIRE, f::PROLONG, f::REENTER].contains(&f);
        let command = Command {
            id: 0,
            process: self.number,
            f: Cow::Borrowed(f),
            key: Cow::Owned(key.to_owned()),
            value,
            ttl_ms: has_ttl.then_some(TimeSpan(self.context.terms().ttl).millis()),
            timeout_ms: Some(TimeSpan(timeout).millis()),
        };
        let (begun, patience) = (Instant::now(), timeout + late);
        let connection = self.client.connection.lock().clone();
        let Some(connection) = connection else { return Err(self.context.gone(&self.client).await) };
        let reply = connection.call(command, patience, cancel_after).await;
        let took = begun.elapsed();
        let is_missing = took >= patience;
        if let Completion::Fail(error) | Completion::Info(error) = &reply.completion
            && error.code() == ErrorCode::ClientGone
        {
            return Err(self.context.gone(&self.client).await);
        }
        if matches!(reply.completion, Completion::Info(_)) && !reply.is_cancelled() {
            connection.end_process(self.number);
        }
        let value = match &reply.completion {
            Completion::Ok(value) => value.clone(),
            _ => reply.value,
        };
        Ok(Answered { completion: reply.completion, value, took, is_missing })
    }

    pub(super) async fn acquire(&self, key: &str, timeout: Duration) -> Result<Answered, CheckEnd> {
        self.perform(f::ACQUIRE, key, timeout, self.lateness()).await
    }

    /// Acquires or releases the lock as others hold it, too (as a reader, or with one of several permits), or
    /// several names at once.
    pub(super) async fn perform_share(
        &self,
        f: &'static str,
        key: &str,
        share: AcquireArguments,
        timeout: Duration,
    ) -> Result<Answered, CheckEnd> {
        self.perform_with(f, key, share.into(), (timeout, self.lateness(), None)).await
    }

    /// Asks for a lock, and gives that call up after a while.
    pub(super) async fn give_up(
        &self,
        key: &str,
        timeout: Duration,
        after: Duration,
    ) -> Result<Answered, CheckEnd> {
        let alone = self.alone(f::ACQUIRE);
        self.perform_with(f::ACQUIRE, key, alone, (timeout, self.lateness(), Some(after))).await
    }

    pub(super) async fn acquire_free(&self, key: &str) -> Result<Answered, CheckEnd> {
        let answered = self.acquire(key, self.free_timeout()).await?;
        if answered.is_ok() {
            note_time(&self.client.slowest, answered.took);
        }
        Ok(answered)
    }

    /// Acquires a lock that is free. Without a grant the rule cannot be checked.
    pub(super) async fn grant(&self, key: &str) -> Result<Answered, CheckEnd> {
        let answered = self.acquire_free(key).await?;
        if answered.is_ok() {
            return Ok(answered);
        }
        let seen = format!("a free lock was not granted: the answer was {answered}");
        Err(CheckResult::unchecked(seen).into())
    }

    pub(super) async fn release(&self, key: &str) -> Result<Answered, CheckEnd> {
        self.ask(f::RELEASE, key).await
    }

    /// An operation that has not to wait for another process.
    pub(super) async fn ask(&self, f: &'static str, key: &str) -> Result<Answered, CheckEnd> {
        self.perform(f, key, self.free_timeout(), self.lateness()).await
    }

    /// How long an operation on a free lock may take. A program that was slow to start, or at its first
    /// grant, can be as slow again: a JVM's first TLS connection on a busy machine takes seconds.
    pub(super) fn free_timeout(&self) -> Duration {
        FREE.max(3 * *self.client.slowest.lock())
    }

    fn lateness(&self) -> Duration {
        LATE.max(3 * *self.client.slowest.lock())
    }
}

impl Answered {
    pub(super) fn is_ok(&self) -> bool {
        matches!(self.completion, Completion::Ok(_))
    }

    pub(super) fn fail_code(&self) -> Option<ErrorCode> {
        match &self.completion {
            Completion::Fail(error) => Some(error.code()),
            _ => None,
        }
    }
}

impl std::fmt::Display for Answered {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.completion {
            _ if self.is_missing => write!(out, "no answer within {}", seconds(self.took)),
            Completion::Ok(_) => write!(out, "`ok`"),
            Completion::Fail(error) => write!(out, "`fail`, `{error}`"),
            Completion::Info(error) => write!(out, "`info`, `{error}`"),
        }
    }
}

fn note_time(slowest: &Mutex<Duration>, took: Duration) {
    let mut slowest = slowest.lock();
    *slowest = took.max(*slowest);
}

/// `1.034 s`.
pub(super) fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}
