//! The operations of a set.

use crate::operations::Operations;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetOp {
    Add(u32),
    Read,
}

/// A history of a set: what a read saw, ascending; nothing for an addition.
pub(super) type SetHistory = Operations<SetOp, Vec<u32>>;
