//! How the nodes of a run become containers.

use super::attach::Exec;
use super::containers::{ContainerPlan, DATA, PlannedContainer, StartedContainers};
use super::engine::{Engine, EngineLimits};
use super::frames::standard_output;
use super::keeper::ContainerKeeper;
use super::memory::{self, LimitedNodes};
use super::{NAME, labels};
use crate::agent_node::AgentNode;
use crate::capability::Capability;
use crate::cluster_folder::ClusterFolder;
use crate::driver::{Cluster, ClusterSpec, Driver, DriverOptions};
use crate::drivers::capabilities::{capabilities_of, forget};
use crate::environment::{Environment, USUAL_PATH};
use crate::network::subnet::Subnet;
use crate::node::{NodeContents, NodeSpec};
use crate::node_log::NodeLog;
use crate::program::{self, Program};
use crate::{ClusterError, images};
use async_trait::async_trait;
use fencepost_history::NodeKind;
use futures_util::future::try_join_all;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

const ATTEMPTS: u32 = 10;

const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct DockerDriver {
    engine: Engine,
    options: DriverOptions,
}

impl DockerDriver {
    pub(crate) fn new(engine: Engine, options: DriverOptions) -> DockerDriver {
        DockerDriver { engine, options }
    }

    pub(crate) async fn identity(&self) -> String {
        let program = program::hash(&self.options.program).unwrap_or_default();
        format!("{program} {}", self.engine.identity().await.unwrap_or_default())
    }

    /// The images of all nodes, with this program in them; missing ones are made side by side.
    async fn images(
        &self,
        spec: &ClusterSpec,
        program: &Program,
    ) -> Result<HashMap<NodeContents, String>, ClusterError> {
        let all: HashSet<NodeContents> = spec.nodes.iter().map(NodeSpec::contents).collect();
        let tags = all.into_iter().map(async |contents| {
            let tag = self.image(&contents, program).await?;
            Ok::<_, ClusterError>((contents, tag))
        });
        Ok(try_join_all(tags).await?.into_iter().collect())
    }

    async fn image(&self, contents: &NodeContents, program: &Program) -> Result<String, ClusterError> {
        self.engine.check_platform().await?;
        let base = match &contents.environment {
            Some(environment) => self.engine.environment(environment, &self.options).await?,
            None => self.engine.image(images::find(contents.image)?, &self.options).await?,
        };
        self.engine.layer(&base, program, &self.options.progress).await
    }

    /// Starts the containers; anew where another machine that shares the engine was quicker.
    async fn launch(
        &self,
        spec: &ClusterSpec,
    ) -> Result<(ContainerKeeper, Vec<StartedContainers>), ClusterError> {
        let mut attempt = 1;
        let can_limit = self.engine.limits().await?;
        loop {
            let program = Program::prepare_aside(&self.options.program).await?;
            let tags = self.images(spec, &program).await?;
            let taken = self.engine.networks().await?;
            let is_free = |subnet: Subnet| {
                let is_taken = taken.iter().any(|(network, prefix)| subnet.overlaps(*network, *prefix));
                !is_taken && !subnet.is_routed_here()
            };
            let folder = ClusterFolder::create(&spec.run, is_free)?;
            let (plan, subnet) = (plan(spec, &folder, &tags, &program, can_limit)?, folder.subnet);
            let started = ContainerKeeper::start(plan, folder, program).await;
            let Err(error) = started else { return started };
            let lost_a_race = error.0.contains("overlaps with other one");
            if attempt == ATTEMPTS || !(lost_a_race || self.is_overtaken(subnet, &tags).await?) {
                return Err(error);
            }
            // The engine keeps a subnet for a network that it is still making, and lists that a moment later.
            tokio::time::sleep(PAUSE * attempt).await;
            attempt += 1;
        }
    }

    /// Whether what a start counted on is gone. Machines that share an engine know nothing of each other: one
    /// can take a subnet, or remove the image of a former build, just when another is about to use it.
    async fn is_overtaken(
        &self,
        subnet: Subnet,
        tags: &HashMap<NodeContents, String>,
    ) -> Result<bool, ClusterError> {
        let networks = self.engine.networks().await?;
        if networks.iter().any(|(network, prefix)| subnet.overlaps(*network, *prefix)) {
            return Ok(true);
        }
        for tag in tags.values() {
            if !self.engine.has(tag).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn prepare_contents(&self, contents: &NodeContents) -> Result<(), ClusterError> {
        let program = Program::prepare_aside(&self.options.program).await?;
        self.image(contents, &program).await.map(drop)
    }
}

#[async_trait]
impl Driver for DockerDriver {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn about(&self) -> String {
        self.engine.name().await.unwrap_or_default()
    }

    async fn supports(&self) -> Vec<Capability> {
        capabilities_of(self, &self.identity().await).await
    }

    async fn prepare(&self, image: &'static str) -> Result<(), ClusterError> {
        self.prepare_contents(&NodeContents { image, environment: None }).await
    }

    async fn prepare_environment(&self, environment: &Arc<Environment>) -> Result<(), ClusterError> {
        self.prepare_contents(&NodeContents { image: "client", environment: Some(environment.clone()) }).await
    }

    async fn start(&self, spec: &ClusterSpec) -> Result<Cluster, ClusterError> {
        spec.check()?;
        let launched = self.launch(spec).await;
        if launched.is_err() {
            forget(self, &self.identity().await);
        }
        let (mut keeper, started) = launched?;
        let containers: Vec<String> = started.iter().map(|it| it.container.clone()).collect();
        let nodes = started.into_iter().zip(&spec.nodes).map(|(started, node)| {
            let keeper = &keeper;
            async move {
                let StartedContainers { container, address, streams } = started;
                let log = NodeLog::open(&spec.logs, &node.name)?;
                let from_agent = standard_output(streams.output, "agent", log.clone());
                let attach = Box::new(Exec::new(&self.engine, container, &keeper.program));
                let counted = self.engine.limits().await?.memory;
                let node = AgentNode::connect(node, address, log, from_agent, streams.input, attach, counted)
                    .await?;
                Ok::<_, ClusterError>(Arc::new(node))
            }
        });
        let nodes = try_join_all(nodes).await?;
        let of_node = |(container, (node, spec)): (String, (&Arc<AgentNode>, &NodeSpec))| {
            Some((container, (Arc::downgrade(node), spec.limits?)))
        };
        let limited: LimitedNodes =
            containers.into_iter().zip(nodes.iter().zip(&spec.nodes)).filter_map(of_node).collect();
        if !limited.is_empty() {
            let docker = self.engine.docker.clone();
            keeper.watches.spawn(memory::watch(docker, spec.run.clone(), limited));
        }
        let nodes = nodes.into_iter().map(|node| node as Arc<dyn crate::Node>).collect();
        Ok(Cluster { nodes, stop: Box::new(keeper) })
    }
}

fn has_own_image(node: &NodeSpec) -> bool {
    node.environment.as_ref().is_some_and(|it| it.has_own_image())
}

fn plan(
    spec: &ClusterSpec,
    folder: &ClusterFolder,
    tags: &HashMap<NodeContents, String>,
    program: &Program,
    can_limit: EngineLimits,
) -> Result<ContainerPlan, ClusterError> {
    let nodes = spec.nodes.iter().zip(folder.subnet.hosts()).map(|(node, address)| PlannedContainer {
        name: node.name.clone(),
        image: tags[&node.contents()].clone(),
        address,
        may_mount: node.may_mount,
        in_a_folder: node.environment.is_some(),
        limits: node.limits,
        can_limit,
        // An engine's own /etc/hosts can be written only where all of the image can.
        read_only: node.kind == NodeKind::Client && !has_own_image(node) && !node.writes_hosts,
        path: match &node.environment {
            Some(environment) if environment.has_own_image() => None,
            Some(environment) => Some(environment.path()),
            None => Some(USUAL_PATH.to_owned()),
        },
    });
    Ok(ContainerPlan {
        run: spec.run.clone(),
        subnet: folder.subnet,
        labels: labels::of_run(&spec.run, folder),
        agent: program.argv(&["agent", DATA, "-", &folder.subnet.gateway().to_string()]),
        nodes: nodes.collect(),
    })
}
