//! What tests draw plans for, a server that ends by itself, and nodes on which nothing has an effect.

pub(crate) mod ended;
pub(crate) mod untouched;

use crate::clocks::motion::Clock;
use crate::nemesis::NemesisSettings;
use crate::options::{CommandPlace, NemesisOptions};
use crate::plan::topology::{ServerFaults, Topology};
use std::time::Duration;

pub(crate) fn topology(servers: usize, clients: usize) -> Topology {
    let names = |letter: &str, count| (1..=count).map(|number| format!("{letter}{number}")).collect();
    Topology {
        servers: names("n", servers),
        clients: names("c", clients),
        storage: Some("storage".to_owned()),
        has_leader: false,
        orders: &[
            "error-replies:readonly",
            "error-replies:oom",
            "script-flush:",
            "evict:allkeys-lru",
            "member:",
            "reconfigure:slot",
        ],
        points: Vec::new(),
        ttl: Duration::from_secs(2),
        server_faults: ServerFaults::All,
        by_name: true,
    }
}

/// A run of that length in which nothing else is said, but that both clocks may go wrong.
pub(crate) fn settings(limit_s: u64) -> NemesisSettings {
    NemesisSettings {
        time_limit: Duration::from_secs(limit_s),
        interval: Duration::from_secs(1),
        options: NemesisOptions {
            clock: Clock::Both,
            fault_command: Some("true".to_owned()),
            heal_command: Some("true".to_owned()),
            observe_command: Some("true".to_owned()),
            command_place: CommandPlace::Node,
            ..NemesisOptions::default()
        },
    }
}
