//! What is said of small random runs, whole: verdicts, stories, ledger, coverage and costs, as snapshots. A
//! change of the judge that its other tests do not notice shows here, in words, beside the run it is about.
//! Whether it was right to change is for a person to say: nothing here knows what is true.

#[allow(dead_code, reason = "tests/known.rs asks more of it")]
mod known {
    pub mod lock;
    pub mod plan;
    pub mod record;
    pub mod section;
    pub mod simulation;
}
mod random {
    pub mod operations;
    pub mod script;
}

use fencepost_checker::read::{JsonLines, ReadOptions};
use fencepost_checker::run_index::RunIndex;
use fencepost_checker::{
    Algorithm, Budget, CheckOptions, Finding, ModelName, RunVerdict, Watch, Whose, check_index, check_lines,
    ledger_table, nearest_miss, overlaps, registry, situations_of, story,
};
use fencepost_history::{Event, Process};
use known::lock::{Keeps, MISTAKES, Mistake, Shared};
use known::simulation::{Laws, Simulation};
use random::operations::history_of;
use random::script::run_of;
use std::fmt::Write;
use std::time::Duration;

/// How many runs. Fewer let the judge be changed unseen; more are not read by anybody.
const RUNS: u64 = 60;

#[test]
fn what_is_said_of_small_runs_is_what_was_said_before() {
    for seed in 0..RUNS {
        let events = run_of(seed);
        insta::assert_snapshot!(format!("run-{seed:02}"), said_of(&events));
    }
}

#[test]
fn what_is_said_of_whole_runs_is_what_was_said_before() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs");
    let mut names: Vec<_> = std::fs::read_dir(&folder).expect("it is there").flatten().collect();
    names.sort_by_key(std::fs::DirEntry::file_name);
    for entry in names {
        let name = entry.file_name().to_string_lossy().replace(".jsonl.gz", "");
        let events = fencepost_history::read_history(&entry.path()).expect("a history");
        insta::assert_snapshot!(format!("whole-{name}"), judgement_of(&events));
    }
}

#[test]
fn what_is_said_of_known_mistakes_and_faults_is_what_was_said_before() {
    let lease = Laws {
        seed: 7,
        keeps: Keeps::Lease,
        faults: false,
        mistake: None,
        outlasts: false,
        shared: Shared::Mutex,
    };
    for mistake in MISTAKES {
        let keeps = if mistake == Mistake::StopsRenewing { Keeps::Renewed } else { Keeps::Lease };
        let laws =
            Laws { keeps, mistake: Some(mistake), outlasts: mistake == Mistake::BlindRelease, ..lease };
        insta::assert_snapshot!(format!("known-{mistake:?}"), judgement_of(Simulation::of(laws).events()));
    }
    for (name, keeps) in [("lease", Keeps::Lease), ("renewed", Keeps::Renewed), ("session", Keeps::Session)] {
        let laws = |seed| Laws { seed, keeps, faults: true, outlasts: true, ..lease };
        let said = (0..6).map(|seed| judgement_of(Simulation::of(laws(seed)).events()));
        insta::assert_snapshot!(format!("known-faults-{name}"), said.collect::<String>());
    }
}

/// How many histories of each model.
const HISTORIES: u64 = 40;

#[test]
fn what_is_said_of_small_histories_is_what_was_said_before() {
    for model in ModelName::ALL {
        let histories: Vec<String> = (0..HISTORIES).map(|seed| history_of(model.name(), seed)).collect();
        let said: String = histories.iter().map(|history| said_by(model, history)).collect();
        insta::assert_snapshot!(model.name(), said);
    }
}

#[test]
fn what_is_known_of_each_property_is_what_was_known_before() {
    let mut text = String::new();
    for property in registry() {
        let _ = writeln!(text, "{}: {}", property.name, property.about);
        let claim = property.claim.unwrap_or("none");
        let _ = writeln!(text, "    claim {claim}; {:?}; {:?}", property.harm, property.blame);
        let _ = writeln!(text, "    needs a whole run: {}", property.needs_a_whole_run);
        for class in property.classes {
            let _ = writeln!(text, "    - {}: {}", class.name, class.meaning);
            let all = [
                None,
                Some(Whose::Library),
                Some(Whose::Service),
                Some(Whose::NoFence),
                Some(Whose::Machine),
            ];
            for whose in all {
                let _ = writeln!(text, "        {whose:?}: {}", class.advice_for(whose));
            }
        }
    }
    insta::assert_snapshot!("properties", text);
}

fn said_by(model: ModelName, history: &str) -> String {
    let mut text = String::new();
    for algorithm in [Algorithm::Auto, Algorithm::Search] {
        let budget = Budget::new(Duration::from_secs(60), 1 << 30);
        let options = CheckOptions { algorithm, budget, evidence: true, witness: true };
        let mut lines = JsonLines::new(history.as_bytes());
        let keys = check_lines(model, &mut lines, &ReadOptions::default(), &options);
        let [key] = &keys.expect("the generator makes histories of the model")[..] else {
            panic!("one key: {history}")
        };
        let _ = writeln!(text, "{algorithm:?}: {} of {}: {:?}", key.outcome, key.operations, key.reason);
        let order = key.witness.iter().flatten();
        let order: Vec<String> = order.map(|step| format!("{} {}", step.process, step.operation)).collect();
        let _ = writeln!(text, "    {}", order.join(", "));
        let shown = key.evidence.as_ref().map_or(String::new(), ToString::to_string);
        text.extend(shown.lines().map(|line| format!("    {line}\n")));
    }
    text
}

fn said_of(events: &[Event]) -> String {
    let history: String = events.iter().map(line_of).collect();
    let run = RunIndex::new(events).expect("the generator makes whole histories");
    history + &judgement_of(events) + &ledger_table(&run, None)
}

/// All but the history and its ledger, which are too long for whole runs.
fn judgement_of(events: &[Event]) -> String {
    let mut text = String::new();
    let run = RunIndex::new(events).expect("the history is whole");
    let verdict = check_index(&run);
    let _ = writeln!(text, "\n{}: in peace {}", verdict.outcome, run.is_in_peace());
    for one in &verdict.verdicts {
        let claimed = if one.claimed { "" } else { " (not claimed)" };
        let _ = writeln!(text, "{}: {}{claimed}: {}", one.checker, one.outcome, one.summary);
        let _ = writeln!(text, "    {}", serde_json::to_string(&one.stats).expect("figures are JSON"));
        one.findings.iter().for_each(|finding| finding_of(&run, finding, &mut text));
    }
    for unjudged in &verdict.not_judged {
        let _ = writeln!(text, "{}: {}", unjudged.checker, unjudged.reason);
    }
    rest_of(&run, &verdict, &mut text);
    let mut watch = Watch::new();
    events.iter().for_each(|event| watch.push(event));
    let _ = writeln!(text, "watch: {} overlaps, {} tokens", watch.overlaps, watch.stale_tokens);
    text
}

fn line_of(event: &Event) -> String {
    let process = match event.process {
        Process::Client(process) => process.to_string(),
        Process::Nemesis => "nemesis".to_owned(),
    };
    let kind = serde_json::to_value(event.kind).expect("a kind is a word");
    let key = event.key.as_deref().unwrap_or("-");
    let error = event.error.as_ref().map_or(String::new(), |error| format!(" {error}"));
    let (ms, kind) = (event.time / 1_000_000, kind.as_str().expect("a kind is a word"));
    let mut value = serde_json::Value::clone(&event.value);
    if let Some(description) = value.pointer_mut("/description") {
        *description = description["effects"].take();
    }
    format!("{:>3} {ms:>6} {process} {kind} {} {key} {value}{error}\n", event.index, event.f)
}

fn finding_of(run: &RunIndex, finding: &Finding, text: &mut String) {
    let Finding { class, key, time, events, sentence, whose, or, .. } = finding;
    let _ = writeln!(text, "  - {class} of {key} at {time}, {events:?}: {sentence}");
    let _ = writeln!(text, "    whose: {whose:?}, or {or:?}");
    for line in story(run, finding) {
        let _ = writeln!(text, "      {:>9} {}", line.time_ns / 1_000_000, line.text);
    }
}

fn rest_of(run: &RunIndex, verdict: &RunVerdict, text: &mut String) {
    let _ = writeln!(text, "metrics: {:?}", verdict.metrics);
    let _ = writeln!(text, "costs: {:?}", verdict.costs);
    let _ = writeln!(text, "nearest miss: {:?}", nearest_miss(run));
    let _ = writeln!(text, "overlaps: {:?}", overlaps(run));
    let _ = writeln!(text, "situations: {:?}", situations_of(run));
    let coverage = verdict.coverage.as_ref().expect("every judged run has its coverage");
    let _ = writeln!(text, "coverage: {coverage}");
    for (situation, reached) in coverage.situations().filter(|(_, reached)| reached.times > 0) {
        let _ = writeln!(text, "    {situation:?} {reached:?}");
    }
}

/// By night (`FENCEPOST_KNOWN_RUNS=100000`, `.ci/nightly known`) as many as are asked for.
#[test]
fn whatever_a_run_holds_it_is_judged_and_the_watch_counts_no_more_overlaps() {
    let asked = std::env::var("FENCEPOST_KNOWN_RUNS").ok().and_then(|count| count.parse().ok());
    for seed in RUNS..asked.unwrap_or(1_000) {
        let events = run_of(seed);
        let run = RunIndex::new(&events).expect("the generator makes whole histories");
        assert!(!said_of(&events).is_empty());
        let mut watch = Watch::new();
        events.iter().for_each(|event| watch.push(event));
        // Grants that were over as they came count from what their processes did later.
        assert!(watch.overlaps <= overlaps(&run).len() as u64, "seed {seed}");
    }
}

/// Prints what is said of one run: `FENCEPOST_SAID_RUN=68`, with `--ignored --nocapture`.
#[test]
#[ignore = "prints a run for a person"]
fn print_a_run() {
    let seed = std::env::var("FENCEPOST_SAID_RUN").ok().and_then(|seed| seed.parse().ok());
    println!("{}", said_of(&run_of(seed.expect("FENCEPOST_SAID_RUN is the seed of a run"))));
}
