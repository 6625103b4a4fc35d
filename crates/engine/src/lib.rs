//! One run: its options, its cluster, its clients and faults, and the record of everything that happens.
//!
//! ```text
//! settings: options ─► validation ─► sections
//! run:      client_connection ─► deployment ─► processes, injection ─► prepared, nodes, running, healed
//! ```
//! Each module uses only those before it; `run/recorder` records every event, and `watch` sees what else
//! happens. Beside runs, `conformance` checks whether a client keeps the client protocol.

mod conformance;
mod existing;
mod kinds;
mod recording;
pub mod run;
pub mod scenario;
mod settings;
#[cfg(test)]
mod simulated;
mod standing;
mod stop;
pub mod watch;

pub use conformance::{
    ConformanceObserver, RuleOutcome, RuleResult, RuleSubject, check_conformance, conformance_spec,
};
pub use recording::{Recording, ReportedEvent};
pub use run::client_connection;
pub use run::client_start::NoTimeToStart;
pub use run::injection::{FaultReport, FaultState, FaultsByHand};
pub use run::observer::{Progress, RunObserver, Unobserved};
pub use run::processes;
pub use run::recorder;
pub use run::script_player::{ClientScript, DirectedScript, Narration, ScriptOutcome, Step};
pub use run::{RunOutcome, make_images, run, run_and_keep, run_beside_others};
pub use settings::existing_options::ExistingOptions;
pub use settings::help::{grouped, grouped_without_servers};
pub use settings::lists::check_once;
pub use settings::names::{BadUsage, find_lock, name_in_list, pick, unknown};
pub use settings::options::RunOptions;
pub use settings::ranges::{JOBS_MAX, RUNS_MAX, check_budget, check_count, check_range};
pub use settings::reference::named_reference;
pub use settings::section_length::SectionLength;
pub use settings::shaping::Faults;
pub use settings::validation::RunSpec;
pub use standing::{PROGRAMS_NODE, StandingLogs, StandingServer, StandingServers};
pub use stop::{Stop, StopReason};
pub use watch::clock_watch;
