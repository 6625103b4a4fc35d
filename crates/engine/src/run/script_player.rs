//! A directed run: the clients follow a script, step by step, with a narration. One process follows each
//! script. No step relies on sleeps: it waits for the event of the history that must come before.

use crate::run::client_connection::ClientConnection;
use crate::run::observer::RunObserver;
use crate::run::processes::ProcessContext;
use crate::run::recorder::{Recorder, TriggerEvent};
use fencepost_history::{AcquireArguments, Completion, Kind, Mode, SCRIPTS_CUT_SHORT, UnfinishedScript, f};
use fencepost_nemesis::Trigger;
use fencepost_workloads::{Op, key_name};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Acquires the lock; a refused acquire is repeated until the lock is granted.
    Acquire,
    /// The same, together with other readers.
    AcquireShared,
    /// Tries to acquire once, and goes on whether it was granted or not.
    TryAcquire,
    Read,
    /// Writes one more than the value that was read last.
    Write,
    Holds,
    Release,
    /// Acquires a reentrant lock once more, and releases that.
    Reenter,
    Leave,
    /// Waits for an event of the history, which may have come already.
    Wait(Trigger),
    Sleep(Duration),
    /// Ends the script unless the last operation succeeded.
    StopUnlessOk,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ClientScript {
    /// `c1`, `c2`, ….
    pub client: String,
    pub steps: Vec<Step>,
    /// Whether the client ends its script; the run does not wait for it where a fault prevents that.
    pub finishes: bool,
}

/// One sentence of the narration, given when its event comes.
#[derive(Clone, Debug, PartialEq)]
pub struct Narration {
    pub when: Trigger,
    pub sentence: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectedScript {
    pub clients: Vec<ClientScript>,
    pub narration: Vec<Narration>,
    /// How long a lock may take to become free once everything is healed; none: the engine's own bound.
    pub free_again: Option<Duration>,
}

/// The result of a directed run, besides its history.
#[derive(Clone, Debug, Default)]
pub struct ScriptOutcome {
    /// The sentences whose event came, with its time since the run began.
    pub narrated: Vec<(Duration, String)>,
    /// Clients that did not come to the end of their script.
    pub unfinished: Vec<String>,
}

const LAST_SENTENCE: Duration = Duration::from_millis(50);

const ANSWER: Duration = Duration::from_secs(2);

/// A script whose triggers are registered before the run begins, so that none misses its event.
struct ArmedScript {
    script: ClientScript,
    awaited: Vec<oneshot::Receiver<TriggerEvent>>,
}

struct PlayingScript {
    client: String,
    finishes: bool,
    process: Arc<AtomicU64>,
    connection: Arc<ClientConnection>,
    task: tokio::task::JoinHandle<bool>,
    /// What the task said, once it was asked: a task cannot be asked twice.
    played: Option<bool>,
}

pub struct ScriptPlayer {
    recorder: Arc<Recorder>,
    last_operation: Duration,
    armed: Vec<ArmedScript>,
    playing: Vec<PlayingScript>,
    narrators: Vec<tokio::task::JoinHandle<()>>,
    narrated: Arc<Mutex<Vec<(Duration, String)>>>,
}

impl ScriptPlayer {
    /// Registers every trigger. The observer hears each sentence of the narration when its event comes.
    pub fn arm(
        script: &DirectedScript,
        context: &ProcessContext,
        observer: Arc<dyn RunObserver>,
    ) -> ScriptPlayer {
        let narrated = Arc::new(Mutex::new(Vec::new()));
        let narrators = script.narration.iter().map(|narration| {
            let fired = context.recorder.await_event(narration.when.clone());
            let (narrated, observer) = (narrated.clone(), observer.clone());
            let (recorder, sentence) = (context.recorder.clone(), narration.sentence.clone());
            tokio::spawn(async move {
                if fired.await.is_ok() {
                    let now = recorder.elapsed();
                    observer.narrated(now, &sentence);
                    narrated.lock().push((now, sentence));
                }
            })
        });
        let narrators = narrators.collect();
        let armed = script.clients.iter().map(|script| arm(script, context)).collect();
        ScriptPlayer {
            recorder: context.recorder.clone(),
            last_operation: context.times.acquire + ANSWER,
            armed,
            playing: Vec::new(),
            narrators,
            narrated,
        }
    }

    /// Begins every client's script. `client_of` gives the slot and the connection of a client by its name.
    pub fn begin(
        &mut self,
        context: &Arc<ProcessContext>,
        client_of: impl Fn(&str) -> Option<(usize, Arc<ClientConnection>)>,
    ) {
        for armed in std::mem::take(&mut self.armed) {
            let ClientScript { client, finishes, .. } = armed.script.clone();
            if let Some((slot, connection)) = client_of(&client) {
                let process = Arc::new(AtomicU64::new(context.fresh_process(slot)));
                let user = LockUser {
                    process: process.clone(),
                    slot,
                    client: connection.clone(),
                    context: context.clone(),
                    read: 0,
                };
                let task = tokio::spawn(play(armed, user));
                self.playing.push(PlayingScript {
                    client,
                    finishes,
                    process,
                    connection,
                    task,
                    played: None,
                });
            }
        }
    }

    /// Returns when every script has come to its end.
    pub async fn all_played(&mut self) {
        for script in self.playing.iter_mut().filter(|script| script.finishes && !script.task.is_finished()) {
            script.played = Some((&mut script.task).await.unwrap_or(false));
        }
    }

    /// Ends scripts early, and records which: their clients may hold the lock. Set the closing flag first.
    pub async fn close(mut self) -> ScriptOutcome {
        let playing = std::mem::take(&mut self.playing);
        let ended = futures_util::future::join_all(
            playing.into_iter().map(|script| end(script, self.last_operation)),
        );
        let unfinished_scripts: Vec<UnfinishedScript> = ended.await.into_iter().flatten().collect();
        if !unfinished_scripts.is_empty() {
            self.recorder.nemesis(Kind::Info, SCRIPTS_CUT_SHORT, json!(unfinished_scripts), None);
        }
        let unfinished = unfinished_scripts.into_iter().map(|script| script.client).collect();
        // A sentence whose event has come may still be on its way.
        let last = futures_util::future::join_all(self.narrators.iter_mut());
        let _ = tokio::time::timeout(LAST_SENTENCE, last).await;
        self.narrators.iter().for_each(tokio::task::JoinHandle::abort);
        let mut narrated = std::mem::take(&mut *self.narrated.lock());
        narrated.sort();
        ScriptOutcome { narrated, unfinished }
    }
}

async fn end(mut script: PlayingScript, patience: Duration) -> Option<UnfinishedScript> {
    if script.played.is_none() && script.finishes {
        let played = tokio::time::timeout(patience, &mut script.task).await;
        script.played = Some(matches!(played, Ok(Ok(true))));
    }
    let process = script.process.load(Ordering::Relaxed);
    if script.played == Some(true) {
        // As a program that ends: a session would keep for ever what the script did not release.
        script.connection.end_process(process);
        return None;
    }
    script.task.abort();
    script.finishes.then_some(UnfinishedScript { client: script.client, process })
}

fn arm(script: &ClientScript, context: &ProcessContext) -> ArmedScript {
    let awaited = script.steps.iter().filter_map(|step| match step {
        Step::Wait(trigger) => Some(context.recorder.await_event(trigger.clone())),
        _ => None,
    });
    ArmedScript { awaited: awaited.collect(), script: script.clone() }
}

/// Rest between two tries of [`Step::Acquire`]: a lock that refuses at once would be asked without a pause.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// Follows a script, and says whether it came to its end before the run did.
async fn play(armed: ArmedScript, mut user: LockUser) -> bool {
    let ArmedScript { script, awaited } = armed;
    let mut awaited = awaited.into_iter();
    let context = user.context.clone();
    let mut last = Completion::Ok(Value::Null);
    for step in &script.steps {
        if context.closing.is_set() {
            return false;
        }
        match step {
            Step::Acquire | Step::AcquireShared => loop {
                let mode = matches!(step, Step::AcquireShared).then_some(Mode::Shared);
                let asked = AcquireArguments { mode, ..AcquireArguments::default() };
                last = user.perform(f::ACQUIRE, mode.map_or(Value::Null, |_| asked.into())).await;
                if matches!(last, Completion::Ok(_)) {
                    break;
                }
                if context.closing.is_set() {
                    return false;
                }
                tokio::time::sleep(TRY_AGAIN).await;
            },
            Step::TryAcquire => last = user.perform(f::ACQUIRE, Value::Null).await,
            Step::Read => {
                last = user.perform(f::READ, Value::Null).await;
                if let Completion::Ok(value) = &last {
                    user.read = value.as_i64().unwrap_or(0);
                }
            }
            Step::Write => last = user.perform(f::WRITE, json!(user.read + 1)).await,
            Step::Holds => last = user.perform(f::HOLDS, Value::Null).await,
            Step::Release => last = user.perform(f::RELEASE, Value::Null).await,
            Step::Reenter => last = user.perform(f::REENTER, Value::Null).await,
            Step::Leave => last = user.perform(f::LEAVE, Value::Null).await,
            Step::Wait(_) => {
                if let Some(event) = awaited.next() {
                    tokio::select! {
                        _ = event => {}
                        () = context.closing.wait(Duration::MAX) => {}
                    }
                }
            }
            Step::Sleep(time) => context.closing.wait(*time).await,
            Step::StopUnlessOk if matches!(last, Completion::Ok(_)) => {}
            Step::StopUnlessOk => return true,
        }
    }
    true
}

struct LockUser {
    process: Arc<AtomicU64>,
    slot: usize,
    client: Arc<ClientConnection>,
    context: Arc<ProcessContext>,
    read: i64,
}

impl LockUser {
    /// One operation of a directed run. After an indeterminate one the script gets a fresh process number.
    async fn perform(&mut self, f: &'static str, value: Value) -> Completion {
        let op = Op { f, key: Cow::Owned(key_name(0)), value, note: Value::Null, time_limits: 1 };
        let process = self.process.load(Ordering::Relaxed);
        let completion = self.context.perform(&self.client, process, &op).await;
        if matches!(completion, Completion::Info(_)) {
            self.process.store(self.context.fresh_process(self.slot), Ordering::Relaxed);
        }
        completion
    }
}
