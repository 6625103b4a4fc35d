//! A lock that its holder can prolong.

use super::check_result::{CheckResult, Checked};
use super::lease::{TRY, next_holder};
use super::session::{RuleContext, seconds};
use fencepost_history::{Completion, f};
use tokio::time::Instant;

/// The part of the TTL after which a holder prolongs its lock, in twentieths.
const AFTER: u32 = 12;

pub(super) async fn check(context: &RuleContext<'_>) -> Checked {
    let (holder, key, ttl) = (context.process(0).await?, context.key("a"), context.terms().ttl);
    holder.client.needs(f::PROLONG)?;
    context.needs_ttl()?;
    holder.grant(&key).await?;
    tokio::time::sleep(ttl * AFTER / 20).await;
    let asked = Instant::now();
    let prolonged = holder.ask(f::PROLONG, &key).await?;
    if !prolonged.is_ok() {
        return Ok(CheckResult::broken(
            format!("a lock that was held was not prolonged: the answer was {prolonged}"),
            "Let the lock last for the TTL of the operation from now on, and answer `ok` (in a kit: the function `prolong`); or do not \
             announce `prolong`",
        ));
    }
    // Without that it would be over by then.
    tokio::time::sleep(ttl * AFTER / 20).await;
    let (holds, other) = (holder.ask(f::HOLDS, &key).await?, context.process(1).await?);
    let beside = other.acquire(&key, TRY.min(ttl / 5)).await?;
    if beside.is_ok() && asked.elapsed() < ttl {
        return Ok(CheckResult::note(
            format!(
                "process {} was granted the lock {} after process {} had prolonged it for {}",
                other.number, seconds(asked.elapsed()), holder.number, seconds(ttl)
            ),
            "`fencepost test` judges that. If the library is not to blame, look at the time that the client asks for: it counts from now on, \
             and is not added to what is left",
        )
        .of_processes(vec![holder.number, other.number]));
    }
    if holds.value != true && asked.elapsed() < ttl {
        return Ok(CheckResult::broken(
            format!("holds after the lock had been prolonged: {}", holds.value),
            "Count what the holder believes anew from the prolong",
        ));
    }
    let Some(next) = next_holder(context, &key).await? else {
        return Ok(CheckResult::unchecked("no other client acquired once the time was over"));
    };
    let late = holder.ask(f::PROLONG, &key).await?;
    next.release(&key).await?;
    if late.is_ok() {
        return Ok(CheckResult::note(
            format!(
                "process {} prolonged the lock that process {} held: the answer was {late}",
                holder.number, next.number
            ),
            "`fencepost test` judges that. If the library is not to blame, look at the client's prolong: it must prolong only what its own \
             acquire got",
        )
        .of_processes(vec![holder.number, next.number]));
    }
    if matches!(late.completion, Completion::Info(_)) {
        return Ok(CheckResult::note(
            format!("process {} prolonged what was gone, and the answer was {late}", holder.number),
            "Answer `fail` with `not-held` where the library says that the lock was no longer held: after an `info` the process is over",
        )
        .of_processes(vec![holder.number]));
    }
    Ok(CheckResult::kept(format!("a held lock was prolonged; one that was gone was answered with {late}")))
}
