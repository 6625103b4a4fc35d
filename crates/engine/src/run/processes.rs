//! The logical processes of a run: each follows its script, one operation after the other, through a client.

use crate::run::client_connection::{CallReply, ClientConnection};
use crate::run::recorder::Recorder;
use crate::settings::validation::RunSpec;
use fencepost_history::{
    AcquireArguments, Completion, ErrorCode, Kind, SECTION_ABANDONED, SectionAbandoned, Seed, Stream,
    TimeSpan, f,
};
use fencepost_locks::protocol::Command;
use fencepost_workloads::{Now, Op, Script, Step};
use rand::RngExt;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::SetOnce;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// What the processes of a run share.
pub struct ProcessContext {
    pub recorder: Arc<Recorder>,
    pub times: TimeLimits,
    /// Of a semaphore; none: the lock is of another kind.
    pub(crate) permits: Option<u32>,
    pub(crate) cancels: Cancels,
    /// Set once the time is up: scripts end what they are in the middle of and begin nothing.
    pub closing: Closing,
    /// For each slot (one of the processes that run at a time), how many process numbers it has used up.
    used: Vec<AtomicU64>,
}

/// Which calls their callers give up in the middle.
#[derive(Clone, Debug)]
pub struct Cancels {
    pub of: Vec<String>,
    pub seed: Seed,
}

impl Cancels {
    /// After which time a caller gives this call up: one in three, after 0.2 ms to 200 ms. Most of these
    /// times are short, as a call lasts that does not wait.
    fn draw(&self, random: &mut Stream, op: &Op) -> Option<Duration> {
        let is_drawn = self.of.iter().any(|name| name == op.f) && random.random_bool(1.0 / 3.0);
        is_drawn.then(|| Duration::from_secs_f64(0.000_2 * 1000_f64.powf(random.random_range(0.0..1.0))))
    }
}

/// How long operations may take.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimits {
    pub ttl: Duration,
    pub acquire: Duration,
    /// After this long without faults every lock must be free again: the longest lease has run out.
    pub free_again: Duration,
    /// How long the controller waits beyond the client's time: longer than every pause, to learn its answer.
    pub patience: Duration,
}

const OPERATION: Duration = Duration::from_millis(2000);

/// Rest between two attempts to acquire a lock that must be free, and the time that another attempt needs.
const TRY_AGAIN: Duration = Duration::from_millis(100);
const LAST_ATTEMPT: Duration = Duration::from_millis(500);

/// A flag that can be waited for.
#[derive(Debug, Default)]
pub struct Closing(SetOnce<()>);

impl Closing {
    pub fn set(&self) {
        let _ = self.0.set(());
    }

    pub fn is_set(&self) -> bool {
        self.0.initialized()
    }

    pub async fn wait(&self, time: Duration) {
        let _ = tokio::time::timeout(time, self.0.wait()).await;
    }
}

/// With fewer candidates, none of an election's processes only asks who leads.
const CANDIDATES_MIN: usize = 2;

/// Begins the processes of a run, each in its slot, in turns through the clients.
pub(crate) fn follow_workload(
    spec: &RunSpec,
    clients: &[Arc<ClientConnection>],
    context: &Arc<ProcessContext>,
) -> JoinSet<()> {
    let mut processes = JoinSet::new();
    for slot in 0..spec.options.concurrency {
        let client = clients[slot % clients.len()].clone();
        let (workload, seed) = (spec.workload, spec.seed);
        let can_ask = client.hello.can.iter().any(|word| word == f::LEADER);
        let is_last = slot + 1 == spec.options.concurrency && slot >= CANDIDATES_MIN;
        let mut settings = spec.workload_settings(slot);
        settings.reader |= workload.has_follower && can_ask && is_last;
        let new_script =
            move |process| (workload.script)(&settings, process, seed.stream(&format!("process-{process}")));
        processes.spawn(run_process(context.clone(), client, slot, new_script));
    }
    processes
}

impl ProcessContext {
    pub fn new(recorder: Arc<Recorder>, times: TimeLimits, processes: usize) -> ProcessContext {
        ProcessContext {
            recorder,
            times,
            permits: None,
            cancels: Cancels { of: Vec::new(), seed: Seed(0) },
            closing: Closing::default(),
            used: (0..processes).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// What a client is asked: each acquire of a semaphore says how many permits there are.
    fn asked(&self, op: &Op) -> Value {
        match self.permits {
            Some(permits) if op.f == f::ACQUIRE => {
                AcquireArguments { capacity: Some(permits), ..AcquireArguments::of(&op.value) }.into()
            }
            _ => op.value.clone(),
        }
    }

    /// A process number that was not used yet. Modulo the number of slots, it gives the slot, as in Jepsen.
    pub fn fresh_process(&self, slot: usize) -> u64 {
        slot as u64 + self.used[slot].fetch_add(1, Ordering::Relaxed) * self.used.len() as u64
    }

    /// Ends a process that came too late to go on with its section, and records that.
    fn abandon(&self, client: &ClientConnection, process: u64, key: &str, late: Duration) {
        let abandoned = SectionAbandoned { process, key: key.to_owned(), late_ms: TimeSpan(late).millis() };
        self.recorder.nemesis(Kind::Info, SECTION_ABANDONED, json!(abandoned), None);
        client.end_process(process);
    }

    /// Sends one operation, and records its invocation and its completion.
    pub async fn perform(&self, client: &ClientConnection, process: u64, op: &Op) -> Completion {
        self.perform_within(None, client, process, op, None).await
    }

    /// As [`ProcessContext::perform`], with a time limit for the client where it is not the operation's own.
    async fn perform_within(
        &self,
        limit: Option<Duration>,
        client: &ClientConnection,
        process: u64,
        op: &Op,
        cancel_after: Option<Duration>,
    ) -> Completion {
        let usual = if op.f == f::ACQUIRE { self.times.acquire } else { OPERATION };
        let limit = limit.unwrap_or(usual) * op.time_limits;
        let TimeLimits { ttl, patience, .. } = self.times;
        let (is_acquire, is_prolong) = (op.f == f::ACQUIRE, [f::PROLONG, f::REENTER].contains(&op.f));
        let (ttl_ms, timeout_ms) = (TimeSpan(ttl).millis(), TimeSpan(limit).millis());
        let asked = self.asked(op);
        let mut recorded = asked.clone();
        if is_acquire {
            // Beside what the workload asks for (a mode).
            recorded = AcquireArguments {
                ttl_ms: Some(ttl_ms.into()),
                timeout_ms: Some(timeout_ms.into()),
                ..AcquireArguments::default()
            }
            .into();
            let requested = asked.as_object().cloned().unwrap_or_default();
            recorded.as_object_mut().expect("made above").extend(requested);
        }
        if is_prolong {
            recorded = AcquireArguments { ttl_ms: Some(ttl_ms.into()), ..AcquireArguments::default() }.into();
        }
        if let (Some(recorded), Some(note)) = (recorded.as_object_mut(), op.note.as_object()) {
            recorded.extend(note.clone());
        }
        let command = Command {
            id: 0,
            process,
            f: Cow::Borrowed(op.f),
            key: op.key.clone(),
            value: asked,
            ttl_ms: (is_acquire || is_prolong).then_some(ttl_ms),
            timeout_ms: Some(timeout_ms),
        };
        self.recorder.invoke(process, op.f, &op.key, recorded);
        let mut reply = client.call(command.clone(), limit + patience, cancel_after).await;
        if reply.is_cancelled() && !is_acquire {
            // The program that gave it up still holds the lock, as far as it knows.
            reply = client.call(command, limit + patience, None).await.after_cancelled();
        }
        let goes_on = reply.is_cancelled();
        let CallReply { completion, value } = reply;
        self.recorder.complete(process, op.f, &op.key, &completion, value);
        if matches!(completion, Completion::Info(_)) && !goes_on {
            client.end_process(process);
        }
        completion
    }
}

/// Runs one process to its end. After an indeterminate operation or an abandoned section it goes on under a
/// fresh number with a script of its own, as a restarted program: the old process may still hold something.
pub async fn run_process(
    context: Arc<ProcessContext>,
    client: Arc<ClientConnection>,
    slot: usize,
    mut new_script: impl FnMut(u64) -> Box<dyn Script> + Send,
) {
    let mut process = context.fresh_process(slot);
    let mut script = new_script(process);
    let mut last: Option<Completion> = None;
    let mut random = context.cancels.seed.stream(&format!("cancel-{slot}"));
    loop {
        let now = Now { time: context.recorder.elapsed(), closing: context.closing.is_set() };
        match script.next(last.take().as_ref(), now) {
            Step::Done => return,
            Step::Wait(time) => context.closing.wait(time).await,
            Step::Abandon { key, late } => {
                context.abandon(&client, process, &key, late);
                process = context.fresh_process(slot);
                script = new_script(process);
            }
            Step::Do(op) => {
                let cancel_after = context.cancels.draw(&mut random, &op);
                let completion = context.perform_within(None, &client, process, &op, cancel_after).await;
                match completion {
                    Completion::Info(_) if context.closing.is_set() => return,
                    Completion::Info(error) => {
                        let before = std::mem::replace(&mut process, context.fresh_process(slot));
                        if error.code() == ErrorCode::Cancelled {
                            client.go_on(before, process);
                        }
                        script = new_script(process);
                    }
                    // A dead client answers every call at once: without a pause this loop would spin.
                    Completion::Fail(ref error) if error.code() == ErrorCode::ClientGone => {
                        context.closing.wait(Duration::from_millis(100)).await;
                        last = Some(completion);
                    }
                    completion => last = Some(completion),
                }
            }
        }
    }
}

/// Acquires a key with a fresh process, and tries again until `deadline` where that fails: a lock may say no
/// at once, while it need not be free yet. Each attempt has the time that those of the run have: a library
/// may take no longer one beside its TTL. Gives how the last attempt ended, and the process that goes on.
async fn final_acquire(
    context: &ProcessContext,
    client: &ClientConnection,
    slot: usize,
    acquire: &Op,
    deadline: Instant,
) -> (Completion, u64) {
    let mut process = context.fresh_process(slot);
    let mut limit = context.times.free_again;
    loop {
        let within = limit.min(context.times.acquire);
        let acquired = context.perform_within(Some(within), client, process, acquire, None).await;
        if matches!(acquired, Completion::Info(_)) {
            process = context.fresh_process(slot);
        }
        limit = deadline.saturating_duration_since(Instant::now() + TRY_AGAIN);
        if matches!(acquired, Completion::Ok(_)) || client.is_gone() || limit < LAST_ATTEMPT {
            return (acquired, process);
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
}

/// Acquires, reads and releases each key with a fresh process: locks are free again, final values.
pub async fn closing_reads(
    context: &ProcessContext,
    keys: usize,
    clients: &[Arc<ClientConnection>],
    reads: bool,
) {
    // Clients that a fault killed answer no more.
    let alive: Vec<usize> = (0..clients.len()).filter(|at| !clients[*at].is_gone()).collect();
    let deadline = Instant::now() + context.times.free_again;
    for number in 0..keys {
        let Some(&slot) = alive.get(number % alive.len().max(1)) else { return };
        let client = &clients[slot];
        let op = |f: &'static str| Op {
            f,
            key: Cow::Owned(fencepost_workloads::key_name(number)),
            value: Value::Null,
            note: Value::Null,
            time_limits: 1,
        };
        let (acquired, process) = final_acquire(context, client, slot, &op(f::ACQUIRE), deadline).await;
        if reads {
            let mut read = context.perform(client, process, &op(f::READ)).await;
            // A client may have been cut off from the storage for good, by another client that fenced it.
            for &other in alive.iter().filter(|other| **other != slot) {
                if matches!(read, Completion::Ok(_)) {
                    break;
                }
                read = context.perform(&clients[other], context.fresh_process(other), &op(f::READ)).await;
            }
        }
        if matches!(acquired, Completion::Ok(_)) {
            context.perform(client, process, &op(f::RELEASE)).await;
        }
    }
}
