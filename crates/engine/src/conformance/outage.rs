//! Points of servers that do not answer: paused, or down.

use super::check_result::{CheckResult, Checked};
use super::session::{Answered, RuleContext, seconds};
use super::test_servers::ServersState;
use fencepost_history::{ErrorCode, f};
use std::time::Duration;
use tokio::time::Instant;

/// Shorter than the TTL: a request that is carried out later still shows.
fn time_out(context: &RuleContext<'_>) -> Duration {
    context.terms().ttl / 2
}

const SLACK: Duration = Duration::from_millis(300);

/// How long a library may retry beyond the time-out: redis-py retries up to 14 s for each of five servers.
const RETRIES: Duration = Duration::from_secs(60);

pub(super) async fn lost(context: &RuleContext<'_>) -> Checked {
    let (holder, key) = (context.process(0).await?, context.key("a"));
    holder.client.needs("lost")?;
    let ttl = context.terms().ttl;
    holder.grant(&key).await?;
    context.session.servers.set_state(ServersState::Paused).await?;
    tokio::time::sleep(ttl + ttl / 4 + context.terms().lag).await;
    context.session.servers.set_state(ServersState::Resumed).await?;
    let Some(notice) = holder.client.await_notice("lost", holder.number, ttl).await else {
        let other = context.process(1).await?;
        let answered = other.acquire(&key, context.terms().ttl / 2).await?;
        return Ok(match answered.is_ok() {
            true => CheckResult::broken(
                format!(
                    "process {} was granted the lock after the servers had stood still for longer than the TTL, and process {} sent no \
                     notice `lost`",
                    other.number, holder.number
                ),
                "Report what the library reports: {\"event\":\"lost\",\"process\":…,\"key\":…,\"reason\":…}; or do not announce `lost`",
            ),
            false => CheckResult::not_applicable(format!(
                "the lock outlived a pause of all servers that was longer than the TTL (another got {answered})"
            )),
        });
    };
    let holds = holder.ask(f::HOLDS, &key).await?;
    if holds.value != false {
        return Ok(CheckResult::broken(
            format!("holds after the notice `lost`: {}", holds.value),
            "End the belief where the notice is sent, in one step",
        ));
    }
    let reason = notice.reason.unwrap_or_default();
    Ok(CheckResult::kept(format!("`lost` came ({reason}), and holds was false after it")))
}

pub(super) async fn unanswered(context: &RuleContext<'_>) -> Checked {
    let (process, warm, key) = (context.process(0).await?, context.key("a"), context.key("b"));
    // So that it has a connection, if it keeps one.
    process.grant(&warm).await?;
    process.release(&warm).await?;
    context.session.servers.set_state(ServersState::Paused).await?;
    let paused = Instant::now();
    let time_out = time_out(context);
    let asking = process.acquire(&key, time_out);
    tokio::pin!(asking);
    let during = tokio::time::timeout(time_out + SLACK, &mut asking).await;
    let pause = paused.elapsed();
    context.session.servers.set_state(ServersState::Resumed).await?;
    let Ok(answered) = during else {
        let answered = asking.await?;
        let begun = format!(
            "an acquire with a time-out of {} was not answered while all servers stood still for {}",
            seconds(time_out),
            seconds(pause)
        );
        let change = "Give the library's connections a time-out: an operation ends by its time-out also where no server answers";
        return Ok(match answered.is_missing {
            true => CheckResult::broken(
                format!("{begun}, nor {} after it had begun", seconds(answered.took)),
                change,
            ),
            false => CheckResult::note(
                format!("{begun}; it ended {} after it had begun, with {answered}", seconds(answered.took)),
                change,
            ),
        });
    };
    judge_unanswered(context, &key, &answered?).await
}

/// What an acquire may say that ended while no server answered.
async fn judge_unanswered(context: &RuleContext<'_>, key: &str, answered: &Answered) -> Checked {
    let seen = format!(
        "while all servers stood still, an acquire ended with {answered} after {}",
        seconds(answered.took)
    );
    if answered.is_ok() {
        return Ok(CheckResult::broken(
            seen,
            "No server can have granted it. Look at the client's acquire: it must ask the server, and answer `ok` only after the server \
             did",
        ));
    }
    let Some(code) = answered.fail_code() else { return Ok(CheckResult::kept(seen)) };
    if code == ErrorCode::RefusedByLibrary {
        return Ok(CheckResult::kept(format!("{seen}; no proof rests on that")));
    }
    // A `fail` says that it will not happen. If the request was in a server's buffer, the lock is taken now.
    let other = context.process(1).await?;
    let next = other.acquire(key, context.terms().ttl / 2).await?;
    if next.is_ok() {
        other.release(key).await?;
        return Ok(CheckResult::kept(format!("{seen}, and nothing had taken the lock when they went on")));
    }
    Ok(CheckResult::broken(
        format!("{seen}, and when they went on the lock was taken: another's acquire ended with {next}"),
        "Answer with `info`, `timeout: …`, where a request was sent and not answered: it may be carried out yet. In a kit: let the library's \
         error go through",
    ))
}

pub(super) async fn unreachable(context: &RuleContext<'_>) -> Checked {
    // A process of its own, which has sent nothing yet; its client runs.
    let (process, key) = (context.process(0).await?, context.key("a"));
    context.session.servers.set_state(ServersState::Killed).await?;
    let time_out = time_out(context);
    let answered = process.perform(f::ACQUIRE, &key, time_out, RETRIES).await?;
    let seen = format!("with all servers down, the first acquire of a process ended with {answered}");
    if answered.is_ok() {
        return Ok(CheckResult::broken(
            seen,
            "No server can have granted it. Look at the client's acquire: it must ask the server",
        ));
    }
    if answered.is_missing {
        return Ok(CheckResult::broken(seen, "Answer each operation, also where no server can be reached"));
    }
    let seen = format!("{seen} after {}", seconds(answered.took));
    if answered.fail_code().is_none() {
        return Ok(CheckResult::note(
            seen,
            "An `info` is allowed, and uses up the process. Where the connection was refused before anything was sent, answer with `fail`, \
             `unreachable: …` (in a kit: Certain)",
        ));
    }
    if answered.took > time_out + SLACK {
        return Ok(CheckResult::note(
            format!("{seen}, with a time-out of {}", seconds(time_out)),
            "Let the library give up by the time-out: limit its own retries",
        ));
    }
    Ok(CheckResult::kept(seen))
}
