//! Judges a run and draws its report, from its folder alone.

use crate::heading::{Heading, heading, kept_data};
use crate::pictures::{self, RunPictures};
use crate::threads::prepare_threads;
use crate::{page, terminal};
use anyhow::{Context, Result};
use fencepost_checker::{Outcome, RunIndex, RunVerdict, check_index, overlaps};
use fencepost_history::run::{RunFolder, read_clock_samples};
use fencepost_history::{Event, read_history};

pub struct Judged {
    pub verdict: RunVerdict,
    pub history: Vec<Event>,
    /// The summary for the terminal.
    pub text: String,
    /// Why the report's files could not be written, if so. The verdict is right all the same.
    pub unwritten: Option<anyhow::Error>,
}

/// Checks the history; writes verdict, page and plots. Errors: no settings or no well-formed history.
pub fn judge(folder: &RunFolder) -> Result<Judged> {
    prepare_threads();
    let heading = Heading { data: kept_data(folder), ..heading(&folder.read_run()?) };
    let events = read_history(&folder.history())?;
    let run =
        RunIndex::new(&events).with_context(|| format!("{} is malformed", folder.history().display()))?;
    let verdict = check_index(&run);
    let unwritten = write_report(folder, &heading, &run, &verdict).err();
    let text = terminal::text(&heading, &run, &verdict, &folder.report());
    Ok(Judged { verdict, history: events, text, unwritten })
}

/// Whether the history of a run shows a violation. A history that cannot be judged shows none.
pub fn is_violated(folder: &RunFolder) -> bool {
    prepare_threads();
    let Ok(events) = read_history(&folder.history()) else { return false };
    RunIndex::new(&events).is_ok_and(|run| check_index(&run).outcome == Outcome::Violation)
}

fn write_report(folder: &RunFolder, heading: &Heading, run: &RunIndex, verdict: &RunVerdict) -> Result<()> {
    // No verdict rests on the clocks: all else is written before they are reported.
    let (clocks, unreadable) = match read_clock_samples(&folder.clocks()) {
        Ok(clocks) => (clocks, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let overlaps = overlaps(run);
    let whole = RunPictures::draw(run, &overlaps, &clocks);
    for (name, picture) in pictures::plots(run, verdict, &whole) {
        folder.write(&format!("plots/{name}"), &picture)?;
    }
    folder.write("report.html", page::page(heading, run, verdict, &overlaps, &whole).as_bytes())?;
    // Written last: where a verdict is, all other files of the report are.
    folder.write("verdict.json", serde_json::to_string_pretty(verdict)?.as_bytes())?;
    unreadable.map_or(Ok(()), |error| Err(error.into()))
}
