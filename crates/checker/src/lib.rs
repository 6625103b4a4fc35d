//! Models, algorithms and evidence for lock histories.

#[cfg(test)]
mod agreement;
mod budget;
mod by_name;
pub mod digest;
mod evidence;
pub mod generate;
mod judge;
mod lease;
#[cfg(test)]
mod literal;
pub mod model;
pub mod models;
pub mod operations;
mod promises;
pub mod read;
mod search;
mod shrink;
mod story;
#[cfg(test)]
mod testing;
mod verdict;
mod watch;

pub use budget::Budget;
pub use by_name::{ModelName, check_lines};
pub use digest::{Digest, Malformed};
pub use evidence::{Evidence, Shown, explain};
pub use judge::{Algorithm, Answer, KeyVerdict, Step, Wanted, decide, judge};
pub use model::{Conflict, Decision, History, Model, Role, Special};
pub use operations::{Builder, Operation, Operations};
pub use promises::{Checker, Class, Overlap, check_digest, check_run, overlaps, registry};
pub use search::{Exhausted, Found, Stuck, search};
pub use shrink::shrink;
pub use story::{StoryLine, describe_fault, story};
pub use verdict::{FINDINGS_MAX, Finding, Outcome, RunVerdict, Verdict, seconds};
pub use watch::Watch;
