//! Mistakes in a file that a person wrote: where each is, and which key or name was probably meant.

use crate::deserializer::read_value;
use crate::prose::unknown;
use crate::refusal::Refusal;
use serde::de::DeserializeOwned;
use std::fmt;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A mistake in a text that a person wrote, in one sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    /// In bytes from the beginning of the text.
    pub at: usize,
    pub sentence: String,
}

impl Mistake {
    pub fn new(span: Range<usize>, sentence: impl Into<String>) -> Mistake {
        Mistake { at: span.start, sentence: sentence.into() }
    }

    /// A name that does not exist, with the name that was probably meant.
    pub fn unknown(span: Range<usize>, what: &str, name: &str, known: &[&str]) -> Mistake {
        Mistake::new(span, unknown(what, name, known))
    }

    /// What is not TOML at all, as the parser says it.
    pub fn of_toml(error: &toml::de::Error) -> Mistake {
        Mistake::new(error.span().unwrap_or(0..0), error.message())
    }

    /// A refusal of what stands in `span`, at the refusal's own place where it has one.
    pub fn of(span: Range<usize>, refusal: Refusal) -> Mistake {
        Mistake { at: refusal.place.unwrap_or(span.start), sentence: refusal.sentence }
    }

    /// The mistake with its file and line; `text` is the file's text.
    pub fn in_file(self, file: &str, text: &str) -> MistakeInFile {
        MistakeInFile { file: file.to_owned(), line: line_at(text, self.at), sentence: self.sentence }
    }
}

#[derive(Debug, thiserror::Error)]
pub struct MistakeInFile {
    pub file: String,
    pub line: usize,
    pub sentence: String,
}

impl fmt::Display for MistakeInFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}, line {}: {}", self.file, self.line, self.sentence)
    }
}

impl From<MistakeInFile> for Refusal {
    fn from(mistake: MistakeInFile) -> Refusal {
        Refusal::new(mistake.to_string())
    }
}

/// Reads a value from a table at `span`. The error is the first key or value that does not fit.
pub fn read_table<T: DeserializeOwned>(table: DeTable<'_>, span: Range<usize>) -> Result<T, Mistake> {
    read_value(&Spanned::new(span.clone(), DeValue::Table(table)))
        .map_err(|refusal| Mistake::of(span, refusal))
}

/// The tables of an array, or the one table. An error where the value at this key is neither.
pub fn tables<'a>(
    value: Spanned<DeValue<'a>>,
    key: &str,
) -> Result<Vec<(DeTable<'a>, Range<usize>)>, Mistake> {
    let span = value.span();
    let items = match value.into_inner() {
        DeValue::Array(items) => items.into_iter().collect(),
        other => vec![Spanned::new(span, other)],
    };
    let table = |item: Spanned<DeValue<'a>>| match (item.span(), item.into_inner()) {
        (span, DeValue::Table(table)) => Ok((table, span)),
        (span, _) => Err(Mistake::new(span, format!("`{key}` is a table, or several: write [[{key}]]"))),
    };
    items.into_iter().map(table).collect()
}

/// What is wrong with JSON, without the place, which the caller says.
pub fn json_sentence(error: &serde_json::Error) -> String {
    let mut sentence = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    sentence.truncate(sentence.strip_suffix(&place).map_or(sentence.len(), str::len));
    sentence
}

pub fn line_at(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().iter().take(byte);
    1 + before.filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case", deny_unknown_fields)]
    #[expect(dead_code, reason = "only the mistakes in it matter")]
    struct Table {
        lock: String,
        lease: Option<Lease>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Lease {
        Session,
        Connection,
    }

    fn refused(text: &str) -> String {
        let table = DeTable::parse(text).unwrap().into_inner();
        read_table::<Table>(table, 0..0).unwrap_err().in_file("lock.toml", text).to_string()
    }

    #[test]
    fn a_mistake_is_named_with_its_line_and_what_was_meant() {
        assert_eq!(
            refused("lock = \"a\"\n\nlaese = \"session\""),
            "lock.toml, line 3: unknown key \"laese\": did you mean \"lease\"?"
        );
        let value = "lock.toml, line 2: unknown value \"sesion\": did you mean \"session\"?";
        assert_eq!(refused("lock = \"a\"\nlease = \"sesion\""), value);
        assert_eq!(refused("lease = \"connection\""), "lock.toml, line 1: missing field `lock`");
        let expected = "lock.toml, line 2: invalid type: integer `7`, expected a string";
        assert_eq!(refused("lock = \"a\"\nlease = 7"), expected);
        assert_eq!(refused("\nlock = 7"), expected);
    }
}
