//! Keeps a violation that was made small: as a scenario, with the run that shows it and its report.

use crate::schedule::Schedule;
use crate::shrink::Shrunk;
use crate::signature::signature;
use anyhow::{Context, Result, bail};
use fencepost_campaign::Played;
use fencepost_checker::{RunIndex, Violation};
use fencepost_engine::scenario::{read_file, scenario_text};
use fencepost_engine::{BadUsage, RunOptions, refuse};
use fencepost_history::run::{RunFolder, open_regular, write_whole};
use fencepost_history::{Seed, shell_path};
use fencepost_report::findings::{FINDING, FindingFile, RUN, SCENARIO, free_name};
use fencepost_report::pictured;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct KeptFinding {
    pub folder: PathBuf,
    pub file: FindingFile,
}

/// Keeps a finding in a folder beneath `findings` that is named by its signature, and moves the run that
/// shows it there. An earlier finding of the same signature is replaced. `program` is how Fencepost is
/// called. An error where a file cannot be written or moved; the run stays where it is then.
pub fn keep(shrunk: &Shrunk, violation: &Violation, findings: &Path, program: &str) -> Result<KeptFinding> {
    let Shrunk { schedule, example, .. } = shrunk;
    let Some((signature, finding)) = signature(&example.history, &example.verdict, violation) else {
        bail!("the run {} does not show {violation}", example.folder.display());
    };
    fs::create_dir_all(findings).with_context(|| format!("cannot make the folder {}", findings.display()))?;
    let name = name(findings, &signature);
    let folder = findings.join(&name);
    let options = &schedule.options;
    let command = format!("{program} scenario {} --times 10", shell_path(&folder.join(SCENARIO)));
    let about = format!("{}: {signature}", options.lock);
    let source = format!("found by Fencepost {}", env!("CARGO_PKG_VERSION"));
    let seen = (violation.checker.as_str(), violation.class.as_str());
    let scenario = scenario_text(&about, &source, options, &schedule.plan, seen);
    let file = FindingFile {
        fencepost: env!("CARGO_PKG_VERSION").to_owned(),
        name,
        signature,
        whose: finding.whose,
        sentence: telling_sentence(example, violation).unwrap_or(finding.sentence),
        lock: options.lock.clone(),
        seed: options.seed.unwrap_or(Seed(0)),
        plays: shrunk.rate.plays,
        violations: shrunk.rate.violations,
        before: shrunk.before,
        after: shrunk.after,
        plays_to_shrink: shrunk.plays,
        complete: shrunk.complete,
        command,
    };
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot replace {}", folder.display()))?;
    }
    fs::create_dir(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    write_whole(&folder.join(SCENARIO), scenario.as_bytes())?;
    let run = folder.join(RUN);
    fs::rename(&example.folder, &run)
        .with_context(|| format!("cannot move the run {}", example.folder.display()))?;
    draw_report(&run, &file.command)?;
    // Written last: where it is, all other files of the finding are.
    file.write(&folder)?;
    Ok(KeptFinding { folder, file })
}

/// The sentence of this kind of violation that the run's picture shows: the two are read together.
fn telling_sentence(example: &Played, violation: &Violation) -> Option<String> {
    let run = RunIndex::new(&example.history).ok()?;
    let shown = pictured(&run, &example.verdict).filter(|finding| finding.is_of_class(&violation.class))?;
    Some(shown.sentence.clone())
}

fn draw_report(run: &Path, command: &str) -> Result<()> {
    let run = RunFolder::open(run)?;
    let mut file = run.read_run()?;
    command.clone_into(&mut file.command);
    run.write_run(&file)?;
    fencepost_report::judge(&run)?;
    Ok(())
}

fn name(findings: &Path, signature: &fencepost_report::findings::Signature) -> String {
    free_name(signature.name(), |name| {
        let folder = findings.join(name);
        let same = FindingFile::read(&folder).is_ok_and(|file| file.signature == *signature);
        same || !folder.exists()
    })
}

/// The findings in a folder, by name; folders without one are left out. An error where one cannot be read.
pub fn kept_findings(findings: &Path) -> Result<Vec<KeptFinding>> {
    let entries =
        fs::read_dir(findings).map_err(BadUsage::cannot("read the folder of findings", findings))?;
    let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort_unstable();
    folders.retain(|folder| folder.join(FINDING).is_file());
    let read = |folder: PathBuf| Ok(KeptFinding { file: FindingFile::read(&folder)?, folder });
    folders.into_iter().map(read).collect()
}

impl KeptFinding {
    /// The schedule of its scenario file, on this driver. Errors: a mistake, or scripts for clients.
    pub fn schedule(&self, driver: &str) -> Result<Schedule, BadUsage> {
        let path = self.folder.join(SCENARIO);
        // A pipe would keep the program waiting for ever.
        open_regular(&path).map_err(BadUsage::cannot("read", &path))?;
        let scenario = read_file(&path)?;
        let [run] = &scenario.runs[..] else {
            refuse!(
                "the finding {} has {} runs, and can be replayed with one",
                path.display(),
                scenario.runs.len()
            );
        };
        let options = RunOptions { driver: driver.to_owned(), ..run.options().clone() };
        let spec = run.spec(options).map_err(|mistake| BadUsage::new(scenario.error(mistake)))?;
        Ok(Schedule { options: spec.options, plan: spec.plan, script: run.script.clone() })
    }

    pub fn violation(&self) -> Violation {
        let signature = &self.file.signature;
        Violation { checker: signature.checker.clone(), class: signature.class.clone() }
    }
}
