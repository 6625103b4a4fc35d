//! SARIF 2.1.0 (OASIS, "Static Analysis Results Interchange Format"): every finding, where it stands in the history.

use crate::exhibits::own_findings;
use crate::{Heading, property};
use anyhow::Result;
use fencepost_checker::{Finding, Outcome, RunVerdict, Unjudged, Verdict};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use serde_json::{Value, json};
use std::path::Path;

/// The whole file, about a run whose history lies there.
///
/// # Errors
/// None in practice: writing to memory.
pub fn log(heading: &Heading, verdict: &RunVerdict, history: &Path) -> Result<String> {
    let uri = uri(history);
    let rules: Vec<Value> =
        fencepost_checker::registry().iter().map(|checker| rule(checker.name())).collect();
    let results: Vec<Value> = verdict
        .verdicts
        .iter()
        .flat_map(|each| results(each, &own_findings(verdict, each).collect::<Vec<_>>(), &uri))
        .chain(verdict.not_judged.iter().map(|each| not_judged(each, &uri)))
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "Fencepost", "version": heading.fencepost, "rules": rules } },
            "automationDetails": { "id": format!("fencepost/{}/{}", heading.lock, heading.nemesis) },
            "properties": { "seed": heading.seed, "repeat": heading.command, "outcome": verdict.outcome },
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
    let result = |kind: &str, level: &str, text: &str, line: Option<u64>, class: Option<&str>| {
        let location = json!({ "physicalLocation": {
            "artifactLocation": { "uri": uri },
            "region": { "startLine": line.unwrap_or(1) },
        }});
        let mut result = json!({
            "ruleId": verdict.checker,
            "kind": kind,
            "level": level,
            "message": { "text": text },
            "locations": [location],
        });
        if let Some(class) = class {
            result["properties"] = json!({ "class": class });
        }
        result
    };
    match verdict.outcome {
        Outcome::Valid => Vec::new(),
        Outcome::Unknown => vec![result("open", "none", &verdict.summary, None, None)],
        Outcome::Vacuous => vec![result("notApplicable", "none", &verdict.summary, None, None)],
        Outcome::Violation if verdict.findings.is_empty() => {
            vec![result("fail", "error", &verdict.summary, None, None)]
        }
        Outcome::Violation => {
            let found = |it: &&Finding| result("fail", "error", &it.sentence, line(it), Some(&it.class));
            findings.iter().map(found).collect()
        }
    }
}

/// A checker that did not judge the run.
fn not_judged(unjudged: &Unjudged, uri: &str) -> Value {
    json!({
        "ruleId": unjudged.checker,
        "kind": "notApplicable",
        "level": "none",
        "message": { "text": format!("not judged: {}", unjudged.reason) },
        "locations": [{ "physicalLocation": { "artifactLocation": { "uri": uri }, "region": { "startLine": 1 } } }],
    })
}

/// The line of the event that completed the finding: events stand in the history by their index, a line each.
fn line(finding: &Finding) -> Option<u64> {
    finding.events.iter().max().map(|index| index + 1)
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
