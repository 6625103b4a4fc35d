//! A mistake in a scenario file: where it is, and which key or name was probably meant.

use crate::names::unknown;
use std::fmt;
use std::ops::Range;

/// A mistake at a place of a text, in one sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    /// The place, in bytes from the beginning of the text.
    pub at: usize,
    pub sentence: String,
}

impl Mistake {
    /// A mistake where this span begins.
    pub fn new(span: Range<usize>, sentence: impl Into<String>) -> Mistake {
        Mistake { at: span.start, sentence: sentence.into() }
    }

    /// A name that does not exist, with the name that was probably meant.
    pub fn unknown(span: Range<usize>, what: &str, name: &str, known: &[&str]) -> Mistake {
        Mistake::new(span, unknown(what, name, known))
    }

    /// What serde says, in our words: it names unknown keys and values, but not the nearest right one.
    pub fn of_toml(error: &toml::de::Error) -> Mistake {
        let message = error.message();
        let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
        let what = ["unknown field", "unknown variant"].into_iter().find(|what| message.starts_with(what));
        let sentence = match (what, &names[..]) {
            (Some("unknown field"), [name, known @ ..]) => unknown("key", name, known),
            (Some(_), [name, known @ ..]) => unknown("value", name, known),
            _ => message.to_owned(),
        };
        Mistake::new(error.span().unwrap_or(0..0), sentence)
    }

    /// The number of its line in this text, from 1.
    pub fn line(&self, text: &str) -> usize {
        1 + text[..self.at.min(text.len())].matches('\n').count()
    }
}

/// A mistake in a file: its name, the line, and what is wrong.
#[derive(Debug, thiserror::Error)]
pub struct ScenarioError {
    /// Path of the file, or name of the scenario.
    pub file: String,
    pub line: usize,
    pub sentence: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}, line {}: {}", self.file, self.line, self.sentence)
    }
}
