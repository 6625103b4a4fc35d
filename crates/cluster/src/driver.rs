//! What a driver is: it starts nodes, and takes them down.

use crate::capability::Capability;
use crate::debian::DownloadSettings;
use crate::environment::Environment;
use crate::network::subnet::Subnet;
use crate::node::{Node, NodeSpec};
use crate::{ClusterError, Progress};
use async_trait::async_trait;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct ClusterSpec {
    /// Names the run's containers, networks and folders; unique on this machine.
    pub run: String,
    pub nodes: Vec<NodeSpec>,
    /// Folder for the logs of all nodes; one file a node, appended line by line.
    pub logs: PathBuf,
}

/// A way to start nodes.
#[async_trait]
pub trait Driver: Send + Sync {
    fn name(&self) -> &'static str;
    /// What it stands on, for the heading of a run: the engine with its version. Empty where there is none.
    async fn about(&self) -> String {
        String::new()
    }
    /// What it offers here, found by looking, not by guessing.
    async fn supports(&self) -> Vec<Capability>;
    /// Makes what nodes of this image are made of, where it is missing; starting does so too.
    async fn prepare(&self, image: &'static str) -> Result<(), ClusterError>;
    /// The same for nodes in which a user's programs run.
    async fn prepare_environment(&self, environment: &Arc<Environment>) -> Result<(), ClusterError>;
    /// Starts all nodes, each with its agent up and its address set; nothing is left behind on failure.
    async fn start(&self, spec: &ClusterSpec) -> Result<Cluster, ClusterError>;
}

/// Nodes that run. Call [`Cluster::stop`]; dropping it without that stops them too, as well as a drop can.
pub struct Cluster {
    pub nodes: Vec<Arc<dyn Node>>,
    pub(crate) stop: Box<dyn StopCluster>,
}

/// The variable by which the driver `local` runs this machine's own programs: `machine`.
pub const PROGRAMS: &str = "FENCEPOST_PROGRAMS";

#[derive(Clone)]
pub struct DriverOptions {
    /// The program that is to be the agent; its `main` begins with [`crate::run_internal_command`].
    pub program: PathBuf,
    pub downloads: DownloadSettings,
    /// Run this machine's own programs where it has them, in place of those of Debian's suite (local driver).
    pub machine_programs: bool,
    /// How long each command of `build` and `setup` of a user's folder may take.
    pub setup_time_limit: Duration,
    /// Receives a line for each step that takes long.
    pub progress: Progress,
}

impl DriverOptions {
    /// The running program is the agent; steps that take long are reported on standard error.
    pub fn new() -> Result<DriverOptions, ClusterError> {
        let program =
            std::env::current_exe().map_err(|error| format!("cannot find the running program: {error}"))?;
        Ok(DriverOptions {
            program,
            downloads: DownloadSettings::current(),
            machine_programs: std::env::var_os(PROGRAMS).is_some_and(|value| value == "machine"),
            setup_time_limit: Duration::from_secs(600),
            progress: crate::progress_to_stderr(),
        })
    }
}

#[async_trait]
pub(crate) trait StopCluster: Send + Sync {
    /// Ends every process and removes every container, network, namespace, mount and folder of the run.
    async fn stop(self: Box<Self>) -> Result<(), ClusterError>;
}

impl ClusterSpec {
    /// A run's name that no other run on this machine has.
    pub(crate) fn own_name(what: &str) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        format!("{what}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn check(&self) -> Result<(), ClusterError> {
        let simple = |name: &str| {
            let allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
            !name.is_empty() && name.len() <= 60 && !name.starts_with('-') && name.chars().all(allowed)
        };
        let mut names = HashSet::new();
        for name in self.nodes.iter().map(|node| node.name.as_str()) {
            if !simple(name) {
                return Err(
                    format!("invalid name of a node {name:?}: expected letters, digits and dashes").into()
                );
            }
            if !names.insert(name) {
                return Err(format!("two nodes are named {name}; give each a name of its own").into());
            }
        }
        if !simple(&self.run) {
            let run = &self.run;
            return Err(format!("invalid name of a run {run:?}: expected letters, digits and dashes").into());
        }
        let most = Subnet::HOSTS;
        match self.nodes.len() > most {
            true => {
                Err(format!("a cluster of {} nodes is too large; the most is {most}", names.len()).into())
            }
            false => Ok(()),
        }
    }
}

impl Cluster {
    pub fn node(&self, name: &str) -> Option<&Arc<dyn Node>> {
        self.nodes.iter().find(|node| node.name() == name)
    }

    /// Takes everything down.
    pub async fn stop(self) -> Result<(), ClusterError> {
        self.stop.stop().await
    }
}
