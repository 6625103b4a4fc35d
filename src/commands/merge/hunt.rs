//! The parts of a hunt as one.

use super::args::MergeArgs;
use super::sources::Sources;
use crate::commands::hunt::{exit_code, outcome};
use crate::output::say;
use anyhow::{Context, Result};
use fencepost_engine::BadUsage;
use fencepost_history::run::write_whole;
use fencepost_report::hunt::{HUNT_JSON, HuntFile, html, markdown, merged};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What a part of a hunt leaves, and a merge takes with it: findings and kept schedules are few and small.
const TAKEN: [&str; 5] = [HUNT_JSON, "hunt.html", "corpus", "findings", "found"];

/// Writes the whole hunt, and gives its exit code.
pub fn merge(args: &MergeArgs, sources: &Sources) -> Result<i32> {
    let out = &args.out;
    args.files.check_only(&["html", "json", "markdown"], "a hunt")?;
    let mut parts: BTreeMap<u32, HuntFile> = BTreeMap::new();
    for (&number, part) in &sources.union.file.parts {
        let Some(&run) = part.dealt.first() else { continue };
        let Some(record) = sources.record(run)? else { continue };
        let hunt = serde_json::from_str(record.value.get());
        parts.insert(number, hunt.with_context(|| format!("the record of part {number} is damaged"))?);
        take(&sources.runs_in(run), &out.join(place(number)))?;
    }
    let run_of = |part: u32, finding: &fencepost_report::hunt::HuntFinding| {
        let run = format!("{}/{}", place(part).display(), finding.run.as_deref()?);
        out.join(&run).is_dir().then_some(run)
    };
    let whole = merged(&parts, run_of);
    let mut whole = whole.ok_or_else(|| {
        BadUsage("none of these parts has begun to hunt; there is nothing to merge".to_owned())
    })?;
    whole.command.clone_from(&sources.union.file.command);
    whole.missing = sources.missing();
    sources.write(out, |_| None)?;
    sources.write_file(out, |number, _| vec![out.join(place(number))])?;
    write_whole(&out.join("hunt.html"), html(&whole, out).as_bytes())?;
    if let Some(path) = &args.files.html {
        write_whole(path, html(&whole, out).as_bytes())?;
    }
    let page = markdown(&whole);
    write_whole(&out.join("hunt.md"), page.as_bytes())?;
    if let Some(path) = &args.files.markdown {
        write_whole(path, page.as_bytes())?;
    }
    let json = serde_json::to_string_pretty(&whole)? + "\n";
    if let Some(path) = &args.files.json {
        write_whole(path, json.as_bytes())?;
    }
    write_whole(&out.join(HUNT_JSON), json.as_bytes())?;
    say!("{}", outcome(&whole, out));
    Ok(exit_code(&whole))
}

/// Where a part lies in the folder of the merge.
fn place(part: u32) -> PathBuf {
    Path::new("parts").join(part.to_string())
}

/// Copies what a part left. What is there already, from an earlier merge into the same folder, is replaced.
fn take(from: &Path, to: &Path) -> Result<()> {
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
