//! `fencepost compare`: a matrix of locks and nemeses. The runs that are missing are made; the report compares them.

pub mod command;
mod matrix;
mod perform;
