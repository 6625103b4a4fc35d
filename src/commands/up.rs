//! `fencepost up`: the servers of a lock, for tests of your own.

use crate::exit::FAILED;
use crate::output::{complain, say};
use crate::runtime::{listen_for_signals, runtime};
use anyhow::{Context, Result};
use clap::Args;
use fencepost_engine::{RunOptions, RunSpec, StandingServers, Stop};
use fencepost_history::TimeSpan;
use fencepost_locks::Options;
use fencepost_nemesis::Plan;
use serde_json::json;
use std::os::unix::process::ExitStatusExt;
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
    /// Folder of the servers' logs.
    #[arg(long, value_name = "FOLDER", default_value = "results/up")]
    pub logs: PathBuf,
    /// Print the addresses as one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// A command to run beside them. It finds the addresses in FENCEPOST_SERVERS, and each in FENCEPOST_N1,
    /// …. The servers are taken down when it ends, and its exit code is the one of `up`.
    #[arg(index = 2, last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `fencepost up`.
pub fn up(args: &UpArgs) -> Result<i32> {
    let lock_options = Options { nodes: args.nodes, ..Options::default() };
    let options = RunOptions {
        lock: lock_of(&args.lock),
        driver: args.driver.clone(),
        lock_options,
        ..RunOptions::default()
    };
    let spec = RunSpec::with_plan(options, Plan::default())?;
    runtime()?.block_on(async {
        let stop = Arc::new(Stop::default());
        let listening = tokio::spawn(listen_for_signals(stop.clone()));
        let standing = StandingServers::start(&spec, &args.logs, &stop).await?;
        let code = stand(args, &standing, &stop).await;
        let stopped = standing.stop().await;
        listening.abort();
        stopped?;
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

async fn stand(args: &UpArgs, standing: &StandingServers, stop: &Stop) -> Result<i32> {
    if args.command.is_empty() {
        show(args, standing);
    }
    tokio::select! {
        code = command(&args.command, standing), if !args.command.is_empty() => code,
        broken = standing.broken() => {
            complain!("fencepost: {broken}");
            Ok(FAILED)
        }
        () = stop.pulled() => Ok(if args.command.is_empty() { 0 } else { FAILED }),
        () = tokio::time::sleep(args.time.0) => {
            let ends = if args.command.is_empty() { 0 } else { FAILED };
            complain!("fencepost: the time of --for {} is over", args.time);
            Ok(ends)
        }
    }
}

fn show(args: &UpArgs, standing: &StandingServers) {
    if args.json {
        say!("{}", json!({"servers": standing.servers, "versions": standing.versions}));
        return;
    }
    say!("servers   {}", standing.versions.join(", "));
    for server in &standing.servers {
        say!("{:<9} {}", server.node, server.address);
    }
    say!("until     Ctrl-C, or {} has passed", in_words(args.time));
}

/// `1 h`, `10 min`, `90s`.
fn in_words(time: TimeSpan) -> String {
    match time.0.as_secs() {
        hours if hours > 0 && hours % 3600 == 0 => format!("{} h", hours / 3600),
        minutes if minutes > 0 && minutes % 60 == 0 => format!("{} min", minutes / 60),
        _ => time.to_string(),
    }
}

/// Runs the command, and gives its exit code. It is killed where the servers are taken down before.
async fn command(words: &[String], standing: &StandingServers) -> Result<i32> {
    let addresses: Vec<String> = standing.servers.iter().map(|server| server.address.to_string()).collect();
    let (program, arguments) = words.split_first().context("there is no command")?;
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).kill_on_drop(true).env("FENCEPOST_SERVERS", addresses.join(","));
    for server in &standing.servers {
        let variable = format!("FENCEPOST_{}", server.node.to_uppercase());
        command.env(variable, server.address.to_string());
    }
    let status = command.status().await.with_context(|| format!("cannot start {program}"))?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()))
}
