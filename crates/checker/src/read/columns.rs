//! Histories as Jepsen prints them for people: `history.txt`, and the operations in `jepsen.log`. An
//! operation is a line of columns that tabs separate: process, type, function, value, and perhaps an error.
//! In a log, a level, a time, a thread and the logger's name stand before it, in an order that varies.

use super::read_ready;
use fencepost_history::read_line;
use std::io::{self, BufRead, Read};

/// What stands before an operation in a log, and may be followed by a dash or a colon.
const LOGGER: &str = "jepsen.util";

/// The words with which lines of logs began before they began with the time.
const LEVELS: [&str; 4] = ["INFO", "WARN", "ERROR", "DEBUG"];

/// Gives each operation as a map of EDN, in a line of its own, and an empty line for a line of a log that
/// holds none, so that lines keep their numbers. In a text that is no log, such a line stays, and is refused.
pub struct ColumnLines<R> {
    lines: R,
    /// Whether the text is a log: its first line says so.
    is_log: Option<bool>,
    rest: Vec<u8>,
    at: usize,
}

impl<R: BufRead> ColumnLines<R> {
    pub fn new(lines: R) -> Self {
        ColumnLines { lines, is_log: None, rest: Vec::new(), at: 0 }
    }
}

/// Whether a text begins as such a file does: with the number of a process, or the time of a log.
pub fn looks_like_columns(text: &[u8]) -> bool {
    let line = text.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    let line = String::from_utf8_lossy(line.unwrap_or_default());
    is_of_a_log(&line) || columns(&line).is_some()
}

fn is_of_a_log(line: &str) -> bool {
    let begins_with_time = line.starts_with("20") && line.as_bytes().get(4) == Some(&b'-');
    let level = line.split([' ', '\t']).next().unwrap_or_default();
    begins_with_time || (LEVELS.contains(&level) && line.contains("jepsen"))
}

fn columns(line: &str) -> Option<[&str; 5]> {
    let (process, rest) = word(line)?;
    let (kind, rest) = word(rest)?;
    let (function, rest) = word(rest)?;
    let is_process =
        process == ":nemesis" || !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    let is_kind = [":invoke", ":ok", ":fail", ":info"].contains(&kind);
    let (value, error) = rest.trim().split_once('\t').unwrap_or((rest.trim(), ""));
    (is_process && is_kind).then_some([process, kind, function, value, error])
}

fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn as_map(line: &str, is_log: bool) -> String {
    let operation = line.split_once(LOGGER).filter(|_| is_log).map_or(line, |(_, operation)| operation);
    let operation = [": ", " - "].iter().find_map(|sign| operation.strip_prefix(sign)).unwrap_or(operation);
    let Some([process, kind, function, value, error]) = columns(operation) else {
        return if is_log { String::new() } else { line.to_owned() };
    };
    let value = if value.is_empty() { "nil" } else { value };
    let error = if error.trim().is_empty() { "nil" } else { error };
    format!("{{:process {process} :type {kind} :f {function} :value {value} :error {error}}}")
}

impl<R: BufRead> Read for ColumnLines<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        read_ready(self, to)
    }
}

impl<R: BufRead> BufRead for ColumnLines<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.rest.len() {
            let mut line = Vec::new();
            let is_end = read_line(&mut self.lines, &mut line)? == 0;
            let text = String::from_utf8_lossy(&line);
            if self.is_log.is_none() && !text.trim().is_empty() {
                self.is_log = Some(is_of_a_log(&text));
            }
            self.rest = as_map(text.trim_end(), self.is_log == Some(true)).into_bytes();
            if !is_end {
                self.rest.push(b'\n');
            }
            self.at = 0;
        }
        Ok(&self.rest[self.at..])
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let mut read = String::new();
        ColumnLines::new(text.as_bytes()).read_to_string(&mut read).unwrap();
        read
    }

    #[test]
    fn lines_of_columns_become_maps() {
        assert_eq!(
            read("0\t:invoke\t:write\t[1 2]\n1\t:info\t:read\tnil\t:timeout\n:nemesis\t:info\t:start\tnil\n"),
            "{:process 0 :type :invoke :f :write :value [1 2] :error nil}\n\
             {:process 1 :type :info :f :read :value nil :error :timeout}\n\
             {:process :nemesis :type :info :f :start :value nil :error nil}\n"
        );
        assert_eq!(read("0   :ok     :read   3"), "{:process 0 :type :ok :f :read :value 3 :error nil}\n");
        assert_eq!(read("what is this\n"), "what is this\n");
        assert_eq!(read("0 :invoke\n"), "0 :invoke\n", "of no operation");
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let endless = b"0\t:invoke\t:read\tnil".chain(io::repeat(b'x'));
        let refused = ColumnLines::new(io::BufReader::new(endless)).read(&mut [0]).unwrap_err().to_string();
        assert!(refused.starts_with("the line is longer than 64 MiB"), "{refused}");
    }

    #[test]
    fn logs_of_earlier_versions_are_read() {
        let operations = "{:process 0 :type :invoke :f :write :value 4 :error nil}\n\
                          {:process :nemesis :type :info :f :start :value nil :error nil}\n";
        let of_2014 = "INFO  jepsen.core - Worker 0 starting\n\
                       INFO  jepsen.util - 0\t:invoke\t:write\t4\n\
                       INFO  jepsen.util - :nemesis\t:info\t:start\tnil\n";
        let of_0_1 = "INFO [2020-06-02 15:33:51,841] jepsen worker 0 - jepsen.util 0\t:invoke\t:write\t4\n\
                      INFO [2020-06-02 15:33:51,842] jepsen nemesis - jepsen.util :nemesis\t:info\t:start\tnil\n";
        assert_eq!(read(of_2014), format!("\n{operations}"));
        assert_eq!(read(of_0_1), operations);
        assert!(looks_like_columns(of_2014.as_bytes()) && looks_like_columns(of_0_1.as_bytes()));
        assert!(!looks_like_columns(b"INFO is the first word of this text"));
    }

    #[test]
    fn of_a_log_only_the_operations_count_and_lines_keep_their_numbers() {
        let log = "2024-05-01 10:00:00,123{GMT}\tINFO\t[jepsen test runner] jepsen.core: Test version 1\n\
                   2024-05-01 10:00:01,123{GMT}\tINFO\t[jepsen worker 0] jepsen.util: 0\t:invoke\t:acquire\tnil\n";
        assert_eq!(read(log), "\n{:process 0 :type :invoke :f :acquire :value nil :error nil}\n");
        assert!(looks_like_columns(log.as_bytes()) && looks_like_columns(b"\n0\t:invoke\t:read\tnil"));
        // A log has lines of other kinds, too.
        let with_a_trace = log.replacen('\n', "\njava.lang.Exception: 0 :ok\n", 1);
        assert_eq!(read(&with_a_trace), format!("\n{}", read(log)));
        assert!(
            !looks_like_columns(b"{\"process\":0}")
                && !looks_like_columns(b"[{:process 0}]")
                && !looks_like_columns(b"")
        );
    }
}
