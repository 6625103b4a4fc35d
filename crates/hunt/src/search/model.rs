//! A made-up lock that is broken in situations that only this file knows, in place of real servers: what the
//! feedback is worth can be measured on it, and the search can be tested without a clock.

use super::Search;
use super::schedule_coverage::{ScheduleCoverage, ShownViolation};
use super::space::{DrawnOptions, FAULTS_MAX, Space};
use crate::schedule::Schedule;
use fencepost_engine::RunOptions;
use fencepost_history::{Seed, TimeSpan};
use fencepost_nemesis::{PlannedFault, WhichAim, find};
use proptest::prelude::*;
use std::time::Duration;

const TTL_MS: u64 = 500;

pub(super) fn space(nemeses: &[&str]) -> Space {
    let base = RunOptions {
        lock: "redlock".to_owned(),
        ttl: TimeSpan::from_millis(TTL_MS),
        driver: "local".to_owned(),
        ..RunOptions::default()
    };
    let nemeses = nemeses.iter().map(|name| find(name).expect("a nemesis")).collect();
    Space::new(base, DrawnOptions::ALL, nemeses).expect("options that make sense")
}

fn all() -> Vec<&'static str> {
    fencepost_nemesis::registry().iter().map(|nemesis| nemesis.name()).collect()
}

/// The made-up role and phase of a fault: by its first target, and by the moment that it waits for.
fn situation(fault: &PlannedFault) -> (String, &'static str, &'static str) {
    let role = match fault.on.first().map(|name| &name[..1]) {
        Some("c" | "h") => "client",
        Some("n" | "g") => "server",
        _ => "other",
    };
    let phase = match fault.then.as_ref().map(|then| then.f.as_str()) {
        Some("acquire") => "grant",
        Some("read" | "write") => "write",
        Some(_) => "release",
        None => "any",
    };
    (fault.fault.clone(), role, phase)
}

/// The lock is broken where a pause of a client, longer than the TTL and as it writes, goes with a clock that
/// jumps far enough on a server. Each condition alone brings the run nearer.
fn play(schedule: &Schedule) -> (ScheduleCoverage, ShownViolation) {
    let mut nearest = 400.0;
    let mut coverage = ScheduleCoverage::default();
    let faults: Vec<_> = schedule.plan.faults.iter().map(|fault| (fault, situation(fault))).collect();
    for (fault, (name, role, phase)) in &faults {
        match (name.as_str(), *role, *phase) {
            ("pause", "client", "write") => {
                nearest -= 100.0 + 50.0 * (fault.for_ms as f64 / TTL_MS as f64).min(2.0)
            }
            ("clock-jump", "server", _) => nearest -= 100.0 + 25.0 * fault.on.len().min(4) as f64,
            _ => {}
        }
    }
    for (_, (name, role, phase)) in &faults {
        coverage.see(name, role, phase, 1, Some(nearest));
    }
    (coverage, if nearest <= 20.0 { ShownViolation::New } else { ShownViolation::None })
}

/// How many schedules it takes to find the violation; `most` where it is not found by then.
fn schedules_until_found(mut search: Search, most: u64) -> u64 {
    loop {
        let Some(proposal) = search.propose() else { return most };
        let (coverage, violation) = play(&proposal.schedule);
        let _ = search.learn(&proposal, &coverage, violation);
        if violation == ShownViolation::New || proposal.number >= most {
            return proposal.number;
        }
    }
}

fn median(mut numbers: Vec<u64>) -> u64 {
    numbers.sort_unstable();
    numbers[numbers.len() / 2]
}

#[test]
fn feedback_finds_what_luck_does_not() {
    let most = 6000;
    let with: Vec<u64> =
        (0..9).map(|seed| schedules_until_found(Search::new(space(&all()), Seed(seed)), most)).collect();
    let without: Vec<u64> = (0..9)
        .map(|seed| schedules_until_found(Search::without_feedback(space(&all()), Seed(seed)), most))
        .collect();
    let (with, without) = (median(with), median(without));
    assert!(with * 3 <= without, "a median of {with} schedules with feedback, {without} without");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_schedule_can_be_carried_out_and_the_archive_keeps_only_elites(seed in 0..1_u64 << 53) {
        let mut search = Search::new(space(&all()), Seed(seed));
        for _ in 0..120 {
            let proposal = search.propose().expect("there are targets");
            let Schedule { options, plan, .. } = &proposal.schedule;
            prop_assert!(proposal.schedule.spec().is_ok(), "{:?}", proposal.schedule.spec().err());
            prop_assert!((1..=FAULTS_MAX).contains(&plan.faults.len()));
            let healed = |fault: &PlannedFault| fault.at_ms + fault.for_ms <= options.time_limit.millis();
            prop_assert!(plan.faults.iter().all(healed));
            let (coverage, violation) = play(&proposal.schedule);
            let outcome = search.learn(&proposal, &coverage, violation);
            let kept = search.archive.kept.contains_key(&proposal.number);
            prop_assert_eq!(outcome.is_kept() && !outcome.dropped.contains(&proposal.number), kept);
        }
        let archive = &search.archive;
        prop_assert!(archive.kept.len() <= archive.cells.len());
        prop_assert!(archive.cells.values().all(|cell| archive.kept.contains_key(&cell.elite)));
    }

    #[test]
    fn the_same_coverage_leads_to_the_same_schedules(seed in 0..1_u64 << 53) {
        let run = || {
            let mut search = Search::new(space(&["pause", "clock-jump", "kill"]), Seed(seed));
            let mut tried = Vec::new();
            for _ in 0..40 {
                let proposal = search.propose().expect("there are targets");
                let (coverage, violation) = play(&proposal.schedule);
                let _ = search.learn(&proposal, &coverage, violation);
                tried.push(proposal.schedule);
            }
            tried
        };
        prop_assert_eq!(run(), run());
    }
}

#[test]
fn a_hunt_begins_with_each_nemesis_and_first_with_what_aims_at_the_holder() {
    for seed in 0..20 {
        let opening = space(&all()).opening(&mut Seed(seed).stream("opening"));
        let place = |name: &str, which: WhichAim| {
            let at = opening.iter().position(|(nemesis, aim)| nemesis.name() == name && *aim == Some(which));
            at.unwrap_or_else(|| panic!("no {name} with {which:?}"))
        };
        for name in all() {
            assert!(opening.iter().any(|(nemesis, _)| nemesis.name() == name), "{name}");
        }
        let at_holder = ["pause", "partition", "delay"].map(|name| place(name, WhichAim::InTurn(0)));
        let at_point = ["pause", "kill"].map(|name| place(name, WhichAim::AtPoint));
        let at_waiter = place("pause", WhichAim::InTurn(1));
        let at_servers = ["power-loss", "clock-jump", "kill"].map(|name| place(name, WhichAim::InTurn(0)));
        assert!(at_holder.iter().max() < at_point.iter().min());
        assert!(at_point.iter().all(|place| *place < at_waiter));
        assert!(at_servers.iter().all(|place| at_waiter < *place));
    }
}

#[test]
fn a_known_violation_makes_its_schedule_less_worth_a_change() {
    let mut search = Search::new(space(&["pause", "clock-jump"]), Seed(3));
    let proposal = search.propose().expect("there are targets");
    let other = search.propose().expect("there are targets");
    let coverage = |fault: &str| {
        let mut coverage = ScheduleCoverage::default();
        coverage.see(fault, "server", "held", 1, Some(100.0));
        coverage
    };
    assert!(search.learn(&proposal, &coverage("one"), ShownViolation::None).is_kept());
    assert!(search.learn(&other, &coverage("two"), ShownViolation::None).is_kept());
    for _ in 0..20 {
        search.archive.note_child(proposal.number, true);
    }
    let mut random = Seed(1).stream("draws");
    let draws = 200;
    let repeats = (0..draws)
        .filter(|_| search.archive.draw(500.0, &mut random).expect("two are kept").0 == proposal.number)
        .count();
    assert!(repeats < draws / 10, "{repeats} of {draws}");
}

#[test]
fn a_hunt_first_watches_the_lock_without_faults() {
    let mut search = Search::new(space(&all()), Seed(3));
    assert_eq!(search.watch_without_faults(Duration::from_secs(60)), None);
    let first: Vec<_> = (0..6).map(|_| search.propose().expect("a schedule")).collect();
    let places = first.iter().map(|proposal| proposal.schedule.plan.faults.is_empty());
    assert_eq!(places.collect::<Vec<_>>(), [true, false, false, false, true, false]);
    let (crowd, keys) = (first[0].clone(), first[4].clone());
    for peace in [&crowd, &keys] {
        assert!(peace.schedule.plan.faults.is_empty() && peace.schedule.spec().is_ok());
        assert_eq!(peace.schedule.options.time_limit, TimeSpan::from_secs(10), "twice the bound");
    }
    let options = |proposal: &super::Proposal| {
        let options = &proposal.schedule.options;
        (options.keys, options.concurrency, options.clients, options.hold.map(|hold| hold.longest.millis()))
    };
    assert_eq!((options(&crowd), options(&keys)), ((1, 12, 4, Some(50)), (12, 12, 4, Some(100))));
    // Ten seconds of twelve would leave no time for faults.
    let why = Search::new(space(&all()), Seed(3)).watch_without_faults(Duration::from_secs(12));
    assert!(why.is_some_and(|why| why.contains("that takes --for 20 s")));
}

#[test]
fn schedules_about_renewals_break_the_connection_of_a_careless_holder() {
    let mut careful = space(&all());
    careful.base.careful = true;
    let mut search = Search::new(careful, Seed(3));
    search.note_renewals();
    let Schedule { options, plan, .. } = search.propose().expect("a schedule").schedule;
    let ahead = &plan.faults[0];
    assert_eq!((ahead.fault.as_str(), ahead.on.as_slice()), ("clock-jump", &["waiter".to_owned()][..]));
    assert!(ahead.parameters["wall_ms"].as_u64().unwrap() > 2 * options.ttl.millis());
    assert!(options.hold.unwrap().longest.millis() < options.ttl.millis(), "the robbed holder acts soon");
    for _ in 0..2 {
        let Schedule { options, plan, .. } = search.propose().expect("a schedule").schedule;
        let fault = &plan.faults[0];
        assert_eq!((fault.fault.as_str(), &fault.parameters["thread"]), ("thread-pause", &"last".into()));
        assert!(fault.for_ms > options.ttl.millis() && options.hold.unwrap().longest.millis() > fault.for_ms);
    }
    for name in ["kill", "pause", "partition", "reset"] {
        let Schedule { options, plan, .. } = search.propose().expect("a schedule").schedule;
        let [fault] = &plan.faults[..] else { panic!("one fault: {plan:?}") };
        assert_eq!(fault.fault, name);
        assert!(!options.careful, "a careful holder hides a renewal that died");
        let ttl_ms = options.ttl.millis();
        assert_eq!(options.hold, Some(TimeSpan::from_millis(4 * ttl_ms).into()));
        assert!((ttl_ms / 2..=ttl_ms * 6 / 5).contains(&fault.for_ms), "{fault:?}");
        let plan = serde_json::json!(fault).to_string();
        assert!(!plan.contains("storage"), "the holder can still write: {plan}");
        assert!(plan.contains("holder") || fault.on.iter().all(|on| on.starts_with("granting")), "{plan}");
    }
    let next: Vec<_> = (0..6).map(|_| search.propose().expect("a schedule").schedule).collect();
    let (bare, rest) = next.split_at(2);
    let (taken, slow) = rest.split_at(2);
    // Two of five servers are cut off from all clients, and the holder from one of the three that granted.
    for bare in bare {
        let [minority, lost] = &bare.plan.faults[..] else { panic!("two faults: {:?}", bare.plan) };
        let side = |fault: &PlannedFault, side: usize| fault.parameters["groups"][side].clone();
        assert_eq!(
            (side(minority, 0).as_array().map(Vec::len), side(lost, 0)),
            (Some(2), serde_json::json!(["holder"]))
        );
        assert!(!side(minority, 0).as_array().unwrap().contains(&side(lost, 1)[0]), "{minority:?}, {lost:?}");
    }
    // The holder is stopped for longer than its lease and that of another, which is killed.
    for taken in taken {
        let [stopped, gone] = &taken.plan.faults[..] else { panic!("two faults: {:?}", taken.plan) };
        assert_eq!((stopped.fault.as_str(), gone.fault.as_str()), ("pause", "kill"));
        assert_eq!((&stopped.on, taken.options.concurrency), (&gone.on, 2));
        assert!(stopped.for_ms > 3 * taken.options.ttl.millis());
        assert!(taken.options.hold.unwrap().shortest.millis() > stopped.for_ms);
    }
    let slow = &slow[0];
    // A slow acquire, whose process looks at its validity and uses nearly all of it.
    assert_eq!((slow.plan.faults[0].fault.as_str(), slow.options.careful), ("delay", true));
    assert!(slow.options.hold.is_some_and(|hold| hold.longest < slow.options.ttl));
    let later = (0..60).filter_map(|_| search.propose()).filter(|later| !later.schedule.options.careful);
    assert!(later.count() > 3, "some of the others, too");
}

#[test]
fn a_nemesis_that_is_left_out_is_not_drawn() {
    let mut search = Search::new(space(&["pause", "kill"]), Seed(3));
    search.leave_out("pause");
    for _ in 0..40 {
        let proposal = search.propose().expect("a schedule");
        assert!(proposal.schedule.plan.faults.iter().all(|fault| fault.fault == "kill"));
    }
}

#[test]
fn what_a_hunt_begins_with_is_tried_once_more_where_it_failed() {
    let mut search = Search::new(space(&all()), Seed(3));
    assert_eq!(search.watch_without_faults(Duration::from_secs(60)), None);
    let crowd = search.propose().expect("a schedule");
    search.put_back(crowd.number);
    let again = search.propose().expect("a schedule");
    assert!(again.schedule.plan.faults.is_empty() && again.number == 2);
    search.put_back(again.number);
    let next: Vec<_> = (0..6).map(|_| search.propose().expect("a schedule")).collect();
    let without_faults = next.iter().filter(|proposal| proposal.schedule.plan.faults.is_empty());
    assert_eq!(without_faults.count(), 1, "the other one, and this one not a third time");
}
