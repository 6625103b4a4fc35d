//! Messages as lines of JSON, over any stream.

use futures_util::{SinkExt, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec, LinesCodecError};

const SHOWN_MAX: usize = 80;

#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The stream broke, or holds bytes that are not UTF-8.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("a line is longer than {0} bytes")]
    TooLong(usize),
    /// The line is not a message of the protocol; its beginning.
    #[error("a line is not of the protocol: `{0}`")]
    Garbage(String),
    /// An answer to a request that was not made, or was answered before; the beginning of its line.
    #[error("an answer has the id {id}, which no open request has: `{line}`")]
    Unrequested { id: u64, line: String },
}

impl LineError {
    /// For a line that makes no sense to its reader.
    pub fn garbage(line: &str) -> LineError {
        LineError::Garbage(beginning(line))
    }
}

pub fn beginning(line: &str) -> String {
    line.trim_end().chars().take(SHOWN_MAX).collect()
}

/// Reads lines. Reading can be cancelled between two lines without losing anything.
pub struct LineReader<R> {
    frames: FramedRead<R, LinesCodec>,
    line_max: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// `line_max` is the length in bytes of the longest line that is accepted.
    pub fn new(input: R, line_max: usize) -> LineReader<R> {
        let codec = LinesCodec::new_with_max_length(line_max);
        LineReader { frames: FramedRead::with_capacity(input, codec, 64 << 10), line_max }
    }

    /// The next line, without its end; none at the end. Errors: a broken stream, or a line too long.
    pub async fn next_line(&mut self) -> Result<Option<String>, LineError> {
        match self.frames.next().await.transpose() {
            Ok(line) => Ok(line),
            Err(LinesCodecError::MaxLineLengthExceeded) => Err(LineError::TooLong(self.line_max)),
            Err(LinesCodecError::Io(error)) => Err(error.into()),
        }
    }

    /// [`LineReader::next_line`] as a message. It is an error, too, if the line is no such message.
    pub async fn next<M: DeserializeOwned>(&mut self) -> Result<Option<M>, LineError> {
        let Some(line) = self.next_line().await? else { return Ok(None) };
        serde_json::from_str(&line).map(Some).map_err(|_| LineError::garbage(&line))
    }
}

/// Writes messages as lines, several at once if they have gathered. Cheap to clone; sending never waits.
#[derive(Clone, Debug)]
pub struct LineWriter {
    queue: mpsc::UnboundedSender<String>,
}

impl LineWriter {
    /// Starts a task that writes to `output`, and closes it with the last clone. A break loses queued lines.
    pub fn start(output: impl AsyncWrite + Send + Unpin + 'static) -> (LineWriter, JoinHandle<()>) {
        let (queue, lines) = mpsc::unbounded_channel();
        (LineWriter { queue }, tokio::spawn(write_lines(output, lines)))
    }

    /// Queues a message. Gives false if the output is broken: the message was certainly not sent.
    pub fn send(&self, message: &impl Serialize) -> bool {
        let line = serde_json::to_string(message).expect("a message is always JSON");
        self.queue.send(line).is_ok()
    }
}

async fn write_lines(output: impl AsyncWrite + Unpin, mut lines: mpsc::UnboundedReceiver<String>) {
    let mut frames = FramedWrite::new(output, LinesCodec::new());
    while let Some(line) = lines.recv().await {
        let mut next = Some(line);
        while let Some(line) = next {
            if frames.feed(line).await.is_err() {
                return;
            }
            next = lines.try_recv().ok();
        }
        if SinkExt::<String>::flush(&mut frames).await.is_err() {
            return;
        }
    }
    // Both directions may share a connection that lives as long as either: its end has to be sent.
    let _ = SinkExt::<String>::close(&mut frames).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, duplex};

    #[tokio::test]
    async fn messages_come_out_as_they_went_in() {
        let (ours, theirs) = duplex(16);
        let (writer, _task) = LineWriter::start(ours);
        let mut reader = LineReader::new(theirs, 100);
        for message in ["a", "with\na line end", "ü"] {
            assert!(writer.send(&message));
        }
        drop(writer);
        for message in ["a", "with\na line end", "ü"] {
            assert_eq!(reader.next::<String>().await.unwrap().as_deref(), Some(message));
        }
        assert_eq!(reader.next::<String>().await.unwrap(), None, "the writer's drop closes the stream");
    }

    #[tokio::test]
    async fn garbage_and_long_lines_are_errors() {
        let mut reader = LineReader::new(&b"{}\nnonsense\n0123456789\n"[..], 9);
        assert_eq!(reader.next_line().await.unwrap().as_deref(), Some("{}"));
        assert!(matches!(reader.next::<u64>().await, Err(LineError::Garbage(line)) if line == "nonsense"));
        assert!(matches!(reader.next_line().await, Err(LineError::TooLong(9))));
    }

    #[tokio::test]
    async fn a_broken_output_refuses_messages() {
        let (ours, theirs) = duplex(16);
        let (writer, task) = LineWriter::start(ours);
        drop(theirs);
        assert!(writer.send(&1), "the first is queued, and finds the output broken");
        task.await.unwrap();
        assert!(!writer.send(&2));
    }

    #[tokio::test]
    async fn lines_are_separated_by_one_line_end() {
        let (ours, mut theirs) = duplex(100);
        let (writer, _task) = LineWriter::start(ours);
        writer.send(&1);
        writer.send(&2);
        drop(writer);
        let mut text = String::new();
        theirs.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "1\n2\n");
    }
}
