use crate::prose::unknown;
use serde::de::{Error, Expected, Unexpected};
use std::fmt;

/// Why an input is refused (an option, a name, a value of a file), as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub key: Option<String>,
    pub sentence: String,
    /// The keys that there are, where there is no such key.
    pub known: Option<Vec<String>>,
    /// The place of the value or of the unknown key, in bytes from the beginning of the text that was read.
    pub place: Option<usize>,
}

impl Refusal {
    /// A refusal that is about no key, or whose key the caller knows.
    pub fn new(sentence: impl Into<String>) -> Refusal {
        Refusal { key: None, sentence: sentence.into(), known: None, place: None }
    }

    pub fn at(key: &str, sentence: impl Into<String>) -> Refusal {
        Refusal { key: Some(key.to_owned()), ..Refusal::new(sentence) }
    }

    /// A name that does not exist, with the name that was probably meant.
    pub fn unknown(what: &str, name: &str, known: &[&str]) -> Refusal {
        Refusal::new(unknown(what, name, known))
    }

    /// The same, of what stands at this key.
    #[must_use]
    pub fn of(self, key: &str) -> Refusal {
        Refusal { key: Some(key.to_owned()), known: None, ..self }
    }

    /// The same, with other words around the sentence.
    #[must_use]
    pub fn worded(self, words: impl FnOnce(&str) -> String) -> Refusal {
        Refusal { sentence: words(&self.sentence), ..self }
    }
}

impl From<String> for Refusal {
    fn from(sentence: String) -> Refusal {
        Refusal::new(sentence)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.sentence)
    }
}

impl std::error::Error for Refusal {}

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
        Refusal::unknown("value", name, known)
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Refusal {
        let sentence = unknown("key", name, known);
        let known = known.iter().map(|&name| name.to_owned()).collect();
        Refusal { known: Some(known), ..Refusal::at(name, sentence) }
    }
}

fn in_plain_words(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not negative",
        "i64" => "a whole number",
        "f64" => "a number",
        "a boolean" => "true or false",
        _ => expected,
    }
}
