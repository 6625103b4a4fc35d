//! Exit codes, as in Jepsen. 0, 1 and 2 are an outcome's own.

/// A mistake in what the user asked for.
pub const BAD_USAGE: i32 = 254;
/// Fencepost or its environment failed.
pub const FAILED: i32 = 255;
