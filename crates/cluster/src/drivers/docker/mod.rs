//! The driver `docker`: a container for each node, on a network of their own.

mod attach;
mod build;
mod containers;
mod driver;
mod engine;
mod environments;
mod frames;
mod keeper;
mod labels;
mod leftovers;

pub(crate) use driver::DockerDriver;
pub(crate) use engine::Engine;
