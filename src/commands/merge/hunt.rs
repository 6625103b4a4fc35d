//! The parts of a hunt as one.

use super::args::MergeArgs;
use crate::commands::hunt::{SUBJECT, exit_code, outcome, page_row};
use crate::output::say;
use crate::unwritten::with_files;
use anyhow::Result;
use fencepost_campaign::parts::Sources;
use fencepost_history::run::{write_inside, write_whole};
use fencepost_hunt::hunt;
use fencepost_report::hunt::{HUNT_JSON, HuntFile, html, markdown};
use std::path::Path;

pub fn merge(args: &MergeArgs, sources: &Sources) -> Result<i32> {
    let out = &args.out;
    args.files.check_only(&["html", "json", "markdown"], "a hunt")?;
    let (whole, taken) = hunt::merge(sources, out)?;
    say!("{}", outcome(&whole));
    let code = with_files(SUBJECT, taken, exit_code(&whole, None));
    write(args, sources, &whole, code)
}

/// Writes the files that were asked for, and those of the folder. Gives the exit code; see [`with_files`].
fn write(args: &MergeArgs, sources: &Sources, whole: &HuntFile, code: i32) -> Result<i32> {
    let (out, files) = (&args.out, &args.files);
    let (page, json) = (markdown(whole), serde_json::to_string_pretty(whole)? + "\n");
    let put = |path: &Path, text: &str| Ok(write_whole(path, text.as_bytes())?);
    let put_html = |path: &Path| put(path, &html(whole, out));
    let put_inside = |name: &str, text: &str| Ok(write_inside(out, name, text.as_bytes())?);
    let of_parts = hunt::write_merged(sources, out);
    let in_folder = put_inside("hunt.html", &html(whole, out));
    let row = in_folder.is_ok().then(|| page_row(out));
    let written = [
        Some(of_parts),
        Some(in_folder),
        files.html.as_deref().map(put_html),
        files.markdown.as_deref().map(|path| put(path, &page)),
        files.json.as_deref().map(|path| put(path, &json)),
        Some(put_inside("hunt.md", &page)),
        Some(put_inside(HUNT_JSON, &json)),
    ];
    if let Some(row) = row {
        say!("{row}");
    }
    Ok(with_files(SUBJECT, written.into_iter().flatten(), code))
}
