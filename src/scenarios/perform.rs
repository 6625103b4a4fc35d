//! Plays a scenario: its runs, one after the other, and what came of each.

use super::Scenario;
use super::act::Act;
use super::expect::{Answer, Seen};
use anyhow::Result;
use fencepost_engine::{BadUsage, RunObserver, RunOptions, RunSpec, ScriptOutcome, Stop};
use fencepost_history::run::RunFolder;
use fencepost_history::{Event, Kind, Process, Seed};
use fencepost_nemesis::Plan;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How a scenario ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// What the source expects was seen.
    Agrees,
    /// Reality is known to differ from the source, and did; the evidence is in the answers.
    DiffersFromTheSource,
    /// Something else was seen.
    Disagrees,
    /// The story did not come about: a trigger never fired, a fault was not seen, a part was cut short.
    DidNotHappen,
}

impl Ending {
    /// In a word or a few.
    pub fn text(self) -> &'static str {
        match self {
            Ending::Agrees => "agrees",
            Ending::DiffersFromTheSource => "differs from the source",
            Ending::Disagrees => "does not agree",
            Ending::DidNotHappen => "did not happen",
        }
    }
}

/// What came of one act.
#[derive(Clone, Debug, Serialize)]
pub struct ActReport {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub title: &'static str,
    /// The run's folder.
    pub folder: PathBuf,
    /// The story as it was told, with seconds since the run began.
    pub told: Vec<(f64, String)>,
    pub answers: Vec<Answer>,
    /// Why the act did not happen; empty where it did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    pub servers: Vec<String>,
}

/// What came of a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub name: &'static str,
    pub source: &'static str,
    pub about: &'static str,
    pub expected: &'static str,
    pub ending: Ending,
    /// Why reality differs from the source, where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differs: Option<&'static str>,
    pub acts: Vec<ActReport>,
    pub driver: String,
    pub seed: Seed,
    pub seconds: f64,
    /// The environment failed: one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// How scenarios are to be played.
pub struct Manner {
    pub driver: String,
    pub seed: Seed,
    pub results: PathBuf,
    pub stop: Arc<Stop>,
    /// Hears the story as it happens.
    pub aloud: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Makes what the nodes of these scenarios are made of, so that none has to while others are being played.
pub async fn prepare(scenarios: &[&'static Scenario], driver: &str, seed: Seed, stop: &Stop) {
    let acts = scenarios.iter().flat_map(|scenario| (scenario.acts)());
    let runs: Vec<RunSpec> = acts.filter_map(|act| spec(act.options(driver, seed), &act).ok()).collect();
    fencepost_engine::make_images(driver, runs.iter(), stop).await;
}

/// Plays a scenario to its end. A failure of the environment is part of the report, so that others go on.
pub async fn perform(scenario: &'static Scenario, manner: &Manner) -> Report {
    let begun = std::time::Instant::now();
    let mut acts = Vec::new();
    let mut failed = None;
    for (number, act) in (1..).zip((scenario.acts)()) {
        if !act.title.is_empty() {
            (manner.aloud)(&format!("{}:", act.title));
        }
        match play(scenario, number, &act, manner).await {
            Ok(report) => acts.push(report),
            Err(error) => {
                failed = Some(format!("{error:#}"));
                break;
            }
        }
    }
    Report {
        name: scenario.name,
        source: scenario.source,
        about: scenario.about,
        expected: scenario.expected,
        ending: ending(scenario, &acts, failed.is_some()),
        differs: scenario.differs,
        acts,
        driver: manner.driver.clone(),
        seed: manner.seed,
        seconds: begun.elapsed().as_secs_f64(),
        failed,
    }
}

fn ending(scenario: &Scenario, acts: &[ActReport], failed: bool) -> Ending {
    let all_met = acts.iter().flat_map(|act| &act.answers).all(|answer| answer.met);
    if failed || acts.iter().any(|act| !act.missing.is_empty()) {
        Ending::DidNotHappen
    } else if !all_met {
        Ending::Disagrees
    } else if scenario.differs.is_some() {
        Ending::DiffersFromTheSource
    } else {
        Ending::Agrees
    }
}

async fn play(scenario: &'static Scenario, number: usize, act: &Act, manner: &Manner) -> Result<ActReport> {
    let mut options = act.options(&manner.driver, manner.seed);
    options.scenario = Some(format!("{}-{number}", scenario.name));
    let spec = spec(options, act)?;
    let folder = RunFolder::create(&manner.results, &spec.options.settings())?;
    let observer = Arc::new(Narrator { on_event: manner.aloud.clone() });
    let command = crate::commands::repeat::command(&spec.options);
    let script = act.cast.as_ref();
    let outcome =
        fencepost_engine::run_beside_others(&spec, &command, &folder, &manner.stop, script, observer).await?;
    // Judging takes a moment of a core, and writing waits for the disk: other stories must not stand still meanwhile.
    let (judged, folder) =
        tokio::task::spawn_blocking(move || fencepost_report::judge(&folder).map(|judged| (judged, folder)))
            .await??;
    let seen = Seen { verdict: &judged.verdict, history: &judged.history };
    let answers = act.expects.iter().map(|expect| expect.answer(&seen)).collect();
    let mut missing = missing(act, &spec.plan, &judged.history, outcome.script.as_ref());
    missing.extend(outcome.cleanup_errors);
    let told = outcome.script.unwrap_or_default().narrated;
    Ok(ActReport {
        title: act.title,
        folder: folder.path.clone(),
        told: told.into_iter().map(|(time, sentence)| (time.as_secs_f64(), sentence)).collect(),
        answers,
        missing,
        servers: folder.read_run()?.servers,
    })
}

/// Gives each sentence of the narration when its event comes.
struct Narrator {
    on_event: Arc<dyn Fn(&str) + Send + Sync>,
}

impl RunObserver for Narrator {
    fn narrated(&self, time: Duration, sentence: &str) {
        (self.on_event)(&format!("{:>8.3} s  {sentence}", time.as_secs_f64()));
    }
}

/// Its run, with the act's own faults in place of drawn ones.
fn spec(options: RunOptions, act: &Act) -> Result<RunSpec, BadUsage> {
    match act.strikes.is_empty() {
        true => RunSpec::new(options),
        false => RunSpec::with_plan(options, act.plan()),
    }
}

/// What of the story did not come about, a sentence each.
fn missing(act: &Act, plan: &Plan, history: &[Event], played: Option<&ScriptOutcome>) -> Vec<String> {
    let mut missing = Vec::new();
    for (id, strike) in plan.faults.iter().enumerate() {
        let took_effect = |event: &&Event| {
            event.process == Process::Nemesis
                && event.kind == Kind::Ok
                && event.value["id"] == id
                && event.value["effective"] == true
        };
        if !history.iter().any(|event| took_effect(&event)) {
            missing.push(format!("{} on {} was not seen to take effect", strike.fault, strike.on.join(",")));
        }
    }
    if let (Some(cast), Some(played)) = (&act.cast, played) {
        let told = |sentence: &str| played.narrated.iter().any(|(_, told)| told == sentence);
        let untold = cast.narration.iter().filter(|beat| !told(&beat.sentence));
        missing.extend(untold.map(|beat| format!("it never came to this: {}", beat.sentence)));
        let cut = played.cut_short.iter();
        missing.extend(cut.map(|client| format!("{client} did not come to the end of its part")));
    }
    missing
}
