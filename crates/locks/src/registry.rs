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
    use crate::pause_points::points;
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
    fn documentation_describes_every_lock_and_option() {
        let page = include_str!("../../../docs/locks.md");
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
        let page = include_str!("../../../docs/client-protocol.md");
        for (point, _) in points() {
            assert!(
                page.contains(&format!("\n| `{point}` |")),
                "docs/client-protocol.md has no row for {point}"
            );
        }
    }
}
