//! Tests that would depend on how fast the machine is: those that sleep, that hold a real clock against a
//! limit, that try until something happens. A test waits for an event in place of that, runs on paused time,
//! or asserts what the program itself observed.

use crate::scan::{code, tests_only};
use crate::sources::{files, text};
use std::path::Path;

/// What a test must not do, and what it does instead.
const BANNED: &[(Kind, &str)] = &[
    (Kind::Sleep, "wait for an event by a helper that polls, or pause the time"),
    (Kind::Elapsed, "assert what the program observed, or pause the time"),
    (Kind::ShortLimit, "a limit of real time ends what hangs: a minute, or more"),
    (Kind::UntilItHappens, "only tests/all/chance.rs plays until something happens, by night"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `sleep(` on real time.
    Sleep,
    /// `elapsed()` of a real clock.
    Elapsed,
    /// A time-out below a second on real time.
    ShortLimit,
    /// One seed after the other.
    UntilItHappens,
}

/// Places that may, each with its reason.
const ALLOWED: &[(&str, Kind, &str)] = &[
    ("crates/engine/src/conformance/tests/fake.rs", Kind::Sleep, "all its tests pause the time"),
    ("crates/engine/src/conformance/tests/fake.rs", Kind::Elapsed, "all its tests pause the time"),
    ("crates/locks/src/services/redlock/lock.rs", Kind::ShortLimit, "a table of lengths; nothing waits"),
    ("crates/report/src/tests.rs", Kind::Elapsed, "prints how long pages took, for who looks at them"),
    ("nemesis/src/clocks/clock_tool.rs", Kind::Sleep, "lets a strobe go on for a while; longer is as good"),
    ("nemesis/tests/clock.rs", Kind::Sleep, "lets time pass for a clock to show it; longer is as good"),
    ("nemesis/tests/clock.rs", Kind::Elapsed, "a lower bound, and what the test itself took as an upper one"),
    (
        "tests/all/clock_by_hand.rs",
        Kind::Sleep,
        "lets time pass for a clock that stands still; longer is as good",
    ),
    ("tests/all/common/waiting.rs", Kind::Sleep, "the helper that polls"),
    ("tests/all/common/waiting.rs", Kind::Elapsed, "ends what hangs, after minutes"),
    ("tests/cluster/common/mod.rs", Kind::Sleep, "the helper that polls"),
    ("tests/cluster/common/mod.rs", Kind::Elapsed, "ends what hangs, after minutes"),
    (
        "tests/cluster/common/scenarios.rs",
        Kind::Elapsed,
        "a time that the test itself took; how fast nodes start, by night",
    ),
    ("tests/faults/disk.rs", Kind::Elapsed, "lower bounds: a slow disk is at least so slow"),
    ("tests/faults/packets.rs", Kind::Elapsed, "lower bounds: a delayed packet is at least so late"),
];

/// A sentence for each place that is not allowed, and for each exception that is needed no more.
pub fn problems() -> Vec<String> {
    let mut found = Vec::new();
    for file in files(&["rs"]).iter().filter(|file| !file.starts_with("tests/tidy")) {
        let source = text(file);
        let tested = if is_test_file(file) { code(&source) } else { tests_only(&source) };
        found
            .extend(places(&tested).into_iter().map(|(line, kind)| (file.display().to_string(), line, kind)));
    }
    for file in files(&["py"]).iter().filter(|file| file.starts_with("kits")) {
        let lines = (1..).zip(text(file).lines().map(str::to_owned).collect::<Vec<_>>());
        let late = lines.filter(|(_, line)| is_upper_bound(line));
        found.extend(late.map(|(line, _)| (file.display().to_string(), line, Kind::Elapsed)));
    }
    let is_allowed =
        |file: &str, kind: Kind| ALLOWED.iter().any(|(path, of, _)| *path == file && *of == kind);
    let mut problems: Vec<String> = found
        .iter()
        .filter(|(file, _, kind)| !is_allowed(file, *kind))
        .map(|(file, line, kind)| format!("{file}:{line}: {kind:?}: {}", instead(*kind)))
        .collect();
    let is_needed = |file: &str, kind: Kind| found.iter().any(|(path, _, of)| path == file && *of == kind);
    problems.extend(
        ALLOWED
            .iter()
            .filter(|(file, kind, _)| !is_needed(file, *kind))
            .map(|(file, kind, _)| format!("{file} needs no exception for {kind:?} any more: remove it")),
    );
    problems
}

fn instead(kind: Kind) -> &'static str {
    BANNED.iter().find(|(banned, _)| *banned == kind).map_or("", |(_, instead)| instead)
}

/// Whether a line of Python holds a clock against a limit from above. From below a slow machine is as good.
fn is_upper_bound(line: &str) -> bool {
    let is_measured = line.contains("monotonic() - ") || line.contains("time() - ");
    is_measured && (line.contains("assertLess") || line.contains(" < "))
}

/// Whether all of a file is for tests. Client programs of tests are tested, and do not test.
fn is_test_file(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let in_folder =
        file.parent().is_some_and(|folder| folder.components().any(|part| part.as_os_str() == "tests"));
    (in_folder && !file.starts_with("tests/bin") && !file.starts_with("tests/locks")) || name == "tests.rs"
}

/// Lines of test code that do one of these things. Functions of a test with paused time may sleep and
/// measure; a helper may where a test of its file pauses the time.
fn places(tested: &str) -> Vec<(usize, Kind)> {
    let helpers_are_paused = tested.contains("start_paused");
    let mut is_paused = helpers_are_paused;
    let mut attribute = None;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(tested.lines()) {
        let trimmed = line.trim_start();
        if trimmed.starts_with("#[test]") || trimmed.starts_with("#[tokio::test") {
            attribute = Some(trimmed.contains("start_paused"));
        } else if is_function(trimmed) {
            is_paused = attribute.take().unwrap_or(helpers_are_paused);
        }
        found.extend(kinds(line, is_paused).into_iter().map(|kind| (number, kind)));
    }
    found
}

fn is_function(line: &str) -> bool {
    let line = line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(crate) ")).unwrap_or(line);
    line.starts_with("fn ") || line.starts_with("async fn ")
}

fn kinds(line: &str, is_paused: bool) -> Vec<Kind> {
    let mut kinds = Vec::new();
    let words = line.replace("thread::sleep(", "blocking_sleep(");
    if words.contains("blocking_sleep(") || (!is_paused && calls(&words, "sleep(")) {
        kinds.push(Kind::Sleep);
    }
    if !is_paused && line.contains(".elapsed()") {
        kinds.push(Kind::Elapsed);
    }
    if !is_paused && line.contains("timeout") && has_short_length(line) {
        kinds.push(Kind::ShortLimit);
    }
    if ["test_until(", "until_it_happens("].iter().any(|name| calls(line, name)) {
        kinds.push(Kind::UntilItHappens);
    }
    kinds
}

/// Whether this function is called, or a path to it, and not one whose name only ends so.
fn calls(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || before == '_' || before == '.')
    })
}

/// Whether a length of less than a second stands in it.
fn has_short_length(line: &str) -> bool {
    line.split("from_millis(").skip(1).any(|rest| {
        let digits: String = rest.chars().take_while(|char| char.is_ascii_digit() || *char == '_').collect();
        digits.replace('_', "").parse::<u64>().is_ok_and(|millis| millis < 1000)
    })
}

#[test]
fn waits_are_found() {
    let rows: [(&str, bool, &[Kind]); 9] = [
        ("std::thread::sleep(Duration::from_secs(1));", true, &[Kind::Sleep]),
        ("tokio::time::sleep(LONG).await;", false, &[Kind::Sleep]),
        ("tokio::time::sleep(LONG).await;", true, &[]),
        ("assert!(begun.elapsed() < LIMIT);", false, &[Kind::Elapsed]),
        ("assert_eq!(begun.elapsed(), LIMIT);", true, &[]),
        ("timeout(Duration::from_millis(200), x)", false, &[Kind::ShortLimit]),
        ("timeout(Duration::from_millis(20_000), x)", false, &[]),
        ("let ran = test_until(", true, &[Kind::UntilItHappens]),
        ("fn asleep(x: u8) {", false, &[]),
    ];
    for (line, is_paused, expected) in rows {
        assert_eq!(kinds(line, is_paused), expected, "{line}");
    }
}

#[test]
fn upper_bounds_in_python_are_found() {
    assert!(is_upper_bound("self.assertLess(time.monotonic() - begun, 0.9)"));
    assert!(is_upper_bound("self.assertTrue(0.27 < time.monotonic() - begun < 0.5)"));
    assert!(!is_upper_bound("self.assertGreater(time.monotonic() - begun, 0.27)"));
}

#[test]
fn only_tests_with_paused_time_may_sleep() {
    let paused = "#[tokio::test(start_paused = true)]\nasync fn a() {\n sleep(X).await;\n}\n";
    let real = "#[tokio::test]\nasync fn b() {\n sleep(X).await;\n}\n";
    let helper = "async fn c() {\n sleep(X).await;\n}\n";
    assert_eq!(places(&format!("{paused}{real}{helper}")), [(7, Kind::Sleep)]);
    assert_eq!(places(&format!("{real}{helper}")).len(), 2);
}
