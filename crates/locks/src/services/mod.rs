//! The built-in services, a folder each, and every lock on them, by name.

mod canary;
mod etcd;
mod mariadb;
mod nats;
mod postgres;
pub(crate) mod redis;
mod redis_cluster;
mod redis_sentinel;
mod redlock;
mod zookeeper;

#[cfg(test)]
pub(crate) use canary::NO_SERVERS;
pub use zookeeper::{FENCING_PORT, run_fencing};

use crate::definition::LockDefinition;
use crate::options::Options;
use crate::service::LockService;

/// Every lock: one line for each service. The first of a service is the reference for the others.
pub fn registry() -> &'static [&'static LockDefinition] {
    static LOCKS: std::sync::LazyLock<Vec<&LockDefinition>> = std::sync::LazyLock::new(|| {
        [
            redis::LOCKS,
            redis_sentinel::LOCKS,
            redis_cluster::LOCKS,
            redlock::LOCKS,
            etcd::LOCKS,
            zookeeper::LOCKS,
            nats::LOCKS,
            postgres::LOCKS,
            mariadb::LOCKS,
            canary::LOCKS,
        ]
        .concat()
    });
    &LOCKS
}

pub fn services() -> impl Iterator<Item = &'static LockService> {
    let is_first = |(at, lock): &(usize, &&LockDefinition)| {
        registry()[..*at].iter().all(|earlier| earlier.service.name != lock.service.name)
    };
    registry().iter().enumerate().filter(is_first).map(|(_, lock)| lock.service)
}

/// The lock of that name. A server behind it (`redlock@redis-7.0`) changes nothing of the lock itself.
pub fn find(name: &str) -> Option<&'static LockDefinition> {
    let name = name.split('@').next().unwrap_or(name);
    registry().iter().copied().find(|lock| lock.name == name)
}

/// The built-in lock that a client of one's own is compared with: the first one on the same servers, which is
/// the plainest right use of them, of the same kind. None where the servers are the user's own, too.
pub fn reference(lock: &LockDefinition) -> Option<&'static LockDefinition> {
    let has_servers = !lock.service.servers.is_empty();
    let kind = |lock: &LockDefinition| lock.capabilities(&Options::default()).kind;
    let same = |other: &&LockDefinition| {
        has_servers && other.service.name == lock.service.name && kind(other) == kind(lock)
    };
    registry().iter().copied().find(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::pause_points::points;
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

    #[test]
    fn each_service_has_a_lock_that_others_are_compared_with() {
        let of = |name: &str| reference(find(name).unwrap()).map(|lock| lock.name);
        assert_eq!(of("redis-single"), Some("redis-single"));
        assert_eq!(of("etcd-lock-api"), Some("etcd"));
        assert_eq!(of("zookeeper-ephemeral"), Some("zookeeper-sequential"));
        assert_eq!(of("postgres-row"), Some("postgres-advisory"));
        assert_eq!(of("mariadb-row"), Some("mariadb-advisory"));
        assert_eq!(of("redis-semaphore"), Some("redis-semaphore"), "a mutex is no measure of it");
        let without = registry().iter().filter(|lock| reference(lock).is_none());
        let without: Vec<&str> = without.map(|lock| lock.name).collect();
        assert_eq!(without, ["canary-nolock"], "only what has no servers has none");
    }

    #[test]
    fn documentation_describes_every_lock_and_option() {
        let page = include_str!("../../../../docs/locks.md");
        for lock in registry() {
            let name = lock.name;
            assert!(page.contains(&format!("\n| [`{name}`](#")), "docs/locks.md has no row for {name}");
            let mut titles = page.lines().filter_map(|line| line.strip_prefix("## "));
            let described = titles.any(|title| title.split(' ').any(|word| word == name));
            assert!(described, "docs/locks.md has no section about {name}");
            for option in lock.option_names() {
                assert!(page.contains(&format!("--{option}")), "docs/locks.md does not mention --{option}");
            }
        }
    }

    #[test]
    fn documentation_describes_every_point() {
        let page = include_str!("../../../../docs/client-protocol.md");
        for (point, _) in points() {
            assert!(
                page.contains(&format!("\n| `{point}` |")),
                "docs/client-protocol.md has no row for {point}"
            );
        }
    }
}
