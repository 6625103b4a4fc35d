//! The debate as a page in Markdown, made from what was observed, so that it cannot go stale.

use super::repetitions;
use super::report::{Ending, Report};
use anyhow::{Context, Result};
use fencepost_history::prose::count;
use fencepost_history::run::{read_regular, write_inside};
use fencepost_report::markdown::{code_in_table, escaped};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const PREFACE: &str = include_str!("page.md");

const PICTURES: &str = "pictures/debate";

/// What the letters of the sources stand for, in a paragraph without markup.
pub(super) fn sources() -> String {
    let paragraph = PREFACE.split("\n\n").find(|paragraph| paragraph.starts_with("Sources:"));
    paragraph.unwrap_or_default().replace("** ", ": ").replace("**", "").replace('\n', " ")
}

/// Copies the timelines that the page shows to beside the page.
pub fn pictures(reports: &[Report], page: &Path) -> Result<()> {
    let beside = page.parent().unwrap_or(Path::new(""));
    let shown = repetitions::by_scenario(reports).map(repetitions::shown);
    for (report, picture) in shown.filter_map(|report| Some((report, picture(report)?))) {
        let mut folder = beside.to_owned();
        for name in Path::new(PICTURES) {
            folder.push(name);
            // The folder of the page is the user's to make.
            if !folder.is_dir() {
                std::fs::create_dir(&folder)
                    .with_context(|| format!("cannot make the folder {}", folder.display()))?;
            }
        }
        let drawn = read_regular(&picture).with_context(|| format!("cannot read {}", picture.display()))?;
        write_inside(beside, &format!("{PICTURES}/{}.svg", report.name), drawn.as_bytes())?;
    }
    Ok(())
}

/// The timeline of the first violation of a scenario that is to be shown.
fn picture(report: &Report) -> Option<PathBuf> {
    let mut pictures = report.runs.iter().map(|run| run.folder.join("plots/violation.svg"));
    if report.picture { pictures.find(|picture| picture.is_file()) } else { None }
}

/// The whole page.
pub fn markdown(reports: &[Report]) -> String {
    let mut text = PREFACE.trim_end().to_owned();
    text.push_str("\n\n## What was observed\n\n");
    let servers: BTreeSet<&str> = reports
        .iter()
        .flat_map(|report| &report.runs)
        .flat_map(|run| &run.servers)
        .filter_map(|server| server.split(" on ").next())
        .collect();
    let servers: Vec<&str> = servers.into_iter().collect();
    let scenarios = repetitions::by_scenario(reports).count();
    let agree =
        repetitions::by_scenario(reports).filter(|plays| repetitions::worst(plays) == Ending::Agrees).count();
    let _ = writeln!(
        text,
        "Servers: {}. {agree} of {} agree with their source.\n",
        escaped(&servers.join(", ")),
        count(scenarios, "scenario"),
    );
    text.push_str("| scenario | source | expected | outcome |\n|---|---|---|---|\n");
    for plays in repetitions::by_scenario(reports) {
        let Report { name, source, expected, .. } = &plays[0];
        let outcome = escaped(&repetitions::outcome(plays));
        let [source, expected] = [source, expected].map(|text| escaped(text));
        let _ = writeln!(text, "| [{}](#{name}) | {source} | {expected} | {outcome} |", code_in_table(name));
    }
    for plays in repetitions::by_scenario(reports) {
        chapter(&mut text, repetitions::shown(plays), &repetitions::outcome(plays));
    }
    text
}

fn chapter(text: &mut String, report: &Report, outcome: &str) {
    let [name, about, source, expected, outcome] =
        [&report.name, &report.about, &report.source, &report.expected, outcome].map(escaped);
    let _ = writeln!(text, "\n### {name}\n\n{about} (*{source}*)\n");
    let _ = writeln!(text, "Expected: {expected}. Outcome: **{outcome}**.");
    if picture(report).is_some() {
        let name = &report.name;
        let _ = writeln!(text, "\n![What the run of {name} looked like]({PICTURES}/{name}.svg)");
    }
    for run in &report.runs {
        let title = if run.title.is_empty() { "What happened" } else { &run.title };
        let _ = writeln!(text, "\n*{}*\n", escaped(title));
        for (seconds, sentence) in &run.narration {
            let _ = writeln!(text, "- {seconds:.2} s: {}", escaped(sentence));
        }
        for answer in &run.answers {
            let mark = if answer.met { "" } else { " (not as expected)" };
            let _ =
                writeln!(text, "- **{}**{mark}: {}", escaped(&answer.expected), escaped(&answer.observed));
            for metric in &answer.metrics {
                let _ = writeln!(text, "- {}", escaped(&metric.to_string()));
            }
        }
        for missing in &run.missing {
            let _ = writeln!(text, "- missing: {}", escaped(missing));
        }
    }
    for why in report.differs.iter().chain(&report.failed) {
        let _ = writeln!(text, "\n{}", escaped(why));
    }
}
