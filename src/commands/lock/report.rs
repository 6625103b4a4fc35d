//! What the terminal shows of a check.

use console::{Style, style};
use fencepost_engine::{RuleOutcome, RuleResult, RuleSubject, RunSpec};
use fencepost_history::prose::and;
use fencepost_report::terminal::{rows, wrap_indented};
use serde::Serialize;
use std::fmt::Write;

const INDENT: usize = 26;

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Summary {
    pub(super) lock: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    pub(super) servers: Vec<String>,
    pub(super) keeps_the_protocol: bool,
    #[serde(rename = "points")]
    pub(super) rules: Vec<RuleResult>,
}

impl Summary {
    pub(super) fn new(
        spec: &RunSpec,
        servers: Vec<String>,
        version: Option<String>,
        rules: Vec<RuleResult>,
    ) -> Summary {
        let is_bad = |rule: &RuleResult| matches!(rule.outcome, RuleOutcome::Broken | RuleOutcome::Unchecked);
        let keeps_the_protocol = !rules.iter().any(is_bad);
        Summary { lock: spec.lock.name.to_owned(), version, servers, keeps_the_protocol, rules }
    }

    /// Whether every rule was tried that applies. A library that never grants leaves most of them open.
    pub(super) fn is_tried(&self) -> bool {
        self.names(RuleOutcome::NotTried).is_empty()
    }

    fn names(&self, outcome: RuleOutcome) -> Vec<String> {
        let rules = self.rules.iter().filter(|rule| rule.outcome == outcome);
        rules.map(|rule| rule.name.to_owned()).collect()
    }
}

pub(super) fn opening(spec: &RunSpec, servers: &[String], version: Option<&str>) -> String {
    rows(&[
        ("lock", spec.lock.name),
        ("version", version.unwrap_or("")),
        ("servers", &servers.join(", ")),
        ("ttl", &spec.options.ttl.to_string()),
    ])
}

/// A rule in a line, or some if something is to be changed; none for a rule that was not tried.
pub(super) fn rule(result: &RuleResult) -> Option<String> {
    let (word, color) = match result.outcome {
        RuleOutcome::Kept => ("kept", Style::new().green()),
        RuleOutcome::Note => ("note", Style::new().yellow()),
        RuleOutcome::NotApplicable => ("-", Style::new().dim()),
        RuleOutcome::NotTried => return None,
        RuleOutcome::Unchecked => ("unchecked", Style::new().red()),
        RuleOutcome::Broken => ("broken", Style::new().red().bold()),
    };
    let word = color.apply_to(format!("{word:<10}"));
    let mut text = format!("{word}{:<16}{}", result.name, wrap_indented(&result.seen, INDENT));
    let Some(change) = &result.change else { return Some(text) };
    let mut row = |name: &str, words: &str| {
        let name = style(format!("{name:<16}")).dim();
        let _ = write!(text, "\n{:10}{name}{}", "", wrap_indented(words, INDENT));
    };
    row("  rule", result.asks);
    row(
        "  about",
        match result.about {
            RuleSubject::Client => "the client: the code between Fencepost and the library",
            RuleSubject::Library => "the library, or how it is used",
        },
    );
    row(if result.outcome == RuleOutcome::Note { "  look" } else { "  change" }, change);
    for line in &result.lines {
        let _ = write!(text, "\n{:12}{}", "", style(line).dim());
    }
    Some(text)
}

/// The last lines: whether the protocol is kept, and what to do next. `path` is the lock as it was named.
pub(super) fn ending(summary: &Summary, path: &str) -> String {
    let kept = summary.names(RuleOutcome::Kept).len();
    let notes = summary.names(RuleOutcome::Note);
    let bad = [summary.names(RuleOutcome::Broken), summary.names(RuleOutcome::Unchecked)].concat();
    let (lock, all) = (&summary.lock, summary.rules.len());
    let mut text = String::from("\n");
    text += &match summary.keeps_the_protocol {
        true if !summary.is_tried() => {
            format!("{lock} breaks no rule of the client protocol that could be tried: {kept} of {all} rules")
        }
        true => format!("{lock} keeps the client protocol: {kept} of {all} rules"),
        false => format!("{lock} does not keep the client protocol: see {}", and(&bad)),
    };
    let not_tried = summary.names(RuleOutcome::NotTried).len();
    if not_tried > 0 {
        let _ = write!(text, "; {} not tried after that", was(not_tried));
    }
    match summary.names(RuleOutcome::NotApplicable).len() {
        0 => {}
        1 => text += "; 1 does not apply",
        several => {
            let _ = write!(text, "; {several} do not apply");
        }
    }
    if !notes.is_empty() {
        let _ = write!(text, "; look at {}", and(&notes));
    }
    if summary.is_tried() && summary.keeps_the_protocol {
        let _ = write!(text, "\nnext      fencepost test --lock {path} --nemesis pause");
    }
    text
}

fn was(rules: usize) -> String {
    if rules == 1 { "1 rule was".to_owned() } else { format!("{rules} rules were") }
}
