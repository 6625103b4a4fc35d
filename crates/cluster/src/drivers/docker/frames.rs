//! The engine mixes a program's two output streams into one of frames; this takes them apart again.

use crate::node_log::NodeLog;
use bollard::container::LogOutput;
use bollard::errors::Error;
use futures_util::{Stream, StreamExt, TryStreamExt};
use std::io;
use std::pin::Pin;
use tokio::io::AsyncRead;
use tokio_util::compat::FuturesAsyncReadCompatExt;

type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;

/// Reads as the program's standard output; its standard error goes to the log, line by line. `name` is the
/// program's in the log.
pub(super) fn standard_output(
    output: Output,
    name: &str,
    log: NodeLog,
) -> impl AsyncRead + Send + Unpin + use<> {
    let mut errors = ErrorLines { line: Vec::new(), name: name.to_owned(), log };
    let frames = output.filter_map(move |frame| {
        std::future::ready(match frame {
            Ok(LogOutput::StdErr { message }) => {
                errors.add(&message);
                None
            }
            Ok(frame) => Some(Ok(frame.into_bytes())),
            Err(error) => Some(Err(io::Error::other(error))),
        })
    });
    frames.into_async_read().compat()
}

struct ErrorLines {
    /// One whose end is still to come.
    line: Vec<u8>,
    name: String,
    log: NodeLog,
}

impl ErrorLines {
    fn add(&mut self, message: &[u8]) {
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

impl Drop for ErrorLines {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            self.end_line();
        }
    }
}
