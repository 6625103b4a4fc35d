//! Points of leases: the lock becomes free again without a release.

use super::check_result::{CheckEnd, CheckResult, Checked};
use super::session::{ClientProcess, RuleContext, seconds};
use fencepost_history::{Completion, Lease, f};
use std::time::Duration;
use tokio::time::Instant;

/// How long an acquire of a taken lock is tried.
pub(super) const TRY: Duration = Duration::from_millis(300);

fn bound(context: &RuleContext<'_>) -> Duration {
    let terms = context.terms();
    terms.ttl + terms.ttl / 2 + terms.lag + Duration::from_secs(1)
}

/// A lock whose holder does not come back. Asked for at `asked`, it must not be free before its TTL is over.
async fn becomes_free(
    context: &RuleContext<'_>,
    key: &str,
    asked: Option<Instant>,
    what: &str,
    change: &str,
) -> Checked {
    let (begun, ttl) = (Instant::now(), seconds(context.terms().ttl));
    let Some(other) = next_holder(context, key).await? else {
        let seen = format!("{} after {what}, the lock was still taken (TTL {ttl})", seconds(begun.elapsed()));
        return Ok(CheckResult::broken(seen, change));
    };
    let after = asked.map(|asked| asked.elapsed());
    other.release(key).await?;
    let free = format!("the lock was free {} after {what}", seconds(begun.elapsed()));
    Ok(match after.filter(|after| is_too_early(context, *after)) {
        Some(after) => {
            let after = seconds(after);
            let seen = format!("{free}, {after} after it had been asked for: earlier than the TTL of {ttl}");
            CheckResult::note(seen, TOO_EARLY)
        }
        None => CheckResult::kept(free),
    })
}

const TOO_EARLY: &str = "A holder may rely on the whole TTL. Look at the unit and the value of the TTL that the library hands to the servers; if \
                         something else ends the lock when its client is gone, say so in lock.toml (lease = \"session\" or \"connection\")";

/// Whether a lock that ends by its TTL was free again so long after it was asked for: too early.
fn is_too_early(context: &RuleContext<'_>, after: Duration) -> bool {
    let terms = context.terms();
    terms.lease == Lease::Ttl && after < terms.ttl
}

fn needs_lease(context: &RuleContext<'_>) -> Result<(), CheckEnd> {
    if context.terms().lease != Lease::None {
        return Ok(());
    }
    let reason = "lock.toml says lease = \"none\": it stays taken until it is released";
    Err(CheckResult::not_applicable(reason).into())
}

pub(super) async fn client_gone(context: &RuleContext<'_>) -> Checked {
    needs_lease(context)?;
    let (holder, key, asked) = (context.process(2).await?, context.key("a"), Instant::now());
    holder.grant(&key).await?;
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
    becomes_free(context, &key, Some(asked), "its client was killed", change).await
}

pub(super) async fn process_over(context: &RuleContext<'_>) -> Checked {
    needs_lease(context)?;
    let (holder, key) = (context.process(0).await?, context.key("a"));
    holder.grant(&key).await?;
    holder.client.end_process(holder.number);
    let change = "At the line {\"event\":\"over\",\"process\":…} stop the renewals of this process and close its connections";
    // It may let go of the lock at once.
    becomes_free(context, &key, None, "the line `over`", change).await
}

/// How long a lock is held that its client says it renews, in TTLs.
const RENEWED_TTLS: u32 = 2;

pub(super) async fn renewal(context: &RuleContext<'_>) -> Checked {
    let (holder, key) = (context.process(0).await?, context.key("a"));
    holder.client.needs("extend")?;
    let ttl = context.terms().ttl;
    holder.grant(&key).await?;
    let renewed = holder.client.await_notice(f::RENEWED, holder.number, ttl * RENEWED_TTLS).await;
    holder.release(&key).await?;
    Ok(match renewed {
        Some(_) => CheckResult::kept("the first renewal of a held lock was reported"),
        None => CheckResult::note(
            format!(
                "the client announces `extend`, and reported no renewal of a lock that was held for {}, with a TTL of {}",
                seconds(ttl * RENEWED_TTLS), seconds(ttl)
            ),
            "Report each renewal (in a kit: `env.renewed(key)`). If the library renews without a callback, announce nothing, and say \
             lease = \"session\" in lock.toml: then no TTL counts against a holder",
        )
        .of_processes(vec![holder.number]),
    })
}

pub(super) async fn late_release(context: &RuleContext<'_>) -> Checked {
    context.needs_ttl()?;
    let (first, key) = (context.process(0).await?, context.key("a"));
    if first.client.can("extend") {
        return Ok(CheckResult::not_applicable(
            "its locks are renewed, so none runs out while its process lives",
        ));
    }
    let asked = Instant::now();
    first.grant(&key).await?;
    let Some(second) = next_holder(context, &key).await? else {
        return Ok(CheckResult::unchecked(format!(
            "no other client acquired within {} after a grant that was not released (lease in lock.toml says that a TTL ends it; of \
             some locks a session or a connection does)",
            seconds(bound(context))
        )));
    };
    let (after, second_asked) = (asked.elapsed(), Instant::now());
    let late = first.release(&key).await?;
    if is_too_early(context, after) {
        let seen = format!(
            "process {} got the lock {} after process {} had asked for it, which holds it for a TTL of {}",
            second.number,
            seconds(after),
            first.number,
            seconds(context.terms().ttl)
        );
        return Ok(CheckResult::note(seen, TOO_EARLY).of_processes(vec![first.number, second.number]));
    }
    let third = context.process(0).await?;
    let answered = third.acquire(&key, TRY).await?;
    if answered.is_ok() && second_asked.elapsed() + TRY >= context.terms().ttl {
        return Ok(CheckResult::unchecked(format!(
            "the machine was too busy: {} passed between the second grant and the third",
            seconds(second_asked.elapsed())
        )));
    }
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
    second.release(&key).await?;
    if matches!(late.completion, Completion::Info(_)) {
        return Ok(CheckResult::note(
            format!(
                "process {} released late, and the answer was {late}; the next holder kept the lock",
                first.number
            ),
            "Answer `fail` with `not-held` where the library says that the lock was no longer held: after an `info` the process is over",
        )
        .of_processes(vec![first.number]));
    }
    Ok(CheckResult::kept(format!(
        "a release after the TTL ended with {late}, and the next holder kept the lock"
    )))
}

pub(super) async fn next_holder<'a>(
    context: &'a RuleContext<'_>,
    key: &str,
) -> Result<Option<ClientProcess<'a>>, CheckEnd> {
    let begun = Instant::now();
    while begun.elapsed() < bound(context) {
        // A fresh process for each try: one that ended with an info is over.
        let other = context.process(1).await?;
        if other.acquire(key, TRY).await?.is_ok() {
            return Ok(Some(other));
        }
    }
    Ok(None)
}
