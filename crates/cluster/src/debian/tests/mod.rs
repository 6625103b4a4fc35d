//! Downloads under everything that networks, mirrors and disks do. Those of real lists are in
//! `tests/cluster`.

mod downloads;
mod faulty_mirror;
