//! The command `doctor`: what this machine can do, and which faults take effect on a throw-away node.

mod report;
mod text;
mod try_faults;

use crate::exit::FAILED;
use crate::output::say;
use anyhow::Result;
use clap::Args;
use futures_util::future::join_all;
use report::FaultReport;
use std::time::Duration;

const STALLS: Duration = Duration::from_secs(5);

/// How to show what was found.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print everything as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Exit code 0 if a driver can run, else 255. Errors: the report cannot be written as JSON.
pub async fn doctor(args: &DoctorArgs) -> Result<i32> {
    // First of all, since the faults that are tried make the machine busy.
    let stall = tokio::task::spawn_blocking(|| fencepost_cluster::doctor::longest_stall(STALLS)).await?;
    let found = fencepost_cluster::doctor::examine().await;
    let drivers = found.runnable().await;
    let tried = join_all(drivers.iter().map(|driver| try_faults::try_all(driver.as_ref()))).await;
    let tried = drivers.iter().map(|driver| driver.name()).zip(tried);
    let report = FaultReport::new(found, stall, tried.collect());
    match args.json {
        true => say!("{}", serde_json::to_string_pretty(&report)?),
        false => say!("{}", text::text(&report)),
    }
    Ok(if report.can_test { 0 } else { FAILED })
}
