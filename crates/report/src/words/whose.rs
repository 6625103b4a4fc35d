//! Whose failures violations are, in words.

use fencepost_checker::{Attribution, Finding, RunVerdict, Whose, find_class};
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
    let all = verdict.attributions();
    for whose in &all {
        let name = if rows.is_empty() { "whose" } else { "" };
        rows.push((name, format!("{whose}: {}", whose.meaning())));
    }
    let advice = shown.and_then(|finding| Some(find_class(&finding.class)?.advice_for(finding.whose)));
    rows.extend(advice.map(|advice| ("advice", advice.to_owned())));
    // The shown finding is one of several, and a missing fence may be the cause of others.
    let is_shown = shown.is_none_or(|finding| finding.whose == Some(Whose::NoFence));
    if !is_shown && all.iter().any(|each| each.whose == Whose::NoFence) {
        rows.push(("", "And let the storage reject late writes by a fencing token.".to_owned()));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_checker::{Outcome, Verdict};

    #[test]
    fn a_fence_is_advised_where_it_is_one_of_two_causes() {
        let finding = |class: &str, whose| Finding {
            class: class.to_owned(),
            whose: Some(whose),
            ..Finding::default()
        };
        let twice = finding("granted-twice", Whose::Library);
        let rows = |findings: Vec<Finding>| {
            let exclusion = Verdict::new("exclusion", Outcome::Violation, "").with_findings(findings);
            whose_and_advice(&RunVerdict::of(vec![exclusion]), Some(&twice))
        };
        let fence = ("", "And let the storage reject late writes by a fencing token.".to_owned());
        let both = vec![twice.clone(), finding("overstayed", Whose::NoFence)];
        assert_eq!(rows(both).last(), Some(&fence));
        assert!(!rows(vec![twice.clone()]).contains(&fence));
    }
}
