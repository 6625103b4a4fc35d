//! The agent's output: answers and reports first, logs when there is room.

use crate::ClusterError;
use crate::protocol::FromAgent;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

/// A longer line of a service is cut into several.
const LINE_MAX: u64 = 16 << 10;

/// Lines of services that wait to be sent. When so many wait, services wait, too.
const LOGS_WAITING_MAX: usize = 1000;

/// Where the agent's lines go. Cheap to clone.
#[derive(Clone)]
pub(super) struct Out {
    reports: mpsc::UnboundedSender<FromAgent>,
    logs: mpsc::Sender<FromAgent>,
}

impl Out {
    /// Starts to write lines to standard output. The process ends when they are no longer read.
    pub(super) fn to_stdout() -> Out {
        let (reports, mut reports_waiting) = mpsc::unbounded_channel();
        let (logs, mut logs_waiting) = mpsc::channel(LOGS_WAITING_MAX);
        tokio::spawn(async move {
            let mut stdout = tokio::io::stdout();
            let mut lines = Vec::new();
            loop {
                let next = tokio::select! {
                    biased;
                    Some(report) = reports_waiting.recv() => report,
                    Some(log) = logs_waiting.recv() => log,
                };
                push(&mut lines, &next);
                while lines.len() < 64 << 10 {
                    match reports_waiting.try_recv().or_else(|_| logs_waiting.try_recv()) {
                        Ok(next) => push(&mut lines, &next),
                        Err(_) => break,
                    }
                }
                if stdout.write_all(&lines).await.is_err() || stdout.flush().await.is_err() {
                    std::process::exit(0);
                }
                lines.clear();
            }
        });
        Out { reports, logs }
    }

    pub(super) fn answer(&self, id: u64, answer: Result<Value, ClusterError>) {
        self.report(FromAgent::Done { id, answer });
    }

    /// One line of a log. Waits where many are waiting.
    pub(super) async fn log(&self, service: &str, line: String) {
        let _ = self.logs.send(FromAgent::Log { service: service.to_owned(), line }).await;
    }

    pub(super) fn log_lines(&self, service: &str, stream: pipe::Receiver) {
        let (out, service) = (self.clone(), service.to_owned());
        tokio::spawn(async move {
            let mut stream = BufReader::new(stream);
            while let Some(line) = next_line(&mut stream).await {
                out.log(&service, line).await;
            }
        });
    }

    /// Never waits, unlike a line of a log.
    pub(super) fn report(&self, report: FromAgent) {
        // The writer ends the process when it cannot go on, so a failure needs no handling here.
        let _ = self.reports.send(report);
    }
}

fn push(lines: &mut Vec<u8>, message: &FromAgent) {
    if let Ok(line) = serde_json::to_string(message) {
        lines.extend_from_slice(line.as_bytes());
        lines.push(b'\n');
    }
}

async fn next_line(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<String> {
    let mut line = Vec::new();
    match stream.take(LINE_MAX).read_until(b'\n', &mut line).await {
        Ok(0) | Err(_) => None,
        Ok(_) => {
            while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
                line.pop();
            }
            Some(String::from_utf8_lossy(&line).into_owned())
        }
    }
}
