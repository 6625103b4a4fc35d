//! Downloads, lists and roots under everything that networks, mirrors and disks do.

mod downloads;
mod faulty_mirror;
mod lists;
