//! The controller's end of a client program: sends commands, matches answers to them, passes notices on.

use fencepost_history::{Completion, ErrorCode};
use fencepost_locks::protocol::{Answer, AnswerKind, Command, FromClient, Hello, HelloBack, Notice, VERSION};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

/// A client program that answered the hello.
pub struct ClientConnection {
    name: String,
    /// What the client said it can do, and its process number inside its node.
    pub hello: HelloBack,
    next_id: AtomicU64,
    lines: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Arc<Mutex<Waiting>>,
}

/// The commands without an answer yet; once the client has ended, the reason.
#[derive(Default)]
struct Waiting {
    by_id: HashMap<u64, oneshot::Sender<Answer>>,
    gone: Option<String>,
}

/// Receives what a client sends unrequested: notices of its library, and the reason when the client has ended.
pub trait ClientEvents: Send + Sync + 'static {
    fn notice(&self, notice: Notice);
    fn gone(&self, client: &str, reason: &str);
}

/// How a call ended: the completion, and what a fail or an info still had to say in its value.
pub struct Reply {
    pub completion: Completion,
    pub value: Value,
}

impl ClientConnection {
    /// Says hello and waits for the answer.
    ///
    /// # Errors
    /// One sentence: the client ended, answered with something else, or not in time.
    pub async fn open(
        hello: &Hello,
        stdin: impl AsyncWrite + Send + Unpin + 'static,
        stdout: impl AsyncRead + Send + Unpin + 'static,
        patience: Duration,
        events: Arc<dyn ClientEvents>,
    ) -> Result<ClientConnection, String> {
        let name = hello.client.clone();
        let (lines, outbox) = mpsc::unbounded_channel();
        let _ = lines.send(line_of(hello));
        tokio::spawn(write_lines(stdin, outbox));
        let mut stdout = BufReader::with_capacity(1 << 16, stdout);
        let mut first = Vec::new();
        let read = tokio::time::timeout(patience, stdout.read_until(b'\n', &mut first)).await;
        let seconds = patience.as_secs_f64();
        match read {
            Err(_) => return Err(format!("client {name} did not answer the hello within {seconds} s")),
            Ok(Err(error)) => return Err(format!("client {name} cannot be read: {error}")),
            Ok(Ok(0)) => return Err(format!("client {name} ended before it answered the hello")),
            Ok(Ok(_)) => {}
        }
        let back: HelloBack = serde_json::from_slice(&first).map_err(|_| not_the_protocol(&name, &first))?;
        if back.hello != VERSION {
            return Err(format!(
                "client {name} speaks version {} of the client protocol, and this is version {VERSION}",
                back.hello
            ));
        }
        let waiting = Arc::<Mutex<Waiting>>::default();
        tokio::spawn(read_lines(name.clone(), stdout, waiting.clone(), events));
        Ok(ClientConnection { name, hello: back, next_id: AtomicU64::new(0), lines, waiting })
    }

    /// Whether the client has ended.
    pub fn is_gone(&self) -> bool {
        self.waiting.lock().gone.is_some()
    }

    /// Sends a command (its id is filled in here) and waits for the answer, at most for `patience`.
    pub async fn call(&self, mut command: Command, patience: Duration) -> Reply {
        command.id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let id = command.id;
        let (sender, answer) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            if let Some(reason) = &waiting.gone {
                // Not sent, so it certainly did not happen.
                return Reply::from(Completion::Fail(format!("client-gone: {reason}").into()));
            }
            waiting.by_id.insert(id, sender);
        }
        let _ = self.lines.send(line_of(&command));
        match tokio::time::timeout(patience, answer).await {
            Ok(Ok(answer)) => Reply::from(answer),
            // The client ended while it handled the command, which may have happened or not.
            Ok(Err(_)) => {
                Reply::from(Completion::Info(format!("client-gone: {} ended meanwhile", self.name).into()))
            }
            Err(_) => {
                self.waiting.lock().by_id.remove(&id);
                let message =
                    format!("timeout: {} did not answer within {} s", self.name, patience.as_secs_f64());
                Reply::from(Completion::Info(message.into()))
            }
        }
    }
}

impl From<Completion> for Reply {
    fn from(completion: Completion) -> Reply {
        Reply { completion, value: Value::Null }
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        let unsaid = || ErrorCode::Unsaid.error("the client gave no reason");
        let error = || answer.error.clone().unwrap_or_else(unsaid);
        let completion = match answer.kind {
            AnswerKind::Ok => return Reply::from(Completion::Ok(answer.value)),
            AnswerKind::Fail => Completion::Fail(error()),
            AnswerKind::Info => Completion::Info(error()),
        };
        Reply { completion, value: answer.value }
    }
}

fn line_of(message: &impl serde::Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("a message is always JSON");
    line.push(b'\n');
    line
}

fn not_the_protocol(name: &str, line: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(line).trim_end().chars().take(80).collect();
    format!("client {name} printed a line that is not of the client protocol: `{text}`")
}

/// Writes lines as they come, several at once where they have gathered.
async fn write_lines(mut stdin: impl AsyncWrite + Unpin, mut outbox: mpsc::UnboundedReceiver<Vec<u8>>) {
    let mut batch = Vec::new();
    while let Some(line) = outbox.recv().await {
        batch.clear();
        batch.extend_from_slice(&line);
        while let Ok(line) = outbox.try_recv() {
            batch.extend_from_slice(&line);
        }
        // A client that is gone is noticed by the reader.
        if stdin.write_all(&batch).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn read_lines(
    name: String,
    mut stdout: impl AsyncBufReadExt + Unpin,
    waiting: Arc<Mutex<Waiting>>,
    events: Arc<dyn ClientEvents>,
) {
    let mut line = Vec::new();
    let reason = loop {
        line.clear();
        match stdout.read_until(b'\n', &mut line).await {
            Ok(0) => break format!("client {name} ended"),
            Err(error) => break format!("client {name} cannot be read: {error}"),
            Ok(_) => {}
        }
        match serde_json::from_slice(&line) {
            Ok(FromClient::Answer(answer)) => {
                let waiter = waiting.lock().by_id.remove(&answer.id);
                // An answer that comes after the patience ran out finds nobody waiting: it stays indeterminate.
                if let Some(waiter) = waiter {
                    let _ = waiter.send(answer);
                }
            }
            Ok(FromClient::Notice(notice)) => events.notice(notice),
            Err(_) => break not_the_protocol(&name, &line),
        }
    };
    {
        let mut waiting = waiting.lock();
        waiting.gone = Some(reason.clone());
        waiting.by_id.clear();
    }
    events.gone(&name, &reason);
}
