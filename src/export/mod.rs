//! `fencepost export`: a run's history for other tools.

mod csv;
mod edn;
#[cfg(feature = "parquet")]
mod parquet;

use anyhow::Result;
use clap::Args;
use fencepost_engine::BadUsage;
use fencepost_history::run::{RunFolder, write_whole_by};
use fencepost_history::{Event, Events, Kind};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// What is to be exported, and where to.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The run's folder: results/latest, for instance.
    pub run: PathBuf,
    /// edn as Jepsen's tools read it, or a table as parquet or csv.
    #[arg(long, value_enum)]
    pub format: Format,
    /// Where to write it [default: standard output; parquet wants a file].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub enum Format {
    Edn,
    Parquet,
    Csv,
}

/// Events, one by one: however long a history is, little of it is in memory.
type Source<'a> = &'a mut dyn Iterator<Item = Result<Event>>;

/// Exports the history of a run. A file is there whole or not at all.
pub fn export(args: &ExportArgs) -> Result<i32> {
    #[cfg(not(feature = "parquet"))]
    if args.format == Format::Parquet {
        let sentence = "this program was built without Parquet: use a released one, or build it with --features parquet (--format csv needs neither)";
        return Err(BadUsage(sentence.to_owned()).into());
    }
    let mut events = Events::open(&RunFolder::open(&args.run)?.history())?.map(|event| Ok(event?));
    match &args.out {
        Some(path) => {
            write_whole_by(path, |file| write(args.format, &mut events, &mut BufWriter::new(file)))?
        }
        None if args.format == Format::Parquet => {
            let sentence = "parquet is no text: say with --out FILE where it is to go";
            return Err(BadUsage(sentence.to_owned()).into());
        }
        None => {
            let written = write(args.format, &mut events, &mut BufWriter::new(std::io::stdout()));
            match written {
                // Whoever read it has seen enough (`| head`).
                Err(error) if is_broken_pipe(&error) => {}
                written => written?,
            }
        }
    }
    Ok(0)
}

fn write(format: Format, events: Source, out: &mut (dyn Write + Send)) -> Result<()> {
    match format {
        Format::Edn => edn::write(events, out)?,
        #[cfg(feature = "parquet")]
        Format::Parquet => parquet::write(events, out)?,
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => unreachable!("it was refused"),
        Format::Csv => csv::write(events, out)?,
    }
    Ok(out.flush()?)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.into_iter().any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

/// As in `history.jsonl`.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Invoke => "invoke",
        Kind::Ok => "ok",
        Kind::Fail => "fail",
        Kind::Info => "info",
    }
}

/// A value as JSON text; none for null, so that a table has an empty cell there.
fn value_text(event: &Event) -> Option<String> {
    (!event.value.is_null()).then(|| event.value.to_string())
}

/// What the tests of all formats export.
#[cfg(test)]
mod testing {
    use super::*;

    /// A run as it is, and values that are hard to quote.
    pub fn lines() -> String {
        let nasty = r#"{"index":9000,"time":9223372036854775807,"process":7,"type":"fail","f":"write","key":"a \"b\", c\\","value":[1.5,-3,true,null,{"x y":"two\nlines, \"quoted\" \\ ü","ok?":{"n-1":[]}}],"error":"timeout: no answer, \"yet\""}
{"index":9001,"time":1,"process":8,"type":"info","f":"two words","value":"\t;#_ :k {"}
"#;
        let run = include_str!("../report/fixtures/redlock-clock-jump.jsonl");
        format!("{}\n{nasty}", run.trim_end())
    }

    pub fn exported(format: Format) -> Vec<u8> {
        let lines = lines();
        let mut events = lines.lines().map(|line| Ok(serde_json::from_str(line)?));
        let mut out = Vec::new();
        write(format, &mut events, &mut out).unwrap();
        out
    }
}
