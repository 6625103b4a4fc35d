//! Judges a run and draws its report, from its folder alone.

use crate::cli::AnalyzeArgs;
use crate::report::heading;
use crate::say;
use crate::{pipeline, report, summary};
use anyhow::{Context, Result};
use fencepost_checker::{RunIndex, RunVerdict, check_index};
use fencepost_history::run::{RunFile, RunFolder, read_clock_samples};
use fencepost_history::{Event, read_history};

/// What judging a run gives.
pub struct Judged {
    pub verdict: RunVerdict,
    /// What was judged.
    pub history: Vec<Event>,
    /// For the terminal.
    pub text: String,
}

/// `fencepost analyze`: the same verdict as at the end of the run, without engine or servers.
pub fn analyze(args: &AnalyzeArgs) -> Result<i32> {
    let folder = RunFolder::open(&args.run)?;
    say!("{}", summary::heading_text(&heading(&folder.read_run()?)));
    let Judged { verdict, text, .. } = judge(&folder)?;
    say!("{text}");
    pipeline::tell(&args.pipeline, &folder, &verdict)
}

/// Checks the history, and writes `verdict.json`, `report.html` and `plots/`.
pub fn judge(folder: &RunFolder) -> Result<Judged> {
    let run: RunFile = folder.read_run()?;
    let events = read_history(&folder.history())?;
    let digest =
        RunIndex::new(&events).with_context(|| format!("{} is malformed", folder.history().display()))?;
    let verdict = check_index(&digest);
    let clocks = read_clock_samples(&folder.clocks())?;
    let heading = heading(&run);
    for (name, picture) in report::plots(&digest, &verdict, &clocks) {
        folder.write(&format!("plots/{name}"), &picture)?;
    }
    folder.write("report.html", report::html(&heading, &digest, &verdict, &clocks).as_bytes())?;
    // Last: who finds a verdict finds all that belongs to it.
    folder.write("verdict.json", serde_json::to_string_pretty(&verdict)?.as_bytes())?;
    let text = summary::text(&heading, &digest, &verdict, &folder.report());
    Ok(Judged { verdict, history: events, text })
}
