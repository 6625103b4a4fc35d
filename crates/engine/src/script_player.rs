//! A directed run: what each client does, step by step, and what is told of it as it happens.
//!
//! A part is followed by one process of its client. Nothing in it rests on sleeps: a step that has to come after
//! something waits for the event of the history that says so.

use crate::link::Link;
use crate::processes::Shared;
use fencepost_history::{Completion, f};
use fencepost_nemesis::Trigger;
use fencepost_workloads::{Op, key_name};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// One step of a part.
#[derive(Clone, Debug)]
pub enum Line {
    /// Acquires, and tries again until it is granted.
    Acquire,
    /// Tries to acquire once, and goes on however it ended.
    Try,
    Read,
    /// Writes one more than it read last.
    Write,
    Holds,
    Release,
    /// Waits for an event of the history, which may have come already.
    After(Trigger),
    /// Works, or waits, for so long.
    For(Duration),
    /// Leaves the part unless the last operation succeeded.
    OnlyIfOk,
}

/// What one client does.
#[derive(Clone, Debug)]
pub struct Part {
    /// `c1`, `c2`, ….
    pub client: &'static str,
    pub lines: Vec<Line>,
    /// A fault will keep it from its end; nobody waits for it.
    pub doomed: bool,
}

/// A sentence of the story, told when its event comes.
#[derive(Clone, Debug)]
pub struct Beat {
    pub when: Trigger,
    pub sentence: String,
}

/// Everything directed about a run.
#[derive(Clone, Debug, Default)]
pub struct Cast {
    pub parts: Vec<Part>,
    pub beats: Vec<Beat>,
    /// How long a lock may take to come free once everything is healed; none: the runner's own bound.
    pub free_again: Option<Duration>,
}

/// What a directed run left besides its history.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// Sentences that were told, with the time of their event since the run began.
    pub told: Vec<(Duration, String)>,
    /// Parts that did not come to their end, by client.
    pub cut_short: Vec<&'static str>,
}

/// A part whose triggers listen since the run began, so that none is missed.
struct Rehearsed {
    part: Part,
    ears: Vec<oneshot::Receiver<()>>,
}

/// Hears each sentence as it is told, with the time since the run began.
pub type Voice = Arc<dyn Fn(Duration, &str) + Send + Sync>;

/// How long a sentence may take from its event to its listener.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// The tasks of a directed run.
pub struct Stage {
    rehearsed: Vec<Rehearsed>,
    parts: Vec<(Part, tokio::task::JoinHandle<()>)>,
    tellers: Vec<tokio::task::JoinHandle<()>>,
    told: Arc<Mutex<Vec<(Duration, String)>>>,
}

impl Stage {
    /// Lets every trigger listen. `aloud` hears each sentence as it is told.
    pub fn rehearse(cast: &Cast, shared: &Shared, aloud: &Voice) -> Stage {
        let told = Arc::new(Mutex::new(Vec::new()));
        let tellers = cast.beats.iter().map(|beat| {
            let fired = shared.recorder.await_event(beat.when.clone());
            let (told, aloud, recorder, sentence) =
                (told.clone(), aloud.clone(), shared.recorder.clone(), beat.sentence.clone());
            tokio::spawn(async move {
                if fired.await.is_ok() {
                    let now = recorder.elapsed();
                    aloud(now, &sentence);
                    told.lock().expect("never poisoned").push((now, sentence));
                }
            })
        });
        let tellers = tellers.collect();
        let rehearsed = cast.parts.iter().map(|part| rehearse(part, shared)).collect();
        Stage { rehearsed, parts: Vec::new(), tellers, told }
    }

    /// Begins every part.
    pub fn begin(&mut self, shared: &Arc<Shared>, link_of: impl Fn(&str) -> Option<(usize, Arc<Link>)>) {
        for rehearsed in std::mem::take(&mut self.rehearsed) {
            let part = rehearsed.part.clone();
            if let Some((slot, link)) = link_of(part.client) {
                self.parts.push((part, tokio::spawn(play(rehearsed, shared.clone(), slot, link))));
            }
        }
    }

    /// Returns when every part has come to its end.
    pub async fn all_played(&mut self) {
        for (part, task) in &mut self.parts {
            if !part.doomed && !task.is_finished() {
                let _ = task.await;
            }
        }
    }

    /// Ends what is still going on.
    pub async fn close(mut self) -> Played {
        let mut cut_short = Vec::new();
        for (part, task) in std::mem::take(&mut self.parts) {
            if !task.is_finished() {
                task.abort();
                if !part.doomed {
                    cut_short.push(part.client);
                }
            }
        }
        // A sentence whose event has come may still be on its way; one whose event has not come by now never will.
        let told_last = futures_util::future::join_all(self.tellers.iter_mut());
        let _ = tokio::time::timeout(LAST_WORDS, told_last).await;
        self.tellers.iter().for_each(tokio::task::JoinHandle::abort);
        let mut told = std::mem::take(&mut *self.told.lock().expect("never poisoned"));
        told.sort();
        Played { told, cut_short }
    }
}

fn rehearse(part: &Part, shared: &Shared) -> Rehearsed {
    let ears = part.lines.iter().filter_map(|line| match line {
        Line::After(trigger) => Some(shared.recorder.await_event(trigger.clone())),
        _ => None,
    });
    Rehearsed { ears: ears.collect(), part: part.clone() }
}

/// Between two tries of a part that is to acquire: a lock that refuses at once would be asked without a rest.
const TRY_AGAIN: Duration = Duration::from_millis(20);

async fn play(rehearsed: Rehearsed, shared: Arc<Shared>, slot: usize, link: Arc<Link>) {
    let Rehearsed { part, ears } = rehearsed;
    let mut ears = ears.into_iter();
    let mut player = Player { process: shared.fresh_process(slot), slot, link, shared, read: 0 };
    let mut last = Completion::Ok(Value::Null);
    for line in &part.lines {
        match line {
            Line::Acquire => loop {
                last = player.perform(f::ACQUIRE, Value::Null).await;
                if matches!(last, Completion::Ok(_)) || player.shared.closing.is_set() {
                    break;
                }
                tokio::time::sleep(TRY_AGAIN).await;
            },
            Line::Try => last = player.perform(f::ACQUIRE, Value::Null).await,
            Line::Read => {
                last = player.perform(f::READ, Value::Null).await;
                if let Completion::Ok(value) = &last {
                    player.read = value.as_i64().unwrap_or(0);
                }
            }
            Line::Write => last = player.perform(f::WRITE, json!(player.read + 1)).await,
            Line::Holds => last = player.perform(f::HOLDS, Value::Null).await,
            Line::Release => last = player.perform(f::RELEASE, Value::Null).await,
            Line::After(_) => {
                if let Some(ear) = ears.next() {
                    let _ = ear.await;
                }
            }
            Line::For(time) => tokio::time::sleep(*time).await,
            Line::OnlyIfOk if matches!(last, Completion::Ok(_)) => {}
            Line::OnlyIfOk => return,
        }
    }
}

struct Player {
    process: u64,
    slot: usize,
    link: Arc<Link>,
    shared: Arc<Shared>,
    /// What it read last.
    read: i64,
}

impl Player {
    /// One operation on the one key of a directed run. After an indeterminate one the part goes on under a fresh
    /// number, as a program that was restarted would.
    async fn perform(&mut self, f: &'static str, value: Value) -> Completion {
        let op = Op { f, key: Cow::Owned(key_name(0)), value };
        let completion = self.shared.perform(&self.link, self.process, &op).await;
        if matches!(completion, Completion::Info(_)) {
            self.process = self.shared.fresh_process(self.slot);
        }
        completion
    }
}
