//! The client kit of Fencepost for Rust: it speaks the client protocol, so that a lock under test is two
//! functions. The page `kits/README.md` of Fencepost says what all kits do.
//!
//! ```no_run
//! use fencepost_client::{Env, Error, Grant, Lock, Removal};
//! use std::time::Duration;
//!
//! struct MyLock;
//!
//! impl Lock for MyLock {
//!     fn acquire(&mut self, _key: &str, _ttl: Duration, _timeout: Duration) -> Result<Option<Grant>, Error> {
//!         Ok(Some(Grant::default()))
//!     }
//!     fn release(&mut self, _key: &str, _timeout: Duration) -> Result<Removal, Error> {
//!         Ok(Removal::Unknown)
//!     }
//! }
//!
//! fencepost_client::run(&[], |_env: Env| Ok(MyLock));
//! ```

mod client;
mod env;
mod hello;
mod process;
mod state;
mod storage;

pub use client::{run, serve};
pub use env::Env;
pub use hello::{Access, Server, TlsFiles};

use std::time::Duration;

/// The lock under test as one process uses it. All its functions are called by one thread, which also made
/// it.
///
/// It is dropped when its process is over. A lock that renews, or whose lease is a session or a connection,
/// must end that when it is dropped: otherwise a process that crashed would hold its lock for ever.
pub trait Lock {
    /// Tries to get the lock for `ttl`, and returns within `timeout`. No grant means that the library said
    /// no.
    ///
    /// # Errors
    /// [`Error::NotAcquired`] and [`Error::Certain`] if the lock was certainly not granted; any other leaves
    /// that unknown.
    fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error>;

    /// The same for a reader, of a lock with `kind = "read-write"` in lock.toml.
    ///
    /// # Errors
    /// Those of [`Lock::acquire`].
    fn acquire_shared(&mut self, _key: &str, _ttl: Duration, _timeout: Duration) -> Result<Option<Grant>, Error> {
        Err(Error::Certain("bad-command: this lock has no acquire_shared".to_owned()))
    }

    /// The same for one of so many permits, of a lock with `kind = "semaphore"` in lock.toml, whose `acquire`
    /// is then not called.
    ///
    /// # Errors
    /// Those of [`Lock::acquire`].
    fn acquire_permit(
        &mut self,
        _key: &str,
        _permits: u64,
        _ttl: Duration,
        _timeout: Duration,
    ) -> Result<Option<Grant>, Error> {
        Err(Error::Certain("bad-command: this lock has no acquire_permit".to_owned()))
    }

    /// The same for all of these names, or none of them, of a lock with `kind = "several"` in lock.toml.
    ///
    /// # Errors
    /// Those of [`Lock::acquire`].
    fn acquire_all(&mut self, _keys: &[&str], _ttl: Duration, _timeout: Duration) -> Result<Option<Grant>, Error> {
        Err(Error::Certain("bad-command: this lock has no acquire_all".to_owned()))
    }

    /// Acquires the lock once more for its holder, of a lock with `kind = "reentrant"` in lock.toml. No grant
    /// means that it was no longer held; a grant with a validity, that the library prolonged the lock.
    ///
    /// # Errors
    /// [`Error::NotHeld`] where it was no longer held, [`Error::NotAcquired`] where it was refused to its
    /// holder, [`Error::Certain`] if certainly nothing was acquired; any other leaves that unknown.
    fn reenter(&mut self, _key: &str, _ttl: Duration, _timeout: Duration) -> Result<Option<Grant>, Error> {
        Err(Error::Certain("bad-command: this lock has no reenter".to_owned()))
    }

    /// Releases once what was acquired more than once, and says whether that removed the lock, which it
    /// should not.
    ///
    /// # Errors
    /// Those of [`Lock::release`].
    fn leave(&mut self, _key: &str, _timeout: Duration) -> Result<Removal, Error> {
        Err(Error::Certain("bad-command: this lock has no leave".to_owned()))
    }

    /// Gives the lock back, and says whether that removed a lock.
    ///
    /// # Errors
    /// [`Error::NotHeld`] and [`Error::Certain`] if certainly nothing was removed; any other leaves that
    /// unknown.
    fn release(&mut self, key: &str, timeout: Duration) -> Result<Removal, Error>;

    /// The same for all of these names.
    ///
    /// # Errors
    /// Those of [`Lock::release`].
    fn release_all(&mut self, _keys: &[&str], _timeout: Duration) -> Result<Removal, Error> {
        Err(Error::Certain("bad-command: this lock has no release_all".to_owned()))
    }

    /// Lets the lock last for `ttl` from now on; `false` where it was no longer held. A lock that has this
    /// announces `prolong`.
    ///
    /// # Errors
    /// [`Error::NotHeld`] where it was no longer held, [`Error::Certain`] if certainly nothing was prolonged
    /// for another reason; any other leaves that unknown.
    fn prolong(&mut self, _key: &str, _ttl: Duration, _timeout: Duration) -> Result<bool, Error> {
        Err(Error::Certain("bad-command: this lock has no prolong".to_owned()))
    }

    /// Of an election: the number of the process that leads ([`Env::process`]), or none where the library
    /// knows of no leader. An election that has this announces `leader`.
    ///
    /// # Errors
    /// Any: the question changes nothing, so the process goes on.
    fn leader(&mut self, _key: &str, _timeout: Duration) -> Result<Option<u64>, Error> {
        Err(Error::Certain("bad-command: this lock has no leader".to_owned()))
    }

    /// Whether the library itself believes, without a request, that the lock is held.
    fn holds(&mut self, _key: &str) -> bool {
        true
    }
}

/// Methods that call those of what is in the box.
macro_rules! of_what_is_inside {
    ($(fn $name:ident($($argument:ident: $kind:ty),+) -> $result:ty;)+) => {
        $(fn $name(&mut self, $($argument: $kind),+) -> $result {
            (**self).$name($($argument),+)
        })+
    };
}

/// For a factory that makes one lock or another.
impl<L: Lock + ?Sized> Lock for Box<L> {
    of_what_is_inside! {
        fn acquire(key: &str, ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error>;
        fn acquire_shared(key: &str, ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error>;
        fn acquire_permit(key: &str, of: u64, ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error>;
        fn acquire_all(keys: &[&str], ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error>;
        fn reenter(key: &str, ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error>;
        fn leave(key: &str, timeout: Duration) -> Result<Removal, Error>;
        fn release(key: &str, timeout: Duration) -> Result<Removal, Error>;
        fn release_all(keys: &[&str], timeout: Duration) -> Result<Removal, Error>;
        fn prolong(key: &str, ttl: Duration, timeout: Duration) -> Result<bool, Error>;
        fn leader(key: &str, timeout: Duration) -> Result<Option<u64>, Error>;
        fn holds(key: &str) -> bool;
    }
}

/// What an acquire brought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grant {
    /// A fencing token: greater with each grant.
    pub token: Option<u64>,
    /// A value that no other grant has.
    pub unique: Option<String>,
    /// The time for which the lock is valid, from now on, as the library states it. Without it, the kit
    /// counts the TTL from the begin of the attempt.
    pub validity: Option<Duration>,
    /// Names of the servers that granted it.
    pub granted_by: Vec<String>,
}

/// What a release can say of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The lock was released, and the library says no more.
    Unknown,
    /// The release removed a lock.
    Removed,
    /// There was nothing to remove.
    NothingRemoved,
}

impl From<bool> for Removal {
    fn from(removed: bool) -> Removal {
        match removed {
            true => Removal::Removed,
            false => Removal::NothingRemoved,
        }
    }
}

/// Why an operation did not succeed. Any other error becomes [`Error::Unknown`] by `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Of an acquire: every request was answered, and another holds the lock.
    NotAcquired(String),
    /// Of a release: it certainly removed nothing.
    NotHeld(String),
    /// The operation certainly did not happen and will not. The text begins with a code of the protocol:
    /// `unreachable: connection refused`.
    Certain(String),
    /// Whether it happened is unknown. The process is over after it, as if it had crashed.
    Unknown(String),
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Error {
        Error::Unknown(format!("{}: {error}", std::any::type_name::<E>()))
    }
}
