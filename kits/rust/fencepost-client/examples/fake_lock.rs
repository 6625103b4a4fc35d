//! The lock of `kits/tests/conversation.py`, which asks no server: `kits/tests/fake-lock.md` says what it
//! does.

use fencepost_client::{Env, Error, Grant, Lock, Removal};
use std::time::Duration;

struct FakeLock {
    env: Env,
    token: u64,
}

impl Lock for FakeLock {
    fn acquire(&mut self, key: &str, _ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error> {
        self.token += 1;
        let unique = format!("u-{}", self.env.process);
        let mut grant = Grant { token: Some(self.token), unique: Some(unique), ..Grant::default() };
        let (word, other) = key.split_once(':').unwrap_or((key, ""));
        match word {
            "taken" => return Err(taken()),
            "nothing" => return Ok(None),
            "unsure" => return Err(Error::Unknown("no answer".to_owned())),
            "certain" => return Err(Error::Certain("unreachable: refused".to_owned())),
            "slow" => std::thread::sleep(Duration::from_millis(500)),
            "polled" => {
                let mut attempts = 0;
                return self.env.poll(timeout, |_| {
                    attempts += 1;
                    std::thread::sleep(Duration::from_millis(100));
                    Ok((attempts == 3).then(|| grant.clone()))
                });
            }
            "never" => return self.env.poll(timeout, |_| Ok(None)),
            "short" | "short-still" => grant.validity = Some(Duration::from_millis(150)),
            "long" => grant.validity = Some(Duration::from_secs(60)),
            "print" => println!("printed by the library"),
            "access" => {
                let (access, name) = (self.env.access.clone(), self.env.servers[0].tls_name.clone());
                let tls = access.tls.unwrap_or_default();
                let parts = [access.user, access.password, tls.ca, tls.certificate, tls.key, Some(name)];
                let parts: Vec<String> = parts.map(|part| part.unwrap_or_else(|| "-".to_owned())).into();
                return Ok(Some(Grant { token: Some(1), unique: Some(parts.join(" ")), ..Grant::default() }));
            }
            "lost" | "lost-taken" => {
                self.env.lost(key, "session expired");
                if word == "lost-taken" {
                    return Err(taken());
                }
            }
            "lose" => {
                self.env.lost(other, "session expired");
                return Ok(None);
            }
            "renew" => {
                self.env.renewed(other, Duration::from_millis(5));
                return Ok(None);
            }
            _ => {}
        }
        Ok(Some(grant))
    }

    fn release(&mut self, key: &str, _timeout: Duration) -> Result<Removal, Error> {
        match key {
            "slow" => {
                eprintln!("released slow");
                Ok(Removal::Unknown)
            }
            "gone" => Ok(Removal::NothingRemoved),
            "removed" => Ok(Removal::Removed),
            "not-held" => Err(Error::NotHeld("of another".to_owned())),
            "certain-release" => Err(Error::Certain("unreachable: refused".to_owned())),
            "unsure-release" => Err(Error::Unknown("no answer".to_owned())),
            _ => Ok(Removal::Unknown),
        }
    }

    fn holds(&mut self, key: &str) -> bool {
        assert!(key != "confused", "the lock does not know");
        key != "doubted"
    }
}

impl Drop for FakeLock {
    fn drop(&mut self) {
        eprintln!("closed {}", self.env.process);
    }
}

/// The lock with the option `kinds`.
struct LockOfKinds(FakeLock);

impl Lock for LockOfKinds {
    fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error> {
        self.0.acquire(key, ttl, timeout)
    }

    fn acquire_shared(&mut self, _key: &str, _ttl: Duration, _timeout: Duration) -> Result<Option<Grant>, Error> {
        Ok(Some(Grant { unique: Some("shared".to_owned()), ..Grant::default() }))
    }

    fn acquire_permit(
        &mut self,
        _key: &str,
        permits: u64,
        _ttl: Duration,
        _timeout: Duration,
    ) -> Result<Option<Grant>, Error> {
        Ok(Some(Grant { unique: Some(format!("one of {permits}")), ..Grant::default() }))
    }

    fn acquire_all(&mut self, keys: &[&str], ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error> {
        let grant = self.0.acquire(keys[keys.len() - 1], ttl, timeout)?;
        let unique = Some(format!("all of {}", keys.join(" ")));
        Ok(grant.map(|grant| Grant { unique, ..grant }))
    }

    fn reenter(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error> {
        match key {
            "shut-out" => Err(taken()),
            "short" => Ok(Some(Grant { validity: Some(Duration::from_secs(60)), ..Grant::default() })),
            _ => Ok(self.prolong(key, ttl, timeout)?.then(Grant::default)),
        }
    }

    fn leave(&mut self, key: &str, timeout: Duration) -> Result<Removal, Error> {
        self.release(key, timeout)
    }

    fn release(&mut self, key: &str, timeout: Duration) -> Result<Removal, Error> {
        self.0.release(key, timeout)
    }

    fn release_all(&mut self, keys: &[&str], timeout: Duration) -> Result<Removal, Error> {
        self.0.release(keys[keys.len() - 1], timeout)
    }

    fn prolong(&mut self, key: &str, _ttl: Duration, _timeout: Duration) -> Result<bool, Error> {
        match key {
            "unsure-prolong" => Err(Error::Unknown("no answer".to_owned())),
            "not-held" => Err(Error::NotHeld("of another".to_owned())),
            "certain-prolong" => Err(Error::Certain("unreachable: refused".to_owned())),
            "lose" => {
                self.0.env.lost(key, "session expired");
                Ok(true)
            }
            _ => Ok(key != "gone"),
        }
    }

    fn leader(&mut self, key: &str, _timeout: Duration) -> Result<Option<u64>, Error> {
        match key {
            "unsure-leader" => Err(Error::Unknown("no answer".to_owned())),
            "certain-leader" => Err(Error::Certain("unreachable: refused".to_owned())),
            "vacant" => Ok(None),
            "first" => Ok(Some(0)),
            "digits" => Ok(Some("12".parse()?)),
            "stranger" => Ok(Some("someone".parse()?)),
            _ => Ok(Some(self.0.env.process)),
        }
    }
}

fn taken() -> Error {
    Error::NotAcquired("by another".to_owned())
}

fn main() {
    fencepost_client::run(&[], |env: Env| match env.options.contains_key("broken") {
        true => Err(Error::Unknown("broken".to_owned())),
        false => {
            let kinds = env.options.contains_key("kinds");
            let lock = FakeLock { env, token: 32 };
            Ok(if kinds { Box::new(LockOfKinds(lock)) as Box<dyn Lock> } else { Box::new(lock) })
        }
    });
}
