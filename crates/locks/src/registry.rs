//! Every backend, by name.

use crate::backend::Backend;
use crate::{canary, etcd, postgres, redis_sentinel, redis_single, redlock, zookeeper};

/// Every backend: one line each.
pub fn registry() -> &'static [&'static dyn Backend] {
    &[
        &redis_single::RedisSingle,
        &redis_sentinel::RedisSentinel,
        &redlock::Redlock,
        &etcd::Etcd(&etcd::Mutex),
        &etcd::Etcd(&etcd::LockApi),
        &etcd::Etcd(&etcd::Chubby),
        &zookeeper::ZooKeeperEphemeral,
        &zookeeper::ZooKeeperSequential,
        &zookeeper::Hadoop,
        &postgres::PostgresRow,
        &postgres::PostgresVersion,
        &postgres::PostgresAdvisory,
        &canary::CanaryNolock,
    ]
}

/// The backend of that name.
pub fn find(name: &str) -> Option<&'static dyn Backend> {
    registry().iter().copied().find(|backend| backend.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_found() {
        let names: HashSet<_> = registry().iter().map(|backend| backend.name()).collect();
        assert_eq!(names.len(), registry().len());
        for name in names {
            assert_eq!(find(name).map(|backend| backend.name()), Some(name));
        }
        assert!(find("redlok").is_none());
    }
}
