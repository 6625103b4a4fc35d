//! A call that its caller gives up in the middle.

use super::check_result::{CheckResult, Checked};
use super::lease::next_holder;
use super::session::{RuleContext, seconds};
use fencepost_history::f;
use std::time::Duration;

/// How long the caller waits before it gives its call up.
const AFTER: Duration = Duration::from_millis(200);

pub(super) async fn check(context: &RuleContext<'_>) -> Checked {
    let (holder, waiter) = (context.process(0).await?, context.process(1).await?);
    let (key, ttl) = (context.key("a"), context.terms().ttl);
    waiter.client.needs(f::CANCEL)?;
    holder.grant(&key).await?;
    let given_up = waiter.give_up(&key, ttl, AFTER).await?;
    holder.release(&key).await?;
    if given_up.took > ttl / 2 + AFTER {
        return Ok(CheckResult::broken(
            format!(
                "an acquire that was given up after {} ended only after {}",
                seconds(AFTER),
                seconds(given_up.took)
            ),
            "Cancel the call when `cancel` comes, and answer how it ended (in a kit: let the library's error through); or do not announce \
             `cancel`",
        ));
    }
    let Some(next) = next_holder(context, &key).await? else {
        return Ok(CheckResult::note(
            format!(
                "the lock stayed taken after process {} had given up an acquire of it, which ended with {given_up}, and its holder had \
             released it",
                waiter.number
            ),
            "Take back what the call has done where it is cancelled: its place in the queue, its renewal, its key",
        )
        .of_processes(vec![holder.number, waiter.number]));
    };
    next.release(&key).await?;
    Ok(CheckResult::kept(format!(
        "an acquire that was given up ended with {given_up}, and the lock was granted again"
    )))
}
