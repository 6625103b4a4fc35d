//! How many hold the lock together, or how often: read-write locks, semaphores and reentrant locks.

use super::check_result::{CheckEnd, CheckResult, Checked, RuleOutcome};
use super::session::{Answered, ClientProcess, RuleContext};
use super::test_servers::CLIENTS;
use fencepost_history::{AcquireArguments, LockKind, Mode, f};
use std::time::Duration;
use tokio::time::Instant;

/// How often a refusal is seen before it counts: a machine may be busy once.
const TRIES: usize = 3;
const READERS: u32 = 2;
const PERMITS: u32 = 3;

pub(super) async fn check(context: &RuleContext<'_>) -> Checked {
    let mut result = CheckResult::unchecked("it was not tried");
    for number in 0..TRIES {
        let key = context.key(&number.to_string());
        let tried = match context.terms().kind {
            LockKind::ReadWrite => readers(context, &key).await,
            LockKind::Reentrant => entries(context, &key).await,
            LockKind::Several => names(context, &key).await,
            LockKind::Mutex | LockKind::Election | LockKind::Semaphore => permits(context, &key).await,
        };
        result = match tried {
            Ok(result) | Err(CheckEnd::Found(result)) => result,
            Err(ended) => return Err(ended),
        };
        if !matches!(result.outcome, RuleOutcome::Broken | RuleOutcome::Unchecked) {
            break;
        }
    }
    Ok(result)
}

async fn readers(context: &RuleContext<'_>, key: &str) -> Checked {
    let reading = AcquireArguments { mode: Some(Mode::Shared), ..AcquireArguments::default() };
    let readers = Holders::acquire(context, key, &reading, READERS).await?;
    let writing = AcquireArguments::default();
    readers.refuse(&writing, "a writer was granted the lock that two readers held").await?;
    readers.release(0).await?;
    let writer = Holders::acquire(context, key, &writing, 1).await?;
    writer.refuse(&reading, "a reader was granted the lock that a writer held").await?;
    writer.release(0).await?;
    Ok(CheckResult::kept("two readers held it together; no writer beside them, no reader beside a writer"))
}

async fn permits(context: &RuleContext<'_>, key: &str) -> Checked {
    let permit = AcquireArguments { capacity: Some(PERMITS), ..AcquireArguments::default() };
    let mut holders = Holders::acquire(context, key, &permit, PERMITS).await?;
    let one_more = format!("one more was granted a permit while {PERMITS} held the {PERMITS} permits");
    holders.refuse(&permit, &one_more).await?;
    holders.release(2).await?;
    holders.processes.truncate(2);
    let next = Holders::acquire(context, key, &permit, 1).await?;
    next.release(0).await?;
    holders.release(0).await?;
    Ok(CheckResult::kept(format!("{PERMITS} held its {PERMITS} permits together, and one more was refused")))
}

/// A set of two names excludes another that has one of them, which leaves the rest of its own alone.
async fn names(context: &RuleContext<'_>, key: &str) -> Checked {
    let begun = Instant::now();
    let [one, common, other] = ["one", "common", "other"].map(|name| format!("{key}-{name}"));
    let with_common = || AcquireArguments { also: Some(vec![common.as_str().into()]), ..Default::default() };
    let (holder, second) = (context.process(0).await?, context.process(CLIENTS - 1).await?);
    let patience = context.terms().ttl / 4;
    let numbers = vec![holder.number, second.number];
    let granted = holder.perform_share(f::ACQUIRE, &one, with_common(), holder.free_timeout()).await?;
    let refused = second.perform_share(f::ACQUIRE, &other, with_common(), patience).await?;
    let rest = second.acquire(&other, patience).await?;
    let is_in_time = begun.elapsed() < context.terms().ttl;
    second.release(&other).await?;
    let released = holder.perform_share(f::RELEASE, &one, with_common(), holder.free_timeout()).await?;
    let change = "Take the key and all names of `also`, or none of them, and give all of them back at a release that has the same names (in a kit: acquire_all, release_all)";
    if !granted.is_ok() || !released.is_ok() {
        let seen =
            format!("a set of two free names was answered with {granted}, and its release with {released}");
        return Ok(CheckResult::broken(seen, change).of_processes(numbers));
    }
    if !is_in_time {
        return Ok(CheckResult::unchecked("the machine was too busy: the acquires took longer than the TTL"));
    }
    if refused.is_ok() {
        let look = "`fencepost test` judges that. If the library is not to blame, look at how the client passes on the names of `also`";
        let seen = "a set was granted although another process held one of its names";
        return Ok(CheckResult::note(seen, look).of_processes(numbers));
    }
    if !rest.is_ok() {
        let seen =
            format!("after a set had been refused, an acquire of its free name was answered with {rest}");
        return Ok(CheckResult::broken(seen, change).of_processes(numbers));
    }
    Ok(CheckResult::kept("a set was held by all its names, and one that was refused left nothing taken"))
}

/// A holder acquires again: the lock is its own until it has released as often.
async fn entries(context: &RuleContext<'_>, key: &str) -> Checked {
    let exclusive = AcquireArguments::default();
    let holder = Holders::acquire(context, key, &exclusive, 1).await?;
    let entered = [f::REENTER, f::LEAVE];
    for operation in entered {
        let answered = holder.processes[0].ask(operation, key).await?;
        holder.check_time()?;
        if !answered.is_ok() {
            holder.release(0).await?;
            let seen = format!("a `{operation}` of the holder was answered with {answered}");
            let change = "Acquire the lock for its holder once more at a `reenter`, and release it once at a `leave` (the functions of a kit have these names)";
            return Ok(CheckResult::broken(seen, change).of_processes(holder.numbers()));
        }
        let granted = format!("another process was granted the lock after a `{operation}` of its holder");
        holder.refuse(&exclusive, &granted).await?;
    }
    holder.release(0).await?;
    let next = Holders::acquire(context, key, &exclusive, 1).await?;
    next.release(0).await?;
    Ok(CheckResult::kept("its holder acquired it again, and kept it until its last release"))
}

struct Holders<'a> {
    context: &'a RuleContext<'a>,
    key: &'a str,
    processes: Vec<ClientProcess<'a>>,
    since: Instant,
}

impl<'a> Holders<'a> {
    /// So many processes, of several clients, acquire the lock; it is broken where one is refused.
    async fn acquire(
        context: &'a RuleContext<'_>,
        key: &'a str,
        share: &AcquireArguments,
        count: u32,
    ) -> Result<Holders<'a>, CheckEnd> {
        let mut holders = Holders { context, key, processes: Vec::new(), since: Instant::now() };
        for number in 0..count as usize {
            let process = context.process(number % CLIENTS).await?;
            // Those before it must not run out meanwhile.
            let timeout = if number == 0 { process.free_timeout() } else { context.terms().ttl / 4 };
            let answered = process.perform_share(f::ACQUIRE, key, share.clone(), timeout).await?;
            let held = holders.processes.len();
            holders.processes.push(process);
            if !answered.is_ok() {
                holders.processes.truncate(held);
                holders.release(0).await?;
                return Err(refused(context.terms().kind, share, held, &answered)
                    .of_processes(holders.numbers())
                    .into());
            }
            holders.check_time()?;
        }
        Ok(holders)
    }

    /// Another process, which asks for this share, must not be granted it; if it is, that is worth a look.
    async fn refuse(&self, share: &AcquireArguments, granted: &str) -> Result<(), CheckEnd> {
        let terms = self.context.terms();
        let other = self.context.process(CLIENTS - 1).await?;
        let answered = other.perform_share(f::ACQUIRE, self.key, share.clone(), terms.ttl / 4).await?;
        if !answered.is_ok() {
            return Ok(());
        }
        self.check_time()?;
        let look = "`fencepost test` judges that. If the library is not to blame, look at how the client passes on the mode of an acquire, or \
                    the number of permits, and the TTL";
        let numbers = [self.numbers(), vec![other.number]].concat();
        Err(CheckResult::note(granted, look).of_processes(numbers).into())
    }

    async fn release(&self, from: usize) -> Result<(), CheckEnd> {
        for process in &self.processes[from..] {
            process.release(self.key).await?;
        }
        Ok(())
    }

    /// Nothing can be said where the first of them may have run out.
    fn check_time(&self) -> Result<(), CheckEnd> {
        match self.since.elapsed() + Duration::from_millis(1) < self.context.terms().ttl {
            true => Ok(()),
            false => {
                Err(CheckResult::unchecked("the machine was too busy: the acquires took longer than the TTL")
                    .into())
            }
        }
    }

    fn numbers(&self) -> Vec<u64> {
        self.processes.iter().map(|process| process.number).collect()
    }
}

fn refused(kind: LockKind, share: &AcquireArguments, held: usize, answered: &Answered) -> CheckResult {
    let asked = match share {
        AcquireArguments { capacity: Some(permits), .. } => format!("one of {permits} permits"),
        AcquireArguments { mode: Some(Mode::Shared), .. } => "the lock to read".to_owned(),
        _ if kind == LockKind::Reentrant => "the lock".to_owned(),
        _ => "the lock to write".to_owned(),
    };
    let seen = match held {
        0 => format!("while none held it, an acquire of {asked} was answered with {answered}"),
        held => format!("while {held} held {asked}, the next acquire was answered with {answered}"),
    };
    let change = "Take the lock as the value of the acquire asks for it: `mode` is `shared` for a reader, `capacity` the number of permits (in a \
                  kit: acquire_shared, acquire_permit). Or say another kind in lock.toml";
    CheckResult::broken(seen, change)
}
