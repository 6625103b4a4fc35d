//! What the terminal shows of a check.

use console::{Style, style};
use fencepost_engine::{PointOutcome, PointResult, PointSubject, RunSpec};
use fencepost_history::prose::and;
use fencepost_report::terminal::{rows, wrap_indented};
use serde::Serialize;
use std::fmt::Write;

/// The width of an outcome and the name of a point.
const INDENT: usize = 26;

/// All that was found, as `--json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Summary {
    pub(super) lock: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    pub(super) servers: Vec<String>,
    pub(super) keeps_the_protocol: bool,
    pub(super) points: Vec<PointResult>,
}

impl Summary {
    pub(super) fn new(
        spec: &RunSpec,
        servers: Vec<String>,
        version: Option<String>,
        points: Vec<PointResult>,
    ) -> Summary {
        let is_bad =
            |point: &PointResult| matches!(point.outcome, PointOutcome::Broken | PointOutcome::Unchecked);
        let keeps_the_protocol = !points.iter().any(is_bad);
        Summary { lock: spec.lock.name.to_owned(), version, servers, keeps_the_protocol, points }
    }

    fn names(&self, outcome: PointOutcome) -> Vec<String> {
        let points = self.points.iter().filter(|point| point.outcome == outcome);
        points.map(|point| point.point.to_owned()).collect()
    }
}

/// What is checked, and on what.
pub(super) fn opening(spec: &RunSpec, servers: &[String], version: Option<&str>) -> String {
    rows(&[
        ("lock", spec.lock.name),
        ("version", version.unwrap_or("")),
        ("servers", &servers.join(", ")),
        ("ttl", &spec.options.ttl.to_string()),
    ])
}

/// A point in a line; one that asks for something in a few more. None for a point that was not tried: the ending counts those.
pub(super) fn point(result: &PointResult) -> Option<String> {
    let (word, color) = match result.outcome {
        PointOutcome::Kept => ("kept", Style::new().green()),
        PointOutcome::Note => ("note", Style::new().yellow()),
        PointOutcome::NotApplicable => ("-", Style::new().dim()),
        PointOutcome::NotTried => return None,
        PointOutcome::Unchecked => ("unchecked", Style::new().red()),
        PointOutcome::Broken => ("broken", Style::new().red().bold()),
    };
    let word = color.apply_to(format!("{word:<10}"));
    let mut text = format!("{word}{:<16}{}", result.point, wrap_indented(&result.seen, INDENT));
    let Some(change) = &result.change else { return Some(text) };
    let mut row = |name: &str, words: &str| {
        let name = style(format!("{name:<16}")).dim();
        let _ = write!(text, "\n{:10}{name}{}", "", wrap_indented(words, INDENT));
    };
    row("  rule", result.rule);
    row(
        "  about",
        match result.about {
            PointSubject::Client => "the client: the code between Fencepost and the library",
            PointSubject::Library => "the library, or how it is used",
        },
    );
    row(if result.outcome == PointOutcome::Note { "  look" } else { "  change" }, change);
    for line in &result.lines {
        let _ = write!(text, "\n{:12}{}", "", style(line).dim());
    }
    Some(text)
}

/// The last lines: whether the protocol is kept, and what to do next. `path` is the lock as it was named.
pub(super) fn ending(summary: &Summary, path: &str) -> String {
    let kept = summary.names(PointOutcome::Kept).len();
    let notes = summary.names(PointOutcome::Note);
    let bad = [summary.names(PointOutcome::Broken), summary.names(PointOutcome::Unchecked)].concat();
    let (lock, all) = (&summary.lock, summary.points.len());
    let mut text = String::from("\n");
    text += &match summary.keeps_the_protocol {
        true => format!("{lock} keeps the client protocol: {kept} of {all} points"),
        false => format!("{lock} does not keep the client protocol: see {}", and(&bad)),
    };
    let not_tried = summary.names(PointOutcome::NotTried).len();
    if not_tried > 0 {
        let _ = write!(text, "; {} not tried after that", was(not_tried));
    }
    match summary.names(PointOutcome::NotApplicable).len() {
        0 => {}
        1 => text += "; 1 does not apply",
        several => {
            let _ = write!(text, "; {several} do not apply");
        }
    }
    if !notes.is_empty() {
        let _ = write!(text, "; look at {}", and(&notes));
    }
    if summary.keeps_the_protocol {
        let _ = write!(text, "\nnext      fencepost test --lock {path}");
    }
    text
}

/// `1 point was`.
fn was(points: usize) -> String {
    if points == 1 { "1 point was".to_owned() } else { format!("{points} points were") }
}
