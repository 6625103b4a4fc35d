//! `fencepost up`: the servers of a lock, for tests of your own.

mod background;
pub mod control;
pub mod inside;
pub mod standing;

use crate::exit::FAILED;
use crate::output::{complain, say};
use crate::runtime::{listen_for_signals, runtime};
use anyhow::{Context, Result};
use clap::Args;
use control::Controlled;
use fencepost_cluster::Announcement;
use fencepost_engine::{BadUsage, PROGRAMS_NODE, RunOptions, RunSpec, StandingServers, Stop};
use fencepost_history::TimeSpan;
use fencepost_locks::Options;
use fencepost_nemesis::Plan;
use serde_json::{Value, json};
use standing::ControlFile;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;

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
    /// Print the addresses as one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Print the addresses as variables for `eval "$(fencepost up … --env)"`, and let the servers stand in
    /// the background, until `fencepost down` or the time of --for.
    #[arg(long, conflicts_with = "command")]
    pub env: bool,
    /// A command to run beside them. It finds the addresses in FENCEPOST_SERVERS, and each in FENCEPOST_N1,
    /// …; faults are injected at FENCEPOST_API with FENCEPOST_TOKEN. The servers are taken down when it ends,
    /// and its exit code is the one of `up`.
    #[arg(index = 2, last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `fencepost up`.
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
    let logs = args.logs.clone().unwrap_or_else(|| PathBuf::from("results/up").join(&name));
    runtime()?.block_on(async {
        let listener = bind(args.api).await?;
        let control = ControlFile::of(listener.local_addr()?, &args.lock)?;
        // Before anything is started: a name that is in use costs nothing.
        let announced = control.announce(&name)?;
        let stop = Arc::new(Stop::default());
        let listening = tokio::spawn(listen_for_signals(stop.clone()));
        let standing = StandingServers::start(&spec, &logs, &stop).await?;
        let about = json!({
            "name": name, "lock": args.lock, "servers": standing.servers, "versions": standing.versions,
            "programs": PROGRAMS_NODE, "api": control.api, "control": announced.file(),
        });
        let controlled = Controlled {
            faults: standing.faults.clone(),
            nodes: standing.nodes(),
            about: about.clone(),
            stop: stop.clone(),
        };
        let up = Up { args, control, announced, about };
        let code = tokio::select! {
            code = stand(&up, &standing, &stop) => code,
            () = control::listen(listener, &up.control, controlled, inside::routes()) => Ok(FAILED),
        };
        let stopped = standing.stop().await;
        listening.abort();
        stopped?;
        code
    })
}

/// What `up` says of servers that stand.
struct Up<'a> {
    args: &'a UpArgs,
    control: ControlFile,
    announced: Announcement,
    /// For programs.
    about: Value,
}

async fn bind(api: SocketAddr) -> Result<TcpListener> {
    if !api.ip().is_loopback() {
        let sentence = format!(
            "--api {api} can be reached from elsewhere: expected an address of this machine, 127.0.0.1:PORT"
        );
        return Err(BadUsage::at("api", sentence).into());
    }
    let cannot = |error| {
        BadUsage::at("api", format!("cannot listen on {api}: {error}; choose another port with --api"))
    };
    Ok(TcpListener::bind(api).await.map_err(cannot)?)
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

async fn stand(up: &Up<'_>, standing: &StandingServers, stop: &Stop) -> Result<i32> {
    let args = up.args;
    if args.command.is_empty() {
        show(up, standing);
    }
    tokio::select! {
        code = command(up), if !args.command.is_empty() => code,
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

fn show(up: &Up<'_>, standing: &StandingServers) {
    if up.args.json {
        say!("{}", up.about);
        return;
    }
    say!("servers   {}", standing.versions.join(", "));
    for server in &standing.servers {
        say!("{:<9} {}", server.node, server.address);
    }
    say!("api       {}, token in {}", up.control.api, up.announced.file().display());
    say!("until     Ctrl-C, `fencepost down`, or {} has passed", standing::in_words(up.args.time));
}

/// Runs the command, and gives its exit code. It is killed where the servers are taken down before.
async fn command(up: &Up<'_>) -> Result<i32> {
    let (program, arguments) = up.args.command.split_first().context("there is no command")?;
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).kill_on_drop(true).envs(standing::variables(&up.about, &up.control.token));
    let status = command.status().await.with_context(|| format!("cannot start {program}"))?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()))
}
