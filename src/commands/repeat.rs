//! The command that repeats a run.

use fencepost_engine::RunOptions;

/// The exact command that repeats this run: everything that differs from the defaults, and the seed.
pub fn command(options: &RunOptions) -> String {
    if let Some(run) = &options.scenario {
        let name = run.rsplit_once('-').map_or(run.as_str(), |(name, _)| name);
        let seed = options.seed.map(|seed| format!(" --seed {seed}")).unwrap_or_default();
        return format!("{} scenario {name} --driver {}{seed}", program(), options.driver);
    }
    let mut words = vec![format!("{} test {}", program(), options.arguments())];
    words.extend(without_file());
    words.join(" ")
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
