use serde::{Deserialize, Serialize};
use std::fmt;

worded! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum LockKind {
        #[default]
        Mutex = "mutex",
        /// Any number of readers, or one writer.
        ReadWrite = "read-write",
        /// As many processes as it has permits.
        Semaphore = "semaphore",
        /// One process at a time, which leads: to campaign is to acquire, to resign is to release.
        Election = "election",
        /// One process at a time, which may acquire it again and then has to release it as often.
        Reentrant = "reentrant",
        /// One process at a time for each name; an acquire takes several names, or none of them.
        Several = "several",
    }
    /// Its name in `lock.toml` and in histories.
    pub fn name;
}

impl LockKind {
    pub fn is_mutex(&self) -> bool {
        *self == LockKind::Mutex
    }

    /// As a sentence has it: "redlock is a mutex".
    pub fn in_words(self) -> &'static str {
        match self {
            LockKind::Mutex => "a mutex",
            LockKind::ReadWrite => "a read-write lock",
            LockKind::Semaphore => "a semaphore",
            LockKind::Election => "an election",
            LockKind::Reentrant => "a reentrant lock",
            LockKind::Several => "a lock on several names",
        }
    }

    /// One line: who may hold it together.
    pub fn about(self) -> &'static str {
        match self {
            LockKind::Mutex => "one process at a time",
            LockKind::ReadWrite => "any number of readers, or one writer (--readers, --workload read-write)",
            LockKind::Semaphore => "as many processes as it has permits (--permits, --workload semaphore)",
            LockKind::Election => "one leader at a time (--workload election)",
            LockKind::Reentrant => "one process at a time, which may acquire it again (--workload reentrant)",
            LockKind::Several => {
                "one process for each name, and all names of a set or none (--workload several)"
            }
        }
    }

    /// The word of the hello's `can` by which a client says that it can ask for a lock of this kind.
    pub fn announced(self) -> Option<&'static str> {
        match self {
            LockKind::Mutex | LockKind::Election => None,
            LockKind::ReadWrite => Some("mode"),
            LockKind::Semaphore => Some("permits"),
            LockKind::Reentrant => Some("reentrant"),
            LockKind::Several => Some("several"),
        }
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_kind_is_written_by_its_name() {
        for kind in LockKind::ALL {
            assert_eq!(json!(kind), json!(kind.name()));
        }
    }
}
