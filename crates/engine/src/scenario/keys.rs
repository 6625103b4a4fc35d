//! Keys of a scenario file, besides the options of a run and the keys of faults.

pub(super) const SCENARIO: &[&str] = &["about", "source", "expected", "differs", "picture", "run"];

pub(super) const RUN: &[&str] =
    &["title", "undisturbed", "progress-within", "client", "fault", "narration", "expect"];

pub(super) fn all() -> impl Iterator<Item = &'static str> {
    SCENARIO.iter().chain(RUN).copied()
}
