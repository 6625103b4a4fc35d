//! SARIF 2.1.0 (OASIS, "Static Analysis Results Interchange Format"): findings, at lines of the history.

use crate::shown_findings::own_findings;
use crate::words::with_whose;
use crate::{Heading, property};
use anyhow::Result;
use fencepost_checker::{Finding, Outcome, RunVerdict, Unjudged, Verdict};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde_json::{Value, json};
use std::path::Path;

/// The whole file, about a run whose history lies there. Errors: none in practice.
pub fn log(heading: &Heading, verdict: &RunVerdict, history: &Path) -> Result<String> {
    let uri = uri(history);
    // Checkers that are about another kind of locks have nothing to do with the run.
    let judged = |name: &str| verdict.of_checker(name).is_some();
    let checkers = fencepost_checker::registry().iter();
    let checkers = checkers.filter(|checker| checker.kind.is_none() || judged(checker.name));
    let rules: Vec<Value> = checkers.map(|checker| rule(checker.name)).collect();
    let results: Vec<Value> = verdict
        .verdicts
        .iter()
        .flat_map(|each| results(each, &own_findings(verdict, each).collect::<Vec<_>>(), &uri))
        .chain(verdict.not_judged.iter().map(|each| not_judged(each, &uri)))
        .collect();
    let mut properties =
        json!({ "seed": heading.seed, "repeat": heading.command, "outcome": verdict.outcome });
    let of_client = [("version", &heading.version), ("client", &heading.client), ("files", &heading.files)];
    for (name, value) in of_client.into_iter().filter(|(_, value)| !value.is_empty()) {
        properties[name] = json!(value);
    }
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "Fencepost", "version": heading.fencepost, "rules": rules } },
            "automationDetails": { "id": format!("fencepost/{}/{}", heading.lock, heading.nemesis) },
            "properties": properties,
            "results": results,
        }],
    });
    Ok(serde_json::to_string_pretty(&log)?)
}

fn rule(checker: &str) -> Value {
    let (name, about) = property(checker);
    json!({ "id": checker, "shortDescription": { "text": name }, "fullDescription": { "text": about } })
}

/// A violation's findings; that nothing was tested, or decided, is a result of another kind.
fn results(verdict: &Verdict, findings: &[&Finding], uri: &str) -> Vec<Value> {
    let whole = |kind: &str| vec![result(&verdict.checker, kind, &verdict.summary, uri, 1)];
    let each = |kind: &str| {
        let found = |finding: &&Finding| {
            let sentence = with_whose(&finding.sentence, finding.attribution().as_slice());
            let mut found = result(&verdict.checker, kind, &sentence, uri, line(finding));
            found["properties"] = json!({ "class": finding.class, "whose": finding.whose });
            found
        };
        findings.iter().map(found).collect()
    };
    match verdict.outcome {
        Outcome::Valid => Vec::new(),
        // What the lock does not claim is worth knowing, and no failure.
        _ if !verdict.claimed => each("informational"),
        Outcome::Unknown => whole("open"),
        Outcome::Vacuous => whole("notApplicable"),
        Outcome::Violation if verdict.findings.is_empty() => whole("fail"),
        Outcome::Violation => each("fail"),
    }
}

fn not_judged(unjudged: &Unjudged, uri: &str) -> Value {
    let text = format!("not judged: {}", unjudged.reason);
    result(&unjudged.checker, "notApplicable", &text, uri, 1)
}

/// A result, at a line of the history. The standard allows a level other than `none` for failures only.
fn result(checker: &str, kind: &str, text: &str, uri: &str, line: u64) -> Value {
    json!({
        "ruleId": checker,
        "kind": kind,
        "level": if kind == "fail" { "error" } else { "none" },
        "message": { "text": text },
        "locations": [{ "physicalLocation": {
            "artifactLocation": { "uri": uri },
            "region": { "startLine": line },
        }}],
    })
}

/// The line of the event that completed the finding: events stand in the history by their index, a line each.
fn line(finding: &Finding) -> u64 {
    finding.events.iter().max().map_or(1, |index| index + 1)
}

/// Relative to the working folder if it lies there, which is what a pipeline can show beside its sources.
fn uri(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).ok();
    let below = here.and_then(|here| whole.strip_prefix(here).ok());
    match below {
        Some(below) => encoded(below),
        None => format!("file://{}", encoded(&whole)),
    }
}

/// As RFC 3986 wants a path.
pub fn encoded(path: &Path) -> String {
    const SPECIAL: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
    percent_encode(path.as_os_str().as_encoded_bytes(), SPECIAL).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_uris() {
        assert_eq!(uri(Path::new("/no where/history.jsonl")), "file:///no%20where/history.jsonl");
        assert_eq!(uri(Path::new("Cargo.toml")), "Cargo.toml");
    }
}
