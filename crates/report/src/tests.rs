//! Whole reports from small and from large histories.

use crate::fixtures::{Fixture, etcd_pause_token, redis_single_none, redlock_clock_jump, run_file};
use crate::judge;
use crate::page::page;
use crate::pictures::{RunPictures, canvas, plots};
use crate::shown_findings::{findings, groups};
use crate::synthetic::{SyntheticSize, redlock};
use fencepost_checker::{ExclusionFigures, Outcome, RunIndex, check_index, overlaps};
use fencepost_history::run::RunFolder;
use std::collections::BTreeMap;

fn report(fixture: &Fixture) -> String {
    let run = RunIndex::new(&fixture.events).unwrap();
    let overlaps = overlaps(&run);
    let whole = RunPictures::draw(&run, &overlaps, &[]);
    page(&fixture.heading, &run, &check_index(&run), &overlaps, &whole)
}

fn drawn(fixture: &Fixture) -> BTreeMap<String, String> {
    let run = RunIndex::new(&fixture.events).unwrap();
    let whole = RunPictures::draw(&run, &overlaps(&run), &[]);
    let plots = plots(&run, &check_index(&run), &whole).into_iter();
    let svgs = plots.filter(|(name, _)| name.ends_with(".svg"));
    svgs.map(|(name, svg)| (name, String::from_utf8(svg).unwrap())).collect()
}

/// All text of a picture, as it stands.
fn texts(svg: &str) -> Vec<&str> {
    svg.split("<text")
        .skip(1)
        .map(|text| text.split('>').nth(1).unwrap().split('<').next().unwrap().trim())
        .collect()
}

#[test]
fn every_run_has_its_pictures() {
    let names = |fixture: &Fixture| drawn(fixture).into_keys().collect::<Vec<_>>();
    let all = ["latency.svg", "rate.svg", "timeline.svg", "violation.svg"];
    assert_eq!(names(&redlock_clock_jump()), all);
    assert_eq!(names(&etcd_pause_token()), all);
    assert_eq!(names(&redis_single_none()), all[..3]);
}

#[test]
fn the_page_names_the_data_that_was_kept_and_only_that() {
    let mut fixture = redlock_clock_jump();
    assert!(!report(&fixture).contains("The data of the servers"));
    let folder = tempfile::tempdir().unwrap();
    let run = RunFolder::create(folder.path(), &run_file().spec).unwrap();
    for name in ["data/n2.tar.gz", "data/n1.tar.gz"] {
        run.write(name, b"").unwrap();
    }
    fixture.heading.data = crate::heading::kept_data(&run);
    let page = report(&fixture);
    assert!(page.contains(r#"<a href="data/n1.tar.gz">n1</a> <a href="data/n2.tar.gz">n2</a>"#));
    assert!(page.contains("tar xzf data/n1.tar.gz"));
}

#[test]
fn the_drawing_of_a_violation_shows_who_what_and_why() {
    let plots = drawn(&redlock_clock_jump());
    let texts = texts(&plots["violation.svg"]);
    for text in [
        "process 3",
        "process 7",
        "got k0 at 0.131 s from n1, n2, n3",
        "got k0 at 0.172 s from n3, n4, n5",
        "both hold k0 for 59 ms",
        "n3 clock +60.0 s",
        "n5",
        "wrote 42",
        "42 again, from process 7: an update is lost",
        "promised until 2.146 s →",
    ] {
        assert!(texts.contains(&text), "{text} is not in {texts:#?}");
    }
}

#[test]
fn the_drawing_of_a_late_write_says_that_it_was_rejected() {
    let plots = drawn(&etcd_pause_token());
    let texts = texts(&plots["violation.svg"]);
    for text in [
        "got k0 at 0.009 s, token 33",
        "write of 8 rejected: stale-token",
        "c1 stopped",
        "promised until 1.002 s",
    ] {
        assert!(texts.contains(&text), "{text} is not in {texts:#?}");
    }
}

#[test]
fn nothing_is_drawn_outside_of_a_picture() {
    for fixture in [redlock_clock_jump(), etcd_pause_token(), redis_single_none()] {
        for (name, svg) in drawn(&fixture) {
            let width = number(&svg, " width=\"");
            for element in svg.split('<').filter(|element| element.starts_with("text")) {
                let (x, text) = (number(element, " x=\""), element.split('>').nth(1).unwrap().trim());
                let length = f64::from(canvas::text_width(text, number(element, "font-size=\"")));
                let (left, right) = match element {
                    _ if element.contains("\"end\"") => (x - length, x),
                    _ if element.contains("\"middle\"") => (x - length / 2.0, x + length / 2.0),
                    _ => (x, x + length),
                };
                assert!(left >= 0.0 && right <= width, "{name}: {text} reaches from {left} to {right}");
            }
        }
    }
}

fn number(text: &str, before: &str) -> f64 {
    text.split_once(before).unwrap().1.split('"').next().unwrap().parse().unwrap()
}

#[test]
fn the_page_needs_nothing_else_and_says_everything() {
    let page = report(&redlock_clock_jump());
    for outside in ["src=", "href=\"http", "href=\"/", "@import", "url(", "fetch("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<svg ").count(), 4);
    for text in [
        "The lock did not hold: once redlock gave it to two processes at the same time, and 1 of 3 updates was lost",
        "granted twice at 0.172 s, lock k0",
        "fencepost test --lock redlock --nemesis clock-jump --guard none --seed 7",
        "the clock of n3 jumped forward by 60.002 s",
        "Redis 7.0.15",
    ] {
        assert!(page.contains(text), "{text}");
    }
    // What a foreign client wrote into its history is text, not markup.
    let mut foreign = redlock_clock_jump();
    foreign.heading.lock = "<script>alert".to_owned();
    assert!(!report(&foreign).contains("<script>alert"));
}

#[test]
fn an_empty_history_has_a_report_too() {
    let empty = Fixture { events: Vec::new(), ..redlock_clock_jump() };
    assert!(report(&empty).contains("proves nothing") || report(&empty).contains("It is unknown"));
    assert_eq!(drawn(&empty).len(), 3);
}

#[test]
fn a_run_that_has_not_come_to_its_end_says_so() {
    let mut fixture = redlock_clock_jump();
    let unfinished = "This run has not come to its end";
    assert!(!report(&fixture).contains(unfinished));
    let closing = fixture.events.iter().position(|event| *event.value == "closing").unwrap();
    fixture.events.truncate(closing);
    assert!(report(&fixture).contains(unfinished));
}

#[test]
fn every_violation_of_a_class_is_named_and_the_first_ones_are_drawn() {
    let size = SyntheticSize { processes: 30, keys: 4, seconds: 20, hold_ms: 10, unsure: 0 };
    let fixture = Fixture { events: redlock(size), ..redlock_clock_jump() };
    let run = RunIndex::new(&fixture.events).unwrap();
    let verdict = check_index(&run);
    let granted_twice = verdict.figures::<ExclusionFigures>().unwrap().granted_twice;
    assert!(granted_twice > 3, "{granted_twice}");
    let groups = groups(&run, &verdict, 3);
    assert_eq!(groups[0].len(), 3);
    assert!(groups[0].iter().all(|shown| shown.finding.class == "granted-twice"));
    let page = report(&fixture);
    for finding in findings(&verdict) {
        let sentence = finding.sentence.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        assert!(page.contains(&sentence), "{sentence}");
    }
}

#[test]
fn a_large_run_makes_a_small_page() {
    let events = redlock(SyntheticSize { processes: 30, keys: 4, seconds: 100, hold_ms: 10, unsure: 200 });
    assert!(events.len() > 100_000, "{} events", events.len());
    let page = report(&Fixture { events, ..redlock_clock_jump() });
    assert!(page.len() < 4_000_000, "{} bytes", page.len());
}

#[test]
#[ignore = "draws reports for looking at, into the folder that FENCEPOST_LOOK names"]
fn draws_reports_for_looking_at() {
    let folder = std::env::var("FENCEPOST_LOOK").expect("FENCEPOST_LOOK names no folder");
    let simulated = |size| Fixture { events: redlock(size), ..redlock_clock_jump() };
    let usual = SyntheticSize { processes: 10, keys: 1, seconds: 20, hold_ms: 60, unsure: 40 };
    let large = SyntheticSize { processes: 30, keys: 8, seconds: 600, hold_ms: 10, unsure: 500 };
    let crowd = SyntheticSize { processes: 200, keys: 20, seconds: 30, hold_ms: 30, unsure: 300 };
    let fixtures = [
        ("redlock", redlock_clock_jump()),
        ("etcd", etcd_pause_token()),
        ("redis", redis_single_none()),
        ("usual", simulated(usual)),
        ("crowd", simulated(crowd)),
        ("large", simulated(large)),
    ];
    for (name, fixture) in fixtures {
        let begin = std::time::Instant::now();
        let page = report(&fixture);
        let (events, bytes) = (fixture.events.len(), page.len());
        println!("{name}: {events} events, {bytes} bytes, {:?}", begin.elapsed());
        std::fs::write(format!("{folder}/{name}.html"), page).unwrap();
        for (plot, svg) in drawn(&fixture) {
            std::fs::write(format!("{folder}/{name}-{plot}"), svg).unwrap();
        }
    }
}

#[test]
fn any_key_is_drawn() {
    let long = "k".repeat(150);
    for key in [long.as_str(), "täglich/überall", "<script>alert()</script>", "&amp;\"'", ""] {
        let mut fixture = redlock_clock_jump();
        for event in fixture.events.iter_mut().filter(|event| event.key.is_some()) {
            event.key = Some(key.into());
        }
        let page = report(&fixture);
        assert!(!page.contains("<script>alert"), "{key:?}");
        let violation = &drawn(&fixture)["violation.svg"];
        assert!(!violation.contains("<script>"), "{key:?}");
    }
}

#[test]
fn a_verdict_stands_when_its_report_cannot_be_written() {
    let results = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(results.path(), &run_file().spec).unwrap();
    folder.write_run(&run_file()).unwrap();
    folder.write("history.jsonl", include_bytes!("fixtures/redlock-clock-jump.jsonl")).unwrap();
    std::fs::remove_dir(folder.path.join("plots")).unwrap();
    let judged = judge(&folder).unwrap();
    assert_eq!((judged.verdict.outcome, judged.unwritten.is_none()), (Outcome::Violation, true));
    std::fs::remove_file(folder.report()).unwrap();
    std::fs::create_dir(folder.report()).unwrap();
    std::fs::remove_file(folder.path.join("verdict.json")).unwrap();
    let judged = judge(&folder).unwrap();
    assert_eq!(judged.verdict.outcome, Outcome::Violation);
    assert!(judged.unwritten.unwrap().to_string().contains("report.html"));
    assert!(!folder.path.join("verdict.json").exists(), "a verdict is written last");
}
