//! Comparisons of fixture runs, in every form.

use super::baseline::{SameRow, changes};
use super::existing::of_runs;
use super::model::{Cell, Comparison, MadeRun, Outcomes, cell};
use super::{csv, junit, markdown, page, tables, terminal};
use crate::runs::{Judgement, Run, State};
use fencepost_checker::{
    Costs, Finding, Harm, LostUpdatesFigures, MissKind, Outcome, RunVerdict, Verdict, Whose, registry,
};
use fencepost_history::{Seed, shell_path};
use std::path::{Path, PathBuf};

/// A run that was judged: outcomes of the checkers, and lost of acknowledged updates.
fn run(lock: &str, guard: &str, nemesis: &str, verdicts: &[(&str, Outcome)], lost: (u64, u64)) -> Run {
    let verdicts = verdicts.iter().map(|(checker, outcome)| {
        let summary = format!("{checker} came to {outcome}");
        let verdict = Verdict::new(checker, *outcome, summary).with_figures(&LostUpdatesFigures {
            lost: lost.0,
            acknowledged: lost.1,
            ..LostUpdatesFigures::default()
        });
        // What redlock violates here is its service's failure, and everything else comes of late writes.
        let whose = if lock == "redlock" { Whose::Service } else { Whose::NoFence };
        let finding = Finding { whose: Some(whose), ..Finding::default() };
        match outcome {
            Outcome::Violation => {
                let own = registry().iter().find(|known| known.name == *checker).expect("a checker").harm;
                let verdict = verdict.with_findings(vec![finding]);
                Verdict { whose: vec![whose], harms: vec![whose.harm(own)], ..verdict }
            }
            _ => verdict,
        }
    });
    let costs = Costs {
        acquisitions: 100,
        acquisitions_per_s: 20.0,
        acquire_median_ms: Some(1.25),
        acquire_p99_ms: Some(140.0),
        recovery_ms: (nemesis != "none").then_some(1500.0 + lost.0 as f64),
    };
    let verdict = RunVerdict { costs: Some(costs), ..RunVerdict::of(verdicts.collect()) };
    let judgement: Judgement = serde_json::from_str(&serde_json::to_string(&verdict).unwrap()).unwrap();
    let mut file = crate::fixtures::run_file();
    let spec = &mut file.spec;
    spec.lock = lock.to_owned();
    spec.guard = guard.to_owned();
    spec.nemesis = Some(nemesis).filter(|name| *name != "none").map(str::to_owned).into_iter().collect();
    spec.seed = Seed(7 + lost.0);
    file.command = format!("fencepost test --lock {lock} --seed {}", file.spec.seed);
    file.servers = vec![format!("{lock} 1.0 on n1, n2")];
    let name = format!("{lock}-{guard}-{nemesis}-{}", file.spec.seed);
    Run {
        path: PathBuf::from("/nowhere").join(&name),
        name,
        state: State::Judged(Box::new(file), judgement.into()),
    }
}

const ORDER: [&str; 2] = ["clock-jump", "pause"];

const HELD: [(&str, Outcome); 3] =
    [("exclusion", Outcome::Valid), ("lost-updates", Outcome::Valid), ("vacuous", Outcome::Valid)];
const BROKEN: [(&str, Outcome); 3] =
    [("exclusion", Outcome::Violation), ("lost-updates", Outcome::Violation), ("vacuous", Outcome::Valid)];
const UNTESTED: [(&str, Outcome); 3] =
    [("exclusion", Outcome::Valid), ("lost-updates", Outcome::Valid), ("vacuous", Outcome::Vacuous)];
const UNDECIDED: [(&str, Outcome); 3] =
    [("exclusion", Outcome::Valid), ("lost-updates", Outcome::Unknown), ("vacuous", Outcome::Valid)];

fn some_runs() -> Vec<Run> {
    vec![
        run("redlock", "none", "clock-jump", &BROKEN, (4, 100)),
        run("redlock", "none", "clock-jump", &HELD, (0, 100)),
        run("redlock", "none", "none", &HELD, (0, 120)),
        run("redlock", "none", "pause", &UNTESTED, (0, 50)),
        run("etcd", "token", "clock-jump", &HELD, (0, 80)),
        run("etcd", "token", "clock-jump", &UNTESTED, (1, 80)),
        run("etcd", "token", "pause", &UNDECIDED, (0, 70)),
    ]
}

fn some() -> Comparison {
    let mut comparison = of_runs(&some_runs(), &ORDER);
    comparison.rows[0].cells[0] =
        Cell { not_applicable: Some("there is no such thing".to_owned()), ..Cell::default() };
    comparison.rows[1].cells[2].failures = vec!["the engine is gone".to_owned()];
    comparison.command = "fencepost compare --seed 7".to_owned();
    comparison
}

fn cell_of(runs: &[Run]) -> Cell {
    cell(runs.iter().filter_map(MadeRun::of).collect())
}

fn outcomes(runs: &[Run]) -> (Outcomes, Outcomes) {
    let all = cell_of(runs);
    let exclusion = all.properties.iter().find(|kept| kept.checker == "exclusion").unwrap();
    (all.outcomes, exclusion.outcomes)
}

#[test]
fn a_property_is_violated_if_it_was_once_and_holds_only_where_it_was_tested() {
    let of = |verdicts: &[(&str, Outcome)]| run("redlock", "none", "pause", verdicts, (0, 10));
    let (all, exclusion) = outcomes(&[of(&HELD), of(&BROKEN), of(&UNDECIDED)]);
    assert_eq!((all.outcome(), all.violation, all.runs()), (Some(Outcome::Violation), 1, 3));
    assert_eq!((exclusion.outcome(), exclusion.valid), (Some(Outcome::Violation), 2));
    let (all, exclusion) = outcomes(&[of(&HELD), of(&UNDECIDED)]);
    assert_eq!((all.outcome(), exclusion.outcome()), (Some(Outcome::Unknown), Some(Outcome::Valid)));
    let (_, exclusion) = outcomes(&[of(&UNTESTED), of(&UNTESTED)]);
    assert_eq!((exclusion.outcome(), exclusion.valid), (Some(Outcome::Vacuous), 0));
    let (_, exclusion) = outcomes(&[of(&UNTESTED), of(&HELD)]);
    assert_eq!((exclusion.outcome(), exclusion.vacuous), (Some(Outcome::Valid), 1));
    assert_eq!(Outcomes::default().outcome(), None);
}

/// Three runs of a bad lock and of the reference, with the nemesis in which they differ.
fn against_a_reference() -> Comparison {
    let of = |lock: &str, nemesis: &str, verdicts: &[(&str, Outcome)]| {
        (0..3).map(|lost| run(lock, "none", nemesis, verdicts, (lost, 10))).collect::<Vec<_>>()
    };
    let runs = [
        of("redlock", "clock-jump", &BROKEN),
        of("redlock", "pause", &HELD),
        of("coredis", "clock-jump", &HELD),
        // Late writes, which do not count.
        of("coredis", "pause", &BROKEN),
        of("etcd", "pause", &UNTESTED),
    ];
    let mut comparison = of_runs(&runs.concat(), &ORDER);
    comparison.against = Some("coredis".to_owned());
    comparison.compare_with_reference();
    comparison
}

#[test]
fn each_lock_stands_beside_the_reference_in_every_form() {
    let comparison = against_a_reference();
    console::set_colors_enabled(false);
    let text = terminal::text(&comparison);
    let lines = |name: &str| text.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect();
    let section: Vec<String> =
        text.lines().skip_while(|line| *line != "Against coredis").map(str::to_owned).collect();
    assert!(
        section.contains(&"redlock  clock-jump  worse         3 of 3 against 0 of 3  +21 to +100".to_owned()),
        "{text}"
    );
    assert!(
        section.contains(&"redlock  pause       equal         0 of 3 against 0 of 3  -56 to +56".to_owned()),
        "{text}"
    );
    assert!(section.contains(&"etcd     pause       not compared".to_owned()), "{text}");
    let all: Vec<String> = lines("coredis  ");
    assert!(all.iter().all(|line| !line.contains("against")), "the reference is not compared with itself");
    let text = markdown::text(&comparison);
    assert!(text.contains("### Against coredis\n"), "{text}");
    assert!(
        text.contains("| `redlock` | clock-jump | worse | 3 of 3 against 0 of 3 | +21 to +100 |"),
        "{text}"
    );
    let page = page::html(&comparison, Path::new(""));
    assert!(page.contains("<h2>Against coredis</h2>"), "{page}");
    assert!(page.contains(r#"<span class="chip violation">worse</span>"#), "{page}");
    let json = serde_json::to_value(&comparison).unwrap();
    assert_eq!(json["against"], "coredis");
    let redlock = json["rows"].as_array().unwrap().iter().find(|row| row["lock"] == "redlock").unwrap();
    assert_eq!(redlock["cells"][0]["against"]["standing"], "worse");
    assert_eq!(redlock["cells"][0]["against"]["rate"]["violations"], 3);
}

#[test]
fn a_cell_says_what_its_violations_mean_and_the_best_lock_stands_first() {
    let stuck: [(&str, Outcome); 2] = [("progress", Outcome::Violation), ("vacuous", Outcome::Valid)];
    let mut runs = some_runs();
    runs.push(run("coredis", "none", "pause", &BROKEN, (2, 44)));
    runs.push(run("coredis", "token", "pause", &HELD, (0, 44)));
    runs.push(run("redlock", "none", "pause", &stuck, (9, 50)));
    let comparison = of_runs(&runs, &ORDER).best_first();
    let order: Vec<String> = comparison.rows.iter().map(|row| comparison.label(row)).collect();
    assert_eq!(order, ["etcd, guard token", "coredis", "coredis, guard token", "redlock"]);
    let worst: Vec<Option<Harm>> = comparison.rows.iter().map(super::model::Row::worst).collect();
    assert_eq!(worst, [None, Some(Harm::Unfenced), None, Some(Harm::GrantedTwice)]);
    console::set_colors_enabled(false);
    let text = terminal::text(&comparison);
    for line in [
        "  ✗ granted twice: two processes had the lock at once, and neither overstayed",
        "coredis               ·               ·                    △ no fence 1/1",
        "redlock               ✓ holds (weak)  ✗ granted twice 1/2  ■ stuck 1/2",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    let ending =
        "violated in 3 (granted twice in 1, stuck in 1, no fence in 1), 1 not decided or not tested.";
    assert!(text.contains(ending), "{text}");
}

#[test]
fn shares_are_of_all_runs_together_and_costs_are_medians() {
    let runs = [
        run("redlock", "none", "pause", &BROKEN, (9, 50)),
        run("redlock", "none", "pause", &BROKEN, (9, 50)),
        run("redlock", "none", "pause", &UNDECIDED, (7, 10)),
    ];
    let cell = cell_of(&runs);
    let lost = cell.lost.unwrap();
    assert_eq!((lost.lost, lost.acknowledged), (18, 100), "what is unknown is not counted");
    let [low, high] = lost.share.interval.unwrap();
    assert!((low - 11.7).abs() < 0.05 && (high - 26.7).abs() < 0.05, "{low} {high}");
    let costs = cell.costs.unwrap();
    assert_eq!((costs.acquire_median_ms, costs.recovery_ms), (Some(1.25), Some(1509.0)));
}

/// Runs that held, each of which covered these of four situations, with a nearest miss of so many
/// milliseconds.
fn runs_that_held(covered: &[&[usize]], miss_ms: i64) -> Vec<Run> {
    let phases = ["held", "writing", "renewing", "releasing"];
    let covered = covered.iter().enumerate().map(|(number, covered)| {
        let row = |(place, phase): (usize, &&str)| {
            let times = usize::from(covered.contains(&place));
            serde_json::json!({"fault": "pause", "role": "holder", "phase": phase, "times": times})
        };
        let rows: Vec<serde_json::Value> = phases.iter().enumerate().map(row).collect();
        let event = |process| serde_json::json!({"index": 1, "time_ns": 1, "process": process});
        let miss = serde_json::json!({
            "kind": "belief", "key": "k0", "distance_ns": (miss_ms + number as i64) * 1_000_000,
            "earlier": event(1), "grant": event(2),
        });
        let mut run = run("redlock", "none", "pause", &HELD, (0, 10));
        let State::Judged(_, judgement) = &mut run.state else { unreachable!() };
        let judgement = std::sync::Arc::make_mut(judgement);
        judgement.coverage = Some(serde_json::from_value(rows.into()).unwrap());
        judgement.nearest_miss = Some(serde_json::from_value(miss).unwrap());
        run
    });
    covered.collect()
}

#[test]
fn a_cell_is_weak_with_few_runs_or_few_situations() {
    let weak = |covered: &[&[usize]]| {
        let runs = runs_that_held(covered, 84);
        cell_of(&runs).weak().join(", ")
    };
    assert_eq!(weak(&[&[0], &[1], &[], &[], &[]]), "");
    assert_eq!(weak(&[&[0], &[0], &[], &[], &[]]), "1 of 4 situations");
    assert_eq!(weak(&[&[0, 1, 2, 3]]), "one run");
    assert_eq!(weak(&[&[], &[], &[0], &[]]), "4 runs, 1 of 4 situations");
    let uncounted = [run("redlock", "none", "pause", &HELD, (0, 10))];
    assert_eq!(cell_of(&uncounted).weak(), ["one run", "situations were not counted"]);
    let broken = [run("redlock", "none", "pause", &BROKEN, (0, 10))];
    assert!(cell_of(&broken).weak().is_empty());
}

#[test]
fn the_worth_of_a_cell_is_that_of_all_its_runs() {
    let mut runs = runs_that_held(&[&[0], &[1], &[1]], 84);
    let confidence = |runs: &[Run]| cell_of(runs).confidence.unwrap();
    let held = confidence(&runs);
    assert_eq!((held.covered, held.possible), (2, 4));
    assert_eq!(held.nearest_miss.unwrap().distance_ns, 84_000_000);
    assert_eq!((held.rate_bound.unwrap() * 100.0).round(), 63.0);
    runs.push(run("redlock", "none", "pause", &BROKEN, (0, 10)));
    assert_eq!((confidence(&runs).rate_bound, confidence(&runs).covered), (None, 2));
    assert_eq!(confidence(&runs[..2]).rate_bound, None);
}

#[test]
fn a_late_write_is_no_negative_miss_beside_a_lock_that_held() {
    console::set_colors_enabled(false);
    let mut runs = runs_that_held(&[&[0]], -44);
    let State::Judged(_, judgement) = &mut runs[0].state else { unreachable!() };
    std::sync::Arc::make_mut(judgement).nearest_miss.as_mut().unwrap().kind = MissKind::Write;
    let text = terminal::text(&of_runs(&runs, &ORDER));
    assert!(text.contains("\nredlock  write in flight 44 ms\n") && !text.contains("-44"), "{text}");
}

#[test]
fn a_strong_cell_and_a_property_that_no_run_judged_are_shown_as_such() {
    console::set_colors_enabled(false);
    let mut runs = runs_that_held(&[&[0], &[1], &[2], &[], &[]], 84);
    for run in &mut runs {
        let State::Judged(_, judgement) = &mut run.state else { unreachable!() };
        let unjudged = serde_json::json!([{"checker": "fencing", "reason": "the lock gives no tokens"}]);
        std::sync::Arc::make_mut(judgement).not_judged = serde_json::from_value(unjudged).unwrap();
    }
    insta::assert_snapshot!(terminal::text(&of_runs(&runs, &ORDER)));
}

#[test]
fn on_the_terminal() {
    console::set_colors_enabled(false);
    insta::assert_snapshot!(terminal::text(&some()));
}

#[test]
fn properties_that_held_everywhere_are_named_in_a_line_on_the_terminal() {
    console::set_colors_enabled(false);
    let text = terminal::text(&of_runs(&[run("redlock", "none", "pause", &HELD, (0, 10))], &ORDER));
    assert!(text.contains("\nHeld wherever they were tested: mutual exclusion, the data.\n"), "{text}");
}

#[test]
fn names_of_others_stay_text_in_markdown() {
    let mut comparison = some();
    let hostile = "<img src=x onerror=alert(1)>|\n# b".to_owned();
    comparison.rows[0].lock.clone_from(&hostile);
    comparison.rows[0].servers.push(hostile.clone());
    comparison.nemeses[0].clone_from(&hostile);
    comparison.command = format!("fencepost compare --locks '{hostile}'");
    comparison.left_out.push(hostile.clone());
    let text = markdown::text(&comparison);
    let outside = |line: &str| line.split('`').step_by(2).any(|part| part.contains("<img"));
    assert!(!text.lines().any(outside), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("# b")), "{text}");
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let table = text.lines().filter(|line| line.starts_with('|'));
    let widths: std::collections::BTreeSet<usize> = table.map(cells).collect();
    assert_eq!(widths.len(), 1, "{text}");
}

#[test]
fn as_markdown() {
    insta::assert_snapshot!(markdown::text(&some()));
}

#[test]
fn as_json_and_back() {
    let json = serde_json::to_string_pretty(&some()).unwrap();
    let json = json.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    let again: Comparison = serde_json::from_str(&json).unwrap();
    assert_eq!(markdown::text(&again), markdown::text(&some()));
    insta::assert_snapshot!(json);
}

#[test]
fn as_csv() {
    let mut text = Vec::new();
    csv::write(&some(), &mut text).unwrap();
    insta::assert_snapshot!(String::from_utf8(text).unwrap());
}

#[test]
fn as_junit() {
    insta::assert_snapshot!(
        crate::pipeline::junit::xml("fencepost compare", &junit::suites(&some())).unwrap()
    );
}

#[test]
fn as_a_page_that_links_to_the_reports_that_there_are() {
    let results = tempfile::tempdir().unwrap();
    let mut runs = some_runs();
    for run in &mut runs[..2] {
        run.path = results.path().join(&run.name);
        std::fs::create_dir(&run.path).unwrap();
    }
    std::fs::write(runs[0].path.join("report.html"), "").unwrap();
    let folder = results.path().join("compare");
    std::fs::create_dir(&folder).unwrap();
    let page = page::html(&of_runs(&runs, &ORDER), &folder);
    assert!(page.contains(&format!("href=\"../{}/report.html\"", runs[0].name)), "{page}");
    assert_eq!(page.matches("report.html").count(), 1, "no dead links");
    assert!(!page.contains(results.path().to_str().unwrap()), "no path of this machine");
    assert!(page.contains("mutual exclusion"));
    assert!(page.contains("chip valid weak"), "{page}");
    let next = tables::next(&of_runs(&runs, &ORDER));
    assert_eq!(next, format!("fencepost explain {}", shell_path(&runs[0].path)));
    assert!(page::html(&of_runs(&runs, &ORDER), Path::new("")).contains("<!DOCTYPE html>"));
}

#[test]
fn tells_what_got_worse_and_what_got_better() {
    let before = of_runs(
        &[
            run("redlock", "none", "pause", &HELD, (0, 10)),
            run("etcd", "none", "pause", &BROKEN, (1, 10)),
            run("etcd", "none", "none", &HELD, (0, 10)),
            run("etcd", "token", "none", &HELD, (0, 10)),
        ],
        &ORDER,
    );
    let now = of_runs(
        &[
            run("redlock", "none", "pause", &BROKEN, (2, 10)),
            run("etcd", "none", "pause", &HELD, (0, 10)),
            run("etcd", "none", "none", &UNTESTED, (0, 10)),
            run("etcd", "unique", "none", &BROKEN, (3, 10)),
        ],
        &ORDER,
    );
    insta::assert_snapshot!(changes(&before, &now, SameRow::Exactly).lines().join("\n"));
    assert!(changes(&before, &before, SameRow::Exactly).worse.is_empty());
    assert_eq!(changes(&now, &now, SameRow::Exactly).lines().len(), 1);
}

#[test]
fn an_upgrade_is_compared_with_the_version_before() {
    let on =
        |lock: &str, properties, lost| of_runs(&[run(lock, "none", "clock-jump", properties, lost)], &ORDER);
    let before = on("etcd@3.4", &BROKEN, (1, 10));
    let now = on("etcd@etcd-3.5", &HELD, (0, 10));
    assert!(changes(&before, &now, SameRow::Exactly).better.is_empty());
    let better = changes(&before, &now, SameRow::AcrossVersions).better;
    assert!(
        better[0].contains("was violated in 1 of 1 run (5 to 100 %), and is now in 0 of 1 run"),
        "{better:?}"
    );
}

#[test]
fn runs_of_other_settings_are_another_row_and_what_cannot_be_read_is_said() {
    let mut runs = some_runs();
    runs.truncate(2);
    if let State::Judged(file, _) = &mut runs[1].state {
        file.settings = "--ttl 500ms".to_owned();
    }
    runs.push(Run {
        name: "x".into(),
        path: "/nowhere/x".into(),
        state: State::Damaged("it is gone".to_owned()),
    });
    let comparison = of_runs(&runs, &ORDER);
    let labels: Vec<String> = comparison.rows.iter().map(|row| comparison.label(row)).collect();
    assert_eq!(labels, ["redlock", "redlock --ttl 500ms"]);
    assert_eq!(comparison.left_out, ["x: it is gone"]);
}
