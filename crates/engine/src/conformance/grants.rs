//! Points of what a grant hands out.

use super::check_result::{CheckResult, Checked, Ended};
use super::session::RuleContext;
use fencepost_history::{Grant, Lease, Millis, TimeSpan};
use serde_json::Value;

/// How many grants are looked at.
const GRANTS: usize = 6;

/// One grant after the other, by two clients in turn: the values of their acquires, with their processes.
async fn in_turn(context: &RuleContext<'_>) -> Result<Vec<(u64, Value)>, Ended> {
    let key = context.key("a");
    let mut grants = Vec::new();
    for number in 0..GRANTS {
        let process = context.process(number % 2).await?;
        let granted = context.grant(&process, &key).await?;
        grants.push((process.number, granted.value));
        context.release(&process, &key).await?;
    }
    Ok(grants)
}

pub(super) async fn validity(context: &RuleContext<'_>) -> Checked {
    if context.terms().lease != Lease::Ttl {
        let reason = format!("a hold does not run out by time: lease = \"{}\"", context.terms().lease);
        return Ok(CheckResult::not_applicable(reason));
    }
    if !context.client(0).await?.can("validity") {
        return Ok(CheckResult::not_applicable(
            "the client's answer to the hello does not announce `validity`",
        ));
    }
    let ttl_ms = TimeSpan(context.terms().ttl).millis();
    let mut least = ttl_ms as f64;
    for (process, value) in in_turn(context).await? {
        let change = "Give validity_ms in the `ok` of each acquire: the TTL, less the time since the attempt that was granted began";
        let Some(Millis(validity_ms)) = Grant::of(&value).validity_ms else {
            let seen = format!("a grant had the value {value}, without a number as validity_ms");
            return Ok(CheckResult::broken(seen, change).of_processes(vec![process]));
        };
        if validity_ms > ttl_ms as f64 {
            let seen = format!("a grant for {ttl_ms} ms was said to be valid for {validity_ms} ms");
            return Ok(CheckResult::broken(seen, change).of_processes(vec![process]));
        }
        least = least.min(validity_ms);
    }
    Ok(CheckResult::kept(format!(
        "at least {least} ms and at most the TTL of {ttl_ms} ms, in {GRANTS} grants"
    )))
}

pub(super) async fn tokens(context: &RuleContext<'_>) -> Checked {
    if !context.client(0).await?.can("token") {
        return Ok(CheckResult::not_applicable(
            "the lock gives no fencing tokens: the client's answer to the hello does not announce `token`",
        ));
    }
    let change = "Give the fencing token that the library got from the servers: a whole number, greater at each grant of a key";
    let mut before: Option<(u64, i64)> = None;
    for (process, value) in in_turn(context).await? {
        let Some(token) = Grant::of(&value).token else {
            let seen = format!("a grant had the value {value}, without a whole number as token");
            return Ok(CheckResult::broken(seen, change).of_processes(vec![process]));
        };
        if let Some((earlier, last)) = before.filter(|(_, last)| token <= *last) {
            let seen = format!("a grant with the token {token} came after one with {last}");
            return Ok(CheckResult::broken(seen, change).of_processes(vec![earlier, process]));
        }
        before = Some((process, token));
    }
    Ok(CheckResult::kept(format!(
        "{GRANTS} grants, the last token is {}",
        before.map_or(0, |(_, token)| token)
    )))
}
