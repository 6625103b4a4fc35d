//! Tools that work inside a node: on its processes, its network, its disk.

pub mod clock;
pub mod disk;
pub mod packets;
