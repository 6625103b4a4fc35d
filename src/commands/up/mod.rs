//! `fencepost up`: the servers of a lock, for tests of your own.

mod background;
pub mod control;
pub mod inside;
pub mod recorded;
pub mod standing;
pub mod stay;

use crate::commands::context::program;
use crate::runtime::{listen_for_signals, runtime};
use anyhow::Result;
use clap::Args;
use fencepost_engine::{RunOptions, RunSpec, StandingLogs, StandingServers, Stop};
use fencepost_history::{TimeSpan, shell_word};
use fencepost_locks::Options;
use fencepost_nemesis::Plan;
use stay::{Announced, Stay};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Which servers, and for how long.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// A lock or a service, `NAME[@SERVER]`, or the folder of a lock of your own (see `fencepost list
    /// locks`).
    #[arg(index = 1)]
    pub lock: String,
    /// How many servers [default: as many as a test has].
    #[arg(long, value_name = "COUNT")]
    pub nodes: Option<usize>,
    /// Where the nodes run: docker, local, or auto (docker if an engine answers, else local).
    #[arg(long, default_value = "auto")]
    pub driver: String,
    /// Take them down after this time.
    #[arg(long = "for", value_name = "TIME", default_value = "1h")]
    pub time: TimeSpan,
    /// Name for `fencepost fault`, `heal`, `faults` and `down` [default: the lock's].
    #[arg(long)]
    pub name: Option<String>,
    /// Address of this machine and port at which tests inject faults over HTTP; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub api: SocketAddr,
    /// Folder of the servers' logs [default: results/up/NAME].
    #[arg(long, value_name = "FOLDER")]
    pub logs: Option<PathBuf>,
    /// Record what your programs report of their lock, and judge it at the end
    /// (docs/faults-for-your-tests.md).
    #[arg(long)]
    pub record: bool,
    /// Print the addresses as one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Print the addresses as variables for `eval "$(fencepost up … --env)"`, and keep the servers running in
    /// the background, until `fencepost down` or the time of --for.
    #[arg(long, conflicts_with = "command")]
    pub env: bool,
    /// A command to run beside them. It finds the addresses in FENCEPOST_SERVERS, and each in FENCEPOST_N1,
    /// …; faults are injected at FENCEPOST_API with FENCEPOST_TOKEN. When it ends, the servers are taken
    /// down, and `up` exits with its exit code; with --record, if that is 0, with the verdict's.
    #[arg(index = 2, last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

pub fn up(args: &UpArgs) -> Result<i32> {
    if args.env {
        return background::start(args.time);
    }
    let lock_options = Options { nodes: args.nodes, ..Options::default() };
    let options = RunOptions {
        lock: lock_of(&args.lock),
        driver: args.driver.clone(),
        lock_options,
        ..RunOptions::default()
    };
    let spec = RunSpec::with_plan(options, Plan::default())?;
    let name = standing::name_of(args.name.as_deref(), &args.lock)?;
    let folder = args.logs.clone().unwrap_or_else(|| PathBuf::from("results/up").join(&name));
    let command = format!("{} up {} --record", program(), shell_word(&args.lock));
    let logs = StandingLogs { folder: &folder, recorded_by: args.record.then_some(command.as_str()) };
    runtime()?.block_on(async {
        // Before anything is started: a name that is in use costs nothing.
        let announced = Announced::make(args.api, &name, &args.lock).await?;
        let stop = Arc::new(Stop::default());
        let listening = tokio::spawn(listen_for_signals(stop.clone()));
        let standing = StandingServers::start(&spec, logs, &stop).await?;
        let how = Stay {
            time: args.time,
            json: args.json,
            command: &args.command,
            record: args.record.then_some(folder.as_path()),
        };
        let code = stay::stay(announced, standing, &stop, how).await;
        listening.abort();
        code
    })
}

/// The first lock of a service, where the name is that of a service: `redis`.
fn lock_of(name: &str) -> String {
    let (service, server) = name.split_once('@').map_or((name, None), |(name, server)| (name, Some(server)));
    let of_service = fencepost_locks::registry().iter().find(|lock| lock.service.name == service);
    match (fencepost_locks::find(service), of_service) {
        (None, Some(lock)) => [Some(lock.name), server].into_iter().flatten().collect::<Vec<_>>().join("@"),
        _ => name.to_owned(),
    }
}
