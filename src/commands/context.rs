//! What the runs of a command are played with, and how this program is called again.

use crate::output::Terminal;
use crate::store::Results;
use fencepost_campaign::{CampaignContext, Repeat, Servers};
use fencepost_engine::Stop;
use fencepost_hunt::SchedulePlayer;
use std::path::Path;
use std::sync::Arc;

pub fn context(results: &Results, stop: &Arc<Stop>) -> CampaignContext {
    CampaignContext {
        player: Arc::new(Servers),
        results: results.to_path_buf(),
        store: Arc::new(results.clone()),
        stop: stop.clone(),
        repeat: repeat(),
        lines: Arc::new(Terminal),
    }
}

pub fn servers(results: &Path, report: bool, stop: &Arc<Stop>) -> SchedulePlayer {
    let (program, results, stop) = (program().to_owned(), results.to_owned(), stop.clone());
    SchedulePlayer { player: Arc::new(Servers), results, report, program, stop }
}

pub fn repeat() -> Repeat {
    Repeat { program: program().to_owned(), has_file: crate::config::in_use() }
}

/// How the program was called: through cargo, or by itself.
pub fn program() -> &'static str {
    match (std::env::var_os("CARGO").is_some(), cfg!(debug_assertions)) {
        (true, false) => "cargo run --release --",
        (true, true) => "cargo run --",
        (false, _) => "fencepost",
    }
}
