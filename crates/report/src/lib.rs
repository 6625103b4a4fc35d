//! What is made from a run's folder: its verdict, the page with its pictures, the terminal's summary, files
//! for other programs, and the comparison of many runs. It needs folders alone, later and on another machine:
//! it imports the history and the checkers, and no part of the engine.

pub mod against;
pub mod comparison;
mod confidence;
pub mod export;
pub mod findings;
#[cfg(test)]
mod fixtures;
mod heading;
pub mod hunt;
mod judge;
pub mod markdown;
mod measures;
mod page;
mod pictures;
pub mod pipeline;
mod proof;
mod rate;
pub mod runs;
mod shown_findings;
#[cfg(test)]
mod synthetic;
pub mod terminal;
#[cfg(test)]
mod tests;
mod threads;
mod words;

pub use heading::{Heading, heading};
pub use judge::{Judged, is_violated, judge};
pub use page::document;
pub use pictures::conflict::conflict;
pub use proof::{Proof, proofs};
pub use rate::Rate;
pub use shown_findings::pictured;
pub use threads::prepare_threads;
pub use words::{capital, property};
