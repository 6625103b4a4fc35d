//! Goes through all points.

use super::check_result::{CheckResult, Ended, PointOutcome, PointSubject};
use super::registry::{GROUPS, Point};
use super::session::{CheckSession, PointContext};
use super::test_servers::TestServers;
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
    /// Whose part it is.
    pub about: PointSubject,
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
    servers: Arc<dyn TestServers>,
    report: &mut (dyn FnMut(&PointResult) + Send),
) -> Result<Vec<PointResult>> {
    let session = CheckSession::new(servers);
    let (mut results, mut number) = (Vec::new(), 0);
    let mut ended_at: Option<&str> = None;
    for group in GROUPS {
        let numbered = group.iter().enumerate().map(|(at, point)| (number + 1 + at, point));
        let found: Vec<PointResult> = match ended_at {
            Some(at) => group.iter().map(|point| not_tried(point, at)).collect(),
            None => {
                let all = join_all(numbered.map(|(number, point)| check(&session, number, point))).await;
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
    let checked = CheckResult::not_tried(format!("not tried after the point {ended_at}"));
    point_result(point, checked, Vec::new())
}

/// Checks one point, and says whether those after it cannot be checked.
async fn check(session: &CheckSession, number: usize, point: &Point) -> Result<(PointResult, bool)> {
    let context = PointContext::new(session, number);
    let since = session.transcript.len();
    let checked = match (point.check)(&context).await {
        Ok(checked) | Err(Ended::Found(checked)) => checked,
        Err(Ended::Gone(sentence)) => {
            let change = "Look at the client's last lines; nothing but lines of the client protocol may go to standard output, and the \
                          client runs until its input ends";
            CheckResult::broken(sentence, change).and_the_last()
        }
        Err(Ended::Environment(error)) => return Err(error),
    };
    let lines = match (&checked.change, &checked.processes) {
        (None, _) => Vec::new(),
        (Some(_), Some(processes)) => {
            session.transcript.lines_of(since, |process| processes.contains(&process))
        }
        (Some(_), None) => session.transcript.lines_of(since, |process| context.has(process)),
    };
    let is_last = checked.is_last;
    Ok((point_result(point, checked, lines), is_last))
}

fn point_result(point: &Point, checked: CheckResult, lines: Vec<String>) -> PointResult {
    let CheckResult { outcome, seen, change, .. } = checked;
    PointResult { point: point.name, rule: point.rule, about: point.about, outcome, seen, change, lines }
}
