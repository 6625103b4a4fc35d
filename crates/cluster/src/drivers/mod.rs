//! The drivers, one folder each, and the choice between them. Nothing outside this crate knows which driver
//! runs.

mod capabilities;
pub(crate) mod docker;
pub(crate) mod local;

pub(crate) use capabilities::try_afresh;

use crate::ClusterError;
use crate::driver::{Driver, DriverOptions};
use docker::{DockerDriver, Engine};
use local::LocalDriver;

/// What `--driver` takes. `auto` is `docker` if an engine answers, else `local`.
pub const DRIVER_NAMES: [&str; 3] = ["auto", "docker", "local"];

/// The driver of that name: `docker`, `local`, or `auto`.
pub async fn select(name: &str) -> Result<Box<dyn Driver>, ClusterError> {
    select_with(name, DriverOptions::new()?).await
}

/// As [`select`], for many short runs: for root `auto` is `local`, whose nodes start in a tenth of the time.
///
/// # Errors
/// As [`select`].
pub async fn select_for_many(name: &str) -> Result<Box<dyn Driver>, ClusterError> {
    select(if name == "auto" && nix::unistd::geteuid().is_root() { "local" } else { name }).await
}

/// As [`select`], with options.
pub async fn select_with(name: &str, options: DriverOptions) -> Result<Box<dyn Driver>, ClusterError> {
    match name {
        "local" => Ok(Box::new(LocalDriver::new(options))),
        "docker" => Ok(Box::new(DockerDriver::new(Engine::connect().await?, options))),
        "auto" => Ok(match Engine::connect().await {
            Ok(engine) => Box::new(DockerDriver::new(engine, options)),
            Err(_) => Box::new(LocalDriver::new(options)),
        }),
        _ => Err(format!("unknown driver {name:?}: expected one of {}", DRIVER_NAMES.join(", ")).into()),
    }
}
