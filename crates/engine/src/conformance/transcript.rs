//! The lines of conversations with clients, in both directions, to be shown where a rule is broken.

use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Lines that a report shows of one rule at most: the last ones.
const SHOWN_MAX: usize = 12;

#[derive(Debug)]
pub(super) struct Transcript {
    begun: Instant,
    lines: Mutex<Vec<TranscriptLine>>,
}

#[derive(Debug)]
struct TranscriptLine {
    time: Duration,
    client: String,
    to_client: bool,
    text: String,
}

/// A line as a report may show it: without the password of a hello.
fn without_password(line: &str) -> String {
    let mut message: Value = serde_json::from_str(line).unwrap_or_default();
    match message.pointer_mut("/access/password") {
        Some(password) => {
            *password = Value::from("…");
            message.to_string()
        }
        None => line.to_owned(),
    }
}

impl Transcript {
    pub(super) fn begin() -> Arc<Transcript> {
        Arc::new(Transcript { begun: Instant::now(), lines: Mutex::default() })
    }

    fn add(&self, client: &str, to_client: bool, text: &str) {
        let line = TranscriptLine {
            time: self.begun.elapsed(),
            client: client.to_owned(),
            to_client,
            text: without_password(text.trim_end()),
        };
        self.lines.lock().push(line);
    }

    /// A conversation's last lines of these processes, or of none; `since`: the lines that came before.
    pub(super) fn lines_of(&self, since: usize, is_of: impl Fn(u64) -> bool) -> Vec<String> {
        let lines = self.lines.lock();
        let mut ids = HashSet::new();
        let mut shown = Vec::new();
        for line in lines.iter().skip(since) {
            let message: Value = serde_json::from_str(&line.text).unwrap_or_default();
            let (process, id) = (message["process"].as_u64(), message["id"].as_u64());
            let belongs = match (process, id) {
                (Some(process), id) if is_of(process) => {
                    ids.extend(id.map(|id| (line.client.as_str(), id)));
                    true
                }
                (Some(_), _) => false,
                (None, Some(id)) => ids.contains(&(line.client.as_str(), id)),
                // A client that was started anew says hello again.
                (None, None) => since == 0 || message.get("hello").is_none(),
            };
            if belongs {
                shown.push(line.to_string());
            }
        }
        let left_out = shown.len().saturating_sub(SHOWN_MAX);
        if left_out > 0 {
            shown.drain(..left_out);
            shown.insert(0, format!("({left_out} lines before)"));
        }
        shown
    }

    pub(super) fn len(&self) -> usize {
        self.lines.lock().len()
    }
}

impl std::fmt::Display for TranscriptLine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let arrow = if self.to_client { '→' } else { '←' };
        write!(out, "{:7.3} s  {} {arrow} {}", self.time.as_secs_f64(), self.client, self.text)
    }
}

/// A stream that writes each whole line that passes into a transcript.
pub(super) struct Recorded<S> {
    stream: S,
    transcript: Arc<Transcript>,
    client: String,
    to_client: bool,
    begun_line: Vec<u8>,
}

impl<S> Recorded<S> {
    pub(super) fn new(stream: S, transcript: &Arc<Transcript>, client: &str, to_client: bool) -> Recorded<S> {
        let (transcript, client) = (transcript.clone(), client.to_owned());
        Recorded { stream, transcript, client, to_client, begun_line: Vec::new() }
    }

    fn pass(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun_line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.begun_line);
                self.transcript.add(&self.client, self.to_client, &String::from_utf8_lossy(&line));
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Recorded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.pass(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Recorded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.pass(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
