//! Requests and their answers over one connection, matched by id.

use crate::lines::{LineError, LineReader, LineWriter, beginning};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::AsyncRead;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// What a line from the other end is.
pub enum Received<A> {
    Answer {
        id: u64,
        answer: A,
    },
    /// Something that is no answer, and was dealt with.
    Handled,
    /// Not of the protocol: the connection ends.
    Garbage,
}

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The connection had ended before: the request was certainly not sent.
    NotSent,
    /// The connection ended before the answer came: the request may have been carried out.
    Closed,
    /// No answer came in time: the request may have been carried out, or may be yet.
    TimedOut,
}

/// Sends requests and gives each its answer, in whatever order answers come. Cheap to clone.
pub struct RequestClient<A> {
    shared: Arc<SharedRequests<A>>,
    writer: LineWriter,
}

struct SharedRequests<A> {
    next_id: AtomicU64,
    pending: Mutex<PendingRequests<A>>,
}

struct PendingRequests<A> {
    by_id: HashMap<u64, oneshot::Sender<A>>,
    given_up: HashSet<u64>,
    is_closed: bool,
}

impl<A> Clone for RequestClient<A> {
    fn clone(&self) -> RequestClient<A> {
        RequestClient { shared: self.shared.clone(), writer: self.writer.clone() }
    }
}

impl<A> RequestClient<A> {
    /// A client that reads answers from `input` and sends requests to `output`, with ids from 1.
    ///
    /// `receive` says what each line is. The future reads lines and must be driven by the caller; it ends
    /// with the connection: without an error if the other end closed it. An answer to a request that no
    /// longer waits is dropped; one that no request waits for, and none has waited for, ends the connection.
    pub fn open<R: AsyncRead + Unpin>(
        input: LineReader<R>,
        output: LineWriter,
        receive: impl FnMut(&str) -> Received<A>,
    ) -> (RequestClient<A>, impl Future<Output = Result<(), LineError>>) {
        let pending =
            Mutex::new(PendingRequests { by_id: HashMap::new(), given_up: HashSet::new(), is_closed: false });
        let shared = Arc::new(SharedRequests { next_id: AtomicU64::new(1), pending });
        let closing = CloseAtEnd(shared.clone());
        (RequestClient { shared, writer: output }, read_answers(input, closing, receive))
    }

    /// Whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.shared.pending.lock().is_closed
    }

    /// Sends a message that has no answer.
    pub fn notify(&self, message: &impl Serialize) {
        let _ = self.writer.send(message);
    }

    /// Sends the request that `message` makes of an id. [`NoAnswer`]: whether it can have been done.
    pub async fn request<M: Serialize>(
        &self,
        message: impl FnOnce(u64) -> M,
        deadline: Instant,
    ) -> Result<A, NoAnswer> {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        {
            let mut pending = self.shared.pending.lock();
            if pending.is_closed {
                return Err(NoAnswer::NotSent);
            }
            pending.by_id.insert(id, sender);
        }
        // However this call ends, dropped in the middle, too.
        let _forget = ForgetOnDrop { shared: &self.shared, id };
        if !self.writer.send(&message(id)) {
            return Err(NoAnswer::NotSent);
        }
        match timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(NoAnswer::Closed),
            Err(_) => Err(NoAnswer::TimedOut),
        }
    }
}

async fn read_answers<A, R: AsyncRead + Unpin>(
    mut input: LineReader<R>,
    closing: CloseAtEnd<A>,
    mut receive: impl FnMut(&str) -> Received<A>,
) -> Result<(), LineError> {
    while let Some(line) = input.next_line().await? {
        match receive(&line) {
            Received::Answer { id, answer } => {
                let waiting = {
                    let mut pending = closing.0.pending.lock();
                    let waiting = pending.by_id.remove(&id);
                    if waiting.is_none() && !pending.given_up.remove(&id) {
                        return Err(LineError::Unrequested { id, line: beginning(&line) });
                    }
                    waiting
                };
                if let Some(waiting) = waiting {
                    let _ = waiting.send(answer);
                }
            }
            Received::Handled => {}
            Received::Garbage => return Err(LineError::garbage(&line)),
        }
    }
    Ok(())
}

/// Ends all pending requests when reading ends, or is given up.
struct CloseAtEnd<A>(Arc<SharedRequests<A>>);

impl<A> Drop for CloseAtEnd<A> {
    fn drop(&mut self) {
        let mut pending = self.0.pending.lock();
        pending.is_closed = true;
        pending.by_id.clear();
    }
}

struct ForgetOnDrop<'a, A> {
    shared: &'a SharedRequests<A>,
    id: u64,
}

impl<A> Drop for ForgetOnDrop<'_, A> {
    fn drop(&mut self) {
        let mut pending = self.shared.pending.lock();
        // What was answered is not here any more.
        if pending.by_id.remove(&self.id).is_some() {
            pending.given_up.insert(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::time::Duration;
    use tokio::io::{DuplexStream, duplex, split};
    use tokio::task::JoinHandle;

    type Reading = JoinHandle<Result<(), LineError>>;

    /// A client, the other end of its connection, and the task that reads its answers.
    fn connection() -> (RequestClient<Value>, DuplexStream, Reading) {
        let (ours, theirs) = duplex(1 << 10);
        let (input, output) = split(ours);
        let (writer, _) = LineWriter::start(output);
        let receive = |line: &str| match serde_json::from_str::<Value>(line) {
            Ok(line) => match line["id"].as_u64() {
                Some(id) => Received::Answer { id, answer: line["answer"].clone() },
                None => Received::Handled,
            },
            Err(_) => Received::Garbage,
        };
        let (client, reading) = RequestClient::open(LineReader::new(input, 1 << 10), writer, receive);
        (client, theirs, tokio::spawn(reading))
    }

    async fn ask(client: &RequestClient<Value>, what: &str, patience_ms: u64) -> Result<Value, NoAnswer> {
        let deadline = Instant::now() + Duration::from_millis(patience_ms);
        client.request(|id| json!({"id": id, "what": what}), deadline).await
    }

    #[tokio::test]
    async fn answers_find_their_requests_in_any_order() {
        let (client, theirs, _reading) = connection();
        let server = tokio::spawn(async move {
            let (input, output) = split(theirs);
            let (mut reader, (writer, _)) = (LineReader::new(input, 1 << 10), LineWriter::start(output));
            let mut requests: Vec<Value> = Vec::new();
            while requests.len() < 3 {
                requests.push(reader.next().await.unwrap().unwrap());
            }
            writer.send(&json!({"notice": "is no answer"}));
            for request in requests.iter().rev() {
                writer.send(&json!({"id": request["id"], "answer": request["what"]}));
            }
            reader.next::<Value>().await
        });
        let [a, b, c] = ["a", "b", "c"];
        let (first, second, third) =
            tokio::join!(ask(&client, a, 5000), ask(&client, b, 5000), ask(&client, c, 5000));
        assert_eq!((first, second, third), (Ok(json!(a)), Ok(json!(b)), Ok(json!(c))));
        drop(client);
        assert!(matches!(server.await.unwrap(), Ok(None)), "the connection ends with its client");
    }

    #[tokio::test]
    async fn a_closed_stream_ends_pending_requests_and_refuses_later_ones() {
        let (client, theirs, reading) = connection();
        let server = tokio::spawn(async move {
            let mut reader = LineReader::new(theirs, 1 << 10);
            reader.next::<Value>().await.unwrap().unwrap();
        });
        assert_eq!(ask(&client, "a", 5000).await, Err(NoAnswer::Closed));
        server.await.unwrap();
        assert!(reading.await.unwrap().is_ok());
        assert!(client.is_closed());
        assert_eq!(ask(&client, "b", 5000).await, Err(NoAnswer::NotSent));
    }

    #[tokio::test]
    async fn a_garbage_line_ends_the_connection_and_is_named() {
        let (client, theirs, reading) = connection();
        let (input, mut output) = split(theirs);
        tokio::io::AsyncWriteExt::write_all(&mut output, b"nonsense\n").await.unwrap();
        assert!(matches!(reading.await.unwrap(), Err(LineError::Garbage(line)) if line == "nonsense"));
        assert_eq!(ask(&client, "a", 5000).await, Err(NoAnswer::NotSent));
        drop(input);
    }

    #[tokio::test]
    async fn an_answer_that_no_request_waits_for_ends_the_connection() {
        for ids in [&[99][..], &[1, 1]] {
            let (client, theirs, reading) = connection();
            let (input, output) = split(theirs);
            let (writer, _) = LineWriter::start(output);
            let asked = tokio::spawn(async move { ask(&client, "a", 5000).await });
            LineReader::new(input, 1 << 10).next::<Value>().await.unwrap().unwrap();
            for id in ids {
                writer.send(&json!({"id": id, "answer": 0}));
            }
            let error = reading.await.unwrap().unwrap_err();
            assert!(matches!(error, LineError::Unrequested { id, .. } if id == ids[0]), "{error}");
            let _ = asked.await;
        }
    }

    #[tokio::test]
    async fn a_late_answer_is_dropped() {
        let (client, theirs, _reading) = connection();
        let (input, output) = split(theirs);
        let (mut reader, (writer, _)) = (LineReader::new(input, 1 << 10), LineWriter::start(output));
        assert_eq!(ask(&client, "slow", 20).await, Err(NoAnswer::TimedOut));
        let slow: Value = reader.next().await.unwrap().unwrap();
        let next = tokio::spawn(async move { ask(&client, "next", 5000).await });
        let request: Value = reader.next().await.unwrap().unwrap();
        writer.send(&json!({"id": slow["id"], "answer": "too late"}));
        writer.send(&json!({"id": request["id"], "answer": "in time"}));
        assert_eq!(next.await.unwrap(), Ok(json!("in time")));
    }
}
