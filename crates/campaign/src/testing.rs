//! Campaigns without servers: runs with histories that were written beforehand, and lines that are kept.

use crate::context::{CampaignContext, ResultsStore};
use crate::lines::LinePrinter;
use crate::repeat::Repeat;
use crate::run_player::{RunPlayer, RunRequest};
use anyhow::{Result, anyhow};
use async_trait::async_trait;
use fencepost_engine::{RunOutcome, RunSpec, ScriptOutcome, Stop};
use fencepost_history::{Event, Kind, Process, Writer};
use parking_lot::Mutex;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Keeps what is printed.
#[derive(Default)]
pub struct Printed {
    said: Mutex<Vec<String>>,
    complained: Mutex<Vec<String>>,
}

impl LinePrinter for Printed {
    fn say(&self, line: &str) {
        self.said.lock().push(line.to_owned());
    }

    fn complain(&self, line: &str) {
        self.complained.lock().push(line.to_owned());
    }
}

impl Printed {
    pub fn said(&self) -> Vec<String> {
        self.said.lock().clone()
    }

    pub fn complained(&self) -> Vec<String> {
        self.complained.lock().clone()
    }
}

/// What comes of a run that is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal {
    /// Two processes hold the lock one after the other.
    Holds,
    /// Two processes hold it at once.
    Breaks,
    /// As [`Literal::Breaks`], and afterwards the environment fails.
    BreaksAndFails,
    Fails,
    /// Ctrl-C comes before the run is over.
    Interrupted,
}

/// What comes of a run, by how many began before it.
type Script = dyn Fn(&RunSpec, usize) -> Literal + Send + Sync;

/// Plays each run in a second, into a literal history.
pub struct LiteralPlayer {
    script: Box<Script>,
    /// Seeds of the runs that began.
    pub played: Mutex<Vec<u64>>,
    running: AtomicUsize,
    /// The most runs that went on side by side.
    pub most: AtomicUsize,
}

impl LiteralPlayer {
    pub fn new(script: impl Fn(&RunSpec, usize) -> Literal + Send + Sync + 'static) -> Arc<LiteralPlayer> {
        Arc::new(LiteralPlayer {
            script: Box::new(script),
            played: Mutex::default(),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        })
    }

    /// One whose runs all hold.
    pub fn holding() -> Arc<LiteralPlayer> {
        LiteralPlayer::new(|_, _| Literal::Holds)
    }
}

#[async_trait]
impl RunPlayer for LiteralPlayer {
    async fn prepare(&self, _: &[&RunSpec], _: &Stop) {}

    async fn record(&self, run: RunRequest<'_>) -> Result<RunOutcome> {
        let before = {
            let mut played = self.played.lock();
            played.push(run.spec.seed.0);
            played.len() - 1
        };
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        let file = run.spec.options.run_file(run.command.to_owned());
        run.folder.write_run(&file)?;
        let what = (self.script)(run.spec, before);
        let mut writer = Writer::create(&run.folder.history())?;
        for event in history(matches!(what, Literal::Breaks | Literal::BreaksAndFails)) {
            writer.append(&event)?;
        }
        match what {
            Literal::Holds | Literal::Breaks => Ok(RunOutcome {
                cleanup_errors: Vec::new(),
                script: run.script.map(|_| ScriptOutcome::default()),
            }),
            Literal::Fails | Literal::BreaksAndFails => Err(anyhow!("n1 does not answer")),
            Literal::Interrupted => {
                run.stop.interrupt();
                Err(anyhow!("interrupted"))
            }
        }
    }
}

/// Two processes compete for a lock, which the second gets when the first has released it, or before; when
/// all is healed, a third gets it.
fn history(overlapping: bool) -> Vec<Event> {
    let phase = |name: &str| (Process::Nemesis, Kind::Info, "phase", json!(name));
    let of = |process: u64, kind, f: &'static str| {
        // A release says whether its process believed as it began.
        let value = if (kind, f) == (Kind::Ok, "release") { json!({ "believed": true }) } else { json!({}) };
        (Process::Client(process), kind, f, value)
    };
    let granted = |process| vec![of(process, Kind::Ok, "acquire")];
    let released = |process| vec![of(process, Kind::Invoke, "release"), of(process, Kind::Ok, "release")];
    let sections = match overlapping {
        false => [granted(0), released(0), granted(1), released(1)].concat(),
        true => [granted(0), granted(1), released(1), released(0)].concat(),
    };
    let events = [
        vec![phase("main"), of(0, Kind::Invoke, "acquire"), of(1, Kind::Invoke, "acquire")],
        sections,
        vec![phase("heal"), phase("closing"), of(2, Kind::Invoke, "acquire")],
        granted(2),
        released(2),
    ];
    let event = |(index, (process, kind, f, value)): (u64, (Process, Kind, &str, serde_json::Value))| Event {
        index,
        time: (index + 1) * 10_000_000,
        process,
        kind,
        f: f.into(),
        key: matches!(process, Process::Client(_)).then(|| "k0".into()),
        value: value.into(),
        error: None,
    };
    (0..).zip(events.concat()).map(event).collect()
}

struct NoStore;

#[async_trait]
impl ResultsStore for NoStore {
    async fn send(&self, _: &Path) {}
}

/// A context without servers, and what it prints.
pub fn context(results: &Path, player: Arc<dyn RunPlayer>) -> (CampaignContext, Arc<Printed>) {
    let printed = Arc::new(Printed::default());
    let context = CampaignContext {
        player,
        results: PathBuf::from(results),
        store: Arc::new(NoStore),
        stop: Arc::new(Stop::default()),
        repeat: Repeat { program: "fencepost".to_owned(), has_file: false },
        lines: printed.clone(),
    };
    (context, printed)
}
