//! The result of a comparison, in files and on the terminal: of new or existing runs, or merged parts.

use crate::output::say;
use crate::unwritten::with_files;
use anyhow::Result;
use clap::Args;
use fencepost_campaign::compare::COMPARE_JSON;
use fencepost_engine::{BadUsage, refuse};
use fencepost_history::run::{write_inside, write_whole, write_whole_by};
use fencepost_report::comparison::{self, Changes, Comparison, SameRow, changes, read_baseline};
use fencepost_report::markdown::escaped;
use fencepost_report::pipeline::{self, github};
use fencepost_report::terminal;
use std::path::{Path, PathBuf};

const PAGE: &str = "compare.html";
/// Stands on the terminal before any file is written.
pub const SUBJECT: &str = "the comparison";

/// The files that are written about a comparison, and what it is compared with.
#[derive(Debug, Default, Args)]
pub struct ComparisonFiles {
    /// An earlier compare.json: list the changes since. Exit code 1 if a property that held is violated.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// With --baseline: compare a lock with the same one on other versions of its servers.
    #[arg(long, requires = "baseline")]
    pub across_versions: bool,
    /// Write the comparison as a page [default: compare.html in the folder of the comparison].
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write it as JSON, also for --baseline [default: compare.json in the folder of the comparison].
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write it as Markdown.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write it as CSV: a line for each run.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write it as JUnit XML: a case for each property under each nemesis.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

impl ComparisonFiles {
    /// Reads the baseline, if there is one. Errors: it is no comparison.
    pub fn read_baseline(&self) -> Result<Option<Comparison>, BadUsage> {
        self.baseline.as_deref().map(read_baseline).transpose().map_err(BadUsage::new)
    }

    /// Refuses files that only comparisons have, for a merge of something else.
    pub fn check_only(&self, possible: &[&str], what: &str) -> Result<(), BadUsage> {
        let asked = [
            ("baseline", &self.baseline),
            ("html", &self.html),
            ("json", &self.json),
            ("markdown", &self.markdown),
            ("csv", &self.csv),
            ("junit", &self.junit),
        ];
        match asked.iter().find(|(name, path)| path.is_some() && !possible.contains(name)) {
            Some((name, _)) => refuse!(
                "--{name} is for comparisons, and these are parts of {what}; there are --{}",
                possible.join(" and --")
            ),
            None => Ok(()),
        }
    }
}

/// Writes the requested files, and page and JSON into the comparison's folder, the JSON last: it marks the
/// end. A file that cannot be written stops no other. Gives the exit code; see [`with_files`].
pub fn write(files: &ComparisonFiles, comparison: &Comparison, folder: Option<&Path>, code: i32) -> i32 {
    let json = || Ok::<_, anyhow::Error>(serde_json::to_string_pretty(comparison)? + "\n");
    let put_json = |path: &Path| Ok(write_whole(path, json()?.as_bytes())?);
    let put_page =
        |path: &Path| Ok(write_whole(path, comparison::html(comparison, &beside(path)).as_bytes())?);
    let put_markdown = |path: &Path| Ok(write_whole(path, comparison::markdown(comparison).as_bytes())?);
    let put_csv = |path: &Path| Ok(write_whole_by(path, |file| comparison::write_csv(comparison, file))?);
    let put_junit = |path: &Path| {
        let xml = pipeline::junit::xml("fencepost compare", &comparison::junit_suites(comparison))?;
        Ok(write_whole(path, xml.as_bytes())?)
    };
    let written: [Option<Result<()>>; 7] = [
        files.html.as_deref().map(put_page),
        files.json.as_deref().map(put_json),
        files.markdown.as_deref().map(put_markdown),
        files.csv.as_deref().map(put_csv),
        files.junit.as_deref().map(put_junit),
        folder.map(|folder| Ok(write_inside(folder, PAGE, comparison::html(comparison, folder).as_bytes())?)),
        folder.map(|folder| Ok(write_inside(folder, COMPARE_JSON, json()?.as_bytes())?)),
    ];
    with_files(SUBJECT, written.into_iter().flatten(), code)
}

pub fn name_files(folder: &Path) {
    for name in [PAGE, COMPARE_JSON] {
        say!("{}", terminal::rows(&[("written", &folder.join(name).display().to_string())]).trim_end());
    }
}

fn beside(path: &Path) -> PathBuf {
    path.parent().map_or(PathBuf::new(), Path::to_owned)
}

/// Says it on the terminal, and to GitHub. Gives the exit code.
pub fn tell(comparison: &Comparison, baseline: Option<&Comparison>, files: &ComparisonFiles) -> i32 {
    say!("{}", comparison::terminal_text(comparison).trim_end());
    let same_row = if files.across_versions { SameRow::AcrossVersions } else { SameRow::Exactly };
    let changes = baseline.map(|baseline| changes(baseline, comparison, same_row));
    for line in changes.iter().flat_map(Changes::lines) {
        say!("{}", terminal::wrap_indented(&line, 8));
    }
    let code = i32::from(changes.as_ref().is_some_and(|changes| !changes.worse.is_empty()));
    let mut summarised = Ok(());
    if github::is_there() {
        let lines = changes.iter().flat_map(Changes::lines).map(|line| format!("- {}\n", escaped(&line)));
        summarised =
            github::summarise(&format!("{}{}", lines.collect::<String>(), comparison::markdown(comparison)));
        let worse = changes.iter().flat_map(|changes| &changes.worse).map(|text| github::Annotation {
            level: github::Level::Error,
            title: "a property that held is violated".to_owned(),
            text: text.clone(),
        });
        github::annotate(&worse.collect::<Vec<_>>());
    }
    with_files(SUBJECT, [summarised], code)
}
