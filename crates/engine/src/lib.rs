//! One run: its options, its cluster, its clients and faults, and the record of everything that happens.
//!
//! ```text
//! options ─► validation ─► sections ─► client_connection ─► deployment ─► processes, injection ─► run
//! ```
//! Each module uses only those to its left; `recorder` records every event. Beside runs, `conformance` checks
//! whether a client keeps the client protocol.

mod aiming;
pub mod client_connection;
mod client_monitor;
mod client_start;
pub mod clock_watch;
mod command_line;
mod conformance;
mod deployment;
mod existing;
mod existing_options;
mod help;
mod injection;
mod kinds;
mod lists;
mod lock_state;
mod names;
mod node_log;
mod node_specs;
mod node_watch;
mod observer;
mod option_facts;
mod options;
mod other_clients;
mod other_names;
mod prepared_fault;
pub mod processes;
mod ranges;
pub mod recorder;
mod reference;
mod run;
mod run_nodes;
pub mod scenario;
mod script_player;
mod sections;
mod server_log;
mod server_watch;
mod shaping;
#[cfg(test)]
mod simulated;
mod stall_watch;
mod standing;
mod stop;
mod storage_log;
mod topology;
mod validation;

pub use client_start::NoTimeToStart;
pub use conformance::{
    ConformanceObserver, RuleOutcome, RuleResult, RuleSubject, check_conformance, conformance_spec,
};
pub use existing_options::ExistingOptions;
pub use help::{grouped, grouped_without_servers};
pub use injection::{FaultReport, FaultState, FaultsByHand};
pub use lists::check_once;
pub use names::{BadUsage, find_lock, name_in_list, pick, unknown};
pub use observer::{Progress, RunObserver, Unobserved};
pub use options::RunOptions;
pub use ranges::{JOBS_MAX, RUNS_MAX, check_budget, check_count, check_range};
pub use reference::named_reference;
pub use run::{RunOutcome, make_images, run, run_beside_others};
pub use script_player::{ClientScript, DirectedScript, Narration, ScriptOutcome, Step};
pub use shaping::Faults;
pub use standing::{PROGRAMS_NODE, StandingServer, StandingServers};
pub use stop::{Stop, StopReason};
pub use validation::RunSpec;
