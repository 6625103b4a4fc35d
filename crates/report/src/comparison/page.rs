//! A comparison as a page: the matrix, each property, what was measured, and links to the runs' reports.

use super::against::{AgainstTable, table as against_table};
use super::model::{Cell, CellRun, Comparison, Row};
use super::tables::{self, Mark, Table};
use crate::words::capital;
use crate::{document, property};
use fencepost_checker::{Harm, Outcome};
use maud::{Markup, html};
use std::path::Path;

/// The whole page. Links to reports lead from the folder that it will lie in to those that exist.
pub fn html(comparison: &Comparison, folder: &Path) -> String {
    let comparison = &comparison.best_first();
    let body = html! {
        header.top {
            strong { "Comparison" }
            span { (comparison.rows.len()) " locks" }
            span { (comparison.nemeses.len()) " nemeses" }
        }
        h1 style="margin:24px 0 8px;font-size:27px;line-height:1.3" { (tables::ending(comparison)) }
        p.note {
            "A row for each lock, the best first; a column for each nemesis. A hatched cell is weak. The numbers beneath a cell lead to its runs."
        }
        @for missing in &comparison.missing { p.unfinished { (capital(missing)) "." } }
        (matrix(comparison, folder))
        (against(comparison))
        h2 { "Property by property" }
        @for table in &tables::properties(comparison) { (chapter(comparison, table)) }
        h2 { "Measurements" }
        @for table in &tables::figures(comparison) { (chapter(comparison, table)) }
        (remarks(comparison))
        (ground(comparison))
        footer { "Made by Fencepost " (comparison.fencepost) " from the folders of the runs." }
    };
    document("Comparison of locks", body)
}

fn legend(table: &Table) -> Markup {
    html! {
        @if !table.legend.is_empty() {
            ul.legend { @for (mark, meaning) in &table.legend { li { (chip(mark, None)) ": " (meaning) } } }
        }
    }
}

fn matrix(comparison: &Comparison, folder: &Path) -> Markup {
    let table = tables::matrix(comparison);
    html! {
        (legend(&table))
        div.tablebox { table {
            (head(comparison))
            tbody {
                @for (row, marks) in comparison.rows.iter().zip(&table.rows) {
                    tr {
                        th scope="row" { (label(comparison, row)) (worst(row)) }
                        @for (cell, mark) in row.cells.iter().zip(marks) { td { (whole(cell, mark, folder)) } }
                    }
                }
            }
        } }
    }
}

fn head(comparison: &Comparison) -> Markup {
    html! {
        thead { tr { th {} @for nemesis in &comparison.nemeses { th scope="col" { (nemesis) } } } }
    }
}

fn label(comparison: &Comparison, row: &Row) -> Markup {
    html! {
        (row.lock)
        @if row.guard != "none" { small { "guard " (row.guard) } }
        @if comparison.common_settings().is_none() { small { (row.settings) } }
    }
}

fn worst(row: &Row) -> Markup {
    html! {
        @if let Some(harm) = row.worst() { small { "worst: " (harm.in_words()) } }
        @else if row.cells.iter().any(|cell| cell.outcomes.runs() > 0) { small { "nothing violated" } }
    }
}

fn whole(cell: &Cell, mark: &Mark, folder: &Path) -> Markup {
    let violated = cell.properties.iter().filter(|kept| kept.outcomes.violation > 0 && kept.claimed);
    let violated: Vec<&str> = violated.map(|kept| property(&kept.checker).0).collect();
    let lost = cell.lost.as_ref().filter(|lost| lost.lost > 0).and_then(|_| tables::share(cell));
    html! {
        (chip(mark, cell.not_applicable.as_deref()))
        @for other in tables::other_harms(cell) { small { (other) } }
        @if cell.missing > 0 { small.missing { (cell.missing) " of its runs missing" } }
        @if !cell.weak().is_empty() { small { "only " (cell.weak().join(", ")) } }
        @else if let Some(confidence) = cell.confidence.as_ref().filter(|confidence| confidence.possible > 0) {
            small { (confidence.covered) " of " (confidence.possible) " situations" }
        }
        @if !violated.is_empty() { small { (violated.join(", ")) } }
        @if let Some(share) = lost { small { "lost " (share) } }
        @if !cell.runs.is_empty() {
            small { "run " @for (number, run) in shown_runs(cell) { (link(number, run, folder)) " " } }
            @if cell.runs.len() > RUNS_SHOWN { small { "and " (cell.runs.len() - RUNS_SHOWN) " more" } }
        }
    }
}

/// So many runs of a cell are linked: more would hide the matrix.
const RUNS_SHOWN: usize = 30;

/// The runs of a cell that are linked, with their numbers: those with a violation before others.
fn shown_runs(cell: &Cell) -> Vec<(usize, &CellRun)> {
    let numbered = || (1..).zip(&cell.runs);
    let violated = |run: &CellRun| run.outcome == Outcome::Violation;
    let violations = numbered().filter(|(_, run)| violated(run));
    let mut shown: Vec<(usize, &CellRun)> =
        violations.chain(numbered().filter(|(_, run)| !violated(run))).take(RUNS_SHOWN).collect();
    shown.sort_by_key(|(number, _)| *number);
    shown
}

fn chip(mark: &Mark, hint: Option<&str>) -> Markup {
    html! {
        @if let Some(outcome) = mark.outcome {
            span.chip.(mark.harm.map_or(outcome.word(), Harm::class)).weak[mark.weak] { (mark.text) }
        } @else {
            span title=[hint] { (mark.text) }
        }
    }
}

/// The number of a run; a link where its report exists.
fn link(number: usize, run: &CellRun, folder: &Path) -> Markup {
    let report = run.path.join("report.html");
    let title = format!("{}, seed {}", run.outcome, run.seed);
    let sign = if run.outcome == Outcome::Violation { "✗" } else { "" };
    let way = report.is_file().then(|| way(folder, &report)).flatten();
    html! {
        @if let Some(way) = way {
            a href=(way) title=(title) { (number) (sign) }
        } @else {
            span title=(title) { (number) (sign) }
        }
    }
}

fn way(folder: &Path, file: &Path) -> Option<String> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let way = pathdiff::diff_paths(file.canonicalize().ok()?, folder.canonicalize().ok()?)?;
    Some(crate::pipeline::encoded(&way))
}

fn chapter(comparison: &Comparison, table: &Table) -> Markup {
    html! {
        h3 { (capital(&table.title)) }
        @if !table.note.is_empty() { p.note { (capital(&table.note)) "." } }
        (legend(table))
        div.tablebox { table {
            (head(comparison))
            tbody {
                @for (row, marks) in comparison.rows.iter().zip(&table.rows) {
                    tr { th scope="row" { (label(comparison, row)) } @for mark in marks { td { (chip(mark, None)) } } }
                }
            }
        } }
    }
}

fn against(comparison: &Comparison) -> Markup {
    let Some(AgainstTable { title, note, lines }) = against_table(comparison) else { return html! {} };
    html! {
        h2 { (title) }
        p.note { (capital(&note)) "." }
        div.tablebox { table {
            thead { tr { th {} @for name in ["under", "", "runs", "difference"] { th scope="col" { (name) } } } }
            tbody {
                @for line in lines {
                    tr {
                        th scope="row" { (line.label) }
                        td { (line.nemesis) }
                        td {
                            @if let Some(outcome) = line.outcome { span.chip.(outcome.word()) { (line.standing) } }
                            @else { (line.standing) }
                        }
                        td { (line.rates) }
                        td { (line.difference) }
                    }
                }
            }
        } }
    }
}

fn remarks(comparison: &Comparison) -> Markup {
    let remarks = tables::remarks(comparison);
    html! {
        @if !remarks.is_empty() {
            h2 { "Remarks" }
            ul { @for remark in remarks { li { (remark) } } }
        }
    }
}

fn ground(comparison: &Comparison) -> Markup {
    html! {
        h2 { "Servers" }
        dl {
            @for row in &comparison.rows {
                @if !row.servers.is_empty() { div { dt { (comparison.label(row)) } dd { (row.servers.join(", ")) } } }
            }
        }
        @if !comparison.command.is_empty() {
            h2 { "To repeat this comparison" }
            pre { (comparison.command) }
        }
    }
}
