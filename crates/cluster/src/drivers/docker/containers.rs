//! Making a run's network and containers, and removing them.

use super::confinement::security_options;
use super::engine::{EngineLimits, failed, has_status};
use super::labels::{filter_of_run, name_of_run};
use crate::ClusterError;
use crate::confinement::control_groups;
use crate::environment::PLACE;
use crate::network::network_programs;
use crate::network::subnet::Subnet;
use crate::protocol::NodeLimits;
use bollard::Docker;
use bollard::container::AttachContainerResults;
use bollard::models::{
    ContainerCreateBody, DeviceMapping, EndpointIpamConfig, EndpointSettings, HostConfig,
    HostConfigLogConfig, Ipam, IpamConfig, NetworkCreateRequest, NetworkingConfig,
};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, InspectNetworkOptions,
    ListContainersOptionsBuilder, RemoveContainerOptionsBuilder, StartContainerOptions,
};
use futures_util::future::{join_all, try_join_all};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

pub(super) const DATA: &str = "/data";

/// Where nodes with a read-only image write beside their data, and how: as under the local driver.
const WRITABLE: [(&str, &str); 2] =
    [("/tmp", "exec,mode=1777,size=256m"), ("/run", "exec,mode=755,size=256m")];

/// What a node may do: change files and users, signal, open low ports, change its network, send and filter
/// raw packets, and trace processes. The agent confines what it starts still more.
const CAPABILITIES: [&str; 12] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_PTRACE",
];

/// How long the engine may take to take down what was killed.
const REMOVAL: Duration = Duration::from_secs(20);

pub(super) struct ContainerPlan {
    pub(super) run: String,
    pub(super) subnet: Subnet,
    pub(super) labels: HashMap<String, String>,
    pub(super) agent: Vec<String>,
    pub(super) nodes: Vec<PlannedContainer>,
}

pub(super) struct PlannedContainer {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) address: Ipv4Addr,
    pub(super) may_mount: bool,
    /// Whether a user's programs run in it, in their folder.
    pub(super) in_a_folder: bool,
    pub(super) limits: Option<NodeLimits>,
    pub(super) can_limit: EngineLimits,
    /// Whether the image is read-only but for [`WRITABLE`]: a client writes only where it is counted.
    pub(super) read_only: bool,
    /// Where its programs lie; none where the image says so itself.
    pub(super) path: Option<String>,
}

pub(super) struct StartedContainers {
    pub(super) container: String,
    pub(super) address: Ipv4Addr,
    pub(super) streams: AttachContainerResults,
}

impl PlannedContainer {
    fn memory_bytes(&self) -> Option<i64> {
        self.limits
            .filter(|_| self.can_limit.memory)
            .map(|limits| number(control_groups::hard_memory(limits)))
    }

    /// Places that lie in memory, with the options of their file systems.
    fn in_memory(&self) -> HashMap<String, String> {
        let beside = WRITABLE.map(|(place, options)| (place.to_owned(), options.to_owned()));
        let data = self.limits.map(|limits| (DATA.to_owned(), format!("exec,{}", limits.of_data_folder())));
        beside.into_iter().filter(|_| self.read_only).chain(data).collect()
    }
}

fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl ContainerPlan {
    /// Also the network's name.
    fn prefix(&self) -> String {
        name_of_run(&self.run)
    }

    /// Makes the network, starts all containers; stops at `given_up`. The caller removes what was made.
    pub(super) async fn start(
        &self,
        docker: &Docker,
        given_up: &AtomicBool,
    ) -> Result<Vec<StartedContainers>, ClusterError> {
        self.create_network(docker).await?;
        let turn = Mutex::new(());
        try_join_all(self.nodes.iter().map(|node| self.start_node(docker, node, &turn, given_up))).await
    }

    async fn create_network(&self, docker: &Docker) -> Result<(), ClusterError> {
        let config = IpamConfig {
            subnet: Some(self.subnet.to_string()),
            gateway: Some(self.subnet.gateway().to_string()),
            ..IpamConfig::default()
        };
        let request = NetworkCreateRequest {
            name: self.prefix(),
            driver: Some("bridge".to_owned()),
            // Nodes reach one another. The agents make this machine, the gateway, unreachable.
            internal: Some(true),
            ipam: Some(Ipam { config: Some(vec![config]), ..Ipam::default() }),
            labels: Some(self.labels.clone()),
            ..NetworkCreateRequest::default()
        };
        let failed = failed(format!("make the network {}", self.subnet));
        docker.create_network(request).await.map(drop).map_err(failed)
    }

    async fn start_node(
        &self,
        docker: &Docker,
        node: &PlannedContainer,
        turn: &Mutex<()>,
        given_up: &AtomicBool,
    ) -> Result<StartedContainers, ClusterError> {
        let go_on = || match given_up.load(Ordering::Relaxed) {
            true => Err(ClusterError::new("the start was given up")),
            false => Ok(()),
        };
        let cannot = failed(format!("start the container of {}", node.name));
        go_on()?;
        let name = format!("{}-{}", self.prefix(), node.name);
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        let id = docker.create_container(Some(options), self.container(node)).await.map_err(&cannot)?.id;
        go_on()?;
        let options = AttachContainerOptionsBuilder::default()
            .stdin(true)
            .stdout(true)
            .stderr(true)
            .stream(true)
            .build();
        let streams = docker.attach_container(&id, Some(options)).await.map_err(&cannot)?;
        // One after the other: of containers that get their ends of a network at once the engine (20.10)
        // counts some twice now and then, and will not remove a network of which it thinks that it has ends.
        let alone = turn.lock().await;
        docker.start_container(&id, None::<StartContainerOptions>).await.map_err(&cannot)?;
        drop(alone);
        Ok(StartedContainers { container: id, address: node.address, streams })
    }

    fn container(&self, node: &PlannedContainer) -> ContainerCreateBody {
        let address = EndpointIpamConfig {
            ipv4_address: Some(node.address.to_string()),
            ..EndpointIpamConfig::default()
        };
        let endpoint = EndpointSettings { ipam_config: Some(address), ..EndpointSettings::default() };
        // Each by its name: what an engine gives by itself differs (Podman gives no NET_RAW).
        let mut capabilities: Vec<String> = CAPABILITIES.map(str::to_owned).to_vec();
        if node.may_mount {
            capabilities.push("SYS_ADMIN".to_owned());
        }
        let fuse = DeviceMapping {
            path_on_host: Some("/dev/fuse".to_owned()),
            path_in_container: Some("/dev/fuse".to_owned()),
            cgroup_permissions: Some("rw".to_owned()),
        };
        let host = HostConfig {
            // The agent ends when its standard input closes: without a controller it removes itself.
            auto_remove: Some(true),
            cap_add: Some(capabilities),
            cap_drop: Some(vec!["ALL".to_owned()]),
            devices: node.may_mount.then(|| vec![fuse]),
            security_opt: Some(security_options(node.may_mount)),
            pids_limit: node.limits.map(|_| number(control_groups::TASKS)),
            memory: node.memory_bytes(),
            // Together with swap: none of it.
            memory_swap: node.memory_bytes().filter(|_| node.can_limit.swap),
            readonly_rootfs: Some(node.read_only),
            tmpfs: Some(node.in_memory()),
            network_mode: Some(self.prefix()),
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            ..HostConfig::default()
        };
        let passed = ["RUST_LOG", "RUST_BACKTRACE"].into_iter();
        let passed =
            passed.filter_map(|name| std::env::var(name).ok().map(|value| format!("{name}={value}")));
        let path = node.path.as_ref().map(|path| format!("PATH={path}"));
        let own = node.path.is_none().then(network_programs::variable);
        let env = ["HOME=/tmp", "LANG=C.UTF-8"].map(str::to_owned).into_iter().chain(path).chain(own);
        ContainerCreateBody {
            image: Some(node.image.clone()),
            entrypoint: Some(self.agent.clone()),
            hostname: Some(node.name.clone()),
            // Podman waits for so long before it removes a container, however forcefully it is asked to.
            stop_timeout: Some(0),
            user: Some("0".to_owned()),
            working_dir: node.in_a_folder.then(|| PLACE.to_owned()),
            env: Some(env.chain(passed).collect()),
            labels: Some(self.labels.clone()),
            open_stdin: Some(true),
            stdin_once: Some(true),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            // A volume of its own: on the engine's own disk, and not on the layers of an image.
            volumes: node.limits.is_none().then(|| vec![DATA.to_owned()]),
            host_config: Some(host),
            networking_config: Some(NetworkingConfig {
                endpoints_config: Some(HashMap::from([(self.prefix(), endpoint)])),
            }),
            ..ContainerCreateBody::default()
        }
    }

    /// Removes everything that bears the run's label, even if we never heard that it was made.
    pub(super) async fn remove(&self, docker: &Docker) -> Result<(), ClusterError> {
        remove_run(docker, &self.run).await?;
        if remove_network(docker, &self.prefix(), REMOVAL).await? == DockerNetwork::Kept {
            log::warn!(
                "the Docker engine keeps the network {}, to which nothing is attached any more, until it is restarted",
                self.prefix()
            );
        }
        Ok(())
    }
}

/// Kills and removes the containers of a run of this machine, and returns when they are gone.
pub(super) async fn remove_run(docker: &Docker, run: &str) -> Result<(), ClusterError> {
    let begun = Instant::now();
    let filters = filter_of_run(run);
    loop {
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let failed = failed("list the containers of the run");
        let found = docker.list_containers(Some(options)).await.map_err(failed)?;
        let ids: Vec<String> = found.into_iter().filter_map(|container| container.id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > REMOVAL {
            let what = format!("the Docker engine has not removed the containers of the run {run}");
            return Err(format!("{what}; remove them with `docker rm --force {}`", ids.join(" ")).into());
        }
        // Some may be removing themselves already. What counts is whether they are gone at the next look.
        join_all(ids.iter().map(|id| remove_container(docker, id))).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Removes a container, whatever runs in it.
pub(super) async fn remove_container(docker: &Docker, container: &str) {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    if let Err(error) = docker.remove_container(container, Some(options)).await {
        log::debug!("{}", failed("remove a container")(error));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DockerNetwork {
    Removed,
    /// The engine has miscounted: nothing is attached to it, and yet the engine says so and keeps it. It
    /// counts anew when it is restarted. It is in no one's way: the next run takes another subnet.
    Kept,
}

/// A network in use is tried again for a while: the engine lets go of the ends of gone containers later.
pub(super) async fn remove_network(
    docker: &Docker,
    name: &str,
    patience: Duration,
) -> Result<DockerNetwork, ClusterError> {
    let begun = Instant::now();
    loop {
        match docker.remove_network(name).await {
            Ok(()) => return Ok(DockerNetwork::Removed),
            Err(error) if has_status(&error, 404) => return Ok(DockerNetwork::Removed),
            Err(error) if begun.elapsed() > patience => {
                return match docker.inspect_network(name, None::<InspectNetworkOptions>).await {
                    Ok(seen) if seen.containers.as_ref().is_none_or(HashMap::is_empty) => {
                        Ok(DockerNetwork::Kept)
                    }
                    Err(gone) if has_status(&gone, 404) => Ok(DockerNetwork::Removed),
                    _ => Err(failed(format!("remove the network {name}"))(error)),
                };
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
