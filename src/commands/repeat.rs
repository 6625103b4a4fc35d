//! The command that repeats a run.

use fencepost_engine::RunOptions;
use fencepost_engine::scenario::{Scenario, find};
use fencepost_history::shell_word;

/// The exact command that repeats this run: everything that differs from the defaults, and the seed.
pub fn command(options: &RunOptions) -> String {
    let mut words = vec![format!("{} test {}", program(), options.arguments())];
    words.extend(without_file());
    words.join(" ")
}

/// The exact command that repeats this run of a scenario: a built-in one by its name, another by its file.
pub fn scenario(scenario: &Scenario, options: &RunOptions) -> String {
    let built_in = find(&scenario.name).is_some_and(|built_in| built_in.file == scenario.file);
    let name = if built_in { &scenario.name } else { &scenario.file };
    let seed = options.seed.map(|seed| format!(" --seed {seed}")).unwrap_or_default();
    format!("{} scenario {} --driver {}{seed}", program(), shell_word(name), shell_word(&options.driver))
}

/// Where a file says what would be on the command line, the command that repeats must say so: it names everything itself.
pub fn without_file() -> Option<String> {
    crate::config::in_use().then(|| "--config none".to_owned())
}

/// How the program was called: through cargo, or by itself.
pub fn program() -> &'static str {
    match (std::env::var_os("CARGO").is_some(), cfg!(debug_assertions)) {
        (true, false) => "cargo run --release --",
        (true, true) => "cargo run --",
        (false, _) => "fencepost",
    }
}
