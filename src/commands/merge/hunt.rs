//! The parts of a hunt as one.

use super::args::MergeArgs;
use crate::commands::hunt::{SUBJECT, exit_code, outcome, page_row};
use crate::output::say;
use crate::unwritten::with_files;
use anyhow::{Context, Result, bail};
use fencepost_campaign::parts::Sources;
use fencepost_engine::BadUsage;
use fencepost_history::run::{write_inside, write_whole};
use fencepost_report::hunt::{HUNT_JSON, HuntFile, html, markdown, merged};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What a part of a hunt leaves, and a merge takes with it: findings and kept schedules are few and small.
const TAKEN: [&str; 5] = [HUNT_JSON, "hunt.html", "corpus", "findings", "found"];

/// Prints what the whole hunt found, writes it, and gives its exit code.
pub fn merge(args: &MergeArgs, sources: &Sources) -> Result<i32> {
    let out = &args.out;
    args.files.check_only(&["html", "json", "markdown"], "a hunt")?;
    let mut parts: BTreeMap<u32, HuntFile> = BTreeMap::new();
    let mut taken = Vec::new();
    for (&number, part) in &sources.merged.file.parts {
        let Some(&run) = part.assigned.first() else { continue };
        let Some(hunt) = sources.outcome(run)? else { continue };
        parts.insert(number, hunt);
        taken.push(take(&sources.runs_in(run), out, &place(number)));
    }
    let run_of = |part: u32, finding: &fencepost_report::hunt::HuntFinding| {
        let run = format!("{}/{}", place(part).display(), finding.run.as_deref()?);
        out.join(&run).is_dir().then_some(run)
    };
    let whole = merged(&parts, run_of);
    let mut whole = whole.ok_or_else(|| {
        BadUsage("none of these parts has begun to hunt; there is nothing to merge".to_owned())
    })?;
    whole.command.clone_from(&sources.merged.file.command);
    whole.missing = sources.missing();
    say!("{}", outcome(&whole));
    let code = with_files(SUBJECT, taken, exit_code(&whole));
    write(args, sources, &whole, code)
}

/// Writes the files that were asked for, and those of the folder. Gives the exit code; see [`with_files`].
fn write(args: &MergeArgs, sources: &Sources, whole: &HuntFile, code: i32) -> Result<i32> {
    let (out, files) = (&args.out, &args.files);
    let (page, json) = (markdown(whole), serde_json::to_string_pretty(whole)? + "\n");
    let put = |path: &Path, text: &str| Ok(write_whole(path, text.as_bytes())?);
    let put_html = |path: &Path| put(path, &html(whole, out));
    let put_inside = |name: &str, text: &str| Ok(write_inside(out, name, text.as_bytes())?);
    let of_parts = sources
        .write(out, |_| None)
        .and_then(|()| sources.write_file(out, |number, _| vec![out.join(place(number))]));
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

/// Where a part lies in the folder of the merge.
fn place(part: u32) -> PathBuf {
    Path::new("parts").join(part.to_string())
}

/// Copies what a part left to `place` in the folder `out`. What is there already, from an earlier merge into the same folder, is
/// replaced.
///
/// # Errors
/// A folder between the two is a link, which would lead out of `out`, or a file cannot be copied.
fn take(from: &Path, out: &Path, place: &Path) -> Result<()> {
    let to = &out.join(place);
    if let Some(link) = to.ancestors().take_while(|folder| *folder != out).find(|folder| folder.is_symlink())
    {
        bail!("cannot write to {}: {} is a link", to.display(), link.display());
    }
    let same = || Some(fs::canonicalize(from).ok()? == fs::canonicalize(to).ok()?);
    if same() == Some(true) {
        return Ok(());
    }
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("cannot replace {}", to.display()))?;
    }
    for name in TAKEN {
        let there = from.join(name);
        if fs::symlink_metadata(&there).is_ok() {
            copy(&there, &to.join(name))
                .with_context(|| format!("cannot copy {} to {}", there.display(), to.display()))?;
        }
    }
    Ok(())
}

/// Copies a file, or a folder with all in it; links are left out.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let kind = fs::symlink_metadata(from)?.file_type();
    if kind.is_dir() {
        fs::create_dir_all(to)?;
        return fs::read_dir(from)?.try_for_each(|entry| {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))
        });
    }
    if kind.is_file() {
        fs::create_dir_all(to.parent().unwrap_or(to))?;
        fs::copy(from, to)?;
    }
    Ok(())
}
