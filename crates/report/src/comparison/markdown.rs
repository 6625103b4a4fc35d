//! A comparison as Markdown, for a pull request or a README.

use super::against::{AgainstTable, table as against_table};
use super::model::{Cell, Comparison};
use super::tables::{self, Mark, Table};
use crate::markdown::{code, code_in_table, escaped};
use crate::words::capital;
use std::fmt::Write;

pub fn text(comparison: &Comparison) -> String {
    let comparison = &comparison.best_first();
    let matrix = tables::matrix(comparison);
    let mut text = format!("{}\n\n", tables::ending(comparison));
    head(&mut text, comparison, &matrix);
    for (row, marks) in comparison.rows.iter().zip(&matrix.rows) {
        let cells: Vec<String> = row.cells.iter().zip(marks).map(|(cell, mark)| whole(cell, mark)).collect();
        line(&mut text, &comparison.label(row), &cells);
    }
    against(&mut text, comparison);
    for table in tables::properties(comparison).iter().chain(&tables::figures(comparison)) {
        chapter(&mut text, comparison, table);
    }
    let remarks = tables::remarks(comparison);
    if !remarks.is_empty() {
        text.push_str("\n### Remarks\n\n");
    }
    for remark in remarks {
        let _ = writeln!(text, "- {}", escaped(&remark));
    }
    for row in comparison.rows.iter().filter(|row| !row.servers.is_empty()) {
        let _ = write!(text, "\n{}: {}", code(&comparison.label(row)), escaped(&row.servers.join(", ")));
    }
    if !comparison.command.is_empty() {
        let _ = write!(text, "\n\nMade by {}.", code(&comparison.command));
    }
    text.trim_end().to_owned() + "\n"
}

/// The verdict, and under it why it is weak, and how much was lost.
fn whole(cell: &Cell, mark: &Mark) -> String {
    let lost = cell.lost.as_ref().filter(|lost| lost.lost > 0).and_then(|_| tables::share(cell));
    let lost = lost.map_or(String::new(), |share| format!("<br>lost {share}"));
    let weak = escaped(&cell.weak().join(", "));
    let weak = if weak.is_empty() { weak } else { format!("<br>only {weak}") };
    let strong = if mark.text.starts_with('✗') { "**" } else { "" };
    let others: String =
        tables::other_harms(cell).iter().map(|other| format!("<br>{}", escaped(other))).collect();
    format!("{strong}{}{strong}{others}{weak}{lost}", escaped(&mark.text))
}

fn against(text: &mut String, comparison: &Comparison) {
    let Some(AgainstTable { title, note, lines }) = against_table(comparison) else { return };
    let _ = write!(text, "\n### {}\n\n{}.\n\n", escaped(&title), escaped(&capital(&note)));
    text.push_str("| | under | | runs | difference |\n|---|---|---|---|---|\n");
    for each in lines {
        // A sign in front of a number begins no list inside a table.
        let cells = [escaped(&each.nemesis), each.standing, each.rates, each.difference];
        line(text, &each.label, &cells);
    }
}

fn chapter(text: &mut String, comparison: &Comparison, table: &Table) {
    let _ = write!(text, "\n### {}\n\n", escaped(&capital(&table.title)));
    if !table.note.is_empty() {
        let _ = write!(text, "{}.\n\n", escaped(&capital(&table.note)));
    }
    head(text, comparison, table);
    for (row, marks) in comparison.rows.iter().zip(&table.rows) {
        let cells: Vec<String> = marks.iter().map(|mark| escaped(&mark.text)).collect();
        line(text, &comparison.label(row), &cells);
    }
}

fn head(text: &mut String, comparison: &Comparison, table: &Table) {
    for (mark, meaning) in &table.legend {
        let _ = writeln!(text, "- {}", escaped(&format!("{}: {meaning}", mark.text)));
    }
    text.push_str(if table.legend.is_empty() { "" } else { "\n" });
    let nemeses: Vec<String> = comparison.nemeses.iter().map(|nemesis| escaped(nemesis)).collect();
    let _ = writeln!(text, "| | {} |", nemeses.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(comparison.nemeses.len()));
}

fn line(text: &mut String, label: &str, cells: &[String]) {
    let _ = writeln!(text, "| {} | {} |", code_in_table(label), cells.join(" | "));
}
