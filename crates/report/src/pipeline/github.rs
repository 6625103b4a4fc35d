//! GitHub Actions: annotations, and the summary of a job.

use anyhow::{Context, Result};
use fencepost_history::is_steering;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Notice,
    Warning,
    Error,
}

/// A line that GitHub shows on top of a job.
#[derive(Debug)]
pub struct Annotation {
    pub level: Level,
    pub title: String,
    pub text: String,
}

impl fmt::Display for Annotation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Notice => "notice",
            Level::Warning => "warning",
            Level::Error => "error",
        };
        let title = escaped(&self.title).replace(':', "%3A").replace(',', "%2C");
        write!(out, "::{level} title={title}::{}", escaped(&self.text))
    }
}

fn escaped(text: &str) -> String {
    let text = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    text.replace(is_steering, "\u{fffd}")
}

/// Whether this runs there.
pub fn is_there() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// Prints them.
pub fn annotate(annotations: &[Annotation]) {
    let mut out = std::io::stdout();
    for annotation in annotations {
        // The reader may have closed the pipe; the exit code is still right.
        let _ = writeln!(out, "{annotation}");
    }
}

/// Appends Markdown to the summary of the job. Errors: the file that GitHub names cannot be written.
pub fn summarise(markdown: &str) -> Result<()> {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let file = OpenOptions::new().create(true).append(true).open(&path);
    file.and_then(|mut file| writeln!(file, "{markdown}"))
        .with_context(|| format!("cannot append to the job's summary {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_is_one_command_whatever_its_texts_are() {
        let title = "a,b::error title=c\r\n::stop-commands::d".to_owned();
        let annotation =
            Annotation { level: Level::Warning, title, text: "e\n::error::f\u{1b} 5 %".to_owned() };
        assert_eq!(
            annotation.to_string(),
            "::warning title=a%2Cb%3A%3Aerror title=c%0D%0A%3A%3Astop-commands%3A%3Ad::e%0A::error::f\u{fffd} 5 %25"
        );
    }
}
