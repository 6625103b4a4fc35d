//! `fencepost export`: a run's history for other tools.

use anyhow::Result;
use clap::Args;
use fencepost_engine::BadUsage;
use fencepost_history::run::{RunFolder, write_whole_by};
use fencepost_history::{Events, HistoryError};
use fencepost_report::export::{Format, HAS_PARQUET, write};
use std::io::{BufWriter, ErrorKind};
use std::path::PathBuf;

/// What is to be exported, and where to.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The run's folder: results/latest, for instance.
    pub run: PathBuf,
    /// Format: edn for Jepsen's tools, or a table as parquet or csv.
    #[arg(long, value_enum)]
    pub format: Format,
    /// File to write [default: standard output; parquet needs a file].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Exports the history of a run. A file is there whole or not at all.
pub fn export(args: &ExportArgs) -> Result<i32> {
    if args.format == Format::Parquet && !HAS_PARQUET {
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
                // The reader closed the pipe (`| head`).
                Err(error) if has_io(&error, |kind| kind == ErrorKind::BrokenPipe) => {}
                // What cannot be read says so by itself.
                Err(error) if has_io(&error, |_| true) && !error.is::<HistoryError>() => {
                    return Err(error.context("cannot write to standard output"));
                }
                written => written?,
            }
        }
    }
    Ok(0)
}

/// Whether the cause is an error of the system of such a kind.
fn has_io(error: &anyhow::Error, is_such: impl Fn(ErrorKind) -> bool) -> bool {
    let mut io = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.any(|cause| is_such(cause.kind()))
}
