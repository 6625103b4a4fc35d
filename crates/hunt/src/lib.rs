//! Searches for the faults that break a lock: plays many short schedules, learns from each history, and shrinks and
//! keeps the violations that it finds.
//!
//! A [`Schedule`] is what is searched, mutated and shrunk: the options of a run and its plan of faults.

mod schedule;

pub use schedule::Schedule;
