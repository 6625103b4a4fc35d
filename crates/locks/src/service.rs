//! What a lock service is: its servers, how they are started, and how they say that they serve and which of
//! them leads.

use crate::error::OptionError;
use crate::existing::ExistingService;
use crate::options::Options;
use crate::run_access::{AccessFile, RunAccess};
use async_trait::async_trait;
use fencepost_cluster::images::{self, ServerChoice};
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClockMechanism, ClusterError, Environment, Node};
use fencepost_history::Refusal;
use std::sync::Arc;
use std::time::Duration;

/// The options of a service whose servers can speak TLS and ask for a password.
pub(crate) const TLS_AND_AUTH: &[&str] = &["tls", "auth"];

/// The servers beneath a lock.
#[async_trait]
pub trait LockService: Send + Sync {
    /// As in documentation and messages (`redis-sentinel`).
    fn name(&self) -> &'static str;
    /// The kinds of servers that it can run on, by the names of their releases: the usual one first. Empty
    /// for a service without servers, and for one of a user's own.
    fn servers(&self) -> &'static [&'static str] {
        &[]
    }
    /// Image of its servers, as these options choose it; none for a service without servers.
    fn image(&self, options: &Options) -> Option<&'static str> {
        let usual = self.servers().first().copied()?;
        match options.server {
            Some(ServerChoice::Release(release)) => Some(images::name_of(release).unwrap_or(usual)),
            Some(ServerChoice::Own(_)) => Some("client"),
            None => Some(usual),
        }
    }
    /// The user's programs that its servers are, as these options choose them; none for Debian's.
    ///
    /// # Errors
    /// One sentence: what was chosen is no such server.
    fn environment(&self, options: &Options) -> Result<Option<Arc<Environment>>, Refusal> {
        match (self.servers().first(), options.server) {
            (Some(kind), Some(ServerChoice::Own(own))) => own.environment(kind).map(Some),
            _ => Ok(None),
        }
    }
    /// How many servers it has when the user does not say.
    fn default_nodes(&self) -> usize;
    /// How many servers may be down at once while it still grants locks, where not any minority may.
    fn may_be_down(&self) -> Option<usize> {
        None
    }
    /// About how long it takes to start its servers until they serve, and to end them.
    fn setup_time(&self) -> Duration {
        Duration::from_secs(1)
    }
    /// Options of its own that it understands, as on the command line without the dashes
    /// (`redis-persistence`).
    fn options(&self) -> &'static [&'static str] {
        &[]
    }
    /// The options by which its servers are really set up, where a run has these: a `lock.toml` has defaults
    /// of its own.
    fn set_up(&self, options: &Options) -> Options {
        options.clone()
    }
    /// Refuses values that make no sense for it, such as a number of servers.
    ///
    /// # Errors
    /// Says which value is wrong, and what is possible.
    fn check(&self, options: &Options) -> Result<(), OptionError>;
    /// Refuses a TTL that its servers cannot keep.
    ///
    /// # Errors
    /// Says which TTL is possible.
    fn check_ttl(&self, _ttl: Duration) -> Result<(), OptionError> {
        Ok(())
    }
    /// Port at which clients reach its servers.
    fn port(&self) -> u16;
    /// Port at which server `index` is reached, where it has one of its own.
    fn port_of(&self, _index: usize) -> u16 {
        self.port()
    }
    /// Whether clients are given the address of server `index`.
    fn is_for_clients(&self, _index: usize) -> bool {
        true
    }
    /// The process that server `index` of these nodes runs.
    fn start_command(&self, index: usize, nodes: &[Arc<dyn Node>], options: &Options) -> Service;
    /// The files, beside those that every server gets, by which its servers ask for a password or speak TLS.
    /// Only services that have the options `tls` and `auth` are asked.
    fn access_files(&self, _access: &RunAccess) -> Vec<AccessFile> {
        Vec::new()
    }
    /// Gives orders to servers that serve, where they ask for a password only after such orders.
    ///
    /// # Errors
    /// A server refused.
    async fn secure(&self, _nodes: &[Arc<dyn Node>], _access: &RunAccess) -> Result<(), ClusterError> {
        Ok(())
    }
    /// By which mechanisms the clocks of its servers can be moved, the one that suits their program best
    /// first: for a JVM faketime, then vdso.
    fn clock_mechanisms(&self) -> &'static [ClockMechanism] {
        &[ClockMechanism::Vdso]
    }
    /// Returns when the servers serve (elected, replicated, answering). Called after all of them were
    /// started.
    ///
    /// # Errors
    /// Says which server does not serve, and its answer.
    async fn await_ready(&self, nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError>;
    /// Returns when one server, of all of these, serves again that was started again, while all others serve.
    ///
    /// # Errors
    /// Says why it does not serve.
    async fn await_serving(&self, node: &Arc<dyn Node>, _all: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
        self.await_ready(std::slice::from_ref(node)).await
    }
    /// Name and version of a server, of all of these, as it says them itself (`redis-server 7.0.15`).
    ///
    /// # Errors
    /// The server could not be asked.
    async fn version(&self, node: &Arc<dyn Node>, all: &[Arc<dyn Node>]) -> Result<String, ClusterError>;
    /// What a server writes into its log when it cannot read its own data any more: parts of lines. For
    /// servers that make durable what they answer, so that this is a failure of theirs, whatever the power
    /// did.
    fn unreadable_data(&self) -> &'static [&'static str] {
        &[]
    }
    /// How to find the leader, where one of the servers leads at a time and the others follow it. None: each
    /// server stands for itself, and a fault that is meant for a leader takes a drawn one.
    fn leadership(&self) -> Option<&dyn ServiceLeadership> {
        None
    }
    /// What there is to do on servers of this service that exist without the run. None where a run has to
    /// start its servers itself.
    fn existing(&self) -> Option<&dyn ExistingService> {
        None
    }
    /// How to make a server refuse writes, by an order to the server itself. None where that is not known.
    fn refusals(&self) -> Option<&dyn ServiceRefusals> {
        None
    }
}

/// A service whose servers can be made to answer writes with an error, as they do by themselves on a bad day.
#[async_trait]
pub trait ServiceRefusals: Send + Sync {
    /// The errors, by the word that they begin with, in small letters (`readonly`).
    fn replies(&self) -> &'static [&'static str];
    /// Makes a server answer writes with one of these.
    ///
    /// # Errors
    /// The server could not be asked, or refused.
    async fn begin(&self, node: &Arc<dyn Node>, reply: &str) -> Result<(), ClusterError>;
    /// Makes it take writes again.
    ///
    /// # Errors
    /// The server could not be asked, or refused.
    async fn end(&self, node: &Arc<dyn Node>, reply: &str) -> Result<(), ClusterError>;
    /// What it answers to a write now, in its own words; none: it takes it.
    ///
    /// # Errors
    /// The server could not be asked.
    async fn refusal(&self, node: &Arc<dyn Node>) -> Result<Option<String>, ClusterError>;
}

/// A service in which one server leads.
#[async_trait]
pub trait ServiceLeadership: Send + Sync {
    /// The place, among these nodes, of the server that leads now, as the servers themselves say; where they
    /// disagree, the one with the newest term. None while there is no leader.
    ///
    /// # Errors
    /// The servers could not be asked.
    async fn leader(&self, nodes: &[Arc<dyn Node>]) -> Result<Option<usize>, ClusterError>;
    /// Asks the service to let another server lead than `from`, without harming `from`. Returns when the
    /// service has accepted the order; whether it was carried out shows in [`ServiceLeadership::leader`].
    ///
    /// # Errors
    /// The service cannot do that, or refused.
    async fn transfer_leadership(&self, nodes: &[Arc<dyn Node>], from: usize) -> Result<(), ClusterError>;
}
