//! Whole runs in paused time, against a lock of literals: what the phases record, how faults are aimed, and
//! what is concluded.

use super::{Habits, Simulated, options, play, spec};
use crate::scenario::read_file;
use crate::settings::options::RunOptions;
use fencepost_checker::{ExclusionFigures, Outcome};
use fencepost_history::{FaultEvent, FaultStage, Kind, PHASE, RunPhase, SECTION_ABANDONED, f};
use std::time::Duration;

const RIGHT: Habits = Habits { grants_twice: false, reads_late: Duration::ZERO };

fn phases(run: &Simulated) -> Vec<&str> {
    run.events(PHASE).filter_map(|event| event.value.as_str()).collect()
}

fn figures(run: &Simulated) -> ExclusionFigures {
    run.verdict.figures().expect("exclusion was judged")
}

/// The holder is stopped right after its grant, for three TTLs.
const HOLDER_STOPPED: &str =
    "[[fault]]\nfault = 'pause'\non = ['holder']\nwhen = { f = 'read' }\nfor_ms = 3000\n";

#[tokio::test(start_paused = true)]
async fn a_lock_that_works_holds_for_the_whole_time() {
    let run = play(&spec(options(|_| {}), ""), RIGHT, None).await;
    assert_eq!(run.verdict.outcome, Outcome::Valid, "{:?}", run.verdict);
    assert_eq!(phases(&run), [RunPhase::Main, RunPhase::Heal, RunPhase::Closing].map(RunPhase::name));
    assert!(run.took >= Duration::from_secs(10) && figures(&run).holds > 20, "{:?}", run.took);
    assert!(run.outcome.cleanup_errors.is_empty() && run.outcome.script.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_run() {
    let spec = spec(options(|_| {}), "");
    let steps = |run: &Simulated| -> Vec<(String, Kind, String)> {
        let of =
            |event: &fencepost_history::Event| (event.process.to_string(), event.kind, event.f.to_string());
        run.history.iter().take(200).map(of).collect()
    };
    let (first, second) = (play(&spec, RIGHT, None).await, play(&spec, RIGHT, None).await);
    assert_eq!(steps(&first), steps(&second));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_granted_twice_is_violated_and_fail_fast_ends_the_run() {
    let broken = Habits { grants_twice: true, ..RIGHT };
    let run = play(&spec(options(|options| options.fail_fast = true), ""), broken, None).await;
    assert!(figures(&run).granted_twice > 0, "{:?}", run.verdict);
    assert!(run.took < Duration::from_secs(10), "{:?}", run.took);
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_after_so_many_acquisitions() {
    let run = play(&spec(options(|options| options.acquisitions = Some(5)), ""), RIGHT, None).await;
    let acquired = run.events(f::ACQUIRE).filter(|event| event.kind == Kind::Ok).count();
    assert!((5..17).contains(&acquired) && run.took < Duration::from_secs(10), "{acquired}");
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_aimed_at_the_holder_observed_and_healed() {
    let run = play(&spec(options(|_| {}), HOLDER_STOPPED), RIGHT, None).await;
    let pauses: Vec<_> = run.events("pause").filter_map(FaultEvent::read).collect();
    let stages: Vec<FaultStage> = pauses.iter().map(|event| event.stage).collect();
    assert_eq!(stages, [FaultStage::Inject, FaultStage::Inject, FaultStage::Heal, FaultStage::Heal]);
    assert!(pauses[1].effective && pauses[1].aimed == ["holder"], "{:?}", pauses[1]);
    let figures = figures(&run);
    assert_eq!((figures.granted_twice, run.verdict.outcome), (0, Outcome::Violation), "{:?}", run.verdict);
    assert!(figures.overstayed > 0, "the holder went on after its lease");
    assert_eq!(phases(&run)[..2], [RunPhase::Main, RunPhase::Heal].map(RunPhase::name));
    assert!(phases(&run).contains(&RunPhase::Liveness.name()));
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_waits_for_what_never_comes_did_not_happen() {
    let never = HOLDER_STOPPED.replace("'read'", "'read', client = 'c1', times = 100000");
    let run = play(&spec(options(|_| {}), &never), RIGHT, None).await;
    assert_eq!(run.events("pause").count(), 0);
    assert_eq!(run.verdict.outcome, Outcome::Vacuous, "{:?}", run.verdict);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_the_machine_made_late_abandons_its_section() {
    let late = Habits { reads_late: Duration::from_millis(1500), ..RIGHT };
    let run = play(&spec(options(|_| {}), ""), late, None).await;
    assert!(run.events(SECTION_ABANDONED).count() > 0);
    assert_ne!(run.verdict.outcome, Outcome::Violation, "{:?}", run.verdict);
}

/// Two clients, of which the second waits for the first.
const SCRIPTS: &str = r#"
about = "one after the other"
lock = "redis-single"
ttl = "2s"
clients = 2

[[client]]
name = "c1"
script = ["acquire", "read", "write", "wait c2 begins acquire", "release"]

[[client]]
name = "c2"
script = ["wait c1 acquire", "acquire", "read", "write", "release"]

[narration]
"c2 acquire" = "client 2 came second"

[[expect]]
about = "in order"
order = ["c1 acquire", "c1 release", "c2 acquire"]
"#;

async fn played(text: &str) -> Simulated {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    std::fs::write(&file, text).unwrap();
    let scenario = read_file(&file).unwrap_or_else(|mistake| panic!("{mistake}"));
    let run = &scenario.runs[0];
    let options = RunOptions { seed: options(|_| {}).seed, ..run.options().clone() };
    let spec = run.spec(options).expect("a run that fits");
    play(&spec, RIGHT, run.script.as_ref()).await
}

#[tokio::test(start_paused = true)]
async fn scripts_are_played_step_by_step() {
    let run = played(SCRIPTS).await;
    let script = run.outcome.script.as_ref().expect("it was directed");
    assert_eq!((script.unfinished.len(), script.narrated.len()), (0, 1), "{script:?}");
    assert_eq!(script.narrated[0].1, "client 2 came second");
    assert_eq!(figures(&run).holds, 3, "two of the scripts, and the closing one");
}

#[tokio::test(start_paused = true)]
async fn a_script_that_waits_for_what_never_comes_is_unfinished() {
    let run = played(&SCRIPTS.replace("wait c2 begins acquire", "wait c2 acquire")).await;
    let script = run.outcome.script.as_ref().expect("it was directed");
    // The lease of client 1 ends, client 2 comes in, and client 1 goes on: that is what a lease does.
    assert!(script.unfinished.is_empty(), "{script:?}");
    let stuck = played(&SCRIPTS.replace("wait c2 begins acquire", "wait c2 begins holds")).await;
    let script = stuck.outcome.script.as_ref().expect("it was directed");
    assert_eq!(script.unfinished, ["c1"], "{script:?}");
}
