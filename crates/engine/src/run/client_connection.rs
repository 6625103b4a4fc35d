//! The controller's end of a client program: sends commands, matches answers to them, passes notices on.

use fencepost_history::{Completion, ErrorCode, KEY_BYTES_MAX, f, printable};
use fencepost_locks::protocol::{
    Answer, Command, FromClient, Hello, HelloAnswer, Notice, ProcessEvent, VERSION,
};
use fencepost_wire::{LineError, LineReader, LineWriter, NoAnswer, Received, RequestClient};
use parking_lot::Mutex;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// The longest line that a client may print, in bytes.
const LINE_MAX: usize = 64 << 20;

/// Notices that a client may send a second. A library sends a few; many more would fill the history.
const NOTICES_MAX: u32 = 5000;

/// Why there is no connection to a client.
#[derive(Debug, thiserror::Error)]
pub enum HelloError {
    #[error("client {client} did not answer the hello within {} s", patience.as_secs_f64())]
    NoAnswer { client: String, patience: Duration },
    #[error("client {client} ended before it answered the hello")]
    Ended { client: String },
    #[error("client {client} speaks version {version} of the client protocol, and this is version {VERSION}")]
    Version { client: String, version: u32 },
    #[error("{}", reading_failed(client, source))]
    Unreadable { client: String, source: LineError },
}

/// A client program that answered the hello.
pub struct ClientConnection {
    name: String,
    operations: AtomicU64,
    unanswered: AtomicU64,
    processes: Arc<Mutex<HashSet<u64>>>,
    open: OpenOperations,
    /// What the client said it can do, and its process number inside its node.
    pub hello: HelloAnswer,
    requests: RequestClient<Answer>,
    key_prefix: String,
}

/// Receives what a client sends unrequested: notices, and the reason when it has ended.
pub trait ClientEvents: Send + Sync + 'static {
    fn notice(&self, notice: Notice);
    fn gone(&self, client: &str, end: ClientEnd);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEnd {
    /// Its standard output was closed. Whether the client itself has ended is to be found out.
    Closed,
    /// One sentence: it broke the client protocol.
    Broke(String),
}

/// How a call ended: the completion, and what a fail or an info still had to say in its value.
pub struct CallReply {
    pub completion: Completion,
    pub value: Value,
}

impl ClientConnection {
    /// Says hello and waits for the answer. Errors: the client ended, or answered wrongly or not in time.
    pub async fn open(
        hello: &Hello,
        stdin: impl AsyncWrite + Send + Unpin + 'static,
        stdout: impl AsyncRead + Send + Unpin + 'static,
        patience: Duration,
        events: Arc<dyn ClientEvents>,
    ) -> Result<ClientConnection, HelloError> {
        let name = hello.client.clone();
        let (output, _) = LineWriter::start(stdin);
        output.send(hello);
        let mut input = LineReader::new(stdout, LINE_MAX);
        let back = hello_answer(&name, &mut input, patience).await?;
        let processes: Arc<Mutex<HashSet<u64>>> = Arc::default();
        let offence: Arc<Mutex<Option<String>>> = Arc::default();
        let open: OpenOperations = Arc::default();
        let mut incoming = Incoming {
            open: open.clone(),
            events: events.clone(),
            processes: processes.clone(),
            offence: offence.clone(),
            rate: NoticeRate::default(),
        };
        let receive = move |line: &str| match serde_json::from_str(line) {
            Ok(FromClient::Answer(answer)) => incoming.answer(answer),
            Ok(FromClient::Notice(notice)) => incoming.notice(notice),
            Err(_) => Received::Garbage,
        };
        let (requests, reading) = RequestClient::open(input, output, receive);
        let client = name.clone();
        tokio::spawn(async move {
            let end = reading.await;
            events.gone(&client, client_end(&client, end, &offence));
        });
        Ok(ClientConnection {
            name,
            hello: back,
            requests,
            operations: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
            processes,
            open,
            key_prefix: String::new(),
        })
    }

    /// The same, with this before the name of each key that is sent.
    #[must_use]
    pub fn with_key_prefix(self, key_prefix: &str) -> ClientConnection {
        ClientConnection { key_prefix: key_prefix.to_owned(), ..self }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the client has ended.
    pub fn is_gone(&self) -> bool {
        self.requests.is_closed()
    }

    /// The operations without an answer, in words, if no other was answered since.
    pub fn unanswered(&self) -> Option<String> {
        let [operations, unanswered] =
            [&self.operations, &self.unanswered].map(|count| count.load(Ordering::Relaxed));
        match unanswered {
            0 => None,
            all if all == operations => Some(format!("answered none of its {all} operations")),
            last => Some(format!("answered none of its last {last} operations, of {operations}")),
        }
    }

    /// Tells the client that this process is over: its number is not used again.
    pub fn end_process(&self, process: u64) {
        self.requests.notify(&ProcessEvent::over(process));
    }

    /// Tells the client that the program of this process goes on under another number.
    pub fn go_on(&self, process: u64, next: u64) {
        self.processes.lock().insert(next);
        self.requests.notify(&ProcessEvent::goes_on(process, next));
    }

    /// Sends a command (its id is filled in here) and waits for the answer, at most for `patience`. The
    /// caller gives the call up `cancel_after` that time, and waits on for how it ends.
    pub async fn call(
        &self,
        command: Command,
        patience: Duration,
        cancel_after: Option<Duration>,
    ) -> CallReply {
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.processes.lock().insert(command.process);
        let (process, sent_id) = (command.process, AtomicU64::new(0));
        let numbered = |id| {
            sent_id.store(id, Ordering::Relaxed);
            self.open.lock().insert(id, command.f.clone());
            Command { id, key: Cow::Owned(format!("{}{}", self.key_prefix, command.key)), ..command }
        };
        let request = self.requests.request(numbered, Instant::now() + patience);
        tokio::pin!(request);
        let early = match cancel_after {
            Some(after) => tokio::time::timeout(after, &mut request).await.ok(),
            None => None,
        };
        let answer = match early {
            Some(answer) => answer,
            None => {
                if cancel_after.is_some() {
                    let id = sent_id.load(Ordering::Relaxed);
                    self.requests.notify(&ProcessEvent::cancel(process, id));
                }
                request.await
            }
        };
        match &answer {
            Ok(_) => self.unanswered.store(0, Ordering::Relaxed),
            Err(NoAnswer::TimedOut) => drop(self.unanswered.fetch_add(1, Ordering::Relaxed)),
            Err(_) => {}
        }
        let name = &self.name;
        CallReply::from(match answer {
            Ok(answer) => return CallReply::from(answer),
            // Not sent, so it certainly did not happen.
            Err(NoAnswer::NotSent) => {
                Completion::fail(ErrorCode::ClientGone, format_args!("{name} has ended"))
            }
            // The client ended while it handled the command, which may have happened or not.
            Err(NoAnswer::Closed) => {
                Completion::info(ErrorCode::ClientGone, format_args!("{name} ended meanwhile"))
            }
            // It stays indeterminate, even if an answer comes later.
            Err(NoAnswer::TimedOut) => {
                let detail = format!("{name} did not answer within {} s", patience.as_secs_f64());
                Completion::info(ErrorCode::Timeout, detail)
            }
        })
    }
}

type OpenOperations = Arc<Mutex<HashMap<u64, Cow<'static, str>>>>;

/// What comes from the client, held against what it was asked.
struct Incoming {
    open: OpenOperations,
    events: Arc<dyn ClientEvents>,
    processes: Arc<Mutex<HashSet<u64>>>,
    offence: Arc<Mutex<Option<String>>>,
    rate: NoticeRate,
}

impl Incoming {
    /// Passes an answer on, unless its value has the wrong type for this operation: checkers would ignore it.
    fn answer(&mut self, answer: Answer) -> Received<Answer> {
        let operation = self.open.lock().remove(&answer.id);
        let checked = operation.map_or(Ok(()), |name| answer.check_value(&name));
        if let Err(offence) = checked {
            *self.offence.lock() = Some(offence.sentence);
            return Received::Garbage;
        }
        Received::Answer { id: answer.id, answer }
    }

    /// Passes a notice on, unless it is one that no client may send: it would enter the history as evidence.
    fn notice(&mut self, notice: Notice) -> Received<Answer> {
        let Notice { event, process, .. } = &notice;
        let offence = if self.rate.is_exceeded() {
            format!(
                "sent more than {NOTICES_MAX} notices within a second; a notice reports one lost or renewed lock"
            )
        } else if !f::is_notice(event) {
            let shown: String = event.chars().take(40).collect();
            format!(
                "sent the notice {shown:?}, which there is not: expected {}, {} or {}",
                f::LOST,
                f::RENEWED,
                f::AT
            )
        } else if !is_key(&notice.key) {
            format!(
                "sent the notice {event} for a key of {} bytes, which no operation names",
                notice.key.len()
            )
        } else if !self.processes.lock().contains(process) {
            format!("sent the notice {event} for process {process}, which is not one of its own")
        } else {
            self.events.notice(notice);
            return Received::Handled;
        };
        *self.offence.lock() = Some(offence);
        Received::Garbage
    }
}

/// Whether a text can be the name of a lock: a history with a longer one cannot be read.
fn is_key(key: &str) -> bool {
    key.len() <= KEY_BYTES_MAX && !key.chars().any(char::is_control)
}

#[derive(Default)]
struct NoticeRate {
    second: Option<Instant>,
    count: u32,
}

impl NoticeRate {
    /// Counts one more, and says whether there are too many.
    fn is_exceeded(&mut self) -> bool {
        let now = Instant::now();
        let is_new = self.second.is_none_or(|begun| now.duration_since(begun) > Duration::from_secs(1));
        if is_new {
            (self.second, self.count) = (Some(now), 0);
        }
        self.count += 1;
        self.count > NOTICES_MAX
    }
}

impl CallReply {
    pub fn is_cancelled(&self) -> bool {
        matches!(&self.completion, Completion::Info(error) if error.code() == ErrorCode::Cancelled)
    }

    /// What is known of a call that was given up, once the program has made it again: if the second says
    /// no, the first may have done it.
    #[must_use]
    pub fn after_cancelled(self) -> CallReply {
        match self.completion {
            Completion::Fail(error) | Completion::Info(error) => {
                let again = format!("and made once more, which ended with: {error}");
                CallReply { completion: Completion::info(ErrorCode::Cancelled, again), ..self }
            }
            Completion::Ok(_) => self,
        }
    }
}

impl From<Completion> for CallReply {
    fn from(completion: Completion) -> CallReply {
        CallReply { completion, value: Value::Null }
    }
}

impl From<Answer> for CallReply {
    fn from(answer: Answer) -> CallReply {
        let (completion, value) = answer.ended("the client");
        CallReply { completion, value }
    }
}

async fn hello_answer(
    name: &str,
    input: &mut LineReader<impl AsyncRead + Unpin>,
    patience: Duration,
) -> Result<HelloAnswer, HelloError> {
    let client = name.to_owned();
    let back: HelloAnswer = match tokio::time::timeout(patience, input.next()).await {
        Err(_) => return Err(HelloError::NoAnswer { client, patience }),
        Ok(Err(source)) => return Err(HelloError::Unreadable { client, source }),
        Ok(Ok(None)) => return Err(HelloError::Ended { client }),
        Ok(Ok(Some(back))) => back,
    };
    if back.hello != VERSION {
        return Err(HelloError::Version { client, version: back.hello });
    }
    Ok(back)
}

fn client_end(name: &str, end: Result<(), LineError>, offence: &Mutex<Option<String>>) -> ClientEnd {
    match end {
        Ok(()) => ClientEnd::Closed,
        // It ended while lines to it were under way.
        Err(LineError::Io(error)) if error.kind() == ErrorKind::ConnectionReset => ClientEnd::Closed,
        Err(error) => ClientEnd::Broke(match offence.lock().take() {
            Some(offence) => format!("client {name} {offence}"),
            None => reading_failed(name, &error),
        }),
    }
}

fn reading_failed(name: &str, error: &LineError) -> String {
    match error {
        LineError::Garbage(line) => format!(
            "client {name} printed a line that is not of the client protocol: `{}` (a client's own output belongs on standard error)",
            printable(line)
        ),
        LineError::Unrequested { id, line } => format!(
            "client {name} answered with the id {id}, which no open operation has (each is answered once): `{}`",
            printable(line)
        ),
        error => format!("client {name} cannot be read: {error}"),
    }
}
