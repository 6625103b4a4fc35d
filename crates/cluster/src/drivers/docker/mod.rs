//! The driver `docker`: a container for each node, on a network of their own.

mod archive;
mod attach;
mod build;
mod confinement;
mod containers;
mod driver;
mod engine;
mod environments;
mod frames;
mod keeper;
mod labels;
mod leftovers;
mod memory;
mod mirror;
mod places;
mod processes;
mod tunnel;

pub(crate) use driver::DockerDriver;
pub(crate) use engine::Engine;
pub use engine::FoundEngine;
pub use labels::{name_of_run, of_run};
pub(crate) use leftovers::clean_up;
pub(crate) use mirror::known_by_any;
pub use processes::first_process_in;

/// The internal command that confines itself and becomes the program that its arguments name.
pub(crate) const CONFINED: &str = "confined";

pub(crate) const NAME: &str = "docker";
