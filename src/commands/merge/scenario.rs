//! The parts of a play of scenarios as one.

use super::args::MergeArgs;
use super::sources::Sources;
use crate::commands::scenario::{Report, ScenarioCampaign, ScenarioFiles, exit_code, merged, show};
use crate::output::say;
use anyhow::{Context, Result};
use fencepost_history::run::write_whole;
use fencepost_report::terminal;

/// The files of the folder of the result.
const JSON: &str = "scenarios.json";
const PAGE: &str = "scenarios.md";

/// Writes the table of all scenarios, and gives its exit code.
pub fn merge(args: &MergeArgs, sources: &Sources) -> Result<i32> {
    args.files.check_only(&["json", "markdown", "junit"], "scenarios")?;
    let file = &sources.union.file;
    let campaign: ScenarioCampaign =
        serde_json::from_value(file.campaign.clone()).context("the parts are of another version")?;
    let reports = merged(&campaign, file.seed, |play| {
        let Some(record) = sources.record(play)? else { return Ok(None) };
        let report: Report = serde_json::from_str(record.value.get())
            .with_context(|| format!("the record of play {play} is damaged"))?;
        Ok(Some((report, sources.runs_in(play))))
    })?;
    sources.write(&args.out, |play| campaign.name(play))?;
    let page = args.out.join(PAGE);
    let files = |markdown, junit| ScenarioFiles { json: false, markdown, junit };
    show(files(Some(&page), args.files.junit.as_deref()), &reports, true)?;
    if let Some(markdown) = &args.files.markdown {
        crate::commands::scenario::write_page(&reports, markdown)?;
    }
    let json = serde_json::to_string_pretty(&reports)? + "\n";
    if let Some(path) = &args.files.json {
        write_whole(path, json.as_bytes())?;
    }
    write_whole(&args.out.join(JSON), json.as_bytes())?;
    for name in [PAGE, JSON] {
        say!("{}", terminal::rows(&[("written", &args.out.join(name).display().to_string())]).trim_end());
    }
    Ok(exit_code(&reports))
}
