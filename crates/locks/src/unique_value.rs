//! Values by which the holder of a lock is known.

/// A value that no other acquire of any client in any run has: its holder owns the lock.
///
/// Readable, so that one sees in the server itself whose lock it is; the random part comes from the system
/// and not from the run's seed, because a client that is restarted with the same seed must not repeat
/// itself.
pub(crate) fn unique_value(client: &str, process: u64, count: u64) -> String {
    format!("{client}-{process}-{count}-{:016x}", rand::random::<u64>())
}
