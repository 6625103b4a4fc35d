//! The ledger: one account of when each lock was granted and how each grant can have ended, from which
//! verdicts follow. It is a pure function of the history. What is not known is an [`Interval`], and each
//! bound carries its [`Reason`]. A grant keeps every [`End`] that its history allows.

pub(crate) mod account;
pub(crate) mod effects;
pub(crate) mod ends;
pub(crate) mod grants;
pub(crate) mod interval;
pub(crate) mod judgement;
pub(crate) mod reasons;
pub(crate) mod removals;
pub(crate) mod table;
#[cfg(test)]
mod tests;

pub use account::Ends;
pub use ends::{Cause, End};
pub use interval::{Bound, Interval, Reason};
pub use judgement::Class;
pub use table::ledger_table;
