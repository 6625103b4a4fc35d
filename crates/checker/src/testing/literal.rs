//! Histories written out in tests: a line is `time_ms process type f key value error`.
//!
//! The last two may be left out; the key `-` is none; names inside a value need no quotes: `{ttl_ms:2000}`.
//! A `~` in a value is a space.

use crate::properties::Checker;
use crate::run_index::RunIndex;
use crate::verdict::Verdict;
use fencepost_history::{Event, Process};
use serde_json::{Value, json};

/// Reads a literal history.
pub fn events(text: &str) -> Vec<Event> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.enumerate().map(|(index, line)| event(index as u64, line)).collect()
}

fn event(index: u64, line: &str) -> Event {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [time, process, kind, f, key, rest @ ..] = &words[..] else { panic!("too short: {line}") };
    let value = rest.first().map_or(Value::Null, |value| relaxed(value));
    Event {
        index,
        time: time.parse::<u64>().unwrap() * 1_000_000,
        process: process.parse().map_or(Process::Nemesis, Process::Client),
        kind: serde_json::from_value(json!(kind)).unwrap(),
        f: (*f).into(),
        key: (*key != "-").then(|| (*key).into()),
        value: value.into(),
        error: rest.get(1..).filter(|error| !error.is_empty()).map(|error| error.join(" ").into()),
    }
}

/// JSON whose object keys may stand without quotes.
fn relaxed(text: &str) -> Value {
    let mut json = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(':') {
        let start = rest[..at].rfind(['{', ',']).map_or(0, |at| at + 1);
        json.push_str(&rest[..start]);
        json.push_str(&format!("\"{}\":", rest[start..at].trim_matches('"')));
        rest = &rest[at + 1..];
    }
    json.push_str(rest);
    let json = json.replace('~', " ");
    serde_json::from_str(&json).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A checker's verdict on a literal history, if any; asserts that its findings are well-formed.
pub fn maybe_verdict(checker: &Checker, text: &str) -> Option<Verdict> {
    let events = events(text);
    let run = RunIndex::new(&events).unwrap();
    let verdict = checker.check(&run).ok()?;
    for finding in &verdict.findings {
        let cited: Vec<u64> =
            finding.events.iter().filter_map(|index| Some(run.event(*index)?.time)).collect();
        let classes = checker.classes;
        assert!(classes.iter().any(|class| finding.is_of_class(class.name)), "no class: {finding:?}");
        assert!(!finding.key.is_empty() && !finding.sentence.is_empty(), "of what? {finding:?}");
        // An idle lock that only acquires wait for that do not end leaves nothing to cite.
        let first = cited.iter().min().copied().unwrap_or(1);
        assert!(finding.time >= first, "it is before all that it cites: {finding:?}");
    }
    Some(verdict)
}

/// What a checker says about a literal history.
pub fn verdict(checker: &Checker, text: &str) -> Verdict {
    maybe_verdict(checker, text).expect("the checker has nothing to say")
}
