//! Histories of simulated runs in which everything is known: who held the lock, and what ended each grant.
//! What the checkers say of a history has to agree with what was true.
//!
//! By day some dozens of seeds, by night (`FENCEPOST_KNOWN_RUNS=100000`, `.ci/nightly known`) as many as
//! are asked for. A seed that failed becomes a literal row where its rule is tested.

mod known {
    pub mod lock;
    pub mod plan;
    pub mod record;
    pub mod section;
    pub mod simulation;
}

use fencepost_checker::{Finding, RunVerdict, Whose, check_run};
use known::lock::{Ended, Keeps, MISTAKES, Mistake, Shared};
use known::simulation::{Laws, Simulation};

/// How many simulated runs of each kind.
fn seeds() -> std::ops::Range<u64> {
    let asked = std::env::var("FENCEPOST_KNOWN_RUNS").ok().and_then(|count| count.parse().ok());
    0..asked.unwrap_or(60)
}

fn findings(verdict: &RunVerdict) -> impl Iterator<Item = (&str, &Finding)> {
    verdict.verdicts.iter().flat_map(|one| one.findings.iter().map(|finding| (&*one.checker, finding)))
}

/// What ended the grant of two that overlapped that was made first, in truth: their answers may have come the
/// other way round.
fn ended(simulation: &Simulation, finding: &Finding) -> Option<Ended> {
    let of = |event: u64| simulation.lock.grants.iter().position(|grant| grant.recorded == Some(event));
    let both = [finding.events[0], finding.events[1]].into_iter().filter_map(of);
    simulation.lock.grants[both.min().expect("an overlap names grants that were recorded")].ended
}

/// A third of them: of the kinds that several may hold.
fn fewer_seeds() -> impl Iterator<Item = u64> {
    seeds().step_by(3)
}

/// Each kind of lock under each that keeps its grants.
fn locks() -> impl Iterator<Item = (Keeps, Shared)> {
    [Keeps::Lease, Keeps::Renewed, Keeps::Session].into_iter().flat_map(|keeps| {
        [Shared::Mutex, Shared::Semaphore, Shared::ReadWrite].into_iter().map(move |shared| (keeps, shared))
    })
}

#[test]
fn a_right_lock_in_peace_is_accused_of_nothing() {
    for seed in seeds() {
        for (keeps, shared) in
            locks().filter(|(_, shared)| *shared == Shared::Mutex || seed.is_multiple_of(3))
        {
            let laws = Laws { seed, keeps, faults: false, mistake: None, outlasts: false, shared };
            let verdict = check_run(Simulation::of(laws).events());
            let found: Vec<_> =
                findings(&verdict).map(|(checker, finding)| (checker, &finding.sentence)).collect();
            assert!(found.is_empty(), "{laws:?}: {found:?}");
        }
    }
}

#[test]
fn under_faults_a_right_library_is_never_to_blame() {
    let mut overlaps = 0;
    for seed in seeds() {
        for (keeps, outlasts) in
            [(Keeps::Lease, false), (Keeps::Lease, true), (Keeps::Renewed, false), (Keeps::Session, false)]
        {
            let laws = Laws { seed, keeps, faults: true, mistake: None, outlasts, shared: Shared::Mutex };
            let simulation = Simulation::of(laws);
            let verdict = check_run(simulation.events());
            for (checker, finding) in findings(&verdict) {
                let said = format!("{laws:?}: {checker}: {:?}: {}", finding.whose, finding.sentence);
                assert!(finding.whose != Some(Whose::Library), "{said}");
                if checker == "exclusion" {
                    overlaps += 1;
                    match ended(&simulation, finding) {
                        Some(Ended::RanOut) => assert!(finding.class != "granted-twice", "{said}"),
                        Some(Ended::RanOutEarly | Ended::Forgotten) => {}
                        other => panic!("a right lock ended it by {other:?}: {said}"),
                    }
                }
            }
        }
    }
    assert!(overlaps > 50, "only {overlaps} overlaps were judged");
}

/// Of locks that several may hold, any holder before the last may be the one too many.
#[test]
fn under_faults_a_right_lock_that_is_shared_is_never_to_blame() {
    let mut overlaps = 0;
    for seed in fewer_seeds() {
        for (keeps, shared) in locks().filter(|(_, shared)| *shared != Shared::Mutex) {
            let laws = Laws { seed, keeps, faults: true, mistake: None, outlasts: false, shared };
            let simulation = Simulation::of(laws);
            for (checker, finding) in findings(&check_run(simulation.events())) {
                let said = format!("{laws:?}: {checker}: {:?}: {}", finding.whose, finding.sentence);
                assert!(finding.whose != Some(Whose::Library), "{said}");
                if checker == "exclusion" {
                    overlaps += 1;
                    let cited =
                        simulation.lock.grants.iter().filter(|grant| {
                            grant.recorded.is_some_and(|event| finding.events.contains(&event))
                        });
                    let early = |ended| matches!(ended, Some(Ended::RanOutEarly | Ended::Forgotten));
                    let is_early = cited.clone().any(|grant| early(grant.ended));
                    let is_over = cited.clone().any(|grant| grant.ended == Some(Ended::RanOut));
                    assert!(is_early || is_over, "{said}");
                    assert!(is_early || finding.class != "granted-twice", "{said}");
                }
            }
        }
    }
    assert!(overlaps > 20, "only {overlaps} overlaps were judged");
}

/// Of a lock that looks first whether there is room, and takes it by a second request.
#[test]
fn a_shared_lock_that_looks_first_is_the_librarys_failure() {
    for shared in [Shared::Semaphore, Shared::ReadWrite] {
        let mut shown = 0;
        for seed in fewer_seeds() {
            let mistake = Some(Mistake::LooksFirst);
            let laws = Laws { seed, keeps: Keeps::Lease, faults: false, mistake, outlasts: false, shared };
            let verdict = check_run(Simulation::of(laws).events());
            for (checker, finding) in findings(&verdict) {
                let said = format!("{laws:?}: {checker}: {:?}: {}", finding.whose, finding.sentence);
                assert!(speakers(Mistake::LooksFirst).contains(&checker), "{said}");
                assert_eq!(finding.whose, Some(Whose::Library), "{said}");
            }
            shown += usize::from(findings(&verdict).any(|(checker, _)| checker == "exclusion"));
        }
        let runs = fewer_seeds().count();
        assert!(shown * 4 > runs, "{shared:?} was shown in {shown} of {runs} simulated runs");
    }
}

/// The checkers that may speak of a mistake, the first of which has to where it shows.
fn speakers(mistake: Mistake) -> &'static [&'static str] {
    match mistake {
        Mistake::BlindRelease => &["ownership", "exclusion", "lost-updates", "stale-writes"],
        Mistake::ShortLease | Mistake::LooksFirst => {
            &["exclusion", "lost-updates", "stale-writes", "ownership"]
        }
        Mistake::LeavesTheKey => &["progress", "fairness", "ownership", "vacuous"],
        Mistake::RepeatsTokens => &["fencing"],
        Mistake::LongValidity => &["validity"],
        Mistake::LeavesOneOut => &["fairness"],
        Mistake::RenewsAnothers => &["renewal"],
        Mistake::StopsRenewing => &["exclusion", "renewal", "lost-updates", "stale-writes"],
    }
}

#[test]
fn a_mistake_is_the_librarys_and_breaks_its_own_property_alone() {
    for mistake in MISTAKES {
        let mut shown = 0;
        for seed in seeds() {
            let keeps = if mistake == Mistake::StopsRenewing { Keeps::Renewed } else { Keeps::Lease };
            let outlasts = mistake == Mistake::BlindRelease;
            let shared = Shared::Mutex;
            let laws = Laws { seed, keeps, faults: false, mistake: Some(mistake), outlasts, shared };
            let simulation = Simulation::of(laws);
            let verdict = check_run(simulation.events());
            for (checker, finding) in findings(&verdict) {
                let said = format!("{laws:?}: {checker}: {:?}: {}", finding.whose, finding.sentence);
                assert!(speakers(mistake).contains(&checker), "{said}");
                let is_late = laws.outlasts && finding.whose == Some(Whose::NoFence)
                    // By milliseconds, which a busy machine explains as well.
                    || mistake == Mistake::StopsRenewing && finding.whose == Some(Whose::Machine);
                assert!(finding.whose == Some(Whose::Library) || is_late, "{said}");
                if checker == "exclusion" && !is_late {
                    let ended = ended(&simulation, finding);
                    let mut by_mistake = vec![Ended::RanOutEarly, Ended::Removed, Ended::Overwritten];
                    // It goes on after a lease that was over at its right length.
                    by_mistake.extend((mistake == Mistake::StopsRenewing).then_some(Ended::RanOut));
                    assert!(ended.is_some_and(|ended| by_mistake.contains(&ended)), "{ended:?}: {said}");
                }
            }
            shown += u64::from(findings(&verdict).any(|(checker, _)| checker == speakers(mistake)[0]));
        }
        assert!(
            shown * 4 > seeds().end,
            "{mistake:?} was shown in {shown} of {} simulated runs",
            seeds().end
        );
    }
}

#[test]
fn under_faults_a_mistake_is_never_the_services_alone() {
    for (mistake, keeps) in [
        (Mistake::BlindRelease, Keeps::Lease),
        (Mistake::LooksFirst, Keeps::Lease),
        (Mistake::ShortLease, Keeps::Lease),
        (Mistake::BlindRelease, Keeps::Session),
        (Mistake::RenewsAnothers, Keeps::Renewed),
    ] {
        for seed in seeds() {
            let shared = Shared::Mutex;
            let laws = Laws { seed, keeps, faults: true, mistake: Some(mistake), outlasts: false, shared };
            let simulation = Simulation::of(laws);
            let verdict = check_run(simulation.events());
            for (_, finding) in findings(&verdict).filter(|(checker, _)| *checker == "exclusion") {
                let by_mistake =
                    matches!(ended(&simulation, finding), Some(Ended::Removed | Ended::Overwritten));
                let is_open = finding.whose != Some(Whose::Service) || finding.or.is_some();
                assert!(
                    !by_mistake || is_open,
                    "{laws:?}: {:?}, or {:?}: {}",
                    finding.whose,
                    finding.or,
                    finding.sentence
                );
            }
        }
    }
}

/// Prints the history of one run: `FENCEPOST_KNOWN_RUN=56,Lease,false,BlindRelease,true,Mutex`, with
/// `--ignored --nocapture`.
#[test]
#[ignore = "prints a history for a person"]
fn print_a_run() {
    let text = std::env::var("FENCEPOST_KNOWN_RUN")
        .expect("FENCEPOST_KNOWN_RUN=SEED,KEEPS,FAULTS,MISTAKE,OUTLASTS,SHARED");
    let parts: Vec<&str> = text.split(',').collect();
    let mistake = MISTAKES.into_iter().find(|mistake| format!("{mistake:?}") == parts[3]);
    let kinds = [Keeps::Lease, Keeps::Renewed, Keeps::Session];
    let keeps = kinds.into_iter().find(|keeps| format!("{keeps:?}") == parts[1]).unwrap();
    let (seed, faults, outlasts) = (parts[0].parse().unwrap(), parts[2] == "true", parts[4] == "true");
    let shared = locks().find(|(_, shared)| format!("{shared:?}") == parts[5]).unwrap().1;
    let simulation = Simulation::of(Laws { seed, keeps, faults, mistake, outlasts, shared });
    for event in simulation.events() {
        println!("{}", serde_json::to_string(event).unwrap());
    }
    for grant in &simulation.lock.grants {
        println!("{grant:?}");
    }
    for (checker, finding) in findings(&check_run(simulation.events())) {
        println!("{checker}: {:?} {:?} {:?}", finding.whose, finding.events, finding.sentence);
    }
}
