//! The engine mixes a program's two output streams into one of frames; this takes them apart again.

use crate::node_log::NodeLog;
use bollard::container::LogOutput;
use bollard::errors::Error;
use futures_util::Stream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;

/// Reads as the program's standard output; its standard error goes to the log, line by line.
pub(super) struct Frames {
    output: Output,
    waiting: Vec<u8>,
    read: usize,
    /// Of standard error: a line whose end is still to come.
    line: Vec<u8>,
    name: String,
    log: NodeLog,
}

impl Frames {
    /// `name` is the program's in the log.
    pub(super) fn new(output: Output, name: &str, log: NodeLog) -> Frames {
        Frames { output, waiting: Vec::new(), read: 0, line: Vec::new(), name: name.to_owned(), log }
    }

    fn log(&mut self, message: &[u8]) {
        for part in message.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line);
        self.log.line(&self.name, text.trim_end());
    }
}

impl AsyncRead for Frames {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        loop {
            let waiting = &this.waiting[this.read..];
            if !waiting.is_empty() {
                let length = waiting.len().min(buffer.remaining());
                buffer.put_slice(&waiting[..length]);
                this.read += length;
                return Poll::Ready(Ok(()));
            }
            match ready!(this.output.as_mut().poll_next(context)) {
                Some(Ok(LogOutput::StdErr { message })) => this.log(&message),
                Some(Ok(frame)) => {
                    this.waiting.clear();
                    this.waiting.extend_from_slice(frame.as_ref());
                    this.read = 0;
                }
                Some(Err(error)) => return Poll::Ready(Err(std::io::Error::other(error))),
                None => {
                    if !this.line.is_empty() {
                        this.end_line();
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}
