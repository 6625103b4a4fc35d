//! A comparison as CSV: a line for each run, for calculations of one's own.

use super::figures::RunFigures;
use super::model::{CellRun, Comparison};
use anyhow::Result;
use std::io::Write;

/// Writes it line by line, without runs that have no figures. Errors: it cannot be written.
pub fn write(comparison: &Comparison, to: impl Write) -> Result<()> {
    let checkers = comparison.checkers();
    let mut csv = ::csv::Writer::from_writer(to);
    let fixed = ["lock", "guard", "settings", "nemesis", "seed", "run", "outcome", "harm"];
    let measured = "lost,acknowledged,acquire_median_ms,acquire_p99_ms,acquisitions,acquisitions_per_s,recovery_ms,\
                    situations_covered,situations_possible,nearest_miss_ms";
    csv.write_record(fixed.iter().chain(&checkers).copied().chain(measured.split(',')))?;
    for row in &comparison.rows {
        for (nemesis, cell) in comparison.nemeses.iter().zip(&row.cells) {
            for run in &cell.runs {
                let Some(figures) = &run.figures else { continue };
                let combination = [&row.lock, &row.guard, &row.settings, nemesis].map(String::clone);
                let mut line = combination.to_vec();
                line.extend(of_run(run, figures, &checkers));
                csv.write_record(&line)?;
            }
        }
    }
    Ok(csv.flush()?)
}

fn of_run(run: &CellRun, figures: &RunFigures, checkers: &[&str]) -> Vec<String> {
    let mut line = vec![run.seed.to_string(), run.name.clone(), run.outcome.to_string()];
    line.push(figures.harm.map_or(String::new(), |harm| harm.class().to_owned()));
    let outcome = |checker: &&str| figures.outcome(checker).map_or(String::new(), |it| it.to_string());
    line.extend(checkers.iter().map(outcome));
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let costs = &figures.costs;
    line.extend([figures.lost.to_string(), figures.acknowledged.to_string()]);
    line.extend([number(costs.acquire_median_ms), number(costs.acquire_p99_ms)]);
    line.extend([costs.acquisitions.to_string(), costs.acquisitions_per_s.to_string()]);
    line.push(number(costs.recovery_ms));
    let count = |count: Option<usize>| count.map_or(String::new(), |count| count.to_string());
    let (covered, possible) = figures.situations.unzip();
    line.extend([count(covered), count(possible)]);
    line.push(number(figures.nearest_miss_ns.map(|miss_ns| (miss_ns as f64 / 1e3).round() / 1e3)));
    line
}
