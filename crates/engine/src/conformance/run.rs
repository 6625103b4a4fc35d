//! Goes through all points.

use super::bench::Bench;
use super::finding::{Ended, Finding, PointOutcome};
use super::registry::{GROUPS, Point};
use super::scope::{Scope, Stage};
use anyhow::Result;
use futures_util::future::join_all;
use serde::Serialize;
use std::sync::Arc;

/// What came of one point.
#[derive(Clone, Debug, Serialize)]
pub struct PointResult {
    pub point: &'static str,
    /// What the protocol asks for.
    pub rule: &'static str,
    pub outcome: PointOutcome,
    /// What was seen, or why the point does not apply.
    pub seen: String,
    /// What to change, or where to look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// The lines of the conversation, where something is to be changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
}

/// Checks all points, and reports each group of them as it is done. After a client that ended, or never grants, the rest is
/// not tried.
///
/// # Errors
/// The environment failed: nothing is known of the client.
pub(super) async fn check_all(
    bench: Arc<dyn Bench>,
    report: &mut (dyn FnMut(&PointResult) + Send),
) -> Result<Vec<PointResult>> {
    let stage = Stage::new(bench);
    let (mut results, mut number) = (Vec::new(), 0);
    let mut ended_at: Option<&str> = None;
    for group in GROUPS {
        let numbered = group.iter().enumerate().map(|(at, point)| (number + 1 + at, point));
        let found: Vec<PointResult> = match ended_at {
            Some(at) => group.iter().map(|point| not_tried(point, at)).collect(),
            None => {
                let all = join_all(numbered.map(|(number, point)| check(&stage, number, point))).await;
                let all = all.into_iter().collect::<Result<Vec<_>>>()?;
                ended_at = all.iter().find(|(_, is_last)| *is_last).map(|(result, _)| result.point);
                all.into_iter().map(|(result, _)| result).collect()
            }
        };
        number += group.len();
        found.iter().for_each(&mut *report);
        results.extend(found);
    }
    Ok(results)
}

fn not_tried(point: &Point, ended_at: &str) -> PointResult {
    let finding = Finding::not_tried(format!("not tried after the point {ended_at}"));
    result(point, finding, Vec::new())
}

/// Checks one point, and says whether those after it cannot be checked.
async fn check(stage: &Stage, number: usize, point: &Point) -> Result<(PointResult, bool)> {
    let scope = Scope::new(stage, number);
    let since = stage.transcript.len();
    let finding = match (point.check)(&scope).await {
        Ok(finding) | Err(Ended::Found(finding)) => finding,
        Err(Ended::Gone(sentence)) => {
            let change = "Look at the client's last lines; nothing but lines of the client protocol may go to standard output, and the \
                          client runs until its input ends";
            Finding::broken(sentence, change).and_the_last()
        }
        Err(Ended::Environment(error)) => return Err(error),
    };
    let lines = match (&finding.change, &finding.processes) {
        (None, _) => Vec::new(),
        (Some(_), Some(processes)) => {
            stage.transcript.lines_of(since, |process| processes.contains(&process))
        }
        (Some(_), None) => stage.transcript.lines_of(since, |process| scope.has(process)),
    };
    let is_last = finding.is_last;
    Ok((result(point, finding, lines), is_last))
}

fn result(point: &Point, finding: Finding, lines: Vec<String>) -> PointResult {
    let Finding { outcome, seen, change, .. } = finding;
    PointResult { point: point.name, rule: point.rule, outcome, seen, change, lines }
}
