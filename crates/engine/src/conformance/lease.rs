//! Points of leases: the lock becomes free again without a release.

use super::check_result::{CheckResult, Checked, Ended};
use super::session::{ClientProcess, PointContext, seconds};
use fencepost_history::{Completion, Lease};
use std::time::Duration;
use tokio::time::Instant;

/// How long an acquire of a taken lock is tried.
const TRY: Duration = Duration::from_millis(300);

/// How long it may take until another gets the lock.
fn bound(context: &PointContext<'_>) -> Duration {
    let terms = context.terms();
    terms.ttl + terms.ttl / 2 + terms.lag + Duration::from_secs(1)
}

/// A lock whose holder does not come back.
async fn becomes_free(context: &PointContext<'_>, key: &str, what: &str, change: &str) -> Checked {
    let begun = Instant::now();
    let limit = bound(context);
    while begun.elapsed() < limit {
        // A fresh process for each try: one that ended with an info is over.
        let other = context.process(1).await?;
        let answered = context.acquire(&other, key, TRY).await?;
        if answered.is_ok() {
            context.release(&other, key).await?;
            return Ok(CheckResult::kept(format!("free {} after {what}", seconds(begun.elapsed()))));
        }
    }
    let ttl = seconds(context.terms().ttl);
    Ok(CheckResult::broken(
        format!("{} after {what}, the lock was still taken (TTL {ttl})", seconds(begun.elapsed())),
        change,
    ))
}

/// Whether the lock ends by itself at all.
fn without_lease(context: &PointContext<'_>) -> Option<CheckResult> {
    (context.terms().lease == Lease::None).then(|| {
        CheckResult::not_applicable("lock.toml says lease = \"none\": it stays taken until it is released")
    })
}

pub(super) async fn client_gone(context: &PointContext<'_>) -> Checked {
    if let Some(result) = without_lease(context) {
        return Ok(result);
    }
    let (holder, key) = (context.process(2).await?, context.key("a"));
    context.grant(&holder, &key).await?;
    context.session.servers.kill_client(holder.client.place, holder.client.pid).await?;
    let Some(_) = holder.client.await_gone(Duration::from_secs(3)).await else {
        return Ok(CheckResult::broken(
            format!(
                "{} still had its output open after the process {} of its hello was killed",
                holder.client.name, holder.client.pid
            ),
            "Let the hello's `pid` be the process that speaks the protocol, as it sees itself (`getpid`)",
        ));
    };
    let change = "Pass the TTL of the acquire on to the library, in its unit; or say in lock.toml what ends a hold (lease = \"session\", \
                  \"connection\" or \"none\")";
    becomes_free(context, &key, "its client was killed", change).await
}

pub(super) async fn process_over(context: &PointContext<'_>) -> Checked {
    if let Some(result) = without_lease(context) {
        return Ok(result);
    }
    let (holder, key) = (context.process(0).await?, context.key("a"));
    context.grant(&holder, &key).await?;
    holder.client.end_process(holder.number);
    let change = "At the line {\"event\":\"over\",\"process\":…} stop the renewals of this process and close its connections";
    becomes_free(context, &key, "the line `over`", change).await
}

pub(super) async fn late_release(context: &PointContext<'_>) -> Checked {
    if context.terms().lease != Lease::Ttl {
        return Ok(CheckResult::not_applicable(format!(
            "a hold does not run out by time: lease = \"{}\"",
            context.terms().lease
        )));
    }
    let (first, key) = (context.process(0).await?, context.key("a"));
    if first.client.can("extend") {
        return Ok(CheckResult::not_applicable(
            "its locks are renewed, so none runs out while its process lives",
        ));
    }
    context.grant(&first, &key).await?;
    let Some(second) = next_holder(context, &key).await? else {
        return Ok(CheckResult::unchecked(format!(
            "no other client acquired within {} after a grant that was not released (lease in lock.toml says that a TTL ends it; of \
             some locks a session or a connection does)",
            seconds(bound(context))
        )));
    };
    let late = context.release(&first, &key).await?;
    let third = context.process(0).await?;
    let answered = context.acquire(&third, &key, TRY).await?;
    if answered.is_ok() {
        return Ok(CheckResult::note(
            format!(
                "process {} released late (answered with {late}), and process {} was then granted the lock that process {} held",
                first.number, third.number, second.number
            ),
            "`fencepost test` judges that as ownership. If the library is not to blame, look at the client's release: it must remove \
             only what its own acquire got",
        )
        .of_processes(vec![first.number, second.number, third.number]));
    }
    context.release(&second, &key).await?;
    if matches!(late.completion, Completion::Info(_)) {
        return Ok(CheckResult::note(
            format!("process {} released late, and the answer was {late}; the next holder kept the lock", first.number),
            "Answer `fail` with `not-held` where the library says that the lock was no longer held: after an `info` the process is over",
        )
        .of_processes(vec![first.number]));
    }
    Ok(CheckResult::kept(format!(
        "a release after the TTL ended with {late}, and the next holder kept the lock"
    )))
}

/// The process that gets the lock once its holder's time is over.
async fn next_holder(context: &PointContext<'_>, key: &str) -> Result<Option<ClientProcess>, Ended> {
    let begun = Instant::now();
    while begun.elapsed() < bound(context) {
        let other = context.process(1).await?;
        if context.acquire(&other, key, TRY).await?.is_ok() {
            return Ok(Some(other));
        }
    }
    Ok(None)
}
