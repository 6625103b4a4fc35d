//! What a lock is: a service with its servers, a recipe by which clients acquire and release, and what the two can do.

use crate::error::{ClientError, OptionError};
use crate::options::Options;
use crate::protocol::{Hello, Server};
use crate::recipe::{Recipe, Session};
use crate::service::LockService;
use fencepost_storage::Sequencers;
use std::time::Duration;

/// A lock that Fencepost can judge. A recipe's file defines one, as a constant; [`crate::registry`] lists them all.
pub struct LockDefinition {
    /// As on the command line.
    pub name: &'static str,
    /// One line for `fencepost list`.
    pub about: &'static str,
    /// Which properties it claims and under which conditions, for `fencepost list`: one line that names properties as
    /// the checkers do (exclusion, ownership, progress, availability, fencing).
    pub claims: &'static str,
    /// The servers. Several locks may use the same service.
    pub service: &'static dyn LockService,
    /// The client's side.
    pub recipe: &'static dyn Recipe,
    /// Options of the recipe, named as on the command line but without dashes (`lock-delay`).
    /// Those of its service are added to them; any other option is refused. `nodes` is understood by all.
    pub options: &'static [&'static str],
    /// What the lock can do when it is set up with these options.
    pub capabilities: fn(&Options) -> Capabilities,
}

/// What a lock can do. Workloads, guards, faults and checkers ask here, and a client's hello is held against it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// An acquire gives a fencing token.
    pub token: bool,
    /// An acquire gives a value that no other grant has.
    pub unique_value: bool,
    /// An acquire gives a sequencer, and the service can be asked whether it is still valid.
    pub sequencer: bool,
    /// The lock can also be taken shared, by many who only read.
    pub shared_mode: bool,
    /// Lock and data are in the same place: processes read and write by [`crate::Lock::read`] and
    /// [`crate::Lock::write`], and the run has neither storage nor guard.
    pub own_storage: bool,
    /// Clients have each other killed, or cut off from the storage: nodes then have a fencing program
    /// ([`crate::run_fencing`]), and a run goes on without a client that was killed.
    pub fences_clients: bool,
    /// A client knows by its own clock until when a lock is valid.
    pub validity: bool,
    /// A client reports a lost lock by itself.
    pub loss_notice: bool,
    /// A client prolongs its locks by itself, and reports it.
    pub renewal: bool,
    /// How much longer than its TTL the lock may stay taken after its holder was lost.
    pub lock_delay: Duration,
}

impl Capabilities {
    /// A lock that can do nothing of all this, to start a description from.
    pub const NONE: Capabilities = Capabilities {
        token: false,
        unique_value: false,
        sequencer: false,
        shared_mode: false,
        own_storage: false,
        fences_clients: false,
        validity: false,
        loss_notice: false,
        renewal: false,
        lock_delay: Duration::ZERO,
    };

    /// The words by which a client announces them in its hello, in `can`.
    pub fn announced(&self) -> Vec<String> {
        let words = [
            (self.token, "token"),
            (self.validity, "validity"),
            (self.loss_notice, "lost"),
            (self.renewal, "extend"),
        ];
        words.into_iter().filter(|(can, _)| *can).map(|(_, word)| word.to_owned()).collect()
    }

    /// Compares what a client announced (`can` of its hello) with what its lock claims. Workload, guard and checkers
    /// were chosen by the claim, so a client that differs would be judged by rules that do not fit it.
    ///
    /// # Errors
    /// One sentence that names the words that are missing, and those that are too many.
    pub fn check_announced(&self, can: &[String]) -> Result<(), String> {
        let claimed = self.announced();
        let listed =
            |words: Vec<&String>| words.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let missing = listed(claimed.iter().filter(|word| !can.contains(word)).collect());
        let extra = listed(can.iter().filter(|word| !claimed.contains(word)).collect());
        match (missing.as_str(), extra.as_str()) {
            ("", "") => Ok(()),
            (missing, "") => Err(format!("its hello does not announce {missing}, which the lock claims")),
            ("", extra) => Err(format!("its hello announces {extra}, which the lock does not claim")),
            (missing, extra) => Err(format!(
                "its hello announces {extra}, which the lock does not claim, and not {missing}, which it claims"
            )),
        }
    }
}

impl LockDefinition {
    /// What the lock can do when it is set up with these options.
    pub fn capabilities(&self, options: &Options) -> Capabilities {
        (self.capabilities)(options)
    }

    /// Every option that it understands, those of its service first: named as in [`LockDefinition::options`].
    pub fn option_names(&self) -> impl Iterator<Item = &'static str> {
        self.service.options().iter().chain(self.options).copied()
    }

    /// Checks that the lock understands these options, can be set up with them, and can keep this TTL.
    ///
    /// # Errors
    /// Says which option or value is wrong, and what is possible.
    pub fn check(&self, options: &Options, ttl: Duration) -> Result<(), OptionError> {
        self.check_names(options)?;
        self.service.check(options)?;
        self.recipe.check(options)?;
        self.service.check_ttl(ttl)?;
        self.recipe.check_ttl(ttl)
    }

    /// Client side: connects to the servers. One session a client program.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn connect(&self, hello: &Hello) -> Result<Box<dyn Session>, ClientError> {
        self.recipe.connect(hello).await
    }

    /// Storage side: connects to the servers, to ask them for sequencers.
    ///
    /// # Errors
    /// The lock has no sequencers, or see [`ClientError`].
    pub async fn sequencers(&self, servers: &[Server]) -> Result<Box<dyn Sequencers>, ClientError> {
        let asked = self.recipe.sequencers(servers).await?;
        asked.ok_or_else(|| ClientError::BadHello(format!("{} has no sequencers", self.name)))
    }

    fn check_names(&self, options: &Options) -> Result<(), OptionError> {
        let understood: Vec<&str> = self.option_names().collect();
        let Some(unknown) = options.changed().into_iter().find(|name| !understood.contains(&name.as_str()))
        else {
            return Ok(());
        };
        let own = match understood.as_slice() {
            [] => "it has none of its own".to_owned(),
            own => {
                format!("it has --{}", own.join(", --"))
            }
        };
        Err(OptionError(format!("--{} is no option of the lock {}; {own}", unknown, self.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Persistence;
    use crate::registry::{find, registry};

    const TTL: Duration = Duration::from_secs(2);

    #[test]
    fn each_lock_takes_its_own_options_only() {
        let options = Options { redis_persistence: Persistence::Always, ..Options::default() };
        let check = |name: &str| find(name).unwrap().check(&options, TTL);
        assert_eq!(check("redlock"), Ok(()));
        let refusal = check("etcd").unwrap_err().0;
        assert!(refusal.contains("--redis-persistence is no option of the lock etcd"), "{refusal}");
    }

    #[test]
    fn every_option_of_a_lock_exists() {
        let known = Options::names();
        for lock in registry() {
            for name in lock.option_names() {
                assert!(known.iter().any(|known| known == name), "{}: there is no option {name}", lock.name);
            }
        }
    }

    #[test]
    fn hello_must_announce_what_the_lock_claims() {
        let claimed = Capabilities { token: true, validity: true, ..Capabilities::NONE };
        let announced = |words: &[&str]| {
            claimed.check_announced(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(announced(&["validity", "token"]), Ok(()));
        assert!(announced(&["validity"]).is_err_and(|why| why.contains("does not announce token")));
        assert!(announced(&["validity", "token", "lost"]).is_err_and(|why| why.contains("announces lost")));
    }
}
