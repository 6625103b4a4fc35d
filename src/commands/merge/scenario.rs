//! The parts of a play of scenarios as one.

use super::args::MergeArgs;
use crate::commands::scenario::{SUBJECT, ScenarioFiles, show, write_page, write_page_inside};
use crate::output::say;
use crate::unwritten::with_files;
use anyhow::Result;
use fencepost_campaign::parts::Sources;
use fencepost_campaign::scenario;
use fencepost_history::run::{write_inside, write_whole};
use fencepost_report::terminal;
use std::path::Path;

const JSON: &str = "scenarios.json";
const PAGE: &str = "scenarios.md";

pub fn merge(args: &MergeArgs, sources: &Sources) -> Result<i32> {
    args.files.check_only(&["json", "markdown", "junit"], "scenarios")?;
    let (campaign, reports) = scenario::merge(sources)?;
    let files = ScenarioFiles { json: false, markdown: None, junit: args.files.junit.as_deref() };
    let code = show(files, &reports, true)?;
    let json = serde_json::to_string_pretty(&reports)? + "\n";
    let put_json = |path: &Path| Ok(write_whole(path, json.as_bytes())?);
    let put_page = |path: &Path| write_page(&reports, path);
    let written = [
        Some(sources.write(&args.out, |play| campaign.name(play))),
        args.files.markdown.as_deref().map(put_page),
        args.files.json.as_deref().map(put_json),
    ];
    let code = with_files(SUBJECT, written.into_iter().flatten(), code);
    let in_folder = [PAGE, JSON].map(|name| args.out.join(name));
    let written = [
        write_page_inside(&reports, &args.out, PAGE),
        write_inside(&args.out, JSON, json.as_bytes()).map_err(Into::into),
    ];
    for (path, _) in in_folder.iter().zip(&written).filter(|(_, written)| written.is_ok()) {
        say!("{}", terminal::rows(&[("written", &path.display().to_string())]).trim_end());
    }
    Ok(with_files(SUBJECT, written, code))
}
