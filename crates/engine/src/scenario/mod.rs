//! Scenarios: directed runs as files: lock, clients, faults, and what is expected; `docs/scenarios.md` has
//! the format. `file` reads it, with `event`, `step`, `run_options`, `expect_table` and `fencepost_nemesis`
//! (faults); `expect` and `measure` compare a run; `builtin` names the program's scenarios.

mod builtin;
mod event;
mod expect;
mod expect_table;
mod file;
mod keys;
mod measure;
mod model;
mod run_options;
mod step;
#[cfg(test)]
mod tests;
mod text;

pub use builtin::{find, registry};
pub use expect::{Expectation, ExpectationAnswer};
pub use file::{fuzz, read_file};
pub use measure::RunMeasures;
pub use model::{Scenario, ScenarioRun};
pub use text::scenario_text;
