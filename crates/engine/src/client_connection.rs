//! The controller's end of a client program: sends commands, matches answers to them, passes notices on.

use fencepost_history::{Completion, ErrorCode};
use fencepost_locks::protocol::{Answer, AnswerKind, Command, FromClient, Hello, HelloBack, Notice, VERSION};
use fencepost_wire::{LineError, LineReader, LineWriter, NoAnswer, Received, RequestClient};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// The longest line that a client may print, in bytes.
const LINE_MAX: usize = 64 << 20;

/// A client program that answered the hello.
pub struct ClientConnection {
    name: String,
    /// What the client said it can do, and its process number inside its node.
    pub hello: HelloBack,
    requests: RequestClient<Answer>,
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
        let (output, _) = LineWriter::start(stdin);
        output.send(hello);
        let mut input = LineReader::new(stdout, LINE_MAX);
        let seconds = patience.as_secs_f64();
        let back: HelloBack = match tokio::time::timeout(patience, input.next()).await {
            Err(_) => return Err(format!("client {name} did not answer the hello within {seconds} s")),
            Ok(Err(error)) => return Err(reading_failed(&name, &error)),
            Ok(Ok(None)) => return Err(format!("client {name} ended before it answered the hello")),
            Ok(Ok(Some(back))) => back,
        };
        if back.hello != VERSION {
            return Err(format!(
                "client {name} speaks version {} of the client protocol, and this is version {VERSION}",
                back.hello
            ));
        }
        let notices = events.clone();
        let receive = move |line: &str| match serde_json::from_str(line) {
            Ok(FromClient::Answer(answer)) => Received::Answer { id: answer.id, answer },
            Ok(FromClient::Notice(notice)) => {
                notices.notice(notice);
                Received::Handled
            }
            Err(_) => Received::Garbage,
        };
        let (requests, reading) = RequestClient::open(input, output, receive);
        let client = name.clone();
        tokio::spawn(async move {
            let reason = match reading.await {
                Ok(()) => format!("client {client} ended"),
                Err(error) => reading_failed(&client, &error),
            };
            events.gone(&client, &reason);
        });
        Ok(ClientConnection { name, hello: back, requests })
    }

    /// Whether the client has ended.
    pub fn is_gone(&self) -> bool {
        self.requests.is_closed()
    }

    /// Sends a command (its id is filled in here) and waits for the answer, at most for `patience`.
    pub async fn call(&self, command: Command, patience: Duration) -> Reply {
        let answer = self.requests.request(|id| Command { id, ..command }, Instant::now() + patience).await;
        let name = &self.name;
        Reply::from(match answer {
            Ok(answer) => return Reply::from(answer),
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

fn reading_failed(name: &str, error: &LineError) -> String {
    match error {
        LineError::Garbage(line) => {
            format!("client {name} printed a line that is not of the client protocol: `{line}`")
        }
        error => format!("client {name} cannot be read: {error}"),
    }
}
