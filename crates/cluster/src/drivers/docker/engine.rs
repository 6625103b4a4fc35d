//! The container engine: reaching it, and saying in one sentence what it says.

use super::places::{Place, Surroundings};
use super::tunnel::Tunnel;
use crate::ClusterError;
use crate::debian::architecture;
use bollard::errors::Error;
use bollard::models::{SystemInfo, SystemVersion};
use bollard::{API_DEFAULT_VERSION, Docker};
use fencepost_history::without_secrets;
use serde::Serialize;
use std::fmt;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

const PING: Duration = Duration::from_secs(3);

const NONE_ANSWERS: &str = "no Docker engine answers";

const REQUEST_S: u64 = 120;

/// What an engine that answers says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundEngine {
    /// `Docker` or `Podman`.
    pub name: &'static str,
    pub version: String,
    pub is_rootless: bool,
    /// Where it answers: a socket, or an address as `DOCKER_HOST` has it.
    pub address: String,
}

/// `Docker 28.3.0`, or `Podman 5.4.2, rootless`.
impl fmt::Display for FoundEngine {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} {}", self.name, self.version)?;
        to.write_str(if self.is_rootless { ", rootless" } else { "" })
    }
}

pub(crate) struct Engine {
    pub(super) docker: Docker,
    /// Kept for as long as the engine is used.
    _tunnel: Option<Arc<Tunnel>>,
    info: OnceCell<SystemInfo>,
    /// Whether it answers at a socket of this machine that is not root's.
    is_at_users_socket: bool,
}

impl Engine {
    /// The named engine (`DOCKER_HOST`, `docker` context), or the first that answers. The error is the first.
    pub(crate) async fn connect() -> Result<Engine, ClusterError> {
        let advice = |reason: String| format!("{reason}; start it, set DOCKER_HOST, or use --driver local");
        Engine::first().await.map_err(|reason| match reason.starts_with(NONE_ANSWERS) {
            true => ClusterError::new(advice(reason)),
            false => ClusterError::new(reason),
        })
    }

    pub(crate) async fn first() -> Result<Engine, String> {
        let mut refused = None;
        for place in Surroundings::of_this_process().places().map_err(|error| error.0)? {
            match Engine::at(&place).await {
                Ok(engine) => return Ok(engine),
                Err(reason) => refused = refused.or(Some((place, reason))),
            }
        }
        let refused = refused.map_or_else(String::new, |(place, reason)| format!(" at {place}: {reason}"));
        Err(format!("{NONE_ANSWERS}{refused}"))
    }

    /// All engines that answer at the places that count; the first of them is the one that is taken.
    pub(crate) async fn all() -> Vec<FoundEngine> {
        let mut all = Vec::new();
        for place in Surroundings::of_this_process().places().unwrap_or_default() {
            if let Ok(engine) = Engine::at(&place).await
                && let Ok(found) = engine.description(&without_secrets(&place.address)).await
            {
                all.push(found);
            }
        }
        all
    }

    async fn at(place: &Place) -> Result<Engine, String> {
        let address = place.address.as_str();
        let is_tcp = address.starts_with("tcp://") || address.starts_with("http://");
        let (docker, tunnel) = match address.starts_with("ssh://") {
            true => {
                let tunnel = Tunnel::to(address).await.map_err(|error| error.0)?;
                let socket = tunnel.socket().display().to_string();
                (Docker::connect_with_unix(&socket, REQUEST_S, API_DEFAULT_VERSION), Some(tunnel))
            }
            // Without this the address would be taken, and the engine spoken to in the clear.
            false if is_tcp && is_set("DOCKER_TLS_VERIFY") => {
                return Err(
                    "DOCKER_TLS_VERIFY is set, and Fencepost speaks no TLS with an engine: use ssh://HOST"
                        .to_owned(),
                );
            }
            false if is_tcp => (Docker::connect_with_http(address, REQUEST_S, API_DEFAULT_VERSION), None),
            false => (Docker::connect_with_unix(address, REQUEST_S, API_DEFAULT_VERSION), None),
        };
        let docker = docker.map_err(|error| reason(&error))?;
        match tokio::time::timeout(PING, docker.ping()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(reason(&error)),
            Err(_) => return Err(format!("no answer within {} s", PING.as_secs())),
        }
        let docker = docker.negotiate_version().await.map_err(|error| reason(&error))?;
        Ok(Engine { docker, _tunnel: tunnel, info: OnceCell::new(), is_at_users_socket: is_users(address) })
    }

    pub(crate) async fn name(&self) -> Result<String, ClusterError> {
        Ok(self.description("").await?.to_string())
    }

    async fn description(&self, address: &str) -> Result<FoundEngine, ClusterError> {
        let version = self.version().await?;
        let components = version.components.unwrap_or_default();
        let podman = components.into_iter().find(|component| component.name.starts_with("Podman"));
        let (name, version) = match podman {
            Some(podman) => ("Podman", podman.version),
            None => ("Docker", version.version.unwrap_or_default()),
        };
        let options = self.info().await?.security_options.as_deref().unwrap_or_default();
        // Podman 4.3 does not say it here.
        let is_users = name == "Podman" && self.is_at_users_socket;
        let is_rootless = is_users || options.iter().any(|option| option.contains("rootless"));
        Ok(FoundEngine { name, version, is_rootless, address: address.to_owned() })
    }

    /// Refuses an engine whose containers cannot run this very program.
    pub(super) async fn check_platform(&self) -> Result<(), ClusterError> {
        let version = self.version().await?;
        let theirs = (version.os.unwrap_or_default(), version.arch.unwrap_or_default());
        let own = architecture();
        match theirs.0 == "linux" && theirs.1 == own {
            true => Ok(()),
            false => Err(ClusterError::new(format!(
                "the Docker engine runs containers of {}/{}, and this program is built for linux/{own}: use a build of Fencepost \
                 for the engine's machine, or another engine",
                theirs.0, theirs.1
            ))),
        }
    }

    async fn version(&self) -> Result<SystemVersion, ClusterError> {
        self.docker.version().await.map_err(failed("ask the engine for its version"))
    }

    /// What the engine says of itself, asked once: Podman takes a third of a second for it.
    async fn info(&self) -> Result<&SystemInfo, ClusterError> {
        let asked = self.info.get_or_try_init(|| self.docker.info()).await;
        asked.map_err(failed("ask the engine about itself"))
    }

    /// Changes when it is another engine, another version, or another kernel.
    pub(crate) async fn identity(&self) -> Result<String, ClusterError> {
        let info = self.info().await?.clone();
        let parts =
            [info.id, info.server_version, info.kernel_version, info.cgroup_version.map(|it| it.to_string())];
        Ok(parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }

    /// What it can limit of a container: some machines limit no memory without root, some kernels no swap.
    pub(super) async fn limits(&self) -> Result<EngineLimits, ClusterError> {
        let info = self.info().await?;
        let (memory, swap) = (info.memory_limit.unwrap_or(false), info.swap_limit.unwrap_or(false));
        Ok(EngineLimits { memory, swap })
    }

    /// What the engine calls itself, and how it keeps images.
    pub(crate) async fn about(&self) -> Result<String, ClusterError> {
        let storage = self.info().await?.driver.clone().unwrap_or_default();
        Ok(format!("{}, storage {storage}", self.name().await?))
    }

    pub(super) async fn networks(&self) -> Result<Vec<(Ipv4Addr, u8)>, ClusterError> {
        let networks = self.docker.list_networks(None).await.map_err(failed("list networks"))?;
        let configs = networks.into_iter().filter_map(|network| network.ipam?.config).flatten();
        let subnets = configs.filter_map(|config| {
            let (network, prefix) =
                config.subnet?.split_once('/').map(|(a, b)| (a.to_owned(), b.to_owned()))?;
            Some((network.parse().ok()?, prefix.parse().ok()?))
        });
        Ok(subnets.collect())
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct EngineLimits {
    pub(super) memory: bool,
    pub(super) swap: bool,
}

/// "cannot `what`: the Docker engine says …".
pub(super) fn failed(what: impl fmt::Display) -> impl Fn(Error) -> ClusterError {
    move |error| ClusterError::new(format!("cannot {what}: {}", reason(&error)))
}

/// Whether there is a socket at this address that belongs to a user other than root.
fn is_users(address: &str) -> bool {
    let path = address.strip_prefix("unix://").unwrap_or(address);
    std::fs::metadata(path).is_ok_and(|socket| socket.uid() != 0)
}

/// Whether a variable has a value: the command `docker` takes an empty one as none.
fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

fn reason(error: &Error) -> String {
    match error {
        Error::DockerResponseServerError { message, .. } => {
            format!("the Docker engine says: {}", message.trim())
        }
        Error::DockerStreamError { error } => format!("the Docker engine says: {}", error.trim()),
        Error::SocketNotFoundError(_) => "there is no such socket".to_owned(),
        Error::RequestTimeoutError => "the Docker engine did not answer in time".to_owned(),
        Error::IOError { err } => err.to_string(),
        Error::HyperLegacyError { err } => {
            // The reason lies at the bottom: no such file, refused, not permitted.
            let mut innermost: &dyn std::error::Error = err;
            while let Some(source) = innermost.source() {
                innermost = source;
            }
            innermost.to_string()
        }
        other => other.to_string(),
    }
}

pub(super) fn has_status(error: &Error, wanted: u16) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code, .. } if *status_code == wanted)
}
