//! The program as its users run it, on real clusters. One program for all of it, so that its runs share the
//! limits of `common::turn`. A machine without Docker engine or root fails these tests: they guard everything
//! else.

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_tested_fencepost");

mod access;
mod bad_clients;
mod browser;
mod chance;
mod clock_by_hand;
mod clocks;
mod clusters;
mod common;
mod compare;
mod disks;
mod existing_servers;
mod faults_by_hand;
mod findings;
mod hunt;
mod images;
mod interrupted_runs;
mod killed_parts;
mod kinds;
mod kits;
mod manual_adapter;
mod nemeses;
mod own_locks;
mod own_register;
mod own_servers;
mod packets;
mod poor_machines;
mod remote_engine;
mod scenarios;
mod servers_of_ones_own;
mod shards;
#[cfg(feature = "object-store")]
mod stores;
mod up;
mod versions;
mod without_faults;
mod witnesses;
