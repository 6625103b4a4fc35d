//! Models, algorithms and evidence for lock histories.

pub mod digest;
#[cfg(test)]
mod literal;
mod promises;
mod story;
mod verdict;
mod watch;

pub use digest::{Digest, Malformed};
pub use promises::{Checker, Class, Overlap, check_digest, check_run, overlaps, registry};
pub use story::{StoryLine, describe_fault, story};
pub use verdict::{FINDINGS_MAX, Finding, Outcome, RunVerdict, Verdict, seconds};
pub use watch::Watch;
