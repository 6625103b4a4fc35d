//! Comma-separated values: one event a row.

use super::fields::{EventSource, value_text};
use anyhow::Result;
use std::io::Write;

/// The columns: as in `history.jsonl`, and the unit of the time in its name.
const COLUMNS: [&str; 8] = ["index", "time_ns", "process", "type", "f", "key", "value", "error"];

/// Writes a line of names, then the events. A `value` is JSON text.
pub fn write(events: EventSource, out: &mut dyn Write) -> Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record(COLUMNS)?;
    for event in events {
        let event = event?;
        table.write_record([
            &*event.index.to_string(),
            &*event.time.to_string(),
            &*event.process.to_string(),
            event.kind.name(),
            &*event.f,
            event.key.as_deref().unwrap_or_default(),
            &*value_text(&event).unwrap_or_default(),
            event.error.as_deref().unwrap_or_default(),
        ])?;
    }
    Ok(table.flush()?)
}

#[cfg(test)]
mod tests {
    use crate::export::{Format, testing};
    use fencepost_history::Event;
    use serde_json::Value;

    #[test]
    fn another_reader_finds_every_event_in_its_columns() {
        let text = testing::exported(Format::Csv);
        let lines = testing::lines();
        let mut rows = csv::Reader::from_reader(&*text);
        assert_eq!(rows.headers().unwrap(), super::COLUMNS.as_slice());
        let mut count = 0;
        for (row, line) in rows.records().zip(lines.lines()) {
            let (row, event): (_, Event) = (row.unwrap(), serde_json::from_str(line).unwrap());
            let value = if row[6].is_empty() { Value::Null } else { serde_json::from_str(&row[6]).unwrap() };
            assert_eq!((&row[0], &row[1]), (&*event.index.to_string(), &*event.time.to_string()));
            assert_eq!((&row[2], &row[4]), (&*event.process.to_string(), &*event.f));
            assert_eq!((&row[5], &value), (event.key.as_deref().unwrap_or_default(), &*event.value));
            assert_eq!(&row[7], event.error.as_deref().unwrap_or_default());
            count += 1;
        }
        assert_eq!(count, lines.lines().count());
    }
}
