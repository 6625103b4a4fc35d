//! How the nodes of a run become processes in namespaces.

use super::attach::AgentSocket;
use super::devices;
use super::keeper::Keeper;
use super::prepared::Prepared;
use super::sandbox::{Plan, PlannedNode};
use crate::ClusterError;
use crate::agent_node::AgentNode;
use crate::capability::Capability;
use crate::cluster_folder::ClusterFolder;
use crate::confinement::control_groups::{self, MemoryEvents, NodeGroups};
use crate::driver::{Cluster, ClusterSpec, Driver, DriverOptions};
use crate::drivers::capabilities::capabilities_of;
use crate::drivers::docker::known_by_any;
use crate::environment::{Environment, USUAL_PATH};
use crate::error::cannot;
use crate::images::{self, Image, UnpackedRoot};
use crate::node::{NodeContents, NodeSpec};
use crate::node_log::NodeLog;
use crate::program::{self, Program};
use crate::protocol::NodeLimits;
use async_trait::async_trait;
use futures_util::future::try_join_all;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

const DATA: &str = "/data";

const LOOK: Duration = Duration::from_millis(50);

pub(crate) struct LocalDriver {
    options: DriverOptions,
}

struct NodeBase {
    /// None: the machine's own.
    root: Option<UnpackedRoot>,
    environment: Option<Prepared>,
}

fn folder_of(root: Option<&UnpackedRoot>) -> &Path {
    root.map_or(Path::new("/"), |root| &root.folder)
}

/// A node that is about to be started: the controller's ends of its streams.
struct NodeStreams {
    spec: NodeSpec,
    address: Ipv4Addr,
    stream: UnixStream,
    attach: OwnedFd,
    memory: Option<MemoryEvents>,
}

impl LocalDriver {
    pub(crate) fn new(options: DriverOptions) -> LocalDriver {
        LocalDriver { options }
    }

    async fn bases(&self, spec: &ClusterSpec) -> Result<HashMap<NodeContents, NodeBase>, ClusterError> {
        let all: HashSet<NodeContents> = spec.nodes.iter().map(NodeSpec::contents).collect();
        let bases = all.into_iter().map(async |contents| {
            let base = match &contents.environment {
                Some(environment) => self.prepared(environment).await?,
                None => NodeBase { root: self.root(contents.image).await?, environment: None },
            };
            Ok::<_, ClusterError>((contents, base))
        });
        Ok(try_join_all(bases).await?.into_iter().collect())
    }

    /// A user's programs run with those of this machine only where nothing says what they need.
    async fn prepared(&self, environment: &Arc<Environment>) -> Result<NodeBase, ClusterError> {
        if let Some(image) = &environment.image {
            return Err(ClusterError::new(format!(
                "the image {image} needs a container engine: use --driver docker, or name a folder or a program"
            )));
        }
        let packages = &environment.packages;
        let of_this_machine = self.options.machine_programs && images::are_installed(packages);
        let root = match environment.names_no_origin() || of_this_machine {
            true => None,
            false => Some(self.unpacked(&Image::with_packages(packages, environment.suite())).await?),
        };
        let prepared = Prepared::make(environment, folder_of(root.as_ref()), &self.options).await?;
        Ok(NodeBase { root, environment: Some(prepared) })
    }

    /// Changes with the program and each boot, perhaps with another kernel or other modules.
    pub(crate) fn identity(&self) -> String {
        let user = nix::unistd::geteuid();
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let program = program::hash(&self.options.program).unwrap_or_default();
        format!("{program} {user} {}", boot.trim())
    }

    async fn root(&self, name: &'static str) -> Result<Option<UnpackedRoot>, ClusterError> {
        let image = images::find(name)?;
        if self.options.machine_programs && image.can_be_this_machines() {
            return Ok(None);
        }
        self.unpacked(image).await.map(Some)
    }

    async fn unpacked(&self, image: &Image) -> Result<UnpackedRoot, ClusterError> {
        let DriverOptions { downloads, progress, .. } = &self.options;
        let downloads = known_by_any(downloads, image, progress).await;
        images::root_file_system(image, &downloads, progress).await
    }
}

#[async_trait]
impl Driver for LocalDriver {
    fn name(&self) -> &'static str {
        "local"
    }

    async fn supports(&self) -> Vec<Capability> {
        capabilities_of(self, &self.identity()).await
    }

    async fn prepare(&self, image: &'static str) -> Result<(), ClusterError> {
        self.root(image).await.map(drop)
    }

    async fn prepare_environment(&self, environment: &Arc<Environment>) -> Result<(), ClusterError> {
        self.prepared(environment).await.map(drop)
    }

    async fn start(&self, spec: &ClusterSpec) -> Result<Cluster, ClusterError> {
        spec.check()?;
        devices::check()?;
        let bases = self.bases(spec).await?;
        let program = Program::prepare_aside(&self.options.program).await?;
        // The bridge is in its own namespace: only addresses that nodes may want to reach from it matter.
        let folder = ClusterFolder::create(&spec.run, |subnet| !subnet.is_routed_here())?;
        let (plan, wiring, inherited) = plan(spec, &folder, &bases, &program)?;
        let keeper =
            Keeper::start(&self.options.program, &plan, inherited, folder, Box::new((program, bases)))
                .await?;
        let nodes = try_join_all(wiring.into_iter().map(|it| connect(it, &spec.logs))).await?;
        Ok(Cluster { nodes, stop: Box::new(keeper) })
    }
}

/// Whether namespaces can be made here: starts a sandbox of no nodes.
pub(crate) async fn try_namespaces(options: &DriverOptions) -> Result<(), ClusterError> {
    let spec =
        ClusterSpec { run: ClusterSpec::own_name("namespaces"), nodes: Vec::new(), logs: PathBuf::new() };
    let driver = LocalDriver::new(options.clone());
    driver.start(&spec).await?.stop().await
}

/// Makes the nodes' folders and streams. The last part is what the sandbox is to inherit.
fn plan(
    spec: &ClusterSpec,
    folder: &ClusterFolder,
    bases: &HashMap<NodeContents, NodeBase>,
    program: &Program,
) -> Result<(Plan, Vec<NodeStreams>, Vec<OwnedFd>), ClusterError> {
    let mount_place = folder.path().join("root");
    make_folder(&mount_place)?;
    let mut plan = Plan { nodes: Vec::new(), mount_place, program: program.folder.clone() };
    let (mut wiring, mut inherited) = (Vec::new(), Vec::new());
    for (node, address) in spec.nodes.iter().zip(folder.subnet.hosts()) {
        let base = &bases[&node.contents()];
        let data = folder.path().join("nodes").join(&node.name);
        make_folder(&data)?;
        let cannot = |error| ClusterError::new(format!("{}: cannot make its streams: {error}", node.name));
        let (stream, agents_stream) = UnixStream::pair().map_err(cannot)?;
        let (attach, agents_attach) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
                .map_err(|error| cannot(error.into()))?;
        let groups = node.limits.map_or_else(NodeGroups::default, |limits| {
            let name = format!("{}-{}", spec.run, node.name);
            control_groups::make(&name, limits, &mut |group| folder.add_group(group))
        });
        plan.nodes.push(PlannedNode {
            name: node.name.clone(),
            address,
            root: folder_of(base.root.as_ref()).to_owned(),
            lock: base.environment.as_ref().map(|environment| environment.folder.clone()),
            data,
            path: node.environment.as_ref().map_or_else(|| USUAL_PATH.to_owned(), |it| it.path()),
            may_mount: node.may_mount,
            agent: program.argv(&["agent", DATA, &agents_attach.as_raw_fd().to_string()]),
            groups: groups.processes.iter().map(AsRawFd::as_raw_fd).collect(),
            limits: node.limits,
            stream: agents_stream.as_raw_fd(),
            attach: agents_attach.as_raw_fd(),
        });
        wiring.push(NodeStreams { spec: node.clone(), address, stream, attach, memory: groups.memory });
        inherited.extend([agents_stream.into(), agents_attach]);
        inherited.extend(groups.processes);
    }
    Ok((plan, wiring, inherited))
}

async fn connect(wiring: NodeStreams, logs: &Path) -> Result<Arc<dyn crate::Node>, ClusterError> {
    let NodeStreams { spec, address, stream, attach, memory } = wiring;
    let cannot = |error| ClusterError::new(format!("{}: cannot use its streams: {error}", spec.name));
    stream.set_nonblocking(true).map_err(cannot)?;
    let (from_agent, to_agent) = tokio::net::UnixStream::from_std(stream).map_err(cannot)?.into_split();
    let log = NodeLog::open(logs, &spec.name)?;
    let attach = Box::new(AgentSocket::new(attach));
    let counted = memory.is_some();
    let node = AgentNode::connect(&spec, address, log, from_agent, to_agent, attach, counted).await?;
    let node = Arc::new(node);
    if let Some((memory, limits)) = memory.zip(spec.limits) {
        tokio::spawn(watch_memory(memory, limits, Arc::downgrade(&node)));
    }
    Ok(node)
}

/// Ends a node's programs once the kernel has killed one for memory; the agent may be gone, too.
async fn watch_memory(events: MemoryEvents, limits: NodeLimits, node: Weak<AgentNode>) {
    while events.killed() == 0 {
        tokio::time::sleep(LOOK).await;
        if node.strong_count() == 0 {
            return;
        }
    }
    if let Some(node) = node.upgrade() {
        node.ran_out_of_memory(limits).await;
    }
}

fn make_folder(path: &Path) -> Result<(), ClusterError> {
    std::fs::create_dir_all(path).map_err(cannot("make the folder", path))
}
