//! Nodes under both drivers, root file systems and images, made for real.

mod common;
mod docker;
mod environments;
#[allow(dead_code, reason = "the unit tests of downloads use all of it")]
#[path = "../../crates/cluster/src/debian/tests/faulty_mirror.rs"]
mod faulty_mirror;
mod images;
mod leftovers;
mod lists;
mod local;
