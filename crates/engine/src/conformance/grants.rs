//! Points of what a grant hands out.

use super::check_result::{CheckEnd, CheckResult, Checked};
use super::session::{RuleContext, seconds};
use fencepost_history::{Grant, Millis, TimeSpan};
use serde_json::Value;

const GRANTS: usize = 6;

/// One grant after the other, by two clients in turn: the values of their acquires, with their processes.
async fn in_turn(context: &RuleContext<'_>) -> Result<Vec<(u64, Value)>, CheckEnd> {
    let key = context.key("a");
    let mut grants = Vec::new();
    for number in 0..GRANTS {
        let process = context.process(number % 2).await?;
        let granted = process.grant(&key).await?;
        grants.push((process.number, granted.value));
        process.release(&key).await?;
    }
    Ok(grants)
}

pub(super) async fn validity(context: &RuleContext<'_>) -> Checked {
    context.needs_ttl()?;
    context.client(0).await?.needs("validity")?;
    let ttl_ms = TimeSpan(context.terms().ttl).millis();
    let mut least = ttl_ms as f64;
    for (process, value) in in_turn(context).await? {
        let change = "Give validity_ms in the `ok` of each acquire: the TTL, less the time since the attempt that was granted began";
        let Some(Millis(validity_ms)) = Grant::of(&value).validity_ms else {
            let seen = format!("a grant had the value {value}, without a number as validity_ms");
            return Ok(CheckResult::broken(seen, change).of_processes(vec![process]));
        };
        if validity_ms > ttl_ms as f64 {
            let seen = format!("a grant for {ttl_ms} ms was reported as valid for {validity_ms} ms");
            return Ok(CheckResult::broken(seen, change).of_processes(vec![process]));
        }
        least = least.min(validity_ms);
    }
    if let Some(note) = validity_of_a_wait(context).await? {
        return Ok(note);
    }
    Ok(CheckResult::kept(format!(
        "at least {least} ms and at most the TTL of {ttl_ms} ms, in {GRANTS} grants"
    )))
}

/// Says so where a grant that had to wait is said to be valid for less, by half of the wait or more: then its
/// lease is counted from the beginning of the acquire, as a kit must where the library itself waits.
async fn validity_of_a_wait(context: &RuleContext<'_>) -> Result<Option<CheckResult>, CheckEnd> {
    let (holder, waiter) = (context.process(0).await?, context.process(1).await?);
    let (key, ttl) = (context.key("wait"), context.terms().ttl);
    holder.grant(&key).await?;
    let released = async {
        tokio::time::sleep(ttl / 2).await;
        holder.release(&key).await
    };
    let (waited, released) = tokio::join!(waiter.acquire(&key, ttl), released);
    let (waited, _) = (waited?, released?);
    if !waited.is_ok() {
        return Ok(None);
    }
    waiter.release(&key).await?;
    let Some(Millis(validity_ms)) = Grant::of(&waited.value).validity_ms else { return Ok(None) };
    let missing_ms = TimeSpan(ttl).millis() as f64 - validity_ms;
    Ok((missing_ms >= waited.took.as_secs_f64() * 1e3 / 2.0).then(|| {
        let seen = format!(
            "of a lock that was waited for {}, {validity_ms} ms of the TTL were left when it was granted",
            seconds(waited.took)
        );
        let look = "The lease seems to count from the beginning of the acquire, as it must where the library itself waits: in a test, processes \
                    that had to wait give their sections up. Let the client repeat attempts that do not block (in a kit: env.poll), so that the \
                    lease counts from the attempt that was granted";
        CheckResult::note(seen, look).of_processes(vec![holder.number, waiter.number])
    }))
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
