//! Every lock, by name.

use crate::definition::LockDefinition;
use crate::{canary, etcd, postgres, redis, redis_sentinel, redlock, zookeeper};

/// Every lock: one line for each service, whose folder lists its own.
pub fn registry() -> &'static [&'static LockDefinition] {
    static LOCKS: std::sync::LazyLock<Vec<&LockDefinition>> = std::sync::LazyLock::new(|| {
        [
            redis::LOCKS,
            redis_sentinel::LOCKS,
            redlock::LOCKS,
            etcd::LOCKS,
            zookeeper::LOCKS,
            postgres::LOCKS,
            canary::LOCKS,
        ]
        .concat()
    });
    &LOCKS
}

/// The lock of that name.
pub fn find(name: &str) -> Option<&'static LockDefinition> {
    registry().iter().copied().find(|lock| lock.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_found() {
        let names: HashSet<_> = registry().iter().map(|lock| lock.name).collect();
        assert_eq!(names.len(), registry().len());
        for name in names {
            assert_eq!(find(name).map(|lock| lock.name), Some(name));
        }
        assert!(find("redlok").is_none());
    }
}
