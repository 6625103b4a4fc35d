//! Many runs beside each other: rows of locks, columns of nemeses, as text, page or file.

mod against;
mod baseline;
mod confidence;
mod csv;
mod difference;
mod existing;
mod figures;
mod junit;
mod markdown;
mod model;
mod page;
mod tables;
mod terminal;
#[cfg(test)]
mod tests;

pub use baseline::{BaselineError, Changes, SameRow, changes, read as read_baseline};
pub use confidence::CellConfidence;
pub use csv::write as write_csv;
pub use difference::{CellDifference, CellStanding};
pub use existing::of_runs;
pub use junit::suites as junit_suites;
pub use markdown::text as markdown;
pub use model::{Cell, Comparison, MadeRun, Row, cell};
pub use page::html;
pub use terminal::text as terminal_text;
