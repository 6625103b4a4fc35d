//! The program as its users run it, most of it on real clusters. One program for all of it, so that its runs share the
//! limits of `common::turn`. A machine without Docker engine or root fails these tests: they guard everything else.

mod bad_clients;
mod bad_usage;
mod browser;
mod check;
mod clocks;
mod clusters;
mod common;
mod compare;
mod disks;
mod findings;
mod hunt;
mod interrupted_runs;
mod killed_parts;
mod kits;
mod links;
mod long_files;
mod nemeses;
mod other_commands;
mod own_locks;
mod own_servers;
mod packets;
mod poor_machines;
mod readers;
mod remote_engine;
mod scenarios;
mod shards;
#[cfg(feature = "object-store")]
mod stores;
mod unwritten_files;
mod without_faults;
