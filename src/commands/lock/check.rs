//! `fencepost lock check`: does the client keep the client protocol?

use super::report::{self, Summary};
use crate::output::{complain, say};
use crate::runtime::run_until_stopped;
use anyhow::Result;
use clap::Args;
use fencepost_cluster::PrivateFolder;
use fencepost_engine::{
    ConformanceObserver, RuleOutcome, RuleResult, RunOptions, RunSpec, Stop, check_conformance,
    conformance_spec,
};
use fencepost_history::{Seed, TimeSpan};
use fencepost_locks::Options;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

/// Which lock is checked, and how.
#[derive(Debug, Args)]
pub(super) struct CheckLockArgs {
    /// A folder with a lock.toml, `FOLDER[@VARIANT]`, or a built-in lock.
    lock: String,
    /// Where the nodes run: docker, local, or auto (docker if an engine answers, else local).
    #[arg(long, default_value_t = RunOptions::default().driver)]
    driver: String,
    /// Time to live of the lock.
    #[arg(long, value_name = "TIME", default_value_t = RunOptions::default().ttl)]
    ttl: TimeSpan,
    /// Options of the lock (its lock.toml lists them), separated by commas.
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',')]
    option: Vec<String>,
    /// Limit of memory of each client and everything that it starts, in MiB [default: 2048].
    #[arg(long, value_name = "MIB")]
    client_memory: Option<u32>,
    /// The servers speak TLS, and require a certificate from each client; all certificates are made for the
    /// check.
    #[arg(long)]
    tls: bool,
    /// The servers ask for a password, which is made for the check.
    #[arg(long)]
    auth: bool,
    /// Print one JSON object with all rules.
    #[arg(long)]
    json: bool,
}

/// Checks a lock's client. The exit code is 0 if it keeps the protocol, and all of it could be tried, else 1.
pub(super) fn check(args: CheckLockArgs) -> Result<i32> {
    let CheckLockArgs { lock, driver, ttl, option, client_memory, tls, auth, json } = args;
    let lock_options = Options { tls, auth, ..Options::default() };
    let options =
        RunOptions { lock, driver, ttl, option, client_memory, lock_options, ..RunOptions::default() };
    let spec = conformance_spec(options)?;
    let stop = Arc::new(Stop::default());
    run_until_stopped(&stop, check_and_report(&spec, json, &stop))?
}

async fn check_and_report(spec: &RunSpec, json: bool, stop: &Arc<Stop>) -> Result<i32> {
    // The nodes' logs, as long as the check lasts.
    let logs = PrivateFolder::create("lock-check")?;
    let mut live = CheckLive { spec, json, servers: Vec::new(), version: None };
    let rules = match check_conformance(spec, logs.path(), stop, &mut live).await {
        Ok(rules) => rules,
        // A server or a client that did not start says why in its log, which the message names.
        Err(error) => {
            if stop.reason().is_none() {
                keep_logs(logs.path());
            }
            return Err(error);
        }
    };
    // A client that ended, too.
    if rules.iter().any(|rule| rule.outcome == RuleOutcome::NotTried) {
        keep_logs(logs.path());
    }
    let CheckLive { servers, version, .. } = live;
    let summary = Summary::new(spec, servers, version, rules);
    match json {
        true => say!("{}", serde_json::to_string(&summary)?),
        false => say!("{}", report::ending(&summary, &spec.options.lock)),
    }
    Ok(i32::from(!summary.keeps_the_protocol || !summary.is_tried()))
}

fn keep_logs(logs: &Path) {
    let kept = Path::new("results").join(format!("lock-check-{}", Seed::fresh()));
    match copy_files(logs, &kept) {
        Ok(true) => complain!("the logs of all nodes are kept in {}", kept.display()),
        Ok(false) => {}
        Err(why) => complain!("the logs cannot be kept in {}: {why}", kept.display()),
    }
}

/// Copies the files of a folder that are not empty, not those in folders of it. Whether there were any.
fn copy_files(from: &Path, to: &Path) -> io::Result<bool> {
    let mut any = false;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_file() && metadata.len() > 0 {
            fs::create_dir_all(to)?;
            fs::copy(entry.path(), to.join(entry.file_name()))?;
            any = true;
        }
    }
    Ok(any)
}

struct CheckLive<'a> {
    spec: &'a RunSpec,
    json: bool,
    servers: Vec<String>,
    version: Option<String>,
}

impl ConformanceObserver for CheckLive<'_> {
    fn started(&mut self, servers: &[String], version: Option<&str>) {
        self.servers = servers.to_vec();
        self.version = version.map(str::to_owned);
        if !self.json {
            say!("{}", report::opening(self.spec, servers, version));
        }
    }

    fn checked(&mut self, rule: &RuleResult) {
        if let Some(text) = report::rule(rule).filter(|_| !self.json) {
            say!("{text}");
        }
    }
}
