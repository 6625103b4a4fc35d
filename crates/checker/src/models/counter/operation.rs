//! The operations of a counter.

use crate::operations::Operations;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CounterOp {
    Add(i64),
    Read,
}

/// A history of a counter: what a read saw, none for an addition.
pub(super) type CounterHistory = Operations<CounterOp, Option<i64>>;
