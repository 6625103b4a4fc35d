//! Why something that was asked for is refused, as data: which key it is about, and which keys there are.

use fencepost_history::mistake::in_plain_words;
use fencepost_history::prose::unknown;
use serde::de::{Error, Expected, Unexpected};
use std::fmt;

/// Why a fault, a name or an event is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The key that it is about, if it is about one.
    pub key: Option<String>,
    /// What is wrong, in one sentence.
    pub sentence: String,
    /// Where there is no such key: those that there are.
    pub known: Option<Vec<String>>,
}

impl Refusal {
    /// A refusal that is about no key, or whose key the caller knows.
    pub fn new(sentence: impl Into<String>) -> Refusal {
        Refusal { key: None, sentence: sentence.into(), known: None }
    }

    /// A refusal of what stands at this key.
    pub fn at(key: &str, sentence: impl Into<String>) -> Refusal {
        Refusal { key: Some(key.to_owned()), ..Refusal::new(sentence) }
    }

    /// The same, of what stands at this key.
    #[must_use]
    pub(crate) fn of(self, key: &str) -> Refusal {
        Refusal { key: Some(key.to_owned()), known: None, ..self }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.sentence)
    }
}

impl std::error::Error for Refusal {}

/// What serde finds wrong with parameters.
impl Error for Refusal {
    fn custom<T: fmt::Display>(sentence: T) -> Refusal {
        Refusal::new(sentence.to_string())
    }

    fn invalid_type(given: Unexpected<'_>, expected: &dyn Expected) -> Refusal {
        Refusal::new(format!("invalid type: {given}, expected {}", in_plain_words(&expected.to_string())))
    }

    fn invalid_value(given: Unexpected<'_>, expected: &dyn Expected) -> Refusal {
        Refusal::new(format!("invalid value: {given}, expected {}", in_plain_words(&expected.to_string())))
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Refusal {
        Refusal::new(unknown("value", name, known))
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Refusal {
        let sentence = unknown("key", name, known);
        let known = known.iter().map(|&name| name.to_owned()).collect();
        Refusal { key: Some(name.to_owned()), sentence, known: Some(known) }
    }
}
