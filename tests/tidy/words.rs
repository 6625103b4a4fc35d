//! Words that a reader would have to learn, and those that only `crates/cluster` may use.

use crate::sources::{files, text};
use std::path::Path;

/// What was once called so, and how it is called now. Words in lower case fit any case; others are names of
/// types, and fit as they stand here.
const BANNED: &[(&str, &str)] = &[
    ("tale", "scenario"),
    ("tales", "scenarios"),
    ("rehearse", "arm"),
    ("crew", "deployment"),
    ("dose", "parameters"),
    ("doses", "parameters"),
    ("strike", "fault"),
    ("strikes", "faults"),
    ("struck", "put under a fault"),
    ("nobody", "no client, no process, no server"),
    ("whoever", "the client that, the process that"),
    ("told", "reported, known"),
    ("fencer", "the program that fences clients: say which"),
    ("stays_taken", "lock_delay"),
    ("hand_over", "transfer_leadership"),
    ("Tale", "Scenario"),
    ("Act", "ScenarioRun"),
    ("Cast", "Script"),
    ("Beat", "Step"),
    ("Voice", "Narration"),
    ("Scene", "Topology"),
    ("World", "FaultContext"),
    ("Seen", "Observation"),
    ("Paper", "ClockLog"),
    ("Wanted", "CheckOptions"),
    ("Unfit", "NotApplicable"),
    ("Special", "FastPath"),
    ("Vocabulary", "Codec"),
    ("Figure", "Metric"),
    ("Ears", "ClientEvents"),
    ("Manner", "RunMode"),
    ("Linger", "PauseAt"),
];

/// Words of the two drivers.
const OF_DRIVERS: &[&str] = &["container", "containers", "namespace", "namespaces"];

pub fn banned() -> Vec<String> {
    let mut problems = Vec::new();
    for file in files(&["rs", "md", "toml"]).iter().filter(|file| !is_about_words(file)) {
        for (number, word) in words(&text(file)) {
            let fits = |banned: &str| match banned.starts_with(char::is_uppercase) {
                true => word == banned,
                false => word.eq_ignore_ascii_case(banned),
            };
            if let Some((banned, better)) = BANNED.iter().find(|(banned, _)| fits(banned)) {
                problems.push(format!("{}:{number}: `{banned}` (better: {better})", file.display()));
            }
        }
    }
    problems
}

pub fn driver_words() -> Vec<String> {
    let knows = |file: &Path| {
        // It is about containers of somebody else, which are no nodes.
        file == Path::new("src/commands/clock.rs")
            || file.starts_with("crates/cluster")
            || file.components().any(|part| part.as_os_str() == "tests")
    };
    let mut problems = Vec::new();
    for file in files(&["rs"]).iter().filter(|file| !knows(file)) {
        for (number, word) in words(&text(file)) {
            if OF_DRIVERS.iter().any(|of_drivers| word.eq_ignore_ascii_case(of_drivers)) {
                problems.push(format!(
                    "{}:{number}: `{word}` (only crates/cluster knows how nodes are kept apart)",
                    file.display()
                ));
            }
        }
    }
    problems
}

fn is_about_words(file: &Path) -> bool {
    file.starts_with("tests/tidy") || file.ends_with("CHANGELOG.md")
}

/// Words with the number of their line. Names are taken apart at underscores (`a_strike` has `strike`), not
/// at capitals.
fn words(text: &str) -> Vec<(usize, &str)> {
    (1..)
        .zip(text.lines())
        .flat_map(|(number, line)| {
            line.split(|char: char| !char.is_alphanumeric() && char != '_').flat_map(move |word| {
                let whole = std::iter::once(word).filter(|word| word.contains('_'));
                whole.chain(word.split('_')).map(move |word| (number, word))
            })
        })
        .collect()
}

#[test]
fn names_are_taken_apart() {
    let found: Vec<&str> =
        words("fn a_strike() { World::new() }").into_iter().map(|(_, word)| word).collect();
    assert!(found.contains(&"strike") && found.contains(&"a_strike") && found.contains(&"World"));
}
