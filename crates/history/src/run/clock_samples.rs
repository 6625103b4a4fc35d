//! The clocks of a run over time, for the report: no verdict rests on them.

use super::{RunError, open_regular};
use crate::{is_too_long, read_line};
use serde::{Deserialize, Serialize};
use std::io::{BufReader, ErrorKind};
use std::path::Path;

/// One reading of a process's clocks: a line of `clocks.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockSample {
    /// As in the history: nanoseconds since the run began, by the controller's clock.
    pub time: u64,
    pub node: String,
    /// How far the wall clock is ahead of the true one, in milliseconds; none where it could not be read.
    pub wall_ms: Option<f64>,
    pub monotonic_ms: Option<f64>,
    /// The most by which either may be wrong.
    pub error_ms: Option<f64>,
    /// The error of `time`, in milliseconds: half of what the reading took.
    #[serde(default)]
    pub time_error_ms: f64,
}

/// The samples of a run; empty where there is no such file. A last line that a crash cut off is ignored.
pub fn read_clock_samples(path: &Path) -> Result<Vec<ClockSample>, RunError> {
    let unreadable = |source| RunError::Read { path: path.to_owned(), source };
    let file = match open_regular(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened.map_err(unreadable)?,
    };
    let malformed = |reason| RunError::Malformed { path: path.to_owned(), reason };
    let (mut samples, mut bad) = (Vec::new(), None);
    let (mut reader, mut line) = (BufReader::new(file), Vec::new());
    for number in 1.. {
        line.clear();
        match read_line(&mut reader, &mut line) {
            Ok(0) => break,
            Err(error) if is_too_long(&error) => return Err(malformed(format!("line {number}: {error}"))),
            read => read.map_err(unreadable)?,
        };
        match (serde_json::from_slice(&line), bad) {
            (Ok(sample), None) => samples.push(sample),
            (Err(_), None) => bad = Some(number),
            (_, Some(bad)) => return Err(malformed(format!("line {bad} is not a reading of a clock"))),
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<ClockSample>, RunError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_clock_samples(file.path())
    }

    #[test]
    fn samples_survive_their_file_and_a_crash_in_its_last_line() {
        let down = ClockSample {
            time: 7,
            node: "n1".to_owned(),
            wall_ms: None,
            monotonic_ms: None,
            error_ms: None,
            time_error_ms: 0.5,
        };
        let line = serde_json::to_string(&down).unwrap();
        assert_eq!(read_text(&format!("{line}\n{{\"time\":9,\"no")).unwrap(), [down]);
        let broken = read_text(&format!("x\n{line}\n")).unwrap_err().to_string();
        assert!(broken.ends_with("line 1 is not a reading of a clock"), "{broken}");
        let endless = tempfile::NamedTempFile::new().unwrap();
        endless.as_file().set_len(40 << 30).unwrap();
        let endless = read_clock_samples(endless.path()).unwrap_err().to_string();
        assert!(endless.contains("line 1: the line is longer than 64 MiB"), "{endless}");
        assert!(read_clock_samples(Path::new("/nowhere/clocks.jsonl")).unwrap().is_empty());
    }
}
