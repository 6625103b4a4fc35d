//! Shrinking against a made-up lock, whose weakness only this file knows, in place of real servers.

use super::*;
use async_trait::async_trait;
use fencepost_checker::{Finding, Outcome, RunVerdict, Verdict};
use fencepost_engine::RunOptions;
use fencepost_history::{Seed, TimeSpan};
use fencepost_nemesis::PlannedFault;
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Broken where each of the named faults is in the plan, at least `for_ms` long, and two clients compete on
/// `servers` servers or more; in all plays but every `lucky`th.
struct MadeUp {
    needed: Vec<(&'static str, u64)>,
    servers: usize,
    lucky: usize,
    /// Where it is given: in every so manieth play only, and in none before that one.
    seldom: Option<(usize, usize)>,
    plays: AtomicUsize,
}

impl MadeUp {
    fn new(needed: &[(&'static str, u64)]) -> MadeUp {
        MadeUp {
            needed: needed.to_vec(),
            servers: 3,
            lucky: usize::MAX,
            seldom: None,
            plays: AtomicUsize::new(0),
        }
    }

    /// When the violation is complete, in milliseconds.
    fn breaks_at(&self, schedule: &Schedule) -> Option<u64> {
        let limit = schedule.options.time_limit.millis();
        let mut last = 0;
        for (name, for_ms) in &self.needed {
            let mut fits = schedule.plan.faults.iter().filter(|fault| {
                fault.fault == *name && fault.for_ms >= *for_ms && fault.at_ms + fault.for_ms <= limit
            });
            last = last.max(fits.next()?.at_ms + for_ms);
        }
        let enough = size_of(schedule).servers >= self.servers && schedule.options.clients >= 2;
        enough.then_some(last)
    }
}

#[async_trait]
impl Player for MadeUp {
    async fn play(&self, schedule: &Schedule) -> Result<Played> {
        let number = self.plays.fetch_add(1, Ordering::Relaxed) + 1;
        let lucky = number.is_multiple_of(self.lucky);
        let comes = self.seldom.is_none_or(|(every, from)| number >= from && number.is_multiple_of(every));
        let at_ms = self.breaks_at(schedule).filter(|_| !lucky && comes);
        let finding = |at_ms| Finding {
            class: "granted-twice".to_owned(),
            time: at_ms * 1_000_000,
            ..Finding::default()
        };
        let outcome = if at_ms.is_some() { Outcome::Violation } else { Outcome::Valid };
        let findings = at_ms.map(finding).into_iter().collect();
        let verdict = Verdict::new("exclusion", outcome, "").with_findings(findings);
        Ok(Played { folder: PathBuf::new(), verdict: RunVerdict::of(vec![verdict]), history: Vec::new() })
    }
}

fn granted_twice() -> Violation {
    Violation { checker: "exclusion".to_owned(), class: "granted-twice".to_owned() }
}

fn fault(name: &str, on: &[&str], at_ms: u64, for_ms: u64) -> PlannedFault {
    let parameters = match name {
        "clock-jump" => serde_json::from_value(serde_json::json!({"wall_ms": 61_234})).unwrap(),
        _ => serde_json::Map::new(),
    };
    let on = on.iter().map(|&name| name.to_owned()).collect();
    PlannedFault {
        at_ms,
        for_ms,
        fault: name.to_owned(),
        on,
        when: None,
        then: None,
        until: None,
        parameters,
    }
}

fn schedule(faults: Vec<PlannedFault>) -> Schedule {
    let options = RunOptions { seed: Some(Seed(5)), keys: 2, ..RunOptions::default() };
    Schedule::new(options, fencepost_nemesis::Plan { faults, ..Default::default() })
}

/// Several pauses and jumps, one after the other.
fn many() -> Schedule {
    let faults = (0..6).flat_map(|turn| {
        let at_ms = turn * 3000;
        let pause = fault("pause", &["c1", "c3", "c5"], at_ms + 100, 1234);
        [pause, fault("clock-jump", &["n2", "n4"], at_ms + 1500, 1357)]
    });
    schedule(faults.collect())
}

fn smaller(outcome: ShrinkOutcome) -> Option<Shrunk> {
    match outcome {
        ShrinkOutcome::Smaller(shrunk) => Some(*shrunk),
        ShrinkOutcome::Rare | ShrinkOutcome::OutOfTime(_) => None,
    }
}

fn shrunk(player: &MadeUp, schedule: &Schedule, stop: &Stop) -> (Option<Shrunk>, Vec<Step>) {
    let mut steps = Vec::new();
    let budget = ShrinkBudget { jobs: 3, until: None, stop, hurries: &|| false };
    let mut tell = |step: &Step| steps.push(step.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let violation = granted_twice();
    let shrunk = runtime.block_on(shrink(schedule, &violation, player, budget, &mut tell)).unwrap();
    (smaller(shrunk), steps)
}

#[test]
fn one_fault_of_many_is_left_with_as_little_around_it_as_the_violation_needs() {
    let player = MadeUp::new(&[("clock-jump", 400)]);
    let (shrunk, steps) = shrunk(&player, &many(), &Stop::default());
    let shrunk = shrunk.unwrap();
    assert!(shrunk.complete && shrunk.rate == Rate { violations: 10, plays: 10 });
    let Size { faults, clients, processes, keys, servers, .. } = shrunk.after;
    assert_eq!((faults, clients, processes, keys, servers), (1, 2, 2, 1, 3), "{steps:#?}");
    let fault = &shrunk.schedule.plan.faults[0];
    assert_eq!((fault.fault.as_str(), fault.for_ms, fault.on.len()), ("clock-jump", 500, 1));
    assert!(fault.when.is_some() && fault.at_ms == 0);
    // The made-up lock cares for the length only.
    assert_eq!(fault.parameters["wall_ms"], 1);
    assert!(shrunk.schedule.options.time_limit <= TimeSpan::from_secs(1), "{}", shrunk.after);
    assert!(shrunk.plays < 400, "{} plays", shrunk.plays);
}

#[test]
fn faults_that_break_a_lock_only_together_both_stay() {
    let player = MadeUp::new(&[("clock-jump", 400), ("pause", 1000)]);
    let (shrunk, _) = shrunk(&player, &many(), &Stop::default());
    let shrunk = shrunk.unwrap();
    let mut names: Vec<&str> = shrunk.schedule.plan.faults.iter().map(|fault| fault.fault.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["clock-jump", "pause"]);
    assert!(player.breaks_at(&shrunk.schedule).is_some());
}

#[test]
fn a_lock_that_is_broken_without_faults_needs_no_fault() {
    let (shrunk, steps) = shrunk(&MadeUp::new(&[]), &many(), &Stop::default());
    assert_eq!(shrunk.unwrap().after.faults, 0, "{steps:#?}");
    assert!(steps[0].to_string().starts_with("no fault at all: kept"), "{steps:#?}");
}

#[test]
fn what_comes_rarely_is_played_without_faults_more_often_before_it_needs_one() {
    // One play of nine, with or without faults: none of the first, which are without any.
    let player = MadeUp { seldom: Some((9, 9)), ..MadeUp::new(&[]) };
    let (_, steps) = shrunk(&player, &many(), &Stop::default());
    let without_faults = steps.iter().filter(|step| step.tried == "no fault at all");
    let plays: usize = without_faults.map(|step| step.rate.plays).sum();
    assert!(!steps[0].kept && steps[0].rate.plays == 4 && plays >= 10, "{steps:#?}");
}

#[test]
fn without_time_nothing_is_known_of_how_often_it_comes() {
    let (stop, violation, schedule) = (Stop::default(), granted_twice(), many());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let outcome = |needed: &'static str, until| {
        let player = MadeUp::new(&[(needed, 1)]);
        let budget = ShrinkBudget { jobs: 2, until, stop: &stop, hurries: &|| false };
        runtime.block_on(shrink(&schedule, &violation, &player, budget, &mut |_| {})).unwrap()
    };
    let over = Some(Instant::now());
    assert!(matches!(outcome("kill", over), ShrinkOutcome::OutOfTime(0)));
    assert!(matches!(outcome("kill", None), ShrinkOutcome::Rare));
}

#[test]
fn a_violation_that_never_comes_again_is_no_finding() {
    let player = MadeUp::new(&[("kill", 1)]);
    let (shrunk, steps) = shrunk(&player, &many(), &Stop::default());
    assert!(shrunk.is_none());
    assert_eq!(steps.last().unwrap().rate, Rate { violations: 0, plays: 10 });
}

#[test]
fn a_candidate_that_reached_the_goal_by_luck_gives_way_when_it_is_played_once_more() {
    let player = MadeUp { lucky: 4, ..MadeUp::new(&[("pause", 1)]) };
    let (shrunk, steps) = shrunk(&player, &many(), &Stop::default());
    let confirmed = steps.last().unwrap();
    assert!(confirmed.tried.starts_with("once more (") && confirmed.kept, "{confirmed}");
    let again = steps.iter().filter(|step| step.tried.starts_with("once more ("));
    assert!(again.clone().rev().skip(1).all(|step| !step.kept));
    assert_eq!(shrunk.unwrap().rate, confirmed.rate);
}

#[test]
fn what_is_small_enough_gives_way_to_other_work() {
    let player = MadeUp::new(&[("clock-jump", 1)]);
    let (stop, violation, schedule) = (Stop::default(), granted_twice(), many());
    let budget = ShrinkBudget { jobs: 2, until: None, stop: &stop, hurries: &|| true };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let hurried = runtime.block_on(shrink(&schedule, &violation, &player, budget, &mut |_| {}));
    let hurried = smaller(hurried.unwrap()).unwrap();
    let (unhurried, _) = shrunk(&player, &schedule, &stop);
    assert!(
        !hurried.complete
            && hurried.after.faults <= steps::SMALL.0
            && hurried.after.clients <= steps::SMALL.1
    );
    assert!(hurried.plays < unhurried.unwrap().plays);
}

#[test]
fn ctrl_c_leaves_the_smallest_schedule_so_far() {
    let stop = Stop::default();
    let player = MadeUp::new(&[("clock-jump", 400)]);
    let violation = granted_twice();
    let budget = ShrinkBudget { jobs: 2, until: None, stop: &stop, hurries: &|| false };
    let mut kept = 0;
    let mut tell = |step: &Step| {
        kept += usize::from(step.kept);
        if kept == 3 {
            stop.interrupt();
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let schedule = many();
    let shrunk = runtime.block_on(shrink(&schedule, &violation, &player, budget, &mut tell));
    let shrunk = smaller(shrunk.unwrap()).unwrap();
    assert!(!shrunk.complete);
    assert!(shrunk.after.faults < shrunk.before.faults);
    assert!(player.breaks_at(&shrunk.schedule).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn what_is_left_still_breaks_the_lock_and_can_lose_no_fault(
        needed in prop::sample::subsequence(vec![("pause", 900), ("clock-jump", 700), ("kill", 300)], 1..=3),
        drawn in prop::collection::vec((0..3_usize, 0..18_000_u64, 200..1500_u64), 1..9),
    ) {
        let player = MadeUp::new(&needed);
        let name = |kind| ["pause", "clock-jump", "kill"][kind];
        let faults = drawn.into_iter().map(|(kind, at_ms, for_ms)| fault(name(kind), &["n1"], at_ms, for_ms));
        let mut faults: Vec<PlannedFault> = faults.collect();
        faults.sort_by_key(|fault| fault.at_ms);
        let schedule = schedule(faults);
        prop_assume!(schedule.spec().is_ok());
        let breaks = player.breaks_at(&schedule).is_some();
        let (shrunk, _) = shrunk(&player, &schedule, &Stop::default());
        prop_assert_eq!(breaks, shrunk.is_some());
        let Some(shrunk) = shrunk else { return Ok(()) };
        prop_assert!(shrunk.schedule.spec().is_ok());
        prop_assert!(player.breaks_at(&shrunk.schedule).is_some());
        prop_assert_eq!(shrunk.after.faults, needed.len());
    }
}
