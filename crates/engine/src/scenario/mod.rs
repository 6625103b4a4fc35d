//! Scenarios: directed runs as files. A file says which lock is used, what each client does, which faults are
//! injected when, and what is expected; `docs/scenarios.md` describes the format.
//!
//! `file` reads it, with the help of `event`, `step`, `run_options` and `expect_table`; faults are read by
//! `fencepost_nemesis`; `expect` and `measure` compare a run with what is expected; `builtin` names the
//! scenarios that are part of the program.

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
pub use expect::{Answer, Expectation};
pub use file::{fuzz, read_file};
pub use measure::Observed;
pub use model::{Scenario, ScenarioRun};
pub use text::scenario_text;
