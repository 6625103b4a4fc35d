//! The tools of faults that need root: disks mounted on folders of this machine, packets between networks of
//! its kernel.

mod connections;
mod disk;
mod guest;
mod measured_packets;
mod networks;
mod packets;
mod served;
