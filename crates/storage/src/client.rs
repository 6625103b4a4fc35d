//! The client's way to the storage: one connection for all processes; requests do not wait for answers.

use crate::guards::Credentials;
use crate::protocol::{Function, LINE_MAX, Request, Response};
use fencepost_history::{Completion, ErrorCode, OperationError};
use fencepost_wire::{LineReader, LineWriter, NoAnswer, Received, Reconnecting, RequestClient};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{Error, ErrorKind, Result as IoResult};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// A connection to the storage that is kept up.
pub struct StorageClient {
    server: Reconnecting<RequestClient<Response>>,
}

pub(crate) enum LostRequest {
    Unsent(OperationError),
    /// The request may have been carried out, or may be yet.
    Unanswered(OperationError),
}

#[derive(Clone, Copy)]
pub(crate) struct StorageOperation<'a> {
    pub(crate) f: Function,
    pub(crate) key: &'a str,
    pub(crate) value: Option<&'a Value>,
    pub(crate) credentials: &'a Credentials,
    /// With replicas: the write's number among the writes of this client.
    pub(crate) number: Option<u64>,
}

impl<'a> StorageOperation<'a> {
    pub(crate) fn read(key: &'a str, credentials: &'a Credentials) -> StorageOperation<'a> {
        StorageOperation { f: Function::Read, key, value: None, credentials, number: None }
    }

    pub(crate) fn mark(key: &'a str, credentials: &'a Credentials) -> StorageOperation<'a> {
        StorageOperation { f: Function::Mark, key, value: None, credentials, number: None }
    }

    pub(crate) fn write(
        key: &'a str,
        value: &'a Value,
        credentials: &'a Credentials,
    ) -> StorageOperation<'a> {
        StorageOperation { f: Function::Write, key, value: Some(value), credentials, number: None }
    }

    fn request(self, id: u64) -> Request<'a> {
        let StorageOperation { f, key, value, credentials, number } = self;
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
        StorageClient::over(move || {
            let address = address.clone();
            async move {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(stream.into_split())
            }
        })
    }

    pub(crate) fn over<Connect, Connecting, Input, Output>(connect: Connect) -> StorageClient
    where
        Connect: Fn() -> Connecting + Send + 'static,
        Connecting: Future<Output = IoResult<(Input, Output)>> + Send + 'static,
        Input: AsyncRead + Send + Unpin + 'static,
        Output: AsyncWrite + Send + Unpin + 'static,
    {
        StorageClient { server: Reconnecting::open(move || greet(connect())) }
    }

    /// The value of `key`. The credentials tell the guard which holder reads.
    pub async fn read(&self, key: &str, credentials: &Credentials, timeout: Duration) -> Completion {
        // A read changes no value: without an answer it is as if it had not happened.
        self.send_harmless(StorageOperation::read(key, credentials), timeout).await
    }

    /// Marks the storage as the holder's with these credentials.
    pub async fn mark(&self, key: &str, credentials: &Credentials, timeout: Duration) -> Completion {
        // It changes no value either. One that comes late makes the storage reject others, and nothing worse.
        self.send_harmless(StorageOperation::mark(key, credentials), timeout).await
    }

    /// Sets the value of `key`, if the guard accepts the write.
    pub async fn write(
        &self,
        key: &str,
        value: &Value,
        credentials: &Credentials,
        timeout: Duration,
    ) -> Completion {
        match self.send(StorageOperation::write(key, value, credentials), timeout).await {
            Ok(response) => completion(response),
            // No connection, or one known to be dead: nothing was sent, so nothing was written.
            Err(LostRequest::Unsent(error)) => Completion::Fail(error),
            // It may have been written, or may be yet: its bytes can be under way for any length of time.
            Err(LostRequest::Unanswered(error)) => Completion::Info(error),
        }
    }

    async fn send_harmless(&self, operation: StorageOperation<'_>, timeout: Duration) -> Completion {
        match self.send(operation, timeout).await {
            Ok(response) => completion(response),
            Err(LostRequest::Unsent(error) | LostRequest::Unanswered(error)) => Completion::Fail(error),
        }
    }

    pub(crate) async fn send(
        &self,
        operation: StorageOperation<'_>,
        timeout: Duration,
    ) -> Result<Response, LostRequest> {
        let deadline = Instant::now() + timeout;
        let Some(connected) = self.server.wait(deadline).await else {
            return Err(LostRequest::Unsent(ErrorCode::Unreachable.error("no connection to the storage")));
        };
        connected.request(|id| operation.request(id), deadline).await.map_err(|reason| match reason {
            NoAnswer::NotSent => {
                LostRequest::Unsent(ErrorCode::Unreachable.error("the connection to the storage is gone"))
            }
            NoAnswer::Closed => LostRequest::Unanswered(
                ErrorCode::Disconnected.error("the connection to the storage broke before it answered"),
            ),
            NoAnswer::TimedOut => {
                self.server.doubt(&connected);
                LostRequest::Unanswered(ErrorCode::Timeout.error("the storage did not answer in time"))
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

async fn greet<Input, Output>(
    connecting: impl Future<Output = IoResult<(Input, Output)>>,
) -> IoResult<(RequestClient<Response>, impl Future<Output = ()>)>
where
    Input: AsyncRead + Send + Unpin + 'static,
    Output: AsyncWrite + Send + Unpin + 'static,
{
    let (input, output) = connecting.await?;
    let mut input = LineReader::new(input, LINE_MAX);
    let (output, _) = LineWriter::start(output);
    // A stopped storage's kernel accepts connections, too: only an answer shows that it serves.
    let ping = StorageOperation {
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
    use crate::testing::{refusing, serving};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};

    const TIMEOUT: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn reads_and_writes_by_the_guards_rules() {
        let client = serving("token");
        let (without, token) =
            (Credentials::default(), |token| Credentials { token: Some(token), ..Credentials::default() });
        assert_eq!(client.read("a", &without, TIMEOUT).await, Completion::Ok(0.into()));
        assert_eq!(client.write("a", &8.into(), &token(35), TIMEOUT).await, Completion::Ok(8.into()));
        let stale = client.write("a", &9.into(), &token(33), TIMEOUT).await;
        assert_eq!(stale, Completion::fail(ErrorCode::Rejected, "stale-token: 33 < 35"));
        assert_eq!(client.read("a", &without, TIMEOUT).await, Completion::Ok(8.into()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_never_sent_fails() {
        let written = refusing().write("a", &1.into(), &Credentials::default(), TIMEOUT).await;
        assert!(matches!(written, Completion::Fail(why) if why.starts_with("unreachable")));
    }

    /// Answers the first request of a connection (the greeting), and no other; then it closes the
    /// connection, or keeps it.
    fn mute(close: bool) -> StorageClient {
        StorageClient::over(move || {
            let (ours, mut theirs) = duplex(1 << 16);
            tokio::spawn(async move {
                let mut line = [0; 256];
                let _ = theirs.read(&mut line).await;
                let _ = theirs.write_all(b"{\"id\":0,\"ok\":{}}\n").await;
                let _ = theirs.read(&mut line).await;
                if !close {
                    std::future::pending::<()>().await;
                }
            });
            std::future::ready(Ok(split(ours)))
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_without_an_answer_is_indeterminate() {
        for (close, code) in [(false, "timeout"), (true, "disconnected")] {
            let begun = Instant::now();
            let written = mute(close).write("a", &1.into(), &Credentials::default(), TIMEOUT).await;
            assert!(matches!(&written, Completion::Info(why) if why.starts_with(code)), "{written:?}");
            let waited = if close { Duration::ZERO } else { TIMEOUT };
            assert_eq!(begun.elapsed().as_secs(), waited.as_secs(), "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_without_an_answer_fails() {
        let read = mute(false).read("a", &Credentials::default(), TIMEOUT).await;
        assert!(matches!(read, Completion::Fail(why) if why.starts_with("timeout")));
    }

    #[tokio::test]
    async fn the_storage_is_reached_over_tcp() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        tokio::spawn(crate::serve_storage(listener, crate::find_guard("none").expect("there")));
        let patience = Duration::from_secs(120);
        let written =
            StorageClient::open(&address).write("a", &8.into(), &Credentials::default(), patience).await;
        assert_eq!(written, Completion::Ok(8.into()));
    }
}
