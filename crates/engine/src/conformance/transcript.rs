//! The lines of conversations with clients, in both directions, to be shown where a rule is broken.

use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
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

    /// Takes what passes to or from a client, and keeps each whole line.
    pub(super) fn keep_lines(self: &Arc<Self>, client: &str, to_client: bool) -> impl FnMut(&[u8]) + use<> {
        let (transcript, client, mut begun_line) = (self.clone(), client.to_owned(), Vec::new());
        move |bytes| {
            for part in bytes.split_inclusive(|byte| *byte == b'\n') {
                begun_line.extend_from_slice(part);
                if part.ends_with(b"\n") {
                    let line = std::mem::take(&mut begun_line);
                    transcript.add(&client, to_client, &String::from_utf8_lossy(&line));
                }
            }
        }
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
