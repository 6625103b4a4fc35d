//! `fencepost export`: a run's history for other tools.

use crate::output::Output;
use anyhow::{Result, anyhow};
use clap::Args;
use fencepost_history::Events;
use fencepost_history::run::{RunFolder, write_whole_by};
use fencepost_report::export::{Format, write};
use std::io::BufWriter;
use std::path::PathBuf;

/// What is to be exported, and where to.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The run's folder: results/latest, for instance.
    pub run: PathBuf,
    /// Format: edn for Jepsen's tools, or a table as csv.
    #[arg(long, value_enum)]
    pub format: Format,
    /// File to write [default: standard output].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Exports the history of a run. A file is there whole or not at all.
pub fn export(args: &ExportArgs) -> Result<i32> {
    // The history is at fault, and not the writing, however that ends.
    let mut malformed = None;
    let events = Events::open(&RunFolder::open(&args.run)?.history())?;
    let mut events = events.map(|event| {
        event.map_err(|error| {
            let sentence = error.to_string();
            malformed = Some(error);
            anyhow!(sentence)
        })
    });
    let written = match &args.out {
        Some(path) => write_whole_by(path, |file| write(args.format, &mut events, &mut BufWriter::new(file)))
            .map_err(anyhow::Error::from),
        None => write(args.format, &mut events, &mut BufWriter::new(Output)),
    };
    drop(events);
    match malformed {
        Some(error) => Err(error.into()),
        None => written.map(|()| 0),
    }
}
