//! A comparison as JUnit XML: a suite for each lock, a case for each property under each nemesis.

use super::model::{Cell, CellRun, Comparison, Row};
use crate::pipeline::junit::{Case, CaseEnd, JunitSuite};
use crate::words::property;
use fencepost_checker::Outcome;

const COMMANDS_MAX: usize = 20;

pub fn suites(comparison: &Comparison) -> Vec<JunitSuite> {
    let suite = |row: &Row| {
        let cells = comparison.nemeses.iter().zip(&row.cells);
        let cases = cells.flat_map(|(nemesis, cell)| cases(row, nemesis, cell)).collect();
        let servers = row.servers.iter().map(|server| ("server".to_owned(), server.clone()));
        let confidence = comparison.nemeses.iter().zip(&row.cells).filter_map(|(nemesis, cell)| {
            let confidence = cell.confidence.as_ref()?;
            let weak = match cell.weak() {
                [] => String::new(),
                weak => format!(", weak: only {}", weak.join(", ")),
            };
            let covered = match confidence.possible {
                0 => format!("no situations{weak}"),
                possible => format!("{} of {possible} situations covered{weak}", confidence.covered),
            };
            Some((format!("confidence under {nemesis}"), covered))
        });
        JunitSuite { name: comparison.label(row), properties: servers.chain(confidence).collect(), cases }
    };
    comparison.rows.iter().map(suite).collect()
}

fn cases(row: &Row, nemesis: &str, cell: &Cell) -> Vec<Case> {
    let case = |name: &str, end| Case {
        name: format!("{name} under {nemesis}"),
        class: format!("fencepost.{}.{nemesis}", row.lock),
        end,
    };
    if let Some(why) = &cell.not_applicable {
        return vec![case("all properties", CaseEnd::Skipped { message: format!("not applicable: {why}") })];
    }
    let mut cases: Vec<Case> = Vec::new();
    for kept in &cell.properties {
        let Some(outcome) = kept.outcomes.outcome() else { continue };
        let summary = format!(
            "violated in {} of {} runs: {}",
            kept.outcomes.violation,
            kept.outcomes.runs(),
            kept.summary
        );
        let summary = if kept.outcomes.violation > 0 { &summary } else { &kept.summary };
        if !kept.claimed && outcome != Outcome::Valid {
            let message = format!("not claimed by the lock, so it does not count: {summary}");
            cases.push(case(property(&kept.checker).0, CaseEnd::Skipped { message }));
            continue;
        }
        let shows = |run: &&CellRun| outcome != Outcome::Violation || run.outcome == outcome;
        let commands: Vec<&str> =
            cell.runs.iter().filter(shows).take(COMMANDS_MAX).map(|run| run.command.as_str()).collect();
        cases.push(case(property(&kept.checker).0, CaseEnd::of(outcome, summary, &commands.join("\n"))));
    }
    for unjudged in &cell.not_judged {
        let message = format!("not judged: {}", unjudged.reason);
        cases.push(case(property(&unjudged.checker).0, CaseEnd::Skipped { message }));
    }
    for why in &cell.failures {
        cases.push(case("a run", CaseEnd::Undecided { message: why.clone(), kind: "failed" }));
    }
    if cell.missing > 0 {
        let message = format!("runs of parts that are not there: {}", cell.missing);
        cases.push(case("runs of other parts", CaseEnd::Undecided { message, kind: "missing" }));
    }
    cases
}
