//! The page and the text of a hunt that was made up.

use super::*;
use crate::findings::{FaultCause, Signature};
use fencepost_history::Seed;
use std::collections::BTreeMap;
use std::path::Path;

fn situation(fault: &str, role: &str, phase: &str, times: u64, nearest_ms: Option<f64>) -> SituationCount {
    SituationCount {
        fault: fault.to_owned(),
        role: role.to_owned(),
        phase: phase.to_owned(),
        times,
        nearest_ms,
        first_ms: (times > 0).then_some(1000 * times),
    }
}

pub(super) fn hunt() -> HuntFile {
    let situations = [
        situation("clock-jump", "granting server", "held", 12, Some(-240.0)),
        situation("clock-jump", "other server", "held", 3, Some(84.0)),
        situation("clock-jump", "other server", "free", 1, None),
        situation("pause", "holder's client", "write in flight", 4, Some(12.0)),
        situation("pause", "waiter's client", "free", 0, None),
    ];
    let name = |each: &SituationCount| format!("{} {} {}", each.fault, each.role, each.phase);
    HuntFile {
        fencepost: "0.1.0".to_owned(),
        command: "fencepost hunt --lock redlock --seed 7".to_owned(),
        started: 1_771_061_415,
        seed: Seed(7),
        lock: "redlock".to_owned(),
        driver: "local".to_owned(),
        options: "--ttl 500ms".to_owned(),
        nemeses: vec!["clock-jump".to_owned(), "pause".to_owned()],
        jobs: 4,
        spent_ms: 61_000,
        schedules: 70,
        failed: 1,
        situations: situations.into_iter().map(|each| (name(&each), each)).collect::<BTreeMap<_, _>>(),
        nearest_miss: Some(NearestMiss {
            ms: 12.0,
            schedule: 9,
            sentence: "c2 was granted k0 12 ms after c1 let go".to_owned(),
        }),
        curve: vec![
            CurvePoint { at_ms: 2000, schedules: 3, covered: 2 },
            CurvePoint { at_ms: 30_000, schedules: 40, covered: 4 },
        ],
        findings: vec![HuntFinding {
            name: "granted-twice-clock-jump".to_owned(),
            signature: Signature {
                checker: "exclusion".to_owned(),
                class: "granted-twice".to_owned(),
                causes: vec![FaultCause {
                    fault: "clock-jump".to_owned(),
                    role: "granting".to_owned(),
                    phase: "held".to_owned(),
                }],
            },
            whose: Some(fencepost_checker::Whose::Service),
            sentence: "Process 4 got the lock while the TTL of process 2 still had 0.1 s to run.".to_owned(),
            found_ms: 12_000,
            schedule: 14,
            times: 9,
            state: FindingState::Minimised,
            compared: None,
            reproduced: Some((9, 10)),
            faults: 1,
            clients: 2,
            run: None,
            command: Some("fencepost scenario findings/granted-twice-clock-jump/scenario.toml".to_owned()),
        }],
        against: None,
        remarks: vec!["schedule 31 failed: n2 did not serve again".to_owned()],
        missing: Vec::new(),
        ended: Some("its time is over".to_owned()),
    }
}

#[test]
fn a_hunt_as_text() {
    insta::assert_snapshot!(markdown(&hunt()));
}

#[test]
fn the_page_names_findings_situations_and_what_they_came_to() {
    let page = html(&hunt(), Path::new("/nowhere"));
    for words in [
        "1 violation in 70 schedules",
        "4 of 5 situations covered (a situation: a fault, its target, and the phase of the lock)",
        "Nearest miss of the schedules without a violation: 12 ms",
        "reproduced in 9 of 10 replays · 1 fault, 2 clients · found after 12 s, in schedule 14",
        "holder&#39;s client",
        "-240 ms",
        "finding 1",
        "n2 did not serve again",
    ] {
        let plain = page.replace("&#39;", "'");
        let words = words.replace("&#39;", "'");
        assert!(plain.contains(&words), "{words} is not on the page");
    }
    assert!(!page.contains("goes on, or was killed"));
}

#[test]
fn a_hunt_that_was_killed_says_so_and_survives_its_file() {
    let killed = HuntFile { ended: None, findings: Vec::new(), ..hunt() };
    assert!(html(&killed, Path::new("/nowhere")).contains("goes on, or was killed"));
    assert_eq!(killed.summary(), "Nothing found against this lock in 70 schedules");
    let text = serde_json::to_string(&killed).unwrap();
    assert_eq!(serde_json::from_str::<HuntFile>(&text).unwrap(), killed);
}

#[test]
fn what_any_lock_shows_is_one_line_and_what_is_its_own_is_a_finding() {
    let mut compared = hunt();
    compared.against = Some(HuntReference { plays: 4, ..HuntReference::new("redis-single".to_owned()) });
    let mut stuck = compared.findings[0].clone();
    stuck.signature.checker = "progress".to_owned();
    stuck.signature.class = "stuck".to_owned();
    compared.findings[0].compared = Some(Compared::OfServers);
    let nothing = "Nothing found against this lock in 70 schedules. 1 violation that redis-single shows too";
    assert_eq!(compared.summary(), nothing);
    assert!(compared.has_violation() && !compared.has_own_violation());
    let shown = html(&compared, Path::new("/nowhere"));
    assert!(shown.contains(nothing) && shown.contains("Situations that were not reached remain untested."));
    stuck.compared = Some(Compared::Own);
    stuck.state = FindingState::Rare;
    compared.findings.push(stuck.clone());
    assert!(!compared.has_own_violation(), "it may be of the servers");
    assert!(compared.summary().starts_with("1 violation not decided, in 70 schedules"));
    let undecided = compared.undecided().unwrap();
    assert!(undecided.contains("to say whether redis-single shows it, too: stuck (progress)"), "{undecided}");
    stuck.whose = Some(fencepost_checker::Whose::Library);
    compared.findings[1] = stuck;
    assert_eq!(compared.undecided(), None);
    let both = "1 violation that redis-single does not show, in 70 schedules. 1 violation that redis-single shows too";
    assert_eq!(compared.summary(), both);
    assert!(compared.has_own_violation());
    insta::assert_snapshot!(markdown(&compared));
    let page = html(&compared, Path::new("/nowhere"));
    assert!(
        page.contains("What the reference shows too") && page.contains("not specific to this lock"),
        "{page}"
    );
}

#[test]
fn harm_that_follows_from_a_lock_granted_twice_is_no_violation_of_its_own() {
    let mut hunt = hunt();
    hunt.against = Some(HuntReference::new("redis-single".to_owned()));
    let mut twice = hunt.findings[0].clone();
    twice.compared = Some(Compared::Own);
    twice.whose = Some(fencepost_checker::Whose::Library);
    let mut lost = twice.clone();
    (lost.signature.checker, lost.signature.class) = ("lost-updates".to_owned(), "lost-update".to_owned());
    hunt.findings = vec![lost, twice];
    assert_eq!(hunt.summary(), "1 violation that redis-single does not show, in 70 schedules");
    let groups = hunt.groups();
    assert_eq!(groups[0].example.signature.class, "granted-twice");
    assert!(
        groups[0].also_under().unwrap().starts_with("What follows from it: lost update"),
        "{:?}",
        groups[0].also_under()
    );
    // A hunt that ended before it could compare says nothing of what the servers' faults may explain.
    let mut early = hunt.clone();
    (early.findings[1].compared, early.findings[1].whose) = (None, Some(fencepost_checker::Whose::Service));
    assert_eq!(early.summary(), "1 violation that redis-single does not show, in 70 schedules");
    assert!(early.undecided().unwrap().contains("granted twice"));
    // Nor does one that is small, and that the reference could not play.
    early.findings[1].state = FindingState::Minimised;
    early.findings[1].compared = Some(Compared::Unknown);
    assert!(early.undecided().unwrap().contains("granted twice"));
}

#[test]
fn a_finding_that_is_gone_is_no_violation() {
    let mut hunt = hunt();
    hunt.findings[0].state = FindingState::Gone;
    hunt.against = Some(HuntReference::new("redis-single".to_owned()));
    assert!(!hunt.has_violation());
    assert_eq!(hunt.summary(), "Nothing found against this lock in 70 schedules");
    assert_eq!(hunt.worth(), HuntWorth::NothingFound);
}

#[test]
fn a_violation_before_the_first_schedule_is_not_counted_by_schedules() {
    let first = HuntFile { schedules: 0, situations: BTreeMap::new(), nearest_miss: None, ..hunt() };
    assert_eq!(first.summary(), "1 violation before the first schedule");
    assert_eq!(first.coverage(), "");
    let page = html(&first, Path::new("/nowhere"));
    assert!(!page.contains("schedules a minute") && !page.contains("situations of"), "{page}");
    let empty = HuntFile { findings: Vec::new(), ..first };
    assert_eq!(empty.summary(), "Nothing was tested");
}

#[test]
fn the_curve_keeps_the_ends_of_a_flat_stretch() {
    let mut hunt = hunt();
    hunt.curve.clear();
    for spent_ms in [1, 2, 3, 4] {
        hunt.spent_ms = spent_ms;
        hunt.note_coverage();
    }
    let times: Vec<u64> = hunt.curve.iter().map(|point| point.at_ms).collect();
    assert_eq!(times, [1, 4]);
}

#[test]
fn parts_are_added_up_and_findings_of_one_signature_are_one() {
    let (mut one, mut two) = (hunt(), hunt());
    one.findings[0].state = FindingState::Found;
    two.findings[0].state = FindingState::Minimised;
    two.findings[0].times = 5;
    two.findings[0].found_ms = 1;
    (two.spent_ms, two.schedules) = (90_000, 100);
    let extra =
        SituationCount { first_ms: Some(80_000), ..situation("kill", "leader", "held", 1, Some(3.0)) };
    two.situations.insert("kill leader held".to_owned(), extra);
    let parts = BTreeMap::from([(1, one.clone()), (3, two)]);
    let whole = merged(&parts, |part, finding| Some(format!("parts/{part}/{}", finding.name))).unwrap();
    assert_eq!((whole.schedules, whole.spent_ms, whole.jobs), (170, 90_000, 8));
    let times = |name: &str| whole.situations[name].times;
    assert_eq!((times("clock-jump granting server held"), times("kill leader held")), (24, 1));
    assert_eq!((whole.covered(), whole.possible()), (one.covered() + 1, one.possible() + 1));
    let [finding] = &whole.findings[..] else { panic!("{:?}", whole.findings) };
    assert_eq!(
        (finding.state, finding.times, finding.found_ms),
        (FindingState::Minimised, one.findings[0].times + 5, 1)
    );
    assert_eq!(finding.run.as_deref(), Some("parts/3/granted-twice-clock-jump"));
    let covered: Vec<(u64, u64)> = whole.curve.iter().map(|point| (point.at_ms, point.covered)).collect();
    assert_eq!(covered, [(1000, 1), (3000, 2), (4000, 3), (12_000, 4), (80_000, 5), (90_000, 5)]);
    assert_eq!(merged(&BTreeMap::new(), |_, _| None), None);
}

#[test]
fn a_picture_from_elsewhere_runs_no_scripts_and_a_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let plots = folder.path().join("run/plots");
    std::fs::create_dir_all(&plots).unwrap();
    std::fs::write(plots.join("violation.svg"), "<svg><script>alert(1)</script></svg>").unwrap();
    let mut hunt = hunt();
    hunt.findings[0].run = Some("run".to_owned());
    let page = html(&hunt, folder.path());
    assert!(page.contains("<img src=\"data:image/svg+xml;base64,") && !page.contains("alert(1)"));
    std::fs::remove_file(plots.join("violation.svg")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", plots.join("violation.svg")).unwrap();
    assert!(!html(&hunt, folder.path()).contains("<img"));
}
