//! How the nodes of a run become containers.

use super::attach::Exec;
use super::containers::{DATA, Plan, PlannedNode, Started};
use super::engine::Engine;
use super::frames::Frames;
use super::keeper::Keeper;
use super::{labels, leftovers};
use crate::agent_node::AgentNode;
use crate::capability::Capability;
use crate::cluster_folder::ClusterFolder;
use crate::driver::{Cluster, ClusterSpec, Driver, DriverOptions};
use crate::drivers::capabilities::capabilities_of;
use crate::environment::Environment;
use crate::node::{NodeKind, NodeSpec};
use crate::node_log::NodeLog;
use crate::program::{self, Program};
use crate::subnet::Subnet;
use crate::{ClusterError, cluster_folder, images};
use async_trait::async_trait;
use futures_util::future::try_join_all;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Starts nodes as containers.
pub(crate) struct DockerDriver {
    engine: Engine,
    options: DriverOptions,
}

impl DockerDriver {
    pub(crate) fn new(engine: Engine, options: DriverOptions) -> DockerDriver {
        DockerDriver { engine, options }
    }

    /// Changes with the program, the engine and its kernel.
    pub(crate) async fn identity(&self) -> String {
        let program = program::hash(&self.options.program).unwrap_or_default();
        format!("{program} {}", self.engine.identity().await.unwrap_or_default())
    }

    /// The images of all nodes, with this program in them; made now where they are missing, side by side: one is
    /// unpacked while another is downloaded.
    async fn images(
        &self,
        spec: &ClusterSpec,
        program: &Program,
    ) -> Result<HashMap<NodeKind, String>, ClusterError> {
        let kinds: HashSet<NodeKind> = spec.nodes.iter().map(NodeSpec::kind).collect();
        let tags = kinds.into_iter().map(async |kind| {
            let tag = self.image(&kind, program).await?;
            Ok((kind, tag))
        });
        Ok(try_join_all(tags).await?.into_iter().collect())
    }

    async fn image(&self, kind: &NodeKind, program: &Program) -> Result<String, ClusterError> {
        let base = match &kind.environment {
            Some(environment) => self.engine.environment(environment, &self.options).await?,
            None => self.engine.image(images::find(kind.image)?, &self.options.progress).await?,
        };
        self.engine.layer(&base, program, &self.options.progress).await
    }

    /// Makes the image of nodes of this kind.
    async fn prepare_kind(&self, kind: &NodeKind) -> Result<(), ClusterError> {
        let program = Program::prepare_aside(&self.options.program).await?;
        self.image(kind, &program).await.map(drop)
    }
}

#[async_trait]
impl Driver for DockerDriver {
    fn name(&self) -> &'static str {
        "docker"
    }

    async fn supports(&self) -> Vec<Capability> {
        capabilities_of(self, &self.identity().await).await
    }

    async fn prepare(&self, image: &'static str) -> Result<(), ClusterError> {
        self.prepare_kind(&NodeKind { image, environment: None }).await
    }

    async fn prepare_environment(&self, environment: &Arc<Environment>) -> Result<(), ClusterError> {
        self.prepare_kind(&NodeKind { image: "client", environment: Some(environment.clone()) }).await
    }

    async fn start(&self, spec: &ClusterSpec) -> Result<Cluster, ClusterError> {
        spec.check()?;
        let program = Program::prepare_aside(&self.options.program).await?;
        let tags = self.images(spec, &program).await?;
        let taken = self.engine.networks().await?;
        let is_free = |subnet: Subnet| {
            let is_taken = taken.iter().any(|(network, prefix)| subnet.overlaps(*network, *prefix));
            !is_taken && !subnet.is_routed_here()
        };
        let folder = ClusterFolder::create(&spec.run, is_free)?;
        let plan = plan(spec, &folder, &tags, &program)?;
        let (keeper, started) = Keeper::start(plan, folder, program).await?;
        let nodes = started.into_iter().zip(&spec.nodes).map(|(started, node)| {
            let keeper = &keeper;
            async move {
                let Started { container, address, streams } = started;
                let log = NodeLog::open(&spec.logs, &node.name)?;
                let from_agent = Frames::new(streams.output, "agent", log.clone());
                let attach = Box::new(Exec::new(&self.engine, container, &keeper.program));
                let node = AgentNode::connect(node, address, log, from_agent, streams.input, attach).await?;
                Ok::<_, ClusterError>(Arc::new(node) as Arc<dyn crate::Node>)
            }
        });
        let nodes = try_join_all(nodes).await?;
        Ok(Cluster { nodes, stop: Box::new(keeper) })
    }

    async fn clean_up_leftovers(&self) -> Result<Vec<String>, ClusterError> {
        let mut removed = leftovers::remove(&self.engine).await?;
        let folders = tokio::task::spawn_blocking(cluster_folder::remove_dead).await;
        let folders = folders.map_err(|error| ClusterError::new(error.to_string()))??;
        removed.extend(folders.into_iter().map(|run| format!("removed the folder of the crashed run {run}")));
        Ok(removed)
    }
}

fn plan(
    spec: &ClusterSpec,
    folder: &ClusterFolder,
    tags: &HashMap<NodeKind, String>,
    program: &Program,
) -> Result<Plan, ClusterError> {
    let nodes = spec.nodes.iter().zip(folder.subnet.hosts()).map(|(node, address)| PlannedNode {
        name: node.name.clone(),
        image: tags[&node.kind()].clone(),
        address,
        may_mount: node.may_mount,
        in_a_folder: node.environment.is_some(),
        own_path: node.environment.as_ref().is_some_and(|it| it.dockerfile.is_some()),
    });
    Ok(Plan {
        run: spec.run.clone(),
        subnet: folder.subnet,
        labels: labels::of_run(&spec.run, folder),
        agent: program.argv(&["agent", DATA]),
        nodes: nodes.collect(),
    })
}
