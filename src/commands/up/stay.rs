//! Servers that stand until something ends that: announced, controlled over HTTP, shown.

use super::control::{self, Controlled};
use super::standing::{self, ControlFile};
use super::{inside, recorded};
use crate::exit::FAILED;
use crate::output::{complain, say};
use anyhow::{Context, Result};
use fencepost_cluster::Announcement;
use fencepost_engine::{BadUsage, PROGRAMS_NODE, StandingServers, Stop};
use fencepost_history::TimeSpan;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;

/// How long servers stand, and what is done meanwhile.
#[derive(Clone, Copy)]
pub struct Stay<'a> {
    pub time: TimeSpan,
    pub json: bool,
    /// A command to run beside them; empty for none.
    pub command: &'a [String],
    /// The folder of what programs report, if that is recorded.
    pub record: Option<&'a Path>,
}

/// A name that other shells find, and the port at which they speak.
pub struct Announced {
    name: String,
    lock: String,
    listener: TcpListener,
    control: ControlFile,
    announcement: Announcement,
}

impl Announced {
    /// Errors: the name or the port is in use.
    pub async fn make(api: SocketAddr, name: &str, lock: &str) -> Result<Announced> {
        let listener = bind(api).await?;
        let control = ControlFile::of(listener.local_addr()?, lock)?;
        let announcement = control.announce(name)?;
        Ok(Announced { name: name.to_owned(), lock: lock.to_owned(), listener, control, announcement })
    }
}

/// Lets servers stand until the end, then takes them down and judges what was recorded. Gives the exit code.
pub async fn stay(
    announced: Announced,
    standing: StandingServers,
    stop: &Arc<Stop>,
    how: Stay<'_>,
) -> Result<i32> {
    let Announced { name, lock, listener, control, announcement } = announced;
    let record = how.record.map(std::fs::canonicalize).transpose()?;
    let about = json!({
        "name": name, "lock": lock, "servers": standing.servers, "versions": standing.versions,
        "programs": PROGRAMS_NODE, "api": control.api, "control": announcement.file(), "record": record,
    });
    let controlled = Controlled {
        faults: standing.faults.clone(),
        nodes: standing.nodes(),
        recording: standing.recording.clone(),
        about: about.clone(),
        stop: stop.clone(),
    };
    let up = Up { how, control, announcement, about };
    let code = tokio::select! {
        code = stand(&up, &standing, stop) => code,
        () = control::listen(listener, &up.control, controlled, inside::routes().merge(recorded::routes())) => Ok(FAILED),
    };
    let stopped = standing.stop().await;
    stopped?;
    match (code?, record) {
        (code, Some(folder)) => {
            let shown = !how.json || !how.command.is_empty();
            let verdict = tokio::task::spawn_blocking(move || recorded::verdict(&folder, shown)).await??;
            Ok(if code == 0 { verdict } else { code })
        }
        (code, None) => Ok(code),
    }
}

struct Up<'a> {
    how: Stay<'a>,
    control: ControlFile,
    announcement: Announcement,
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

async fn stand(up: &Up<'_>, standing: &StandingServers, stop: &Stop) -> Result<i32> {
    let Stay { time, command, .. } = up.how;
    if command.is_empty() {
        show(up, standing);
    }
    tokio::select! {
        code = run(up), if !command.is_empty() => code,
        broken = standing.broken() => {
            complain!("fencepost: {broken}");
            Ok(FAILED)
        }
        () = stop.pulled() => Ok(if command.is_empty() { 0 } else { FAILED }),
        () = tokio::time::sleep(time.0) => {
            let ends = if command.is_empty() { 0 } else { FAILED };
            complain!("fencepost: the time of --for {time} is over");
            Ok(ends)
        }
    }
}

fn show(up: &Up<'_>, standing: &StandingServers) {
    if up.how.json {
        say!("{}", up.about);
        return;
    }
    say!("servers   {}", standing.versions.join(", "));
    for server in &standing.servers {
        say!("{:<9} {}", server.node, server.address);
    }
    say!("api       {}, token in {}", up.control.api, up.announcement.file().display());
    say!("until     Ctrl-C, `fencepost down`, or {} has passed", standing::in_words(up.how.time));
}

/// Runs the command, and gives its exit code. It is killed where the servers are taken down before.
async fn run(up: &Up<'_>) -> Result<i32> {
    let (program, arguments) = up.how.command.split_first().context("there is no command")?;
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).kill_on_drop(true).envs(standing::variables(&up.about, &up.control.token));
    let status = command.status().await.with_context(|| format!("cannot start {program}"))?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()))
}
