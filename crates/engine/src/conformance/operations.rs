//! Points of single operations, without any fault.

use super::finding::{Checked, Ended, Finding};
use super::scope::{Answered, FREE, Scope, seconds};
use fencepost_history::ErrorCode;
use std::time::Duration;
use tokio::time::Instant;

/// How often an answer that is to come soon is tried for: a busy machine makes an answer late, and never early.
const TRIES: usize = 3;

/// The time-out of an acquire that has to wait: the holder's time must not run out meanwhile.
fn wait(scope: &Scope<'_>) -> Duration {
    scope.terms().ttl / 2
}

pub(super) async fn grants(scope: &Scope<'_>) -> Checked {
    let (user, key) = (scope.user(0).await?, scope.key("a"));
    let granted = scope.acquire(&user, &key, FREE).await?;
    if !granted.is_ok() {
        let broken = Finding::broken(
            format!("the acquire of a free lock was answered with {granted}"),
            "Look at this error, which is the library's or that of the client's own code, and at the address that the client connects to",
        );
        // Where the lock is never granted every other point would say so again.
        let again = scope.acquire(&scope.user(0).await?, &scope.key("b"), FREE).await?;
        return Ok(if again.is_ok() { broken } else { broken.and_the_last() });
    }
    let released = scope.release(&user, &key).await?;
    let believed = &released.value["believed"];
    if !believed.is_boolean() || (released.is_ok() && believed != true) {
        return Ok(Finding::broken(
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
        return Ok(Finding::broken(
            format!("the release of a held lock was answered with {released}"),
            change,
        ));
    }
    let never = scope.release(&scope.user(0).await?, &key).await?;
    if never.value["believed"] != false {
        return Ok(Finding::broken(
            format!("the release of a process that never acquired had the value {}", never.value),
            "Keep what is believed for each process by itself: `believed` is false here",
        ));
    }
    Ok(Finding::kept(format!(
        "granted after {}, released after {}",
        seconds(granted.took),
        seconds(released.took)
    )))
}

pub(super) async fn processes(scope: &Scope<'_>) -> Checked {
    let mut seen = String::new();
    for number in 0..TRIES {
        let (holder, waiter, other) = (scope.user(0).await?, scope.user(0).await?, scope.user(0).await?);
        let (key, free, wait) =
            (scope.key(&format!("a{number}")), scope.key(&format!("b{number}")), wait(scope));
        scope.grant(&holder, &key).await?;
        let begun = Instant::now();
        let waiting = scope.acquire(&waiter, &key, wait);
        let others = async {
            // The waiting has begun by then.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let granted = scope.acquire(&other, &free, FREE).await?;
            let released = scope.release(&holder, &key).await?;
            Ok::<_, Ended>((granted, released, begun.elapsed()))
        };
        let (waited, others) = tokio::join!(waiting, others);
        let ((granted, released, after), waited) = (others?, waited?);
        // Attempts end a little before their time-out, so a wait that ended does not prove anything.
        if after >= wait / 2 {
            seen = format!(
                "while process {} waited for a lock, process {} of the same client got a free one only after {}, and the release of \
                 process {} ended {} after the wait had begun",
                waiter.process,
                other.process,
                seconds(granted.took),
                holder.process,
                seconds(after)
            );
            continue;
        }
        if !granted.is_ok() {
            return Ok(Finding::unchecked(format!("a free lock was not granted: the answer was {granted}")));
        }
        let fate = if waited.is_ok() { "and then got the lock" } else { "in vain" };
        return Ok(Finding::kept(format!(
            "while one waited ({fate}), another acquired in {} and the holder released in {}",
            seconds(granted.took),
            seconds(released.took)
        )));
    }
    Ok(Finding::broken(
        seen,
        "Serve each process in a thread (task, process) of its own, and share no mutex or connection that an acquire keeps while it \
         waits; and lock the key of the operation, not one name for all keys",
    ))
}

pub(super) async fn time_out(scope: &Scope<'_>) -> Checked {
    let (wait, mut fastest): (_, Option<Answered>) = (wait(scope), None);
    let bound = wait + wait / 10;
    for number in 0..TRIES {
        let (holder, waiter) = (scope.user(0).await?, scope.user(1).await?);
        let key = scope.key(&number.to_string());
        scope.grant(&holder, &key).await?;
        let answered = scope.acquire(&waiter, &key, wait).await?;
        scope.release(&holder, &key).await?;
        if answered.is_ok() && answered.took <= bound {
            return Ok(Finding::note(
                format!(
                    "process {} was granted the lock after {} while process {} held it",
                    waiter.process,
                    seconds(answered.took),
                    holder.process
                ),
                "`fencepost test` judges that. If the library is not to blame, look at the client's acquire: it must ask the server, \
                 answer only after the server did, and pass the TTL on in the library's unit (a lock that ends too early looks like this)",
            )
            .of_processes(vec![holder.process, waiter.process]));
        }
        let is_faster = fastest.as_ref().is_none_or(|fastest| answered.took < fastest.took);
        if is_faster {
            fastest = Some(answered);
        }
        if fastest.as_ref().is_some_and(|fastest| fastest.took <= bound) {
            break;
        }
    }
    let Some(fastest) = fastest else { return Ok(Finding::unchecked("no acquire was tried")) };
    if fastest.took > bound {
        return Ok(Finding::broken(
            format!(
                "an acquire of a taken lock with a time-out of {} ended after {} at the fastest of {TRIES}, with {fastest}",
                seconds(wait),
                seconds(fastest.took)
            ),
            "Pass the time-out on to the library, and end the acquire with a `fail` when it is over; if the library cannot, \
             repeat an attempt that does not block",
        ));
    }
    if matches!(fastest.completion, fencepost_history::Completion::Info(_)) {
        return Ok(Finding::note(
            format!("an acquire of a taken lock ended with {fastest}"),
            "An `info` uses up the process. Where the library says no, answer with `fail`, `refused-by-library: …` (in a kit: return \
             false), or with `taken: …` if every request was answered (in a kit: NotAcquired)",
        ));
    }
    let way = match fastest.fail_code() {
        Some(ErrorCode::RefusedByLibrary) => "the library said no",
        _ => "no",
    };
    Ok(Finding::kept(format!("{way} after {}, of a time-out of {}", seconds(fastest.took), seconds(wait))))
}

pub(super) async fn next(scope: &Scope<'_>) -> Checked {
    let (first, second) = (scope.user(0).await?, scope.user(1).await?);
    let key = scope.key("a");
    scope.grant(&first, &key).await?;
    let released = scope.release(&first, &key).await?;
    let answered = scope.acquire(&second, &key, wait(scope)).await?;
    if !answered.is_ok() {
        return Ok(Finding::broken(
            format!(
                "after a release that was answered with {released}, another client's acquire ended with {answered}"
            ),
            "Look at the client's release: it must release what the acquire of this process got, on the server, before it answers",
        ));
    }
    scope.release(&second, &key).await?;
    Ok(Finding::kept(format!("another client acquired {} after the release", seconds(answered.took))))
}

pub(super) async fn holds(scope: &Scope<'_>) -> Checked {
    let (user, key) = (scope.user(0).await?, scope.key("a"));
    let change = "Answer holds with what the process believes, from no request: true from the ok of its acquire until its \
                  release begins or its library reports the lock as lost";
    let before = scope.holds(&user, &key).await?;
    if before.value != false {
        return Ok(Finding::broken(format!("holds before the first acquire: {}", belief(&before)), change));
    }
    scope.grant(&user, &key).await?;
    let during = scope.holds(&user, &key).await?;
    scope.release(&user, &key).await?;
    let after = scope.holds(&user, &key).await?;
    if after.value != false {
        return Ok(Finding::broken(format!("holds after the release: {}", belief(&after)), change));
    }
    if during.value != true {
        return Ok(Finding::note(format!("holds right after the grant: {}", belief(&during)), change));
    }
    Ok(Finding::kept("false before the acquire, true after it, false after the release"))
}

fn belief(answered: &Answered) -> String {
    match answered.is_ok() {
        true => answered.value.to_string(),
        false => answered.to_string(),
    }
}
