//! The commands that repeat runs.

use fencepost_engine::RunOptions;
use fencepost_engine::scenario::{Scenario, find};
use fencepost_history::shell_word;

/// How the program was called, and so how it is called again.
#[derive(Clone, Debug)]
pub struct Repeat {
    /// `fencepost`.
    pub program: String,
    /// Whether a file set options: a command that repeats names all of them, and excludes the file.
    pub has_file: bool,
}

impl Repeat {
    /// The exact command that repeats this run: everything that differs from the defaults, and the seed.
    pub fn test(&self, options: &RunOptions) -> String {
        let mut words = vec![format!("{} test {}", self.program, options.arguments())];
        words.extend(self.without_file());
        words.join(" ")
    }

    /// The exact command that repeats this run of a scenario: a built-in one by name, another by file.
    pub fn scenario(&self, scenario: &Scenario, options: &RunOptions) -> String {
        let built_in = find(&scenario.name).is_some_and(|built_in| built_in.file == scenario.file);
        let name = if built_in { &scenario.name } else { &scenario.file };
        let seed = options.seed.map(|seed| format!(" --seed {seed}")).unwrap_or_default();
        let (name, driver) = (shell_word(name), shell_word(&options.driver));
        format!("{} scenario {name} --driver {driver}{seed}", self.program)
    }

    /// What says that no file is read, where one was.
    pub fn without_file(&self) -> Option<String> {
        self.has_file.then(|| "--config none".to_owned())
    }
}
