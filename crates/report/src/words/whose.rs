//! Whose failures violations are, in words.

use fencepost_checker::{Attribution, Finding, RunVerdict, find_class};
use fencepost_history::prose::and;

/// A sentence, and whose failure it tells of: `… (the service)`.
pub fn with_whose(sentence: &str, whose: &[Attribution]) -> String {
    if whose.is_empty() { sentence.to_owned() } else { format!("{sentence} ({})", whose_failures(whose)) }
}

/// `the service and the library`; `the library; the service or the library` where something is open.
pub(super) fn whose_failures(whose: &[Attribution]) -> String {
    let names: Vec<String> = whose.iter().map(Attribution::to_string).collect();
    if whose.iter().any(|each| each.or.is_some()) { names.join("; ") } else { and(&names) }
}

/// Whose failures the violations are, what that means, and advice on the shown one: names and texts.
pub fn whose_and_advice(verdict: &RunVerdict, shown: Option<&Finding>) -> Vec<(&'static str, String)> {
    let mut rows: Vec<(&str, String)> = Vec::new();
    for whose in verdict.attributions() {
        let name = if rows.is_empty() { "whose" } else { "" };
        rows.push((name, format!("{whose}: {}", whose.meaning())));
    }
    let advice = shown.and_then(|finding| Some(find_class(&finding.class)?.advice_for(finding.whose)));
    rows.extend(advice.map(|advice| ("advice", advice.to_owned())));
    rows
}
