//! Many runs beside each other: a matrix of backends and nemeses, played where it has not been yet, and told as a table, a
//! page, or a file for another program.

pub mod command;
pub mod comparison;
mod csv;
mod junit;
mod markdown;
mod matrix;
pub mod page;
mod perform;
mod since;
mod tables;
mod terminal;
#[cfg(test)]
mod tests;
