//! Parquet: one event a row.

use super::fields::{Source, kind_name, value_text};
use anyhow::Result;
use fencepost_history::{Event, Process};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::io::Write;
use std::sync::Arc;

/// The columns. `process` is empty where `nemesis` is true; `value` is JSON text.
const SCHEMA: &str = "
    message event {
        REQUIRED INT64 index (INTEGER(64,false));
        REQUIRED INT64 time_ns (INTEGER(64,false));
        OPTIONAL INT64 process (INTEGER(64,false));
        REQUIRED BOOLEAN nemesis;
        REQUIRED BYTE_ARRAY type (STRING);
        REQUIRED BYTE_ARRAY f (STRING);
        OPTIONAL BYTE_ARRAY key (STRING);
        OPTIONAL BYTE_ARRAY value (STRING);
        OPTIONAL BYTE_ARRAY error (STRING);
    }";

/// Rows that are held in memory until they are written together.
const ROWS_TOGETHER: usize = 50_000;

/// Writes the table.
pub fn write(events: Source, out: &mut (dyn Write + Send)) -> Result<()> {
    let compression = Compression::ZSTD(ZstdLevel::default());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut table =
        SerializedFileWriter::new(out, Arc::new(parse_message_type(SCHEMA)?), Arc::new(properties))?;
    let mut rows = Vec::new();
    loop {
        rows.clear();
        for event in events.take(ROWS_TOGETHER) {
            rows.push(event?);
        }
        if rows.is_empty() {
            break;
        }
        let mut group = table.next_row_group()?;
        write_rows(&mut group, &rows)?;
        group.close()?;
    }
    table.close()?;
    Ok(())
}

/// Column by column, in the order of the schema.
fn write_rows<W: Write + Send>(group: &mut SerializedRowGroupWriter<W>, rows: &[Event]) -> Result<()> {
    let text = |text: &str| ByteArray::from(text.as_bytes().to_vec());
    // Numbers without a sign are kept in the bits of those with one: that is how Parquet has it.
    required::<Int64Type, _>(group, rows, |event| event.index.cast_signed())?;
    required::<Int64Type, _>(group, rows, |event| event.time.cast_signed())?;
    optional::<Int64Type, _>(group, rows, |event| match event.process {
        Process::Client(number) => Some(number.cast_signed()),
        Process::Nemesis => None,
    })?;
    required::<BoolType, _>(group, rows, |event| event.process == Process::Nemesis)?;
    required::<ByteArrayType, _>(group, rows, |event| text(kind_name(event.kind)))?;
    required::<ByteArrayType, _>(group, rows, |event| text(&event.f))?;
    optional::<ByteArrayType, _>(group, rows, |event| event.key.as_deref().map(text))?;
    optional::<ByteArrayType, _>(group, rows, |event| value_text(event).as_deref().map(text))?;
    optional::<ByteArrayType, _>(group, rows, |event| event.error.as_deref().map(text))
}

fn required<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<W>,
    rows: &[Event],
    value: impl Fn(&Event) -> T::T,
) -> Result<()> {
    let values: Vec<T::T> = rows.iter().map(value).collect();
    column::<T, W>(group, &values, None)
}

fn optional<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<W>,
    rows: &[Event],
    value: impl Fn(&Event) -> Option<T::T>,
) -> Result<()> {
    let values: Vec<Option<T::T>> = rows.iter().map(value).collect();
    let there: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    column::<T, W>(group, &values.into_iter().flatten().collect::<Vec<_>>(), Some(&there))
}

fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<W>,
    values: &[T::T],
    there: Option<&[i16]>,
) -> Result<()> {
    let mut column = group.next_column()?.expect("the schema has as many columns as are written");
    column.typed::<T>().write_batch(values, there, None)?;
    Ok(column.close()?)
}

#[cfg(test)]
mod tests {
    use crate::export::fields::kind_name;
    use crate::export::{Format, testing};
    use fencepost_history::{Event, Process};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use serde_json::Value;

    #[test]
    fn reads_back_as_the_same_events() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), testing::exported(Format::Parquet)).unwrap();
        let reader = SerializedFileReader::new(file.reopen().unwrap()).unwrap();
        let lines = testing::lines();
        let mut count = 0;
        for (row, line) in reader.get_row_iter(None).unwrap().zip(lines.lines()) {
            let (row, event): (_, Event) = (row.unwrap(), serde_json::from_str(line).unwrap());
            // An empty cell is refused by these.
            let text = |column| row.get_string(column).ok().cloned();
            assert_eq!((row.get_ulong(0).unwrap(), row.get_ulong(1).unwrap()), (event.index, event.time));
            let process = row.get_ulong(2).ok().map_or(Process::Nemesis, Process::Client);
            assert_eq!((process, row.get_bool(3).unwrap()), (event.process, process == Process::Nemesis));
            assert_eq!(text(4).as_deref(), Some(kind_name(event.kind)));
            assert_eq!((text(5), text(6)), (Some(event.f.to_string()), event.key.map(Into::into)));
            let value = text(7).map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
            assert_eq!((&value, text(8)), (&*event.value, event.error.map(|error| error.to_string())));
            count += 1;
        }
        assert_eq!(count, lines.lines().count());
    }
}
