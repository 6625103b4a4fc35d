use super::{Line, Lines, ReadError, malformed};
use fencepost_history::mistake::json_sentence;
use fencepost_history::{Kind, is_too_long, read_line};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::io::BufRead;

/// Reads a history as JSON lines, with the field names of Jepsen. Empty lines are skipped.
pub struct JsonLines<R> {
    reader: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> JsonLines<R> {
    pub fn new(reader: R) -> Self {
        JsonLines { reader, line: Vec::with_capacity(256), number: 0 }
    }
}

#[derive(Deserialize)]
struct LineFields<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default, borrow)]
    time: Option<&'a RawValue>,
    #[serde(borrow)]
    process: &'a RawValue,
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(borrow)]
    f: Cow<'a, str>,
    #[serde(default, borrow)]
    key: Option<&'a RawValue>,
    #[serde(default, borrow)]
    value: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

impl<R: BufRead> Lines for JsonLines<R> {
    fn next_line(&mut self) -> Result<Option<Line<'_>>, ReadError> {
        loop {
            self.line.clear();
            self.number += 1;
            match read_line(&mut self.reader, &mut self.line) {
                Ok(0) => return Ok(None),
                Err(error) if is_too_long(&error) => return malformed(self.number, error.to_string()),
                read => read?,
            };
            if !self.line.iter().all(u8::is_ascii_whitespace) {
                return parse(&self.line, self.number).map(Some);
            }
        }
    }
}

fn parse(text: &[u8], number: u64) -> Result<Line<'_>, ReadError> {
    // Serde takes an array for the fields in their order.
    if !text.trim_ascii_start().starts_with(b"{") {
        return malformed(number, "an event is a JSON object, {\"process\": …, \"type\": …, \"f\": …}");
    }
    let fields: LineFields = match serde_json::from_slice(text) {
        Ok(fields) => fields,
        Err(_) if is_of_porcupine(text) => return malformed(number, OF_PORCUPINE),
        // The line of a position would be the one in this text alone.
        Err(error) => {
            let (what, column) = (json_sentence(&error), error.column());
            return malformed(number, format!("{what}, at character {column}"));
        }
    };
    let time_ns = match fields.time.map(|time| (time.get(), time.get().parse::<u64>())) {
        None => None,
        Some((_, Ok(time_ns))) => Some(time_ns),
        Some((text, Err(_))) => {
            return malformed(number, format!("the time {text} is no number of nanoseconds"));
        }
    };
    Ok(Line {
        number,
        index: fields.index,
        time_ns,
        process: process(fields.process.get(), number)?,
        kind: fields.kind,
        f: fields.f,
        key: fields.key.map(|key| plain(key.get())),
        value: fields.value.map_or(Cow::Borrowed("null"), |value| Cow::Borrowed(value.get())),
        error: fields.error.map(|error| first_word(error.get())),
    })
}

/// For operations that etcd's robustness tests write as `operations.json`.
const OF_PORCUPINE: &str = "this is an operation of Porcupine (ClientId, Input, Call, Output, Return), as etcd's robustness tests \
    write them: its input is a whole request to etcd, for which there is no model here; judge it with those tests, or write the \
    operations of one key as two events each, {\"process\": …, \"type\": \"invoke\", \"f\": \"write\", \"value\": …} and its completion";

fn is_of_porcupine(text: &[u8]) -> bool {
    let fields: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_slice(text);
    fields.is_ok_and(|fields| {
        ["ClientId", "Input", "Call", "Output"].iter().all(|name| fields.contains_key(*name))
    })
}

fn process(text: &str, number: u64) -> Result<Option<u64>, ReadError> {
    match text.parse() {
        Ok(process) => Ok(Some(process)),
        Err(_) if text == "\"nemesis\"" => Ok(None),
        Err(_) => malformed(number, format!("the process {text} is neither a number nor \"nemesis\"")),
    }
}

/// A string without its quotes; anything else as it stands.
pub(super) fn plain(json: &str) -> Cow<'_, str> {
    let inner = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inner {
        Some(inner) if !inner.contains('\\') => Cow::Borrowed(inner),
        Some(_) => Cow::Owned(serde_json::from_str(json).unwrap_or_else(|_| json.to_owned())),
        None => Cow::Borrowed(json),
    }
}

/// An error as a text that begins with its code: a string, or the first of a list as Jepsen writes them.
pub(super) fn first_word(json: &str) -> Cow<'_, str> {
    match serde_json::from_str::<Vec<serde_json::Value>>(json) {
        Ok(list) => match list.first() {
            Some(serde_json::Value::String(code)) => Cow::Owned(code.clone()),
            _ => Cow::Borrowed(json),
        },
        Err(_) => plain(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_porcupine_are_named() {
        let etcd = br#"{"ClientId":1,"Input":{"Type":"range"},"Call":5,"Output":{"Revision":3},"Return":9}"#;
        let refused = parse(etcd, 1).unwrap_err().to_string();
        assert!(refused.starts_with("line 1: this is an operation of Porcupine"), "{refused}");
        let other = parse(br#"{"ClientId":1,"Input":{}}"#, 1).unwrap_err().to_string();
        assert!(!other.contains("Porcupine"), "{other}");
    }
}
