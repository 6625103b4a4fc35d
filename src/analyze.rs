//! Judges a run and draws its report, from its folder alone.

use crate::results::{RunFile, RunFolder};
use crate::say;
use crate::{report, summary};
use anyhow::{Context, Result};
use fencepost_checker::{Digest, Outcome, check_digest};
use fencepost_history::read_history;
use std::path::Path;

/// What judging a run gives.
pub struct Judged {
    pub outcome: Outcome,
    /// For the terminal.
    pub text: String,
}

/// `fencepost analyze`: the same verdict as at the end of the run, without engine or servers.
pub fn analyze(path: &Path) -> Result<i32> {
    let folder = RunFolder::open(path)?;
    say!("{}", summary::heading_text(&folder.read_run()?.heading()));
    let Judged { outcome, text } = judge(&folder)?;
    say!("{text}");
    Ok(i32::from(outcome.exit_code()))
}

/// Checks the history, and writes `verdict.json`, `report.html` and `plots/`.
pub fn judge(folder: &RunFolder) -> Result<Judged> {
    let run: RunFile = folder.read_run()?;
    let events = read_history(&folder.history())?;
    let digest =
        Digest::new(&events).with_context(|| format!("{} is malformed", folder.history().display()))?;
    let verdict = check_digest(&digest);
    let heading = run.heading();
    folder.write("verdict.json", serde_json::to_string_pretty(&verdict)?.as_bytes())?;
    for (name, svg) in report::plots(&digest, &verdict) {
        folder.write(&format!("plots/{name}"), svg.as_bytes())?;
    }
    folder.write("report.html", report::html(&heading, &digest, &verdict).as_bytes())?;
    let text = summary::text(&heading, &digest, &verdict, &folder.report());
    Ok(Judged { outcome: verdict.outcome, text })
}
