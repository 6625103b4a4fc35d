//! Points of single operations, without any fault.

use super::check_result::{CheckEnd, CheckResult, Checked};
use super::session::{Answered, RuleContext, seconds};
use fencepost_history::{ErrorCode, Released, f};
use std::time::Duration;
use tokio::time::Instant;

/// Tries for an answer that should come soon: a busy machine makes an answer late, and never early.
const TRIES: usize = 3;

/// The time-out of an acquire that has to wait: the holder's time must not run out meanwhile.
fn wait(context: &RuleContext<'_>) -> Duration {
    context.terms().ttl / 2
}

pub(super) async fn grants(context: &RuleContext<'_>) -> Checked {
    let (process, key) = (context.process(0).await?, context.key("a"));
    let granted = process.acquire_free(&key).await?;
    if !granted.is_ok() {
        let seen = format!("the acquire of a free lock was answered with {granted}");
        // A no is an answer as the protocol wants it. An error may be the client's.
        let result = match granted.fail_code() {
            Some(ErrorCode::RefusedByLibrary | ErrorCode::Taken) => CheckResult::note(
                seen,
                "The library refuses a lock that no process holds, and that is its failure or that of how it is used: look at what its \
                 acquire asks the servers, and at the time that it is given",
            )
            .of_the_library(),
            _ => CheckResult::broken(
                seen,
                "Look at this error, which is the library's or that of the client's own code, and at the address that the client connects to",
            ),
        };
        // Where the lock is never granted every other rule would say so again.
        let process = context.process(0).await?;
        let again = process.acquire_free(&context.key("b")).await?;
        return Ok(if again.is_ok() { result } else { result.ending_the_check() });
    }
    let released = process.release(&key).await?;
    let believed = Released::of(&released.value).believed;
    if believed.is_none() || (released.is_ok() && believed == Some(false)) {
        return Ok(CheckResult::broken(
            format!("the release of a held lock had the value {}, answered with {released}", released.value),
            "Give each release the value {\"believed\":true} or {\"believed\":false}: whether the process thought that it held the \
             lock as the release began",
        ));
    }
    if !released.is_ok() {
        let change = match released.fail_code() {
            Some(ErrorCode::NotHeld) => {
                "The servers knew nothing of this grant. Look at the client's acquire: it must ask the server, and answer `ok` only after \
                 the server did"
            }
            _ => "Look at the error; a release that the library carries out without an error is `ok`",
        };
        return Ok(CheckResult::broken(
            format!("the release of a held lock was answered with {released}"),
            change,
        ));
    }
    let never = context.process(0).await?.release(&key).await?;
    if Released::of(&never.value).believed != Some(false) {
        return Ok(CheckResult::broken(
            format!("the release of a process that never acquired had the value {}", never.value),
            "Keep what is believed for each process by itself: `believed` is false here",
        ));
    }
    Ok(CheckResult::kept(format!(
        "granted after {}, released after {}",
        seconds(granted.took),
        seconds(released.took)
    )))
}

/// How long an acquire of a free lock takes here and now: an answer may be late by that.
async fn undisturbed(context: &RuleContext<'_>) -> Result<Duration, CheckEnd> {
    let (process, key) = (context.process(1).await?, context.key("undisturbed"));
    let granted = process.grant(&key).await?;
    process.release(&key).await?;
    Ok(granted.took)
}

pub(super) async fn processes(context: &RuleContext<'_>) -> Checked {
    let mut seen = String::new();
    for number in 0..TRIES {
        let (holder, waiter, other) =
            (context.process(0).await?, context.process(0).await?, context.process(0).await?);
        let (key, free, wait) =
            (context.key(&format!("a{number}")), context.key(&format!("b{number}")), wait(context));
        holder.grant(&key).await?;
        let slow = undisturbed(context).await?;
        let begun = Instant::now();
        let waiting = waiter.acquire(&key, wait);
        let others = async {
            // The waiting has begun by then.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let granted = other.acquire_free(&free).await?;
            let released = holder.release(&key).await?;
            Ok::<_, CheckEnd>((granted, released, begun.elapsed()))
        };
        let (waited, others) = tokio::join!(waiting, others);
        let ((granted, released, after), waited) = (others?, waited?);
        // Attempts end a little before their time-out, so a wait that ended does not prove anything.
        if after >= wait / 2 + 2 * slow {
            seen = format!(
                "while process {} waited for a lock, process {} of the same client got a free one only after {}, and the release of \
                 process {} ended {} after the wait had begun",
                waiter.number,
                other.number,
                seconds(granted.took),
                holder.number,
                seconds(after)
            );
            continue;
        }
        if !granted.is_ok() {
            return Ok(CheckResult::unchecked(format!(
                "a free lock was not granted: the answer was {granted}"
            )));
        }
        let fate = if waited.is_ok() { "and then got the lock" } else { "in vain" };
        return Ok(CheckResult::kept(format!(
            "while one process waited for a lock ({fate}), another acquired a free one in {}, and the holder released in {}",
            seconds(granted.took),
            seconds(released.took)
        )));
    }
    Ok(CheckResult::broken(
        seen,
        "Serve each process in a thread (task, process) of its own, and share no mutex or connection that an acquire keeps while it \
         waits; and lock the key of the operation, not one name for all keys",
    ))
}

pub(super) async fn time_out(context: &RuleContext<'_>) -> Checked {
    let (wait, mut fastest): (_, Option<Answered>) = (wait(context), None);
    let bound = wait + wait / 10 + undisturbed(context).await?;
    for number in 0..TRIES {
        let (holder, waiter) = (context.process(0).await?, context.process(1).await?);
        let key = context.key(&number.to_string());
        holder.grant(&key).await?;
        let answered = waiter.acquire(&key, wait).await?;
        holder.release(&key).await?;
        if answered.is_ok() && answered.took <= bound {
            return Ok(CheckResult::note(
                format!(
                    "process {} was granted the lock after {} while process {} held it",
                    waiter.number, seconds(answered.took), holder.number
                ),
                "`fencepost test` judges that. If the library is not to blame, look at the client's acquire: it must ask the server, \
                 answer only after the server did, and pass the TTL on in the library's unit (a lock that ends too early looks like this)",
            )
            .of_processes(vec![holder.number, waiter.number]));
        }
        let is_faster = fastest.as_ref().is_none_or(|fastest| answered.took < fastest.took);
        if is_faster {
            fastest = Some(answered);
        }
        if fastest.as_ref().is_some_and(|fastest| fastest.took <= bound) {
            break;
        }
    }
    let Some(fastest) = fastest else { return Ok(CheckResult::unchecked("no acquire was tried")) };
    if fastest.took > bound {
        return Ok(CheckResult::note(
            format!(
                "an acquire of a taken lock with a time-out of {} ended after {} at the fastest of {TRIES}, with {fastest}",
                seconds(wait),
                seconds(fastest.took)
            ),
            "If the client passes the time-out on, the library does not keep it; runs judge that as time-outs. A client can repeat an \
             attempt that does not block in its place",
        ));
    }
    if matches!(fastest.completion, fencepost_history::Completion::Info(_)) {
        return Ok(CheckResult::note(
            format!("an acquire of a taken lock ended with {fastest}"),
            "An `info` uses up the process. Where the library says no, answer with `fail`, `refused-by-library: …` (in a kit: return \
             false), or with `taken: …` if every request was answered (in a kit: NotAcquired)",
        ));
    }
    let way = match fastest.fail_code() {
        Some(ErrorCode::RefusedByLibrary) => "the library refused",
        _ => "refused",
    };
    Ok(CheckResult::kept(format!(
        "{way} after {}; the time-out was {}",
        seconds(fastest.took),
        seconds(wait)
    )))
}

pub(super) async fn next(context: &RuleContext<'_>) -> Checked {
    let (first, second) = (context.process(0).await?, context.process(1).await?);
    let key = context.key("a");
    first.grant(&key).await?;
    let released = first.release(&key).await?;
    let answered = second.acquire(&key, wait(context)).await?;
    if !answered.is_ok() {
        return Ok(CheckResult::broken(
            format!(
                "after a release that was answered with {released}, another client's acquire ended with {answered}"
            ),
            "Look at the client's release: it must release what the acquire of this process got, on the server, before it answers",
        ));
    }
    second.release(&key).await?;
    Ok(CheckResult::kept(format!("another client acquired {} after the release", seconds(answered.took))))
}

pub(super) async fn holds(context: &RuleContext<'_>) -> Checked {
    let (process, key) = (context.process(0).await?, context.key("a"));
    let change = "Answer holds with what the process believes, from no request: true from the ok of its acquire until its \
                  release begins or its library reports the lock as lost";
    let before = process.ask(f::HOLDS, &key).await?;
    if before.value != false {
        return Ok(CheckResult::broken(
            format!("holds before the first acquire: {}", belief(&before)),
            change,
        ));
    }
    process.grant(&key).await?;
    let during = process.ask(f::HOLDS, &key).await?;
    process.release(&key).await?;
    let after = process.ask(f::HOLDS, &key).await?;
    if after.value != false {
        return Ok(CheckResult::broken(format!("holds after the release: {}", belief(&after)), change));
    }
    if during.value != true {
        return Ok(CheckResult::note(format!("holds right after the grant: {}", belief(&during)), change));
    }
    Ok(CheckResult::kept("false before the acquire, true after it, false after the release"))
}

fn belief(answered: &Answered) -> String {
    match answered.is_ok() {
        true => answered.value.to_string(),
        false => answered.to_string(),
    }
}
