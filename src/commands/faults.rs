//! `fencepost fault`, `heal`, `faults` and `down`: what another shell says to servers that stand.

use crate::commands::fault_of_process::fault_of_process;
use crate::commands::up::control::NO_EFFECT;
use crate::commands::up::recorded;
use crate::commands::up::standing::{ControlFile, find, standing};
use crate::exit::{BAD_USAGE, FAILED};
use crate::output::{complain, say};
use crate::runtime::small_runtime;
use anyhow::{Context, Result};
use axum::body::{Body, to_bytes};
use axum::http::header::AUTHORIZATION;
use axum::http::{Method, Request, StatusCode};
use clap::Args;
use console::style;
use fencepost_checker::Outcome;
use fencepost_engine::{BadUsage, FaultReport, FaultState};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;

/// Which of the clusters that stand.
#[derive(Debug, Args)]
pub struct WhichCluster {
    /// Name of the cluster [default: the only one that is running].
    #[arg(long)]
    pub name: Option<String>,
    /// Print the answer as one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// A fault, in the words of a plan.
#[derive(Debug, Args)]
#[command(
    override_usage = "fencepost fault NEMESIS NODE… [--for TIME] [--KEY VALUE]… [--name NAME] [--json]\n       fencepost fault NEMESIS --pid N [--for TIME] [--KEY VALUE]… [--json]"
)]
pub struct FaultArgs {
    /// The kind of fault (see `fencepost list nemeses`).
    #[arg(index = 1)]
    pub nemesis: String,
    /// The target nodes: n1 n2, or leader. For a partition, its groups: n1,n2 n3; a single group is separated
    /// from all other nodes. Then --for TIME, and the keys of a plan's [[fault]] as options: --wall 30s,
    /// --delay 200ms, --flow "c1 > n1" (docs/nemeses.md); --by means --wall. --pid N in place of nodes
    /// targets a process of this machine (pause, cpu, thread-pause, terminate, kill); then the command runs
    /// until --for is over.
    #[arg(index = 2, num_args = 0.., allow_hyphen_values = true, value_name = "NODE|--KEY VALUE")]
    pub words: Vec<String>,
    #[command(flatten)]
    pub cluster: WhichCluster,
}

/// Which faults are to end.
#[derive(Debug, Args)]
pub struct HealArgs {
    /// The number of a fault (see `fencepost faults`), or all.
    #[arg(default_value = "all")]
    pub fault: String,
    #[command(flatten)]
    pub cluster: WhichCluster,
}

/// How long the servers may take to be taken down, and how often one looks.
const DOWN: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);

/// `fencepost fault`. Exit code 2 where no effect was observed.
pub fn fault(args: &FaultArgs) -> Result<i32> {
    let (mut keys, cluster) = read_words(args)?;
    if let Some(pid) = keys.remove("pid") {
        let pid = pid.as_i64().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.ok_or_else(|| BadUsage::at("pid", "--pid is the number of a process"))?;
        return fault_of_process(keys, pid, cluster.json);
    }
    answered(ask(&cluster, Method::POST, "/faults", Some(&Value::Object(keys)))?, &cluster, |report| {
        show(&serde_json::from_value(report.clone())?);
        let id = &report["id"];
        say!("{}", style(format!("`fencepost heal {id}` ends it")).dim());
        Ok(())
    })
}

pub fn heal(args: &HealArgs) -> Result<i32> {
    let path = match args.fault.as_str() {
        "all" => "/faults".to_owned(),
        id if id.parse::<u64>().is_ok() => format!("/faults/{id}"),
        other => {
            let sentence =
                format!("{other:?} is no fault: expected its number (see `fencepost faults`), or all");
            return Err(BadUsage::new(sentence).into());
        }
    };
    answered(ask(&args.cluster, Method::DELETE, &path, None)?, &args.cluster, show_all)
}

pub fn faults(cluster: &WhichCluster) -> Result<i32> {
    answered(ask(cluster, Method::GET, "/faults", None)?, cluster, show_all)
}

/// `fencepost down`: returns once nothing is left. Judges what was recorded.
pub fn down(cluster: &WhichCluster) -> Result<i32> {
    let (name, control) = find(cluster.name.as_deref())?;
    let (status, body) = small_runtime()?.block_on(async {
        let (_, about) = request(&control, Method::GET, "/cluster", None).await?;
        let (status, body) = request(&control, Method::DELETE, "/cluster", None).await?;
        let record = json!({"record": about["record"]});
        anyhow::Ok((status, if status.is_success() { record } else { body }))
    })?;
    let begun = std::time::Instant::now();
    while status.is_success()
        && standing()?.iter().any(|(known, other)| *known == name && other.pid == control.pid)
    {
        anyhow::ensure!(begun.elapsed() < DOWN, "{name} is still being taken down, after {DOWN:?}");
        std::thread::sleep(LOOK);
    }
    let record = body["record"].as_str().map(str::to_owned);
    let code = answered((status, body), cluster, |_| {
        say!("{name} is down");
        Ok(())
    })?;
    match record {
        Some(folder) => recorded::verdict(Path::new(&folder), !cluster.json),
        None => Ok(code),
    }
}

/// The keys of the fault, and the cluster that is meant: options behind the first node are among the words.
fn read_words(args: &FaultArgs) -> Result<(Map<String, Value>, WhichCluster), BadUsage> {
    let WhichCluster { name, json } = &args.cluster;
    let mut cluster = WhichCluster { name: name.clone(), json: *json };
    let mut keys = Map::from_iter([("fault".to_owned(), json!(args.nemesis))]);
    let (mut nodes, mut words): (Vec<&str>, _) = (Vec::new(), args.words.iter());
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else {
            nodes.push(word);
            continue;
        };
        if option == "json" {
            cluster.json = true;
            continue;
        }
        let (key, value) = match option.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (option, words.next().map(String::as_str)),
        };
        let value = value
            .filter(|value| !value.starts_with("--"))
            .ok_or_else(|| BadUsage::new(format!("--{key} has no value")))?;
        match key {
            "name" => cluster.name = Some(value.to_owned()),
            "by" => drop(keys.insert("wall".to_owned(), typed(value.trim_start_matches('+')))),
            "peers" | "names" => {
                drop(keys.insert(key.to_owned(), json!(value.split(',').collect::<Vec<_>>())))
            }
            _ => drop(keys.insert(key.replace('-', "_"), typed(value))),
        }
    }
    let is_partition = fencepost_nemesis::find(&args.nemesis)
        .is_some_and(|nemesis| nemesis.description().parts_groups && nodes.len() > 1);
    match is_partition {
        true => drop(keys.insert("groups".to_owned(), json!(nodes.join("|")))),
        false if nodes.is_empty() => {}
        false => {
            let on: Vec<&str> = nodes.iter().flat_map(|names| names.split(',')).collect();
            keys.insert("on".to_owned(), json!(on));
        }
    }
    Ok((keys, cluster))
}

/// A number or a truth value as such, all else as a text.
fn typed(value: &str) -> Value {
    let read = serde_json::from_str(value).ok();
    read.filter(|value: &Value| value.is_number() || value.is_boolean()).unwrap_or_else(|| json!(value))
}

fn show_all(body: &Value) -> Result<()> {
    let reports: Vec<FaultReport> = match body.get("faults") {
        Some(all) => serde_json::from_value(all.clone())?,
        None => vec![serde_json::from_value(body.clone())?],
    };
    if reports.is_empty() {
        say!("no fault is in force");
    }
    reports.iter().for_each(show);
    Ok(())
}

fn show(report: &FaultReport) {
    let FaultReport { id, fault, on, state, sentence, .. } = report;
    let state = match state {
        FaultState::Waiting => "waiting",
        FaultState::InForce => "in force",
        FaultState::NotInjected => "not injected",
        FaultState::Healing => "healing",
        FaultState::Healed => "healed",
        FaultState::NotHealed => "not healed",
        FaultState::LeftOut => "left out",
    };
    let seen = if report.effective { "" } else { "; no effect was observed" };
    say!("{id:<4} {state:<12} {fault} {}: {sentence}{seen}", on.join(","));
}

fn answered(
    (status, body): (StatusCode, Value),
    cluster: &WhichCluster,
    show: impl FnOnce(&Value) -> Result<()>,
) -> Result<i32> {
    if cluster.json {
        say!("{body}");
    } else if status.is_success() {
        show(&body)?;
    }
    if status.is_success() {
        return Ok(0);
    }
    complain!("fencepost: {}", body["error"].as_str().unwrap_or("the cluster gave no reason"));
    Ok(match body["kind"].as_str() {
        Some(NO_EFFECT) => i32::from(Outcome::Vacuous.exit_code()),
        _ if status.is_server_error() => FAILED,
        _ => BAD_USAGE,
    })
}

fn ask(
    cluster: &WhichCluster,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<(StatusCode, Value)> {
    let (_, control) = find(cluster.name.as_deref())?;
    small_runtime()?.block_on(request(&control, method, path, body))
}

/// Asks the control port. Errors: it does not answer, or makes no sense.
pub async fn request(
    control: &ControlFile,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Result<(StatusCode, Value)> {
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    let request = Request::builder()
        .method(method)
        .uri(format!("{}{path}", control.api))
        .header(AUTHORIZATION, format!("Bearer {}", control.token))
        .body(body)?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let gone = |error| {
        let sentence = format!("{} does not answer, its cluster is being taken down: {error}", control.api);
        BadUsage::at("name", sentence)
    };
    let answer = client.request(request).await.map_err(gone)?;
    let status = answer.status();
    let body = to_bytes(Body::new(answer.into_body()), 1 << 24).await.context("the answer broke off")?;
    Ok((status, serde_json::from_slice(&body).context("the answer is no JSON")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(nemesis: &str, words: &str) -> Value {
        let cluster = WhichCluster { name: None, json: false };
        let words = words.split_whitespace().map(str::to_owned).collect();
        let args = FaultArgs { nemesis: nemesis.to_owned(), words, cluster };
        Value::Object(read_words(&args).unwrap().0)
    }

    #[test]
    fn words_become_the_keys_of_a_plan() {
        let jump = json!({"fault": "clock-jump", "on": ["n1", "n2"], "wall": "30s", "for": "3s"});
        assert_eq!(read("clock-jump", "n1 n2 --by +30s --for 3s"), jump);
        assert_eq!(read("clock-jump", "n1,n2 --for=3s --wall 30s --name x --json"), jump);
        let slow = json!({"fault": "slow", "on": ["n1"], "rate_kbit": 64, "peers": ["c1", "n2"]});
        assert_eq!(read("slow", "n1 --rate-kbit 64 --peers c1,n2"), slow);
        assert_eq!(read("partition", "n1,n2 n3"), json!({"fault": "partition", "groups": "n1,n2|n3"}));
        assert_eq!(read("partition", "n1"), json!({"fault": "partition", "on": ["n1"]}));
        assert_eq!(read("clock-jump", "n1 --by -1h")["wall"], json!("-1h"));
    }
}
