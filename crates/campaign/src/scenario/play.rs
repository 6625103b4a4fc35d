//! Plays a scenario: its runs, one after the other, each judged and compared with what is expected.

use super::report::{Ending, Report, RunReport};
use crate::context::CampaignContext;
use crate::run_player::RunRequest;
use anyhow::Result;
use fencepost_checker::{Outcome, RunIndex};
use fencepost_engine::recorder::Placement;
use fencepost_engine::scenario::{Expectation, RunMeasures, Scenario, ScenarioRun};
use fencepost_engine::{RunObserver, RunSpec, ScriptOutcome};
use fencepost_history::mistake::MistakeInFile;
use fencepost_history::run::RunFolder;
use fencepost_history::{Event, FaultEvent, Seed};
use fencepost_nemesis::{Plan, PlannedFault};
use fencepost_report::findings::SCENARIO;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct PlayOptions {
    /// Takes the place of the lock that a scenario names.
    pub lock: Option<String>,
    pub driver: String,
    pub seed: Seed,
    /// Whether the seed comes from the command line, and so takes the place of one in a file.
    pub seed_given: bool,
}

/// Called with each line of the narration as it happens.
pub type OnNarration = Arc<dyn Fn(&str) + Send + Sync>;

/// The spec of a run, checked: with this driver, seed and lock. Errors: the first mistake, with its line.
fn spec(
    scenario: &Scenario,
    number: usize,
    run: &ScenarioRun,
    options: &PlayOptions,
) -> Result<RunSpec, MistakeInFile> {
    let mut own = run.options().clone();
    own.scenario = Some(format!("{}-{number}", scenario.name));
    own.driver.clone_from(&options.driver);
    if options.seed_given || own.seed.is_none() {
        own.seed = Some(options.seed);
    }
    if let Some(lock) = &options.lock {
        own.lock.clone_from(lock);
    }
    run.spec(own).map_err(|mistake| scenario.error(mistake))
}

pub fn shown_seed(scenario: &Scenario, options: &PlayOptions) -> Seed {
    let own = scenario.runs.first().and_then(|run| run.options().seed).filter(|_| !options.seed_given);
    own.unwrap_or(options.seed)
}

/// The specs of all runs of a scenario.
pub fn specs<'a>(
    scenario: &'a Scenario,
    options: &'a PlayOptions,
) -> impl Iterator<Item = Result<RunSpec, MistakeInFile>> + 'a {
    (1..).zip(&scenario.runs).map(move |(number, run)| spec(scenario, number, run, options))
}

/// Checks every run of a scenario, before the first begins. Errors: the first mistake, with its line.
pub fn check(scenario: &Scenario, options: &PlayOptions) -> Result<(), MistakeInFile> {
    specs(scenario, options).try_for_each(|spec| spec.map(|_| ()))
}

/// About how long it takes to play.
pub fn expected(scenario: &Scenario, options: &PlayOptions) -> Duration {
    specs(scenario, options).filter_map(Result::ok).map(|spec| spec.expected()).sum()
}

/// Plays a scenario to its end. A failure of the environment is part of the report, so that others go on.
pub async fn play(
    scenario: &Scenario,
    options: &PlayOptions,
    context: &CampaignContext,
    on_event: &OnNarration,
) -> Report {
    let begun = std::time::Instant::now();
    let mut runs = Vec::new();
    let mut failed = None;
    for (number, run) in (1..).zip(&scenario.runs) {
        if !run.title.is_empty() {
            on_event(&format!("{}:", run.title));
        }
        match play_run((scenario, number, run), options, context, on_event).await {
            Ok(report) => runs.push(report),
            Err(error) => {
                failed = Some(format!("{error:#}"));
                break;
            }
        }
    }
    Report {
        name: scenario.name.clone(),
        source: scenario.source.clone(),
        about: scenario.about.clone(),
        expected: scenario.expected.clone(),
        picture: scenario.picture,
        ending: if failed.is_some() { Ending::DidNotHappen } else { ending(scenario, &runs, options) },
        differs: scenario.differs.clone(),
        runs,
        driver: options.driver.clone(),
        seed: shown_seed(scenario, options),
        seconds: begun.elapsed().as_secs_f64(),
        failed,
    }
}

fn ending(scenario: &Scenario, runs: &[RunReport], options: &PlayOptions) -> Ending {
    let all_met = runs.iter().flat_map(|run| &run.answers).all(|answer| answer.met);
    // A lock that holds need not let everything come about that the scenario narrates.
    if options.lock.is_some() {
        return match (all_met, runs.iter().all(|run| run.effective)) {
            (false, _) => Ending::Broken,
            (true, true) => Ending::Holds,
            (true, false) => Ending::DidNotHappen,
        };
    }
    if runs.iter().any(|run| !run.missing.is_empty()) {
        Ending::DidNotHappen
    } else if !all_met {
        Ending::Disagrees
    } else if scenario.differs.is_some() {
        Ending::DiffersFromTheSource
    } else {
        Ending::Agrees
    }
}

async fn play_run(
    (scenario, number, run): (&Scenario, usize, &ScenarioRun),
    options: &PlayOptions,
    context: &CampaignContext,
    on_event: &OnNarration,
) -> Result<RunReport> {
    let spec = spec(scenario, number, run, options)?;
    let folder = RunFolder::create(&context.results, &spec.options.settings())?;
    folder.write(SCENARIO, scenario.text().as_bytes())?;
    let request = RunRequest {
        spec: &spec,
        script: run.script.as_ref(),
        command: &context.repeat.scenario(scenario, &spec.options),
        folder: &folder,
        stop: &context.stop,
        observer: Arc::new(Narrator { on_event: on_event.clone() }),
    };
    let outcome = context.player.record(request).await?;
    // Judging takes a core, and writing waits for the disk: other scenarios must not wait.
    let (judged, folder) =
        tokio::task::spawn_blocking(move || fencepost_report::judge(&folder).map(|judged| (judged, folder)))
            .await??;
    context.store.send(&folder.path).await;
    let placement = Placement { slots: spec.options.concurrency, clients: spec.options.clients };
    let client_of = |process| format!("c{}", placement.client_of(process) + 1);
    let observed = RunMeasures { verdict: &judged.verdict, history: &judged.history, client_of: &client_of };
    let answers = match &options.lock {
        // The source expects nothing of another lock; its users expect that it holds.
        Some(_) => vec![Expectation::no_violation().answer(&observed)],
        None => run.expectations.iter().map(|expectation| expectation.answer(&observed)).collect(),
    };
    let mut missing = without_effect(&spec.plan, &judged.history);
    let effective = missing.is_empty();
    // Clients that follow a workload meet some of the faults. An expected violation needed no others.
    let came = judged.verdict.outcome == Outcome::Violation && answers.iter().all(|answer| answer.met);
    if run.script.is_none() && came {
        missing.clear();
    }
    missing.extend(unmet_preconditions(run, outcome.script.as_ref()));
    missing.extend(RunIndex::new(&judged.history).ok().and_then(|run| run.why_its_end_says_nothing()));
    missing.extend(outcome.cleanup_errors);
    missing.extend(judged.unwritten.iter().map(|error| format!("its report is not written: {error:#}")));
    let narrated = outcome.script.unwrap_or_default().narrated;
    Ok(RunReport {
        title: run.title.clone(),
        folder: folder.path.clone(),
        narration: narrated.into_iter().map(|(time, sentence)| (time.as_secs_f64(), sentence)).collect(),
        answers,
        missing,
        effective,
        servers: folder.read_run()?.servers,
    })
}

struct Narrator {
    on_event: OnNarration,
}

impl RunObserver for Narrator {
    fn narrated(&self, time: Duration, sentence: &str) {
        (self.on_event)(&format!("{:>8.3} s  {sentence}", time.as_secs_f64()));
    }
}

/// Faults that were not observed to take effect, a sentence each.
fn without_effect(plan: &Plan, history: &[Event]) -> Vec<String> {
    let has_effect = |id: u64, event: &Event| {
        FaultEvent::read(event).is_some_and(|fault| fault.id == id && fault.effective)
    };
    let faults =
        (0..).zip(&plan.faults).filter(|(id, _)| !history.iter().any(|event| has_effect(*id, event)));
    let in_words = |fault: &PlannedFault| {
        format!("{} on {} was not observed to take effect", fault.fault, fault.on.join(","))
    };
    faults.map(|(_, fault)| in_words(fault)).collect()
}

/// The preconditions of the script that were not met, a sentence each.
fn unmet_preconditions(run: &ScenarioRun, outcome: Option<&ScriptOutcome>) -> Vec<String> {
    let (Some(script), Some(outcome)) = (&run.script, outcome) else { return Vec::new() };
    let narrated = |sentence: &str| outcome.narrated.iter().any(|(_, narrated)| narrated == sentence);
    let sentences = script.narration.iter().map(|narration| &narration.sentence);
    let never = sentences
        .filter(|sentence| !narrated(sentence))
        .map(|sentence| format!("it never came to this: {sentence}"));
    let cut =
        outcome.unfinished.iter().map(|client| format!("{client} did not come to the end of its script"));
    never.chain(cut).collect()
}
