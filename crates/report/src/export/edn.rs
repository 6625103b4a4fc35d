//! EDN as Jepsen writes and reads it: one map a line.

use super::fields::EventSource;
use anyhow::Result;
use fencepost_history::{Event, Process};
use serde_json::Value;
use std::io::Write;

/// Writes `{:index 0, :time 5, :type :invoke, :process 0, :f :acquire, :key "k0", …}` and so on.
pub fn write(events: EventSource, out: &mut dyn Write) -> Result<()> {
    let mut line = String::new();
    for event in events {
        line.clear();
        map(&mut line, &event?);
        line.push('\n');
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn map(line: &mut String, event: &Event) {
    let process = match event.process {
        Process::Client(number) => number.to_string(),
        Process::Nemesis => ":nemesis".to_owned(),
    };
    let (index, time, kind) = (event.index, event.time, event.kind.name());
    line.push_str(&format!("{{:index {index}, :time {time}, :type :{kind}, :process {process}, :f "));
    name(line, &event.f);
    if let Some(key) = &event.key {
        line.push_str(", :key ");
        string(line, key);
    }
    line.push_str(", :value ");
    form(line, &event.value);
    if let Some(error) = &event.error {
        line.push_str(", :error ");
        string(line, error);
    }
    line.push('}');
}

fn form(line: &mut String, value: &Value) {
    match value {
        Value::Null => line.push_str("nil"),
        Value::Bool(_) | Value::Number(_) => line.push_str(&value.to_string()),
        Value::String(text) => string(line, text),
        Value::Array(items) => {
            line.push('[');
            for (at, item) in items.iter().enumerate() {
                line.push_str(if at > 0 { " " } else { "" });
                form(line, item);
            }
            line.push(']');
        }
        Value::Object(fields) => {
            line.push('{');
            for (at, (field, value)) in fields.iter().enumerate() {
                line.push_str(if at > 0 { ", " } else { "" });
                name(line, field);
                line.push(' ');
                form(line, value);
            }
            line.push('}');
        }
    }
}

/// A keyword where the name can be one, else a string.
fn name(line: &mut String, name: &str) {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "-_.?!*+".contains(sign);
    if name.starts_with(|sign: char| sign.is_ascii_alphabetic()) && name.chars().all(plain) {
        line.push(':');
        line.push_str(name);
    } else {
        string(line, name);
    }
}

fn string(line: &mut String, text: &str) {
    line.push('"');
    for sign in text.chars() {
        match sign {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\t' => line.push_str("\\t"),
            '\r' => line.push_str("\\r"),
            sign => line.push(sign),
        }
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use crate::export::{Format, testing};
    use fencepost_checker::read::{Edn, JsonLines, Lines};
    use serde_json::Value;

    /// Every event, in words that do not depend on how it was written.
    fn events(lines: &mut dyn Lines) -> Vec<String> {
        let mut events = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            let value: Value = serde_json::from_str(&line.value).unwrap();
            events.push(format!(
                "{:?} {:?} {:?} {:?} {} {:?} {value} {:?}",
                line.index, line.time_ns, line.process, line.kind, line.f, line.key, line.error
            ));
        }
        events
    }

    #[test]
    fn what_was_exported_reads_as_the_same_history() {
        let (json, edn) = (testing::lines(), testing::exported(Format::Edn));
        let (read, again) = (events(&mut JsonLines::new(json.as_bytes())), events(&mut Edn::new(&*edn)));
        assert_eq!(read.len(), json.lines().count());
        assert_eq!(read, again);
    }

    #[test]
    fn events_look_as_jepsen_writes_them() {
        let text = String::from_utf8(testing::exported(Format::Edn)).unwrap();
        let some = text.lines().take(6).chain(text.lines().rev().take(2));
        insta::assert_snapshot!(some.collect::<Vec<_>>().join("\n"));
    }
}
