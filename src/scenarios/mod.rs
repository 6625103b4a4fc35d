//! The debate, executable: each story as a short, directed run on real servers, with the outcome that its author
//! expects. One file a story in `tales/`; [`registry`] names them all.

pub mod act;
pub mod command;
pub mod expect;
mod page;
mod perform;
mod plays;
mod table;
mod tales;

pub use tales::registry;

use act::Act;

/// A story of the debate.
pub struct Scenario {
    /// As on the command line.
    pub name: &'static str,
    /// Who says so, and where.
    pub source: &'static str,
    /// What happens, in a sentence.
    pub about: &'static str,
    /// What its source expects, in a few words.
    pub expected: &'static str,
    /// Its runs, one after the other.
    pub acts: fn() -> Vec<Act>,
    /// Why reality differs from the source, where it does: the acts then expect reality.
    pub differs: Option<&'static str>,
}

/// The scenario of that name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    registry().iter().copied().find(|scenario| scenario.name == name)
}
