//! A comparison as CSV: a line for each run, for calculations of one's own.

use super::model::{Comparison, said};
use anyhow::{Context, Result};
use fencepost_checker::Coverage;

/// All of it.
///
/// # Errors
/// None in practice: writing to memory.
pub fn text(comparison: &Comparison) -> Result<String> {
    let checkers = comparison.checkers();
    let mut csv = ::csv::Writer::from_writer(Vec::new());
    let fixed = ["lock", "guard", "settings", "nemesis", "seed", "run", "outcome"];
    let measured = [
        "lost",
        "acknowledged",
        "acquire_median_ms",
        "acquire_p99_ms",
        "acquisitions",
        "acquisitions_per_s",
        "recovery_ms",
        "situations_covered",
        "situations_possible",
        "nearest_miss_ms",
    ];
    csv.write_record(fixed.iter().chain(&checkers).chain(&measured))?;
    for row in &comparison.rows {
        for (nemesis, cell) in comparison.nemeses.iter().zip(&row.cells) {
            for run in &cell.runs {
                let Some(judgement) = &run.judgement else { continue };
                let mut line: Vec<String> = vec![
                    row.lock.clone(),
                    row.guard.clone(),
                    row.settings.clone(),
                    nemesis.clone(),
                    run.seed.to_string(),
                    run.name.clone(),
                    run.outcome.to_string(),
                ];
                let outcome =
                    |checker: &&str| said(checker, judgement).map_or(String::new(), |(it, _)| it.to_string());
                line.extend(checkers.iter().map(outcome));
                let both =
                    |stat| judgement.count("lost-updates", stat) + judgement.count("lost-additions", stat);
                let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
                let costs = &judgement.costs;
                line.extend([both("lost").to_string(), both("acknowledged").to_string()]);
                line.extend([number(costs.acquire_median_ms), number(costs.acquire_p99_ms)]);
                line.extend([costs.acquisitions.to_string(), costs.acquisitions_per_s.to_string()]);
                line.push(number(costs.recovery_ms));
                let count = |count: Option<usize>| count.map_or(String::new(), |count| count.to_string());
                let coverage = judgement.coverage.as_ref();
                line.extend([
                    count(coverage.map(Coverage::covered)),
                    count(coverage.map(Coverage::possible)),
                ]);
                let miss = judgement.nearest_miss.as_ref();
                line.push(number(miss.map(|miss| (miss.distance_ns as f64 / 1e3).round() / 1e3)));
                csv.write_record(&line)?;
            }
        }
    }
    String::from_utf8(csv.into_inner()?).context("cannot write CSV")
}
