//! The client's way to the storage: one connection for all processes, requests sent without waiting for
//! answers.

use crate::guards::Credentials;
use crate::protocol::{Function, LINE_MAX, Request, Response};
use fencepost_history::{Completion, ErrorCode, OperationError};
use fencepost_wire::{LineReader, LineWriter, NoAnswer, Received, Reconnecting, RequestClient};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{Error, ErrorKind, Result as IoResult};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// A connection to the storage that is kept up.
pub struct StorageClient {
    server: Reconnecting<RequestClient<Response>>,
}

/// Why the storage's answer to a request is missing.
pub(crate) enum Lost {
    /// The request was certainly not sent.
    Unsent(OperationError),
    /// The request may have been carried out, or may be yet.
    Unanswered(OperationError),
}

/// A request without its id.
#[derive(Clone, Copy)]
pub(crate) struct Operation<'a> {
    pub(crate) f: Function,
    pub(crate) key: &'a str,
    pub(crate) value: Option<&'a Value>,
    pub(crate) credentials: &'a Credentials,
    /// With replicas: the write's number among the writes of this client.
    pub(crate) number: Option<u64>,
}

impl<'a> Operation<'a> {
    pub(crate) fn read(key: &'a str, credentials: &'a Credentials) -> Operation<'a> {
        Operation { f: Function::Read, key, value: None, credentials, number: None }
    }

    pub(crate) fn mark(key: &'a str, credentials: &'a Credentials) -> Operation<'a> {
        Operation { f: Function::Mark, key, value: None, credentials, number: None }
    }

    pub(crate) fn write(key: &'a str, value: &'a Value, credentials: &'a Credentials) -> Operation<'a> {
        Operation { f: Function::Write, key, value: Some(value), credentials, number: None }
    }

    fn request(self, id: u64) -> Request<'a> {
        let Operation { f, key, value, credentials, number } = self;
        Request {
            id,
            f,
            key: Cow::Borrowed(key),
            value: value.map(Cow::Borrowed),
            token: credentials.token,
            unique: credentials.unique.as_deref().map(Cow::Borrowed),
            sequencer: credentials.sequencer.as_deref().map(Cow::Borrowed),
            process: credentials.process,
            number,
        }
    }
}

impl StorageClient {
    /// Begins to connect to `host:port`, and keeps at it.
    pub fn open(address: &str) -> StorageClient {
        let address = address.to_owned();
        StorageClient { server: Reconnecting::open(move || dial(address.clone())) }
    }

    /// The value of `key`. The credentials tell the guard which holder reads.
    pub async fn read(&self, key: &str, credentials: &Credentials, timeout: Duration) -> Completion {
        // A read changes no value: without an answer it is as if it had not happened.
        self.send_harmless(Operation::read(key, credentials), timeout).await
    }

    /// Marks the storage as the holder's with these credentials.
    pub async fn mark(&self, key: &str, credentials: &Credentials, timeout: Duration) -> Completion {
        // It changes no value either. One that comes late makes the storage reject others, and nothing worse.
        self.send_harmless(Operation::mark(key, credentials), timeout).await
    }

    /// Sets the value of `key`, if the guard accepts the write.
    pub async fn write(
        &self,
        key: &str,
        value: &Value,
        credentials: &Credentials,
        timeout: Duration,
    ) -> Completion {
        match self.send(Operation::write(key, value, credentials), timeout).await {
            Ok(response) => completion(response),
            // No connection, or one known to be dead: nothing was sent, so nothing was written.
            Err(Lost::Unsent(error)) => Completion::Fail(error),
            // It may have been written, or may be yet: its bytes can be under way for any length of time.
            Err(Lost::Unanswered(error)) => Completion::Info(error),
        }
    }

    async fn send_harmless(&self, operation: Operation<'_>, timeout: Duration) -> Completion {
        match self.send(operation, timeout).await {
            Ok(response) => completion(response),
            Err(Lost::Unsent(error) | Lost::Unanswered(error)) => Completion::Fail(error),
        }
    }

    pub(crate) async fn send(&self, operation: Operation<'_>, timeout: Duration) -> Result<Response, Lost> {
        let deadline = Instant::now() + timeout;
        let Some(connected) = self.server.wait(deadline).await else {
            return Err(Lost::Unsent(ErrorCode::Unreachable.error("no connection to the storage")));
        };
        connected.request(|id| operation.request(id), deadline).await.map_err(|reason| match reason {
            NoAnswer::NotSent => {
                Lost::Unsent(ErrorCode::Unreachable.error("the connection to the storage is gone"))
            }
            NoAnswer::Closed => Lost::Unanswered(
                ErrorCode::Disconnected.error("the connection to the storage broke before it answered"),
            ),
            NoAnswer::TimedOut => {
                self.server.doubt(&connected);
                Lost::Unanswered(ErrorCode::Timeout.error("the storage did not answer in time"))
            }
        })
    }
}

fn completion(response: Response) -> Completion {
    match response {
        // The storage's word: it was not carried out.
        Response { fail: Some(error), .. } => Completion::Fail(error),
        Response { ok, .. } => Completion::Ok(ok.unwrap_or(Value::Null)),
    }
}

async fn dial(address: String) -> IoResult<(RequestClient<Response>, impl Future<Output = ()>)> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (input, output) = stream.into_split();
    let mut input = LineReader::new(input, LINE_MAX);
    let (output, _) = LineWriter::start(output);
    // A stopped storage's kernel accepts connections, too: only an answer shows that it serves.
    let ping = Operation {
        f: Function::Ping,
        key: "",
        value: None,
        credentials: &Credentials::default(),
        number: None,
    };
    output.send(&ping.request(0));
    match input.next::<Response>().await {
        Ok(Some(_)) => {}
        Ok(None) => return Err(ErrorKind::UnexpectedEof.into()),
        Err(error) => return Err(Error::other(error)),
    }
    let receive = |line: &str| match serde_json::from_str::<Response>(line) {
        Ok(answer) => Received::Answer { id: answer.id, answer },
        Err(_) => Received::Garbage,
    };
    let (client, reading) = RequestClient::open(input, output, receive);
    Ok((client, async move {
        let _ = reading.await;
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guards::find_guard;
    use crate::server::serve_storage;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    const LONG: Duration = Duration::from_secs(5);
    const SHORT: Duration = Duration::from_millis(50);

    async fn storage(guard: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        tokio::spawn(serve_storage(listener, find_guard(guard).expect("there")));
        address
    }

    #[tokio::test]
    async fn reads_and_writes_by_the_guards_rules() {
        let client = StorageClient::open(&storage("token").await);
        let (without, token) =
            (Credentials::default(), |token| Credentials { token: Some(token), ..Credentials::default() });
        assert_eq!(client.read("a", &without, LONG).await, Completion::Ok(0.into()));
        assert_eq!(client.write("a", &8.into(), &token(35), LONG).await, Completion::Ok(8.into()));
        let stale = client.write("a", &9.into(), &token(33), LONG).await;
        assert_eq!(stale, Completion::fail(ErrorCode::Rejected, "stale-token: 33 < 35"));
        assert_eq!(client.read("a", &without, LONG).await, Completion::Ok(8.into()));
    }

    #[tokio::test]
    async fn what_was_never_sent_fails() {
        // A port that was free a moment ago refuses connections.
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        drop(listener);
        let client = StorageClient::open(&address);
        assert!(
            matches!(client.write("a", &1.into(), &Credentials::default(), SHORT).await, Completion::Fail(why) if why.starts_with("unreachable"))
        );
    }

    /// Answers the first request (the one that `dial` sends), and no other; then closes the connection, or
    /// keeps it.
    async fn mute_storage(close: bool) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut line = [0; 256];
                let _ = stream.read(&mut line).await;
                let _ = stream.write_all(b"{\"id\":0,\"ok\":{}}\n").await;
                let _ = stream.read(&mut line).await;
                if !close {
                    kept.push(stream);
                }
            }
        });
        address
    }

    #[tokio::test]
    async fn a_write_without_an_answer_is_indeterminate() {
        let client = StorageClient::open(&mute_storage(false).await);
        assert!(
            matches!(client.write("a", &1.into(), &Credentials::default(), SHORT).await, Completion::Info(why) if why.starts_with("timeout"))
        );
        let client = StorageClient::open(&mute_storage(true).await);
        let broken = client.write("a", &1.into(), &Credentials::default(), LONG).await;
        assert!(matches!(broken, Completion::Info(why) if why.starts_with("disconnected")));
    }

    #[tokio::test]
    async fn a_read_without_an_answer_fails() {
        let client = StorageClient::open(&mute_storage(false).await);
        assert!(
            matches!(client.read("a", &Credentials::default(), SHORT).await, Completion::Fail(why) if why.starts_with("timeout"))
        );
    }
}
