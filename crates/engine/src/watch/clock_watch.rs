//! What the clocks of a run show: each one that a fault moves is looked at from inside its process, several
//! times a second, and recorded in `clocks.jsonl`. No verdict rests on it; the report draws it.

use crate::run::recorder::Recorder;
use anyhow::{Context, Result};
use fencepost_history::run::ClockSample;
use fencepost_nemesis::FaultContext;
use parking_lot::Mutex;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

const PERIOD: Duration = Duration::from_millis(250);

pub struct ClockWatch {
    lookers: JoinSet<()>,
    over: watch::Sender<bool>,
    samples: Arc<SampleFile>,
}

struct SampleFile {
    path: PathBuf,
    file: Mutex<Result<File, std::io::Error>>,
}

impl ClockWatch {
    /// Begins to look at the clocks of these nodes; with none, nothing is written.
    pub fn watch(
        nodes: Vec<String>,
        context: Arc<FaultContext>,
        recorder: Arc<Recorder>,
        path: PathBuf,
    ) -> Result<Option<ClockWatch>> {
        if nodes.is_empty() {
            return Ok(None);
        }
        let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let samples = Arc::new(SampleFile { path, file: Mutex::new(Ok(file)) });
        let (over, is_over) = watch::channel(false);
        let mut lookers = JoinSet::new();
        for node in nodes {
            let (context, recorder, samples) = (context.clone(), recorder.clone(), samples.clone());
            let mut is_over = is_over.clone();
            lookers.spawn(async move {
                loop {
                    // The last look comes when everything is healed.
                    let last = *is_over.borrow();
                    samples.write(&look(&context, &recorder, &node).await);
                    if last {
                        return;
                    }
                    let _ = tokio::time::timeout(PERIOD, is_over.wait_for(|over| *over)).await;
                }
            });
        }
        Ok(Some(ClockWatch { lookers, over, samples }))
    }

    /// Looks once more and ends. Gives what could not be written, in one sentence.
    pub async fn stop(mut self) -> Option<String> {
        self.over.send_replace(true);
        while self.lookers.join_next().await.is_some() {}
        let file = self.samples.file.lock();
        let error = file.as_ref().err()?;
        Some(format!("cannot write {}: {error}", self.samples.path.display()))
    }
}

impl SampleFile {
    fn write(&self, sample: &ClockSample) {
        let line = serde_json::to_string(sample).expect("a sample is always JSON") + "\n";
        let mut slot = self.file.lock();
        if let Ok(file) = slot.as_mut()
            && let Err(error) = file.write_all(line.as_bytes())
        {
            *slot = Err(error);
        }
    }
}

async fn look(context: &FaultContext, recorder: &Recorder, node: &str) -> ClockSample {
    let begun = recorder.elapsed();
    let seen = match context.pid(node) {
        Ok(_) => context.look_at_clocks(node).await.ok().map(|look| look.after),
        Err(_) => None,
    };
    let ended = recorder.elapsed();
    let time = (begun + ended) / 2;
    let ms = |ns: i64| ns as f64 / 1e6;
    ClockSample {
        time: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
        node: node.to_owned(),
        wall_ms: seen.map(|seen| ms(seen.wall_ns)),
        monotonic_ms: seen.map(|seen| ms(seen.monotonic_ns)),
        error_ms: seen.map(|seen| seen.error_ns as f64 / 1e6),
        time_error_ms: (ended - begun).as_secs_f64() * 500.0,
    }
}
