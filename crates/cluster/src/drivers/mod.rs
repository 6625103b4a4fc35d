//! The drivers, and the choice between them. Nothing outside this crate knows which driver runs.

mod capabilities;
pub(crate) mod docker;
pub(crate) mod local;

pub(crate) use capabilities::try_afresh;
use capabilities::try_unless_known;

use crate::ClusterError;
use crate::container::container_here;
use crate::driver::{Driver, DriverOptions};
use docker::{DockerDriver, Engine};
use local::LocalDriver;
use std::sync::Once;

/// What `--driver` takes. `auto` is `docker` if an engine answers that starts nodes, else `local`.
pub const DRIVER_NAMES: [&str; 3] = ["auto", "docker", "local"];

/// The driver of that name: `docker`, `local`, or `auto`.
pub async fn select(name: &str) -> Result<Box<dyn Driver>, ClusterError> {
    select_with(name, DriverOptions::new()?).await
}

/// [`select`] for many short runs: for root `auto` is `local`, whose nodes start in a tenth of the time.
pub async fn select_for_many(name: &str) -> Result<Box<dyn Driver>, ClusterError> {
    select(if name == "auto" && nix::unistd::geteuid().is_root() { "local" } else { name }).await
}

pub async fn select_with(name: &str, options: DriverOptions) -> Result<Box<dyn Driver>, ClusterError> {
    match name {
        "local" => Ok(Box::new(LocalDriver::new(options))),
        "docker" => Ok(Box::new(DockerDriver::new(Engine::connect().await?, options))),
        "auto" => Ok(automatic(options).await),
        _ => Err(format!("unknown driver {name:?}: expected one of {}", DRIVER_NAMES.join(", ")).into()),
    }
}

/// The first driver with which a node starts. Why `docker` was left out is said in one line, once.
async fn automatic(options: DriverOptions) -> Box<dyn Driver> {
    static SAID: Once = Once::new();
    let progress = options.progress.clone();
    let say = |why: &str| {
        // A reason may quote what a program printed.
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        SAID.call_once(|| progress(&format!("driver local, and not docker: {why}")));
    };
    let engine = match Engine::first().await {
        Ok(engine) => engine,
        Err(reason) => {
            // A container is rarely given the socket of an engine.
            if std::env::var_os("DOCKER_HOST").is_some() || container_here().is_none() {
                say(&reason);
            }
            return Box::new(LocalDriver::new(options));
        }
    };
    let docker = DockerDriver::new(engine, options.clone());
    let key = docker.identity().await;
    match try_unless_known(&docker, &key).await {
        Ok(_) => Box::new(docker),
        // Where the other driver starts no node either, the reason of this one is the one to give.
        Err(_) if local::try_namespaces(&options).await.is_err() => Box::new(docker),
        Err(error) => {
            say(&format!("{} answers, and starts no node: {error}", docker.about().await));
            Box::new(LocalDriver::new(options))
        }
    }
}
