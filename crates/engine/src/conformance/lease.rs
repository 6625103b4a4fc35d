//! Points of leases: the lock becomes free again without a release.

use super::finding::{Checked, Ended, Finding};
use super::scope::{Scope, User, seconds};
use fencepost_history::{Completion, Lease};
use std::time::Duration;
use tokio::time::Instant;

/// How long an acquire of a taken lock is tried.
const TRY: Duration = Duration::from_millis(300);

/// How long it may take until another gets the lock.
fn bound(scope: &Scope<'_>) -> Duration {
    let terms = scope.terms();
    terms.ttl + terms.ttl / 2 + terms.lag + Duration::from_secs(1)
}

/// A lock whose holder does not come back.
async fn becomes_free(scope: &Scope<'_>, key: &str, what: &str, change: &str) -> Checked {
    let begun = Instant::now();
    let limit = bound(scope);
    while begun.elapsed() < limit {
        // A fresh process for each try: one that ended with an info is over.
        let other = scope.user(1).await?;
        let answered = scope.acquire(&other, key, TRY).await?;
        if answered.is_ok() {
            scope.release(&other, key).await?;
            return Ok(Finding::kept(format!("free {} after {what}", seconds(begun.elapsed()))));
        }
    }
    let ttl = seconds(scope.terms().ttl);
    Ok(Finding::broken(
        format!("{} after {what}, the lock was still taken (TTL {ttl})", seconds(begun.elapsed())),
        change,
    ))
}

/// Whether the lock ends by itself at all.
fn without_lease(scope: &Scope<'_>) -> Option<Finding> {
    (scope.terms().lease == Lease::None).then(|| {
        Finding::not_applicable("lock.toml says lease = \"none\": it stays taken until it is released")
    })
}

pub(super) async fn client_gone(scope: &Scope<'_>) -> Checked {
    if let Some(finding) = without_lease(scope) {
        return Ok(finding);
    }
    let (holder, key) = (scope.user(2).await?, scope.key("a"));
    scope.grant(&holder, &key).await?;
    scope.stage.bench.kill_client(holder.client.place, holder.client.pid).await?;
    let Some(_) = holder.client.await_gone(Duration::from_secs(3)).await else {
        return Ok(Finding::broken(
            format!(
                "{} still had its output open after the process {} of its hello was killed",
                holder.client.name, holder.client.pid
            ),
            "Let the hello's `pid` be the process that speaks the protocol, as it sees itself (`getpid`)",
        ));
    };
    let change = "Pass the TTL of the acquire on to the library, in its unit; or say in lock.toml what ends a hold (lease = \"session\", \
                  \"connection\" or \"none\")";
    becomes_free(scope, &key, "its client was killed", change).await
}

pub(super) async fn process_over(scope: &Scope<'_>) -> Checked {
    if let Some(finding) = without_lease(scope) {
        return Ok(finding);
    }
    let (holder, key) = (scope.user(0).await?, scope.key("a"));
    scope.grant(&holder, &key).await?;
    holder.client.end_process(holder.process);
    let change = "At the line {\"event\":\"over\",\"process\":…} stop the renewals of this process and close its connections";
    becomes_free(scope, &key, "the line `over`", change).await
}

pub(super) async fn late_release(scope: &Scope<'_>) -> Checked {
    if scope.terms().lease != Lease::Ttl {
        return Ok(Finding::not_applicable(format!(
            "a hold does not run out by time: lease = \"{}\"",
            scope.terms().lease
        )));
    }
    let (first, key) = (scope.user(0).await?, scope.key("a"));
    if first.client.can("extend") {
        return Ok(Finding::not_applicable(
            "its locks are renewed, so none runs out while its process lives",
        ));
    }
    scope.grant(&first, &key).await?;
    let Some(second) = next_holder(scope, &key).await? else {
        return Ok(Finding::unchecked(format!(
            "no other client acquired within {} after a grant that was not released (lease in lock.toml says that a TTL ends it; of \
             some locks a session or a connection does)",
            seconds(bound(scope))
        )));
    };
    let late = scope.release(&first, &key).await?;
    let third = scope.user(0).await?;
    let answered = scope.acquire(&third, &key, TRY).await?;
    if answered.is_ok() {
        return Ok(Finding::note(
            format!(
                "process {} released late (answered with {late}), and process {} was then granted the lock that process {} held",
                first.process, third.process, second.process
            ),
            "`fencepost test` judges that as ownership. If the library is not to blame, look at the client's release: it must remove \
             only what its own acquire got",
        )
        .of_processes(vec![first.process, second.process, third.process]));
    }
    scope.release(&second, &key).await?;
    if matches!(late.completion, Completion::Info(_)) {
        return Ok(Finding::note(
            format!("process {} released late, and the answer was {late}; the next holder kept the lock", first.process),
            "Answer `fail` with `not-held` where the library says that the lock was no longer held: after an `info` the process is over",
        )
        .of_processes(vec![first.process]));
    }
    Ok(Finding::kept(format!("a release after the TTL ended with {late}, and the next holder kept the lock")))
}

/// The process that gets the lock once its holder's time is over.
async fn next_holder(scope: &Scope<'_>, key: &str) -> Result<Option<User>, Ended> {
    let begun = Instant::now();
    while begun.elapsed() < bound(scope) {
        let other = scope.user(1).await?;
        if scope.acquire(&other, key, TRY).await?.is_ok() {
            return Ok(Some(other));
        }
    }
    Ok(None)
}
