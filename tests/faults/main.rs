//! The tools of faults that need root: disks mounted on folders of this machine, packets between networks of
//! its kernel.

mod disk;
mod guest;
mod networks;
mod packets;
mod served;
