//! A comparison in the terminal.

use super::against::{AgainstLine, AgainstTable, table as against_table};
use super::model::Comparison;
use super::tables::{self, Table};
use crate::terminal::{colour, rows, wrap_indented};
use crate::words::capital;
use console::{Style, measure_text_width, style};
use fencepost_checker::{Harm, Outcome};
use std::fmt::Write;

const EXITS: &str = "0 for any verdict; 1 if worse than --baseline; 2 if runs are missing; 255 if one failed";

/// All of it: the matrix, each property that was not kept everywhere, the figures, and how it ends.
pub fn text(comparison: &Comparison) -> String {
    let comparison = &comparison.best_first();
    let mut text = shown(comparison, &tables::matrix(comparison));
    text.push_str(&against(comparison));
    let (kept, others): (Vec<Table>, Vec<Table>) = tables::properties(comparison).into_iter().partition(held);
    for table in others.iter().chain(&tables::figures(comparison)) {
        let _ = write!(text, "\n{}", shown(comparison, table));
    }
    if !kept.is_empty() {
        let names: Vec<&str> = kept.iter().map(|table| table.title.as_str()).collect();
        let held = format!("Held wherever they were tested: {}.", names.join(", "));
        let _ = writeln!(text, "\n{}", wrap_indented(&held, 0));
    }
    let remarks = tables::remarks(comparison);
    if !remarks.is_empty() {
        let _ = writeln!(text);
    }
    for remark in remarks {
        let _ = writeln!(text, "{}", wrap_indented(&remark, 0));
    }
    let _ = writeln!(text, "\n{}\n", style(tables::ending(comparison)).bold());
    text += &rows(&[("next", &tables::next(comparison)), ("exit code", EXITS)]);
    text
}

fn against(comparison: &Comparison) -> String {
    let Some(AgainstTable { title, note, lines }) = against_table(comparison) else { return String::new() };
    let mut text = format!("\n{}\n", style(title).bold());
    let _ = writeln!(text, "{}", style(wrap_indented(&format!("  {note}"), 4)).dim());
    let texts = |line: &AgainstLine| {
        let AgainstLine { label, nemesis, standing, rates, difference, .. } = line;
        [label, nemesis, standing, rates, difference].map(String::clone)
    };
    let rows: Vec<[String; 5]> = lines.iter().map(texts).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    for (row, line) in rows.iter().zip(&lines) {
        let padded = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        let shown = padded.collect::<Vec<_>>().join("  ");
        let colour = line.outcome.map(colour).unwrap_or_default();
        let _ = writeln!(text, "{}", colour.apply_to(shown.trim_end()));
    }
    text
}

fn held(table: &Table) -> bool {
    table.rows.iter().flatten().all(|mark| matches!(mark.outcome, None | Some(Outcome::Valid)))
}

/// Applied only where there is a terminal.
fn harm_colour(harm: Harm) -> Style {
    match harm {
        Harm::GrantedTwice => Style::new().red().bold(),
        Harm::PromiseBroken => Style::new().red(),
        Harm::Stuck => Style::new().magenta(),
        Harm::Unfenced => Style::new().yellow(),
        Harm::BusyMachine => Style::new().dim(),
    }
}

fn shown(comparison: &Comparison, table: &Table) -> String {
    let labels: Vec<String> = comparison.rows.iter().map(|row| comparison.label(row)).collect();
    let first = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let width = |column: usize| {
        let texts = table.rows.iter().map(|row| measure_text_width(&row[column].text));
        texts.max().unwrap_or(0).max(comparison.nemeses[column].chars().count())
    };
    let widths: Vec<usize> = (0..comparison.nemeses.len()).map(width).collect();
    let mut text = format!("{}", style(capital(&table.title)).bold());
    if !table.note.is_empty() {
        let _ = write!(text, "{}", style(format!(" ({})", table.note)).dim());
    }
    for (mark, meaning) in &table.legend {
        let line = wrap_indented(&format!("  {}: {meaning}", mark.text), 4);
        let _ = write!(text, "\n{}", style(line).dim());
    }
    let head = comparison.nemeses.iter().zip(&widths).map(|(name, &width)| format!("  {name:width$}"));
    let _ =
        writeln!(text, "\n{}", style(format!("{:first$}{}", "", head.collect::<String>()).trim_end()).dim());
    for (label, row) in labels.iter().zip(&table.rows) {
        let _ = write!(text, "{label:first$}");
        for (place, (mark, &width)) in row.iter().zip(&widths).enumerate() {
            let last = place + 1 == row.len();
            let room = if last { 0 } else { width - measure_text_width(&mark.text) };
            let colour = mark.harm.map(harm_colour).or(mark.outcome.map(colour)).unwrap_or_default();
            let colour = if mark.weak { colour.dim() } else { colour };
            let _ = write!(text, "  {}{:room$}", colour.apply_to(&mark.text), "");
        }
        let _ = writeln!(text);
    }
    text
}
