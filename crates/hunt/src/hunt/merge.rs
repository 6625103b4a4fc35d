use anyhow::{Context, Result, bail};
use fencepost_campaign::parts::Sources;
use fencepost_engine::BadUsage;
use fencepost_report::hunt::{HUNT_JSON, HuntFile, HuntFinding, merged};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What a merge takes from a part: findings and kept schedules are few and small.
const TAKEN: [&str; 5] = [HUNT_JSON, "hunt.html", "corpus", "findings", "found"];

/// The hunt that these parts make together, and whether each part's rest could be copied to `out`.
pub fn merge(sources: &Sources, out: &Path) -> Result<(HuntFile, Vec<Result<()>>)> {
    let mut parts: BTreeMap<u32, HuntFile> = BTreeMap::new();
    let mut taken = Vec::new();
    for (&number, part) in &sources.merged.file.parts {
        let Some(&run) = part.assigned.first() else { continue };
        let Some(hunt) = sources.outcome(run)? else { continue };
        parts.insert(number, hunt);
        taken.push(take(&sources.runs_in(run), out, &place(number)));
    }
    let run_of = |part: u32, finding: &HuntFinding| {
        let run = format!("{}/{}", place(part).display(), finding.run.as_deref()?);
        out.join(&run).is_dir().then_some(run)
    };
    let mut whole = merged(&parts, run_of)
        .ok_or_else(|| BadUsage::new("none of these parts has begun to hunt; there is nothing to merge"))?;
    whole.command.clone_from(&sources.merged.file.command);
    whole.missing = sources.missing();
    Ok((whole, taken))
}

/// Writes what another merge reads. An error where a file cannot be written.
pub fn write_merged(sources: &Sources, out: &Path) -> Result<()> {
    sources.write(out, |_| None)?;
    sources.write_file(out, |number, _| vec![out.join(place(number))])
}

fn place(part: u32) -> PathBuf {
    Path::new("parts").join(part.to_string())
}

/// Copies what a part left to `place` in the folder `out`, in place of what an earlier merge put there. An
/// error where a folder between the two is a link, which would lead out of `out`, or a file cannot be copied.
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
