//! Reads what the programs of a node printed.

use fencepost_cluster::LIMIT_NOTE;
use fencepost_history::printable;
use fencepost_history::run::read_end;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

/// A log may be a moment behind its program.
pub(crate) const LOG_DELAY: Duration = Duration::from_millis(200);

const LOOKS_FOR_LIMIT: u32 = 3;

pub(crate) const LINES: usize = 3;

const TAIL_BYTES: u64 = 16 << 10;

/// The end of a file, as far as it is text; empty where it cannot be read.
pub(crate) fn tail(path: &Path) -> String {
    read_end(path, TAIL_BYTES).unwrap_or_default()
}

/// A line of a log without the time and the program that the node's agent wrote before it.
pub(crate) fn said(line: &str) -> &str {
    line.split_once(" | ").map_or(line, |(_, said)| said).trim()
}

/// A sentence about a node or its program that is gone, with the last lines of its log in the folder `logs`.
pub(crate) fn as_last_rules(sentence: &str, logs: &Path, node: &str) -> String {
    if let Some(limit) = limit(&logs.join(format!("{node}.log"))) {
        return format!("client {node} {limit}, and was ended");
    }
    let text = tail(&logs.join(format!("{node}.log")));
    let mut lines: Vec<&str> =
        text.lines().map(said).filter(|said| !said.is_empty()).rev().take(LINES).collect();
    lines.reverse();
    match lines[..] {
        [] => format!("{sentence}; its log is empty"),
        _ => format!("{sentence}; its log (logs/{node}.log) ends with: {}", printable(&lines.join(" / "))),
    }
}

/// The last line of the node's program, without time and program; without one, the agent's remark.
pub(crate) async fn last_line(path: &Path) -> Option<String> {
    tokio::time::sleep(LOG_DELAY).await;
    let text = tail(path);
    let mut lines = text.lines().rev().map(said).filter(|words| !words.is_empty());
    let last = lines.next()?;
    // Of a program's end only its words say why it came; the node's own note of it is better than nothing.
    let is_note = |words: &&str| words.starts_with("-- process ");
    let said = std::iter::once(last).chain(lines).find(|words| !is_note(words)).unwrap_or(last);
    Some(printable(said).into_owned())
}

/// The limit that the programs of a node went over, in the words of its agent, after which they were ended.
fn limit(path: &Path) -> Option<String> {
    let begin = format!(" agent | {LIMIT_NOTE}");
    // Thousands of programs may have said something after it.
    let lines = BufReader::new(File::open(path).ok()?).split(b'\n');
    lines.map_while(Result::ok).find_map(|line| {
        let line = String::from_utf8_lossy(&line);
        Some(printable(line.split_once(&begin)?.1.trim()).into_owned())
    })
}

/// The sentence about a client with its last words in `logs`, or that it used too much and was ended.
pub(crate) async fn as_last_rule(sentence: &str, logs: &Path, client: &str) -> String {
    explained(sentence, logs, client, &format!(" (see logs/{client}.log)")).await
}

/// The same, with `see` behind the last words in place of the name of the log.
pub(crate) async fn explained(sentence: &str, logs: &Path, client: &str, see: &str) -> String {
    // What the kernel did to a program comes by other ways than the end of its streams.
    for _ in 0..LOOKS_FOR_LIMIT {
        tokio::time::sleep(LOG_DELAY).await;
        if let Some(limit) = limit(&logs.join(format!("{client}.log"))) {
            return format!("client {client} {limit}, and was ended");
        }
    }
    match last_line(&logs.join(format!("{client}.log"))).await {
        Some(line) => format!("{sentence}; its last line on standard error is `{line}`{see}"),
        None => format!("{sentence}; it wrote nothing to standard error"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_line_comes_without_time_and_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c1.log");
        assert_eq!(last_line(&path).await, None);
        std::fs::write(
            &path,
            "10:00:00.000 client | Traceback\n10:00:00.001 client | ImportError: redis\n\n",
        )
        .unwrap();
        assert_eq!(last_line(&path).await.as_deref(), Some("ImportError: redis"));
        std::fs::write(&path, "10:00:00.001 client | \u{1b}[31mImportError\u{1b}[0m\n").unwrap();
        assert_eq!(last_line(&path).await.as_deref(), Some("\u{fffd}[31mImportError\u{fffd}[0m"));
        let note = "10:00:00.002 client | -- process 6 ended by itself, with code 2\n";
        std::fs::write(&path, format!("10:00:00.001 client | ImportError: redis\n{note}")).unwrap();
        assert_eq!(last_line(&path).await.as_deref(), Some("ImportError: redis"));
        let over =
            "10:00:00.003 agent | -- limit: used more than 64 MiB of memory\n10:00:00.004 client | bye\n";
        std::fs::write(&path, format!("{over}{}", "10:00:00.005 client | fork: retry\n".repeat(1000)))
            .unwrap();
        let ended = as_last_rule("client c1 ended", folder.path(), "c1").await;
        assert_eq!(ended, "client c1 used more than 64 MiB of memory, and was ended");
        std::fs::write(&path, note).unwrap();
        assert!(last_line(&path).await.is_some_and(|words| words.starts_with("-- process 6 ended")));
    }
}
