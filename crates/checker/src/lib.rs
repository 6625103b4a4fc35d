//! Models, algorithms and evidence for lock histories.

#[cfg(test)]
mod agreement;
mod budget;
pub mod digest;
pub mod generate;
#[cfg(test)]
mod literal;
pub mod model;
pub mod models;
pub mod operations;
mod promises;
mod search;
mod story;
#[cfg(test)]
mod testing;
mod verdict;
mod watch;

pub use budget::Budget;
pub use digest::{Digest, Malformed};
pub use model::{Conflict, Decision, History, Model, Role, Special};
pub use operations::{Builder, Operation, Operations};
pub use promises::{Checker, Class, Overlap, check_digest, check_run, overlaps, registry};
pub use search::{Exhausted, Found, Stuck, search};
pub use story::{StoryLine, describe_fault, story};
pub use verdict::{FINDINGS_MAX, Finding, Outcome, RunVerdict, Verdict, seconds};
pub use watch::Watch;
