//! A built-in service as a `lock.toml`, or the end of a lock's name, sets it up: its options take the place
//! of the defaults.

use crate::error::OptionError;
use crate::existing::ExistingService;
use crate::options::{Options, Persistence};
use crate::run_access::{AccessFile, RunAccess};
use crate::service::{LockService, ServiceLeadership, ServiceRefusals};
use async_trait::async_trait;
use fencepost_cluster::images::ServerChoice;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClockMechanism, ClusterError, Environment, Node};
use fencepost_history::Refusal;
use std::sync::Arc;
use std::time::Duration;

/// A service with defaults of its own. What the run's options say otherwise than the usual defaults stands.
pub(crate) struct ConfiguredService {
    pub(crate) service: &'static dyn LockService,
    pub(crate) nodes: Option<usize>,
    pub(crate) server: Option<ServerChoice>,
    pub(crate) redis_persistence: Option<Persistence>,
}

#[async_trait]
impl LockService for ConfiguredService {
    fn name(&self) -> &'static str {
        self.service.name()
    }

    fn servers(&self) -> &'static [&'static str] {
        self.service.servers()
    }

    fn image(&self, options: &Options) -> Option<&'static str> {
        self.service.image(&self.set_up(options))
    }

    fn environment(&self, options: &Options) -> Result<Option<Arc<Environment>>, Refusal> {
        self.service.environment(&self.set_up(options))
    }

    fn default_nodes(&self) -> usize {
        self.nodes.unwrap_or_else(|| self.service.default_nodes())
    }

    fn may_be_down(&self) -> Option<usize> {
        self.service.may_be_down()
    }

    fn setup_time(&self) -> Duration {
        self.service.setup_time()
    }

    fn options(&self) -> &'static [&'static str] {
        self.service.options()
    }

    fn set_up(&self, options: &Options) -> Options {
        let persistence = match options.redis_persistence == Persistence::default() {
            true => self.redis_persistence.unwrap_or_default(),
            false => options.redis_persistence,
        };
        Options {
            nodes: options.nodes.or(self.nodes),
            server: options.server.or(self.server),
            redis_persistence: persistence,
            ..options.clone()
        }
    }

    fn check(&self, options: &Options) -> Result<(), OptionError> {
        self.service.check(&self.set_up(options))
    }

    fn check_ttl(&self, ttl: Duration) -> Result<(), OptionError> {
        self.service.check_ttl(ttl)
    }

    fn port(&self) -> u16 {
        self.service.port()
    }

    fn port_of(&self, index: usize) -> u16 {
        self.service.port_of(index)
    }

    fn is_for_clients(&self, index: usize) -> bool {
        self.service.is_for_clients(index)
    }

    fn start_command(&self, index: usize, nodes: &[Arc<dyn Node>], options: &Options) -> Service {
        self.service.start_command(index, nodes, &self.set_up(options))
    }

    fn access_files(&self, access: &RunAccess) -> Vec<AccessFile> {
        self.service.access_files(access)
    }

    async fn secure(&self, nodes: &[Arc<dyn Node>], access: &RunAccess) -> Result<(), ClusterError> {
        self.service.secure(nodes, access).await
    }

    fn clock_mechanisms(&self) -> &'static [ClockMechanism] {
        self.service.clock_mechanisms()
    }

    async fn await_ready(&self, nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
        self.service.await_ready(nodes).await
    }

    async fn await_serving(&self, node: &Arc<dyn Node>, all: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
        self.service.await_serving(node, all).await
    }

    async fn version(&self, node: &Arc<dyn Node>, all: &[Arc<dyn Node>]) -> Result<String, ClusterError> {
        self.service.version(node, all).await
    }

    fn unreadable_data(&self) -> &'static [&'static str] {
        self.service.unreadable_data()
    }

    fn existing(&self) -> Option<&dyn ExistingService> {
        self.service.existing()
    }

    fn refusals(&self) -> Option<&dyn ServiceRefusals> {
        self.service.refusals()
    }

    fn leadership(&self) -> Option<&dyn ServiceLeadership> {
        self.service.leadership()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same servers are judged alike behind a `lock.toml` and as a built-in lock: what a service says of
    /// them is what the configured one says.
    #[test]
    fn a_configured_service_says_of_its_servers_what_the_service_says() {
        let mut logs_of_lost_data = 0;
        for lock in crate::registry::registry() {
            let service = lock.service;
            let configured =
                ConfiguredService { service, nodes: None, server: None, redis_persistence: None };
            let name = service.name();
            assert_eq!(configured.unreadable_data(), service.unreadable_data(), "{name}");
            assert_eq!(configured.setup_time(), service.setup_time(), "{name}");
            assert_eq!(configured.may_be_down(), service.may_be_down(), "{name}");
            assert_eq!(configured.clock_mechanisms(), service.clock_mechanisms(), "{name}");
            for index in 0..service.default_nodes() {
                assert_eq!(configured.port_of(index), service.port_of(index), "{name}");
                assert_eq!(configured.is_for_clients(index), service.is_for_clients(index), "{name}");
            }
            logs_of_lost_data += service.unreadable_data().len();
        }
        assert!(logs_of_lost_data > 0, "no service names such a line: this test would say nothing");
    }
}
