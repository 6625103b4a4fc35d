//! What the kind of a lock means for the options of a run: its workload, readers and permits.

use crate::refuse_option;
use crate::settings::names::BadUsage;
use crate::settings::options::RunOptions;
use fencepost_history::{LockKind, f};
use fencepost_locks::LockDefinition;
use fencepost_workloads::Workload;

const PERMITS: u32 = 3;

const CANCELLED: [&str; 3] = [f::ACQUIRE, f::RELEASE, f::PROLONG];

/// As many names that sets of two overlap, and that some do not.
const NAMES: usize = 4;

impl RunOptions {
    /// Fills in what was left open: the workload that is made for the kind, its readers, its permits.
    pub(crate) fn fit_kind(&mut self, lock: &LockDefinition) {
        let kind = lock.capabilities(&self.lock_options).kind;
        if !kind.is_mutex() && self.workload == RunOptions::default().workload {
            kind.name().clone_into(&mut self.workload);
        }
        match kind {
            LockKind::Mutex | LockKind::Election | LockKind::Reentrant => {}
            LockKind::Several if self.workload == kind.name() && self.keys == 1 => self.keys = NAMES,
            LockKind::Several => {}
            LockKind::ReadWrite if self.workload == kind.name() && self.readers == 0 => {
                self.readers = self.concurrency / 2;
            }
            LockKind::ReadWrite => {}
            LockKind::Semaphore if self.permits.is_none() => {
                let least_waiting = u32::try_from(self.concurrency.saturating_sub(1)).unwrap_or(PERMITS);
                self.permits = Some(PERMITS.min(least_waiting).max(1));
            }
            LockKind::Semaphore => {}
        }
    }

    /// Refuses a workload, readers or permits that do not suit the lock's kind or abilities.
    pub(crate) fn check_kind(&self, lock: &LockDefinition, workload: &Workload) -> Result<(), BadUsage> {
        let can = lock.capabilities(&self.lock_options);
        let kind = can.kind;
        let (name, is) = (&self.lock, kind.in_words());
        match (kind, self.permits) {
            (LockKind::Semaphore, Some(0)) => {
                refuse_option!("permits", "--permits 0: no process could ever acquire; use 1 or more")
            }
            (LockKind::Semaphore, Some(permits)) if permits as usize >= self.concurrency => refuse_option!(
                "permits",
                "--permits {permits} are enough for all {} processes, so none would wait; use fewer, or more --concurrency",
                self.concurrency
            ),
            (kind, Some(_)) if kind != LockKind::Semaphore => refuse_option!(
                "permits",
                "--permits is for semaphores, and {name} is {is}; use --lock redis-semaphore"
            ),
            (kind, _) if kind != LockKind::ReadWrite && self.readers > 0 => refuse_option!(
                "readers",
                "--readers is for read-write locks, and {name} is {is}; use --lock postgres-read-write"
            ),
            _ if !(workload.fits)(kind) => refuse_option!(
                "workload",
                "the workload {} is not for {is}, and {name} is one; leave --workload out",
                workload.name
            ),
            _ if workload.needs == Some(f::PROLONG) && !can.prolong => refuse_option!(
                "workload",
                "{name} cannot be prolonged by its holder; use --lock redis-single, or leave --workload out"
            ),
            _ if !self.cancel.iter().all(|name| CANCELLED.contains(&name.as_str())) => refuse_option!(
                "cancel",
                "--cancel {}: expected some of {}",
                self.cancel.join(","),
                CANCELLED.join(", ")
            ),
            _ if !self.cancel.is_empty() && lock.recipe.program().is_none() => refuse_option!(
                "cancel",
                "--cancel is for clients that announce `cancel`, and that of {name} does not; use a lock of your own"
            ),
            _ if self.readers > 0 && !workload.has_readers => refuse_option!(
                "workload",
                "the workload {} has no readers; use read-write, lock or increment",
                self.workload
            ),
            _ if self.readers > 0 && self.readers >= self.concurrency => refuse_option!(
                "readers",
                "--readers {} leaves none of {} processes to take the lock for itself; make it less",
                self.readers,
                self.concurrency
            ),
            (LockKind::Semaphore, _) if self.guard != "none" => refuse_option!(
                "guard",
                "--guard {} lets only the latest holder write, and a semaphore has several; leave --guard out",
                self.guard
            ),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::validation::RunSpec;

    fn options(lock: &str, edit: fn(&mut RunOptions)) -> RunOptions {
        let mut options = RunOptions { lock: lock.to_owned(), ..RunOptions::default() };
        edit(&mut options);
        options
    }

    #[test]
    fn each_kind_has_a_workload_of_its_own() {
        let fitted = |lock: &str, edit: fn(&mut RunOptions)| {
            let options = RunSpec::new(options(lock, edit)).map(|spec| spec.options).unwrap();
            (options.workload, options.readers, options.permits)
        };
        assert_eq!(fitted("redis-single", |_| {}), ("increment".to_owned(), 0, None));
        assert_eq!(fitted("postgres-read-write", |_| {}), ("read-write".to_owned(), 5, None));
        assert_eq!(fitted("redis-semaphore", |_| {}), ("semaphore".to_owned(), 0, Some(3)));
        assert_eq!(fitted("etcd-election", |_| {}), ("election".to_owned(), 0, None));
        assert_eq!(fitted("redis-reentrant", |_| {}), ("reentrant".to_owned(), 0, None));
        assert_eq!(fitted("redis-several", |_| {}), ("several".to_owned(), 0, None));
        let keys =
            |edit: fn(&mut RunOptions)| RunSpec::new(options("redis-several", edit)).unwrap().options.keys;
        assert_eq!([keys(|_| {}), keys(|it| it.keys = 2)], [4, 2]);
        let lock = |options: &mut RunOptions| options.workload = "lock".to_owned();
        assert_eq!(fitted("postgres-read-write", lock), ("lock".to_owned(), 0, None));
        assert_eq!(fitted("redis-semaphore", lock), ("lock".to_owned(), 0, Some(3)));
    }

    #[test]
    fn what_a_kind_does_not_have_is_refused() {
        let refused = |lock: &str, edit: fn(&mut RunOptions)| {
            RunSpec::new(options(lock, edit)).err().expect("refused").sentence
        };
        for (lock, edit, expected) in [
            ("redlock", (|it| it.permits = Some(2)) as fn(&mut RunOptions), "redlock is a mutex"),
            ("redlock", |it| it.readers = 2, "--readers is for read-write locks, and redlock is a mutex"),
            ("redis-semaphore", |it| it.permits = Some(0), "no process could ever acquire"),
            ("redis-semaphore", |it| it.permits = Some(10), "enough for all 10 processes"),
            ("redis-semaphore", |it| it.readers = 2, "redis-semaphore is a semaphore"),
            (
                "redis-semaphore",
                |it| it.workload = "set".to_owned(),
                "the workload set is not for a semaphore",
            ),
            (
                "redlock",
                |it| it.workload = "read-write".to_owned(),
                "the workload read-write is not for a mutex",
            ),
            (
                "postgres-read-write",
                |it| it.workload = "semaphore".to_owned(),
                "is not for a read-write lock",
            ),
            ("postgres-read-write", |it| it.readers = 10, "leaves none of 10 processes"),
            ("chubby", |it| it.permits = Some(2), "chubby is a read-write lock"),
            ("etcd", |it| it.workload = "prolong".to_owned(), "etcd cannot be prolonged by its holder"),
            ("redis-semaphore", |it| it.workload = "prolong".to_owned(), "is not for a semaphore"),
            ("etcd-election", |it| it.permits = Some(2), "etcd-election is an election"),
            ("etcd-election", |it| it.readers = 2, "etcd-election is an election"),
            ("etcd", |it| it.workload = "election".to_owned(), "the workload election is not for a mutex"),
            ("redis-several", |it| it.permits = Some(2), "redis-several is a lock on several names"),
            ("redis-reentrant", |it| it.readers = 2, "redis-reentrant is a reentrant lock"),
            (
                "redlock",
                |it| it.workload = "reentrant".to_owned(),
                "the workload reentrant is not for a mutex",
            ),
        ] {
            let sentence = refused(lock, edit);
            assert!(sentence.contains(expected), "{sentence}");
        }
    }
}
