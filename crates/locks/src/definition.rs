//! What a lock is: a service with its servers, a recipe for its clients, and what the two can do.

use crate::access::Access;
use crate::capabilities::Capabilities;
use crate::error::{ClientError, OptionError, refuse};
use crate::options::Options;
use crate::protocol::Server;
use crate::recipe::Recipe;
use crate::service::{LockService, TLS_AND_AUTH};
use fencepost_cluster::ClusterError;
use fencepost_cluster::images::ServerChoice;
use fencepost_history::{LockFacts, TimeSpan};
use fencepost_storage::Sequencers;
use std::time::Duration;

/// A lock that Fencepost can judge. A recipe's file defines one; [`crate::services`] lists them all.
pub struct LockDefinition {
    pub name: &'static str,
    /// One line for `fencepost list`.
    pub about: &'static str,
    /// One line for `fencepost list`: its properties, named as the checkers do, and their conditions.
    pub claims: &'static str,
    pub service: &'static LockService,
    pub recipe: &'static dyn Recipe,
    /// Options of the recipe, named as on the command line but without dashes (`lock-delay`).
    /// Those of its service are added to them; any other option is refused. `nodes` is understood by all.
    pub options: &'static [&'static str],
    pub capabilities: fn(&Options) -> Capabilities,
}

impl LockDefinition {
    /// What the lock can do when it is set up with these options.
    pub fn capabilities(&self, options: &Options) -> Capabilities {
        match self.recipe.program() {
            Some(program) => program.capabilities(),
            None => (self.capabilities)(options),
        }
    }

    /// The server that its name says, behind all else: `redlock@redis-7.0`.
    pub fn named_server(&self) -> Option<ServerChoice> {
        ServerChoice::behind(self.name).map(|(_, server)| server)
    }

    /// What a history says about the lock. `can` is what its clients announced.
    pub fn facts(&self, options: &Options, version: Option<String>, can: &[String]) -> LockFacts {
        let facts = match self.recipe.program() {
            Some(program) => program.facts(version, can),
            None => LockFacts {
                name: self.name.to_owned(),
                kind: self.capabilities(options).kind,
                lease: self.capabilities(options).lease,
                can: can.to_vec(),
                ..LockFacts::default()
            },
        };
        let lock_delay = self.capabilities(options).lock_delay;
        let lock_delay = (!lock_delay.is_zero()).then_some(TimeSpan(lock_delay));
        LockFacts { may_be_down: self.service.may_be_down, lock_delay, ..facts }
    }

    /// The hash of its files as they are now, where it is a folder. Errors: they cannot be read.
    pub fn files_hash(&self) -> Result<Option<String>, ClusterError> {
        let environment = self.recipe.program().and_then(|program| program.environment.as_ref());
        environment.map(|environment| environment.hash()).transpose()
    }

    /// Every option that it understands, those of its service first: named as in [`LockDefinition::options`].
    pub fn option_names(&self) -> impl Iterator<Item = &'static str> {
        // A service without servers has no image.
        let server = self.service.image(&Options::default()).map(|_| "server");
        server.into_iter().chain(self.service.options.iter().chain(self.options).copied())
    }

    /// Checks that the lock can be set up with these options and this TTL. The error says what is possible.
    pub fn check(&self, options: &Options, ttl: Duration) -> Result<(), OptionError> {
        self.check_names(options)?;
        self.check_server(options)?;
        self.service.check(options)?;
        self.recipe.check(options)?;
        (self.service.check_ttl)(ttl)?;
        self.recipe.check_ttl(ttl)
    }

    /// Storage side: connects to the servers. A lock without sequencers is an error.
    pub async fn sequencers(
        &self,
        servers: &[Server],
        access: Option<&Access>,
    ) -> Result<Box<dyn Sequencers>, ClientError> {
        let asked = self.recipe.sequencers(servers, access).await?;
        asked.ok_or_else(|| ClientError::BadHello(format!("{} has no sequencers", self.name)))
    }

    fn check_server(&self, options: &Options) -> Result<(), OptionError> {
        let servers = self.service.servers;
        match self.service.set_up(options).server {
            Some(ServerChoice::Release(release))
                if !servers.is_empty() && !servers.contains(&release.server) =>
            {
                refuse!(
                    "server",
                    "{} does not run on {release}; it runs on {}",
                    self.name,
                    ServerChoice::names(servers)
                )
            }
            _ => match self.service.environment(options) {
                Ok(_) => Ok(()),
                Err(refusal) => refuse!("server", "{}", refusal.sentence),
            },
        }
    }

    fn check_names(&self, options: &Options) -> Result<(), OptionError> {
        let understood: Vec<&str> = self.option_names().collect();
        let Some(unknown) = options.changed().into_iter().find(|name| !understood.contains(&name.as_str()))
        else {
            return Ok(());
        };
        if TLS_AND_AUTH.contains(&unknown.as_str()) {
            let service = match self.service.default_nodes() {
                0 => "it has no servers",
                _ => "its servers are described by a lock.toml, and only built-in services are set up so",
            };
            refuse!(&*unknown, "--{unknown} is not for the lock {}: {service}", self.name);
        }
        let own = match understood.as_slice() {
            [] => "it has none of its own".to_owned(),
            own => {
                format!("it has --{}", own.join(", --"))
            }
        };
        refuse!(&*unknown, "--{unknown} is no option of the lock {}; {own}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Persistence;
    use crate::services::{find, registry};

    const TTL: Duration = Duration::from_secs(2);

    #[test]
    fn each_lock_takes_its_own_options_only() {
        let options = Options { redis_persistence: Persistence::Always, ..Options::default() };
        let check = |name: &str| find(name).unwrap().check(&options, TTL);
        assert_eq!(check("redlock"), Ok(()));
        let refusal = check("etcd").unwrap_err().sentence;
        assert!(refusal.contains("--redis-persistence is no option of the lock etcd"), "{refusal}");
    }

    #[test]
    fn servers_of_built_in_services_alone_speak_tls() {
        let options = Options { tls: true, auth: true, ..Options::default() };
        let refusal = |name: &str| find(name).unwrap().check(&options, TTL).err().map(|why| why.sentence);
        for lock in registry().iter().filter(|lock| lock.service.default_nodes() > 0) {
            assert_eq!(refusal(lock.name), None);
        }
        let canary = "--auth is not for the lock canary-nolock: it has no servers";
        assert_eq!(refusal("canary-nolock").as_deref(), Some(canary));
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
}
