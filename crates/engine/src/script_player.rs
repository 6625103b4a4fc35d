//! A directed run: the clients follow a script, step by step, and a narration is given as it happens.
//!
//! One process of its client follows each script. No step relies on sleeps: a step that must come after another waits for
//! the event of the history that says so.

use crate::client_connection::ClientConnection;
use crate::processes::ProcessContext;
use fencepost_history::{Completion, f};
use fencepost_nemesis::Trigger;
use fencepost_workloads::{Op, key_name};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// One step of a client's script.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Acquires the lock; a refused acquire is repeated until the lock is granted.
    Acquire,
    /// Tries to acquire once, and goes on whether it was granted or not.
    Try,
    Read,
    /// Writes one more than the value that was read last.
    Write,
    Holds,
    Release,
    /// Waits for an event of the history, which may have come already.
    After(Trigger),
    /// Works, or waits, for this time.
    For(Duration),
    /// Ends the script unless the last operation succeeded.
    OnlyIfOk,
}

/// The script of one client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientScript {
    /// `c1`, `c2`, ….
    pub client: String,
    pub steps: Vec<Step>,
    /// Whether a fault will keep the client from the end of its script; the run does not wait for it then.
    pub doomed: bool,
}

/// One sentence of the narration, given when its event comes.
#[derive(Clone, Debug, PartialEq)]
pub struct Narration {
    pub when: Trigger,
    pub sentence: String,
}

/// Everything that is directed in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
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
    pub cut_short: Vec<String>,
}

/// Called with each sentence of the narration when its event comes, and the time since the run began.
pub type OnEvent = Arc<dyn Fn(Duration, &str) + Send + Sync>;

/// How long a sentence may take from its event to [`OnEvent`].
const LAST_SENTENCE: Duration = Duration::from_millis(50);

/// A script whose triggers are registered before the run begins, so that none misses its event.
struct ArmedScript {
    script: ClientScript,
    awaited: Vec<oneshot::Receiver<()>>,
}

/// The tasks of a directed run.
pub struct ScriptPlayer {
    armed: Vec<ArmedScript>,
    playing: Vec<(ClientScript, tokio::task::JoinHandle<()>)>,
    narrators: Vec<tokio::task::JoinHandle<()>>,
    narrated: Arc<Mutex<Vec<(Duration, String)>>>,
}

impl ScriptPlayer {
    /// Registers every trigger. `on_event` is called with each sentence when its event comes.
    pub fn arm(script: &Script, context: &ProcessContext, on_event: &OnEvent) -> ScriptPlayer {
        let narrated = Arc::new(Mutex::new(Vec::new()));
        let narrators = script.narration.iter().map(|narration| {
            let fired = context.recorder.await_event(narration.when.clone());
            let (narrated, on_event) = (narrated.clone(), on_event.clone());
            let (recorder, sentence) = (context.recorder.clone(), narration.sentence.clone());
            tokio::spawn(async move {
                if fired.await.is_ok() {
                    let now = recorder.elapsed();
                    on_event(now, &sentence);
                    narrated.lock().push((now, sentence));
                }
            })
        });
        let narrators = narrators.collect();
        let armed = script.clients.iter().map(|script| arm(script, context)).collect();
        ScriptPlayer { armed, playing: Vec::new(), narrators, narrated }
    }

    /// Begins every client's script. `client_of` gives the slot and the connection of a client by its name.
    pub fn begin(
        &mut self,
        context: &Arc<ProcessContext>,
        client_of: impl Fn(&str) -> Option<(usize, Arc<ClientConnection>)>,
    ) {
        for armed in std::mem::take(&mut self.armed) {
            let script = armed.script.clone();
            if let Some((slot, client)) = client_of(&script.client) {
                self.playing.push((script, tokio::spawn(play(armed, context.clone(), slot, client))));
            }
        }
    }

    /// Returns when every script has come to its end.
    pub async fn all_played(&mut self) {
        for (script, task) in &mut self.playing {
            if !script.doomed && !task.is_finished() {
                let _ = task.await;
            }
        }
    }

    /// Ends the scripts that are not at their end.
    pub async fn close(mut self) -> ScriptOutcome {
        let mut cut_short = Vec::new();
        for (script, task) in std::mem::take(&mut self.playing) {
            if !task.is_finished() {
                task.abort();
                if !script.doomed {
                    cut_short.push(script.client);
                }
            }
        }
        // A sentence whose event has come may still be on its way; one whose event has not come by now never will.
        let last = futures_util::future::join_all(self.narrators.iter_mut());
        let _ = tokio::time::timeout(LAST_SENTENCE, last).await;
        self.narrators.iter().for_each(tokio::task::JoinHandle::abort);
        let mut narrated = std::mem::take(&mut *self.narrated.lock());
        narrated.sort();
        ScriptOutcome { narrated, cut_short }
    }
}

fn arm(script: &ClientScript, context: &ProcessContext) -> ArmedScript {
    let awaited = script.steps.iter().filter_map(|step| match step {
        Step::After(trigger) => Some(context.recorder.await_event(trigger.clone())),
        _ => None,
    });
    ArmedScript { awaited: awaited.collect(), script: script.clone() }
}

/// Rest between two tries of [`Step::Acquire`]: a lock that refuses at once would be asked without a pause.
const TRY_AGAIN: Duration = Duration::from_millis(20);

async fn play(armed: ArmedScript, context: Arc<ProcessContext>, slot: usize, client: Arc<ClientConnection>) {
    let ArmedScript { script, awaited } = armed;
    let mut awaited = awaited.into_iter();
    let mut user = LockUser { process: context.fresh_process(slot), slot, client, context, read: 0 };
    let mut last = Completion::Ok(Value::Null);
    for step in &script.steps {
        match step {
            Step::Acquire => loop {
                last = user.perform(f::ACQUIRE, Value::Null).await;
                if matches!(last, Completion::Ok(_)) || user.context.closing.is_set() {
                    break;
                }
                tokio::time::sleep(TRY_AGAIN).await;
            },
            Step::Try => last = user.perform(f::ACQUIRE, Value::Null).await,
            Step::Read => {
                last = user.perform(f::READ, Value::Null).await;
                if let Completion::Ok(value) = &last {
                    user.read = value.as_i64().unwrap_or(0);
                }
            }
            Step::Write => last = user.perform(f::WRITE, json!(user.read + 1)).await,
            Step::Holds => last = user.perform(f::HOLDS, Value::Null).await,
            Step::Release => last = user.perform(f::RELEASE, Value::Null).await,
            Step::After(_) => {
                if let Some(event) = awaited.next() {
                    let _ = event.await;
                }
            }
            Step::For(time) => tokio::time::sleep(*time).await,
            Step::OnlyIfOk if matches!(last, Completion::Ok(_)) => {}
            Step::OnlyIfOk => return,
        }
    }
}

/// The process that follows a script.
struct LockUser {
    process: u64,
    slot: usize,
    client: Arc<ClientConnection>,
    context: Arc<ProcessContext>,
    /// The value of its last read.
    read: i64,
}

impl LockUser {
    /// One operation on the only key of a directed run. After an indeterminate operation the script goes on under a fresh
    /// process number, as a program that was restarted would.
    async fn perform(&mut self, f: &'static str, value: Value) -> Completion {
        let op = Op { f, key: Cow::Owned(key_name(0)), value };
        let completion = self.context.perform(&self.client, self.process, &op).await;
        if matches!(completion, Completion::Info(_)) {
            self.process = self.context.fresh_process(self.slot);
        }
        completion
    }
}
