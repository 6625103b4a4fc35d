//! The client's way to the storage: one connection for all processes; requests do not wait for answers.

use crate::guards::Credentials;
use crate::protocol::{Function, LINE_MAX, Request, Response};
use fencepost_history::{ErrorCode, OperationError};
use fencepost_wire::{LineReader, LineWriter, NoAnswer, Received, Reconnecting, RequestClient};
use std::io::{Error, ErrorKind, Result as IoResult};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// A connection to the storage that is kept up.
pub(crate) struct StorageClient {
    server: Reconnecting<RequestClient<Response>>,
}

pub(crate) enum LostRequest {
    Unsent(OperationError),
    /// The request may have been carried out, or may be yet.
    Unanswered(OperationError),
}

impl StorageClient {
    /// Begins to connect to `host:port`, and keeps at it.
    pub(crate) fn open(address: &str) -> StorageClient {
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

    pub(crate) async fn send(
        &self,
        request: &Request<'_>,
        timeout: Duration,
    ) -> Result<Response, LostRequest> {
        let deadline = Instant::now() + timeout;
        let Some(connected) = self.server.wait(deadline).await else {
            return Err(LostRequest::Unsent(ErrorCode::Unreachable.error("no connection to the storage")));
        };
        let request = |id| Request { id, ..request.clone() };
        connected.request(request, deadline).await.map_err(|reason| match reason {
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
    output.send(&Request::of(Function::Ping, "", &Credentials::default()));
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
    use crate::replicas::ProtectedStorage;
    use crate::testing::{refusing, serving};
    use fencepost_history::Completion;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn alone(client: StorageClient) -> ProtectedStorage {
        ProtectedStorage::over(vec![client])
    }

    #[tokio::test(start_paused = true)]
    async fn reads_and_writes_by_the_guards_rules() {
        let client = alone(serving("token"));
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
        let written = alone(refusing()).write("a", &1.into(), &Credentials::default(), TIMEOUT).await;
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
            let written = alone(mute(close)).write("a", &1.into(), &Credentials::default(), TIMEOUT).await;
            assert!(matches!(&written, Completion::Info(why) if why.starts_with(code)), "{written:?}");
            let waited = if close { Duration::ZERO } else { TIMEOUT };
            assert_eq!(begun.elapsed().as_secs(), waited.as_secs(), "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_without_an_answer_fails() {
        let read = alone(mute(false)).read("a", &Credentials::default(), TIMEOUT).await;
        assert!(matches!(read, Completion::Fail(why) if why.starts_with("timeout")));
    }

    #[tokio::test]
    async fn the_storage_is_reached_over_tcp() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        tokio::spawn(crate::serve_storage(listener, crate::find_guard("none").expect("there")));
        let patience = Duration::from_secs(120);
        let written = alone(StorageClient::open(&address))
            .write("a", &8.into(), &Credentials::default(), patience)
            .await;
        assert_eq!(written, Completion::Ok(8.into()));
    }
}
