//! The driver `docker`: a container for each node, on a network of their own.

mod attach;
mod containers;
mod driver;
mod engine;
mod frames;
mod keeper;
mod labels;
mod leftovers;
mod make;

pub(crate) use driver::DockerDriver;
pub(crate) use engine::Engine;
