//! Points of some seconds of ordinary use, without faults: few indeterminate operations, and some grants.

use super::check_result::{CheckEnd, CheckResult, Checked, RuleOutcome};
use super::session::{Answered, RuleContext, seconds};
use fencepost_history::Completion;
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

const LENGTH: Duration = Duration::from_secs(3);

/// The time-out of an acquire, the time that a lock is held, and the rest after it.
const ACQUIRE: Duration = Duration::from_secs(1);
const HOLD: Duration = Duration::from_millis(5);

const PROCESSES: usize = 2;

/// The largest part of all operations that may be indeterminate: one in so many.
const ONE_IN: usize = 100;

#[derive(Default)]
struct Load {
    operations: usize,
    grants: usize,
    infos: BTreeMap<String, usize>,
    last_refusal: Option<String>,
    processes: Vec<u64>,
    holds: Vec<(Instant, Instant, u64)>,
}

/// A lock that several processes want stands free no longer than this.
const FREE_MAX: Duration = Duration::from_secs(1);

pub(super) async fn use_without_faults(context: &RuleContext<'_>) -> Checked {
    let first = use_once(context).await?;
    match first.outcome {
        RuleOutcome::Kept => Ok(first),
        // Once more: a machine that was busy with other things lets operations end late.
        _ => use_once(context).await,
    }
}

async fn use_once(context: &RuleContext<'_>) -> Checked {
    let parts = join_all((0..2 * PROCESSES).map(|number| take_turns(context, number % 2))).await;
    let mut load = Load::default();
    for part in parts {
        load.add(part?);
    }
    Ok(load.judge())
}

async fn take_turns(context: &RuleContext<'_>, place: usize) -> Result<Load, CheckEnd> {
    let (begun, key, mut load) = (Instant::now(), context.key("a"), Load::default());
    let mut process = context.process(place).await?;
    while begun.elapsed() < LENGTH {
        let acquired = process.acquire(&key, ACQUIRE).await?;
        load.count(process.number, &acquired);
        let mut is_over = matches!(acquired.completion, Completion::Info(_));
        if acquired.is_ok() {
            load.grants += 1;
            let granted = Instant::now();
            tokio::time::sleep(HOLD).await;
            load.holds.push((granted, Instant::now(), process.number));
            let released = process.release(&key).await?;
            load.count(process.number, &released);
            is_over = matches!(released.completion, Completion::Info(_));
        } else {
            load.last_refusal = Some(acquired.to_string());
        }
        if is_over {
            process = context.process(place).await?;
        }
        tokio::time::sleep(HOLD).await;
    }
    Ok(load)
}

impl Load {
    fn count(&mut self, process: u64, answered: &Answered) {
        self.operations += 1;
        if let Completion::Info(_) = &answered.completion {
            *self.infos.entry(answered.to_string()).or_default() += 1;
            self.processes.push(process);
        }
    }

    fn add(&mut self, other: Load) {
        self.operations += other.operations;
        self.grants += other.grants;
        for (error, count) in other.infos {
            *self.infos.entry(error).or_default() += count;
        }
        self.last_refusal = self.last_refusal.take().or(other.last_refusal);
        self.processes.extend(other.processes);
        self.holds.extend(other.holds);
    }

    /// Two processes that held the lock at once, or a queue that stood still, which a run judges as well.
    fn worth_a_look(&mut self) -> Option<CheckResult> {
        self.holds.sort_unstable();
        let pairs = || self.holds.windows(2).map(|pair| (pair[0], pair[1]));
        if let Some(((_, until, one), (from, _, other))) =
            pairs().find(|((_, until, _), (from, ..))| until > from)
        {
            let seen = format!(
                "process {other} was granted the lock {} before process {one} began to release it",
                seconds(until - from)
            );
            let look = "The lock was granted twice, without any fault: `fencepost test` shows how. If the library is not to blame, look at \
                        the client's acquire and release";
            return Some(CheckResult::note(seen, look).of_processes(vec![one, other]));
        }
        let longest = pairs().map(|((_, until, one), (from, _, other))| (from - until, one, other)).max()?;
        let (free, one, other) = longest;
        (free > FREE_MAX).then(|| {
            let seen = format!(
                "after the release of process {one} the lock stood free for {}, although others wanted it, until process {other} got it",
                seconds(free)
            );
            let look = "Look at how the library wakes those who wait, and at how long it rests between attempts; `fencepost test` judges \
                        that as fairness";
            CheckResult::note(seen, look).of_processes(vec![one, other])
        })
    }

    fn judge(mut self) -> CheckResult {
        let length_s = LENGTH.as_secs();
        let infos: usize = self.infos.values().sum();
        if infos * ONE_IN > self.operations {
            let most = self.infos.iter().max_by_key(|(_, count)| **count);
            let most = most.map(|(error, count)| format!("; {count} of them: {error}")).unwrap_or_default();
            return CheckResult::broken(
                format!(
                    "{infos} of {} operations without any fault ended with `info`{most}",
                    self.operations
                ),
                "Look at the error: a `no` of the library is a `fail` (`refused-by-library: …`), and no operation should raise without faults",
            )
            .of_processes(self.processes);
        }
        if self.grants < length_s as usize {
            let last =
                self.last_refusal.map(|last| format!("; an acquire ended with {last}")).unwrap_or_default();
            return CheckResult::broken(
                format!(
                    "{} grants in {length_s} s to {} processes that took turns{last}",
                    self.grants,
                    2 * PROCESSES
                ),
                "At least one a second is expected. Look at how the library waits, and whether each release reaches the servers",
            );
        }
        if let Some(note) = self.worth_a_look() {
            return note;
        }
        CheckResult::kept(format!(
            "{} grants in {length_s} s, {infos} of {} operations with `info`",
            self.grants, self.operations
        ))
    }
}
