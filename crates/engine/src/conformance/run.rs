//! Goes through all rules.

use super::check_result::{CheckEnd, CheckResult, RuleOutcome, RuleSubject};
use super::registry::{OPTIONAL, Rule, groups};
use super::session::{CheckSession, RuleContext};
use super::test_servers::TestServers;
use anyhow::Result;
use futures_util::future::join_all;
use serde::Serialize;
use std::sync::Arc;

#[derive(Clone, Debug, Serialize)]
pub struct RuleResult {
    #[serde(rename = "point")]
    pub name: &'static str,
    #[serde(rename = "rule")]
    pub asks: &'static str,
    pub about: RuleSubject,
    pub outcome: RuleOutcome,
    pub seen: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
}

/// Checks all rules, group by group, until the client ends or never grants. Errors: the environment.
pub(super) async fn check_all(
    servers: Arc<dyn TestServers>,
    report: &mut (dyn FnMut(&RuleResult) + Send),
) -> Result<Vec<RuleResult>> {
    let groups = groups(servers.terms().kind);
    let session = CheckSession::new(servers);
    let (mut results, mut number) = (Vec::new(), 0);
    let mut ended_at: Option<&str> = None;
    for group in groups {
        let numbered = group.iter().enumerate().map(|(at, rule)| (number + 1 + at, rule));
        let mut found: Vec<RuleResult> = match ended_at {
            Some(at) => group.iter().map(|rule| not_tried(rule, at)).collect(),
            None => {
                let all = join_all(numbered.map(|(number, rule)| check(&session, number, rule))).await;
                let all = all.into_iter().collect::<Result<Vec<_>>>()?;
                ended_at = all.iter().find(|(_, is_last)| *is_last).map(|(result, _)| result.name);
                all.into_iter().map(|(result, _)| result).collect()
            }
        };
        number += group.len();
        found.retain(|rule| !OPTIONAL.contains(&rule.name) || rule.outcome != RuleOutcome::NotApplicable);
        found.iter().for_each(&mut *report);
        results.extend(found);
    }
    Ok(results)
}

fn not_tried(rule: &Rule, ended_at: &str) -> RuleResult {
    let checked = CheckResult::not_tried(format!("not tried after the rule {ended_at}"));
    rule_result(rule, checked, Vec::new())
}

async fn check(session: &CheckSession, number: usize, rule: &Rule) -> Result<(RuleResult, bool)> {
    let context = RuleContext::new(session, number);
    let since = session.transcript.len();
    let checked = match (rule.check)(&context).await {
        Ok(checked) | Err(CheckEnd::Found(checked)) => checked,
        Err(CheckEnd::NoHello(sentence) | CheckEnd::Gone(sentence)) => {
            let change = "Look at the client's last lines; nothing but lines of the client protocol may go to standard output, and the \
                          client runs until its input ends";
            CheckResult::broken(sentence, change).ending_the_check()
        }
        Err(CheckEnd::Environment(error)) => return Err(error),
    };
    let lines = match (&checked.change, &checked.processes) {
        (None, _) => Vec::new(),
        (Some(_), Some(processes)) => {
            session.transcript.lines_of(since, |process| processes.contains(&process))
        }
        (Some(_), None) => session.transcript.lines_of(since, |process| context.has(process)),
    };
    let is_last = checked.is_last;
    Ok((rule_result(rule, checked, lines), is_last))
}

fn rule_result(rule: &Rule, checked: CheckResult, lines: Vec<String>) -> RuleResult {
    let CheckResult { outcome, seen, change, about, .. } = checked;
    let about = about.unwrap_or(rule.about);
    RuleResult { name: rule.name, asks: rule.asks, about, outcome, seen, change, lines }
}
