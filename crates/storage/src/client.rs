//! The client's way to the storage: one connection for all processes, requests sent without waiting for answers.

use crate::guards::Credentials;

use crate::protocol::{Request, Response};
use fencepost_history::Completion;
use fencepost_wire::Reconnecting;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

/// A connection to the storage that is kept up.
pub struct StorageClient {
    server: Reconnecting<mpsc::UnboundedSender<Outgoing>>,
    next_id: AtomicU64,
}

/// A request on its way.
struct Outgoing {
    id: u64,
    line: Vec<u8>,
    answer: oneshot::Sender<Response>,
}

/// Where a request ended that was not answered.
pub(crate) enum Lost {
    Unsent(String),
    Unanswered(String),
}

/// What is asked of the storage.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) f: &'static str,
    pub(crate) key: &'a str,
    pub(crate) value: Option<&'a Value>,
    pub(crate) credentials: &'a Credentials,
    pub(crate) number: Option<u64>,
}

impl StorageClient {
    /// Begins to connect to `host:port`, and keeps at it.
    pub fn open(address: &str) -> StorageClient {
        let address = address.to_owned();
        StorageClient {
            server: Reconnecting::open(move || dial(address.clone())),
            next_id: AtomicU64::new(1),
        }
    }

    /// The value of `key`. The credentials tells the guard who is reading.
    pub async fn read(&self, key: &str, credentials: &Credentials, timeout: Duration) -> Completion {
        // A read changes no value: one that was not answered has not happened, for all that anybody can see.
        self.ask_harmless("read", key, credentials, timeout).await
    }

    /// Marks the storage as the own of whoever has this credentials.
    pub async fn mark(&self, key: &str, credentials: &Credentials, timeout: Duration) -> Completion {
        // It changes no value either. One that comes late makes the storage refuse others, and nothing worse.
        self.ask_harmless("mark", key, credentials, timeout).await
    }

    /// What the storage has done so far.
    pub async fn stats(&self, timeout: Duration) -> Completion {
        self.ask_harmless("stats", "", &Credentials::default(), timeout).await
    }

    /// Sets the value of `key`, if the guard lets it.
    pub async fn write(
        &self,
        key: &str,
        value: &Value,
        credentials: &Credentials,
        timeout: Duration,
    ) -> Completion {
        let question = Question { f: "write", key, value: Some(value), credentials, number: None };
        match self.ask(question, timeout).await {
            Ok(response) => completion(response),
            // No connection, or one known to be dead: nothing was sent, so nothing was written.
            Err(Lost::Unsent(why)) => Completion::Fail(why.into()),
            // It may have been written, or may be yet: its bytes can be under way for any length of time.
            Err(Lost::Unanswered(why)) => Completion::Info(why.into()),
        }
    }

    async fn ask_harmless(
        &self,
        f: &'static str,
        key: &str,
        credentials: &Credentials,
        timeout: Duration,
    ) -> Completion {
        match self.ask(Question { f, key, value: None, credentials, number: None }, timeout).await {
            Ok(response) => completion(response),
            Err(Lost::Unsent(why) | Lost::Unanswered(why)) => Completion::Fail(why.into()),
        }
    }

    pub(crate) async fn ask(&self, question: Question<'_>, timeout: Duration) -> Result<Response, Lost> {
        let deadline = Instant::now() + timeout;
        let Some(connected) = self.server.wait(deadline).await else {
            return Err(Lost::Unsent("unreachable: no connection to the storage".to_owned()));
        };
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let Question { f, key, value, credentials, number } = question;
        let request = Request {
            id,
            f: Cow::Borrowed(f),
            key: Cow::Borrowed(key),
            value: value.map(Cow::Borrowed),
            token: credentials.token,
            unique: credentials.unique.as_deref().map(Cow::Borrowed),
            sequencer: credentials.sequencer.as_deref().map(Cow::Borrowed),
            number,
        };
        let mut line = serde_json::to_vec(&request).expect("a request is always JSON");
        line.push(b'\n');
        let (answer, answered) = oneshot::channel();
        if connected.send(Outgoing { id, line, answer }).is_err() {
            return Err(Lost::Unsent("unreachable: the connection to the storage is gone".to_owned()));
        }
        match timeout_at(deadline, answered).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(_)) => Err(Lost::Unanswered(
                "disconnected: the connection to the storage broke before it answered".to_owned(),
            )),
            Err(_) => {
                self.server.doubt(&connected);
                Err(Lost::Unanswered("timeout: the storage did not answer in time".to_owned()))
            }
        }
    }
}

fn completion(response: Response) -> Completion {
    match response {
        // The guard's word, or the storage's: it was not carried out.
        Response { fail: Some(why), .. } => Completion::Fail(why.into()),
        Response { ok, .. } => Completion::Ok(ok.unwrap_or(Value::Null)),
    }
}

async fn dial(
    address: String,
) -> std::io::Result<(mpsc::UnboundedSender<Outgoing>, impl Future<Output = ()>)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    // A stopped storage's kernel accepts connections, too: only an answer shows that it serves.
    stream.write_all(b"{\"id\":0,\"f\":\"stats\"}\n").await?;
    let mut first = [0; 256];
    if stream.read(&mut first).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let (sender, requests) = mpsc::unbounded_channel();
    Ok((sender, drive(stream, requests)))
}

/// Moves requests and answers until either end closes. Requests that are still open then learn it.
async fn drive(mut stream: TcpStream, mut requests: mpsc::UnboundedReceiver<Outgoing>) {
    let (mut reader, mut writer) = stream.split();
    let mut waiting: HashMap<u64, oneshot::Sender<Response>> = HashMap::new();
    let mut input = Vec::with_capacity(4096);
    let mut output = Vec::with_capacity(4096);
    loop {
        tokio::select! {
            request = requests.recv() => {
                let Some(request) = request else { return };
                let mut next = Some(request);
                while let Some(Outgoing { id, line, answer }) = next {
                    output.extend_from_slice(&line);
                    waiting.insert(id, answer);
                    next = requests.try_recv().ok();
                }
                if writer.write_all(&output).await.is_err() {
                    return;
                }
                output.clear();
            }
            read = reader.read_buf(&mut input) => {
                if !matches!(read, Ok(length) if length > 0) {
                    return;
                }
                let mut begin = 0;
                while let Some(length) = input[begin..].iter().position(|byte| *byte == b'\n') {
                    let Ok(response) = serde_json::from_slice::<Response>(&input[begin..begin + length]) else {
                        return;
                    };
                    // One whose time was up is not waited for any more.
                    if let Some(answer) = waiting.remove(&response.id) {
                        let _ = answer.send(response);
                    }
                    begin += length + 1;
                }
                input.drain(..begin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guards::find_guard;
    use crate::server::serve_storage;
    use fencepost_history::ErrorCode;
    use serde_json::json;
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
    async fn reads_writes_and_counts() {
        let client = StorageClient::open(&storage("token").await);
        let (nobody, token) =
            (Credentials::default(), |token| Credentials { token: Some(token), ..Credentials::default() });
        assert_eq!(client.read("a", &nobody, LONG).await, Completion::Ok(0.into()));
        assert_eq!(client.write("a", &8.into(), &token(35), LONG).await, Completion::Ok(8.into()));
        let stale = client.write("a", &9.into(), &token(33), LONG).await;
        assert_eq!(stale, Completion::fail(ErrorCode::Rejected, "stale-token: 33 < 35"));
        assert_eq!(client.read("a", &nobody, LONG).await, Completion::Ok(8.into()));
        let stats = client.stats(LONG).await;
        assert_eq!(stats, Completion::Ok(json!({"reads": 2, "accepted": 1, "rejected": 1})));
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

    /// Answers the first request (the one that `dial` sends) and then what `then` says.
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
