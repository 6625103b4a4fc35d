//! Options of backends: how a lock service is set up, and which variant of its recipe clients follow.

use crate::backend::Backend;
use crate::held::ClientClock;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

/// Options of all backends, as on the command line, in run.toml and in the client's hello. A field here is an option
/// there; [`Backend::options`] says who understands it.
#[derive(Clone, Debug, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[command(next_help_heading = "Options of backends (see `fencepost list backends`)")]
pub struct Options {
    /// Servers of the lock service [default: the backend's].
    #[arg(long)]
    pub nodes: Option<usize>,
    /// What Redis makes durable, and when.
    #[arg(long, value_enum, default_value_t)]
    pub redis_persistence: Persistence,
    /// How a lock on one Redis is taken.
    #[arg(long, value_enum, default_value_t)]
    pub acquire: Acquire,
    /// How a lock on one Redis is given back.
    #[arg(long, value_enum, default_value_t)]
    pub release: Release,
    /// What a lock on one Redis holds.
    #[arg(long, value_enum, default_value_t)]
    pub value: LockValue,
    /// Renews the lock at a third of its TTL for as long as it is held.
    #[arg(long)]
    pub watchdog: bool,
    /// Replicas that must have acknowledged the lock (WAIT) before it counts.
    #[arg(long, value_name = "REPLICAS")]
    pub wait: Option<u32>,
    /// Redlock takes a lock however long asking took.
    #[arg(long)]
    pub no_elapsed_check: bool,
    /// The clock by which Redlock measures how long asking took, and how long a lock is valid.
    #[arg(long, value_enum, default_value_t)]
    pub client_clock: ClientClock,
    /// Redlock rests for the same time before each new attempt.
    #[arg(long)]
    pub no_retry_jitter: bool,
    /// Redlock: the mean rest before each new attempt [default: 10ms].
    #[arg(long = "retry-delay", value_name = "TIME", value_parser = length)]
    pub retry_delay_ms: Option<u64>,
    /// Where Redlock releases.
    #[arg(long, value_enum, default_value_t)]
    pub release_where: ReleaseWhere,
    /// Where Redlock gets a fencing token.
    #[arg(long, value_enum, default_value_t)]
    pub token: TokenFrom,
    /// etcd: a waiter does not look again whether its session still lives (the defect of issue 11456).
    #[arg(long)]
    pub no_recheck: bool,
    /// chubby: how long a lock stays taken after its holder was lost, in whole seconds [default: 10s].
    #[arg(long = "lock-delay", value_name = "TIME", value_parser = length)]
    pub lock_delay_ms: Option<u64>,
    /// hadoop: what becomes of whoever was active before.
    #[arg(long, value_enum, default_value_t)]
    pub fence: Fence,
}

/// `10s` or `500ms`, in milliseconds.
fn length(text: &str) -> Result<u64, String> {
    let length = humantime::parse_duration(text)
        .map_err(|_| format!("`{text}` is no length of time; write 2s, 500ms or 1m30s"))?;
    u64::try_from(length.as_millis()).map_err(|_| format!("`{text}` is too long"))
}

/// What becomes of whoever was active before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fence {
    /// It is killed.
    #[default]
    Kill,
    /// It is cut off from the storage.
    Cut,
    /// Nothing, and success is reported.
    Lie,
}

/// What Redis writes to its append-only file, and when it calls fsync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Persistence {
    /// Neither append-only file nor snapshots.
    #[default]
    None,
    /// Append-only file, fsync once a second.
    Everysec,
    /// Append-only file, fsync before each answer.
    Always,
}

/// How a lock on one Redis is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acquire {
    /// SET NX PX, in one step.
    #[default]
    SetNxPx,
    /// SETNX, then EXPIRE.
    SetnxExpire,
    /// SETNX, for ever.
    NoTtl,
}

/// How a lock on one Redis is given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// A script that compares and deletes, in one step.
    #[default]
    Lua,
    /// GET, a comparison in the client, then DEL.
    GetDel,
    /// DEL, whatever is there.
    Blind,
}

/// What a lock on one Redis holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockValue {
    /// A value that no other acquire has.
    #[default]
    Unique,
    /// The same value for everybody.
    Fixed,
}

/// Where Redlock releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseWhere {
    /// On all nodes.
    #[default]
    All,
    /// On those that were seen to grant it.
    Seen,
}

/// Where Redlock gets a fencing token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenFrom {
    /// Nowhere: the algorithm has none.
    #[default]
    None,
    /// A counter on the first node (INCR).
    IncrOne,
    /// A counter on each node that granted the lock (INCR), the highest of them.
    IncrEach,
}

/// Refuses options that this backend does not understand, and values that it cannot take, in one sentence.
pub fn check_options(backend: &dyn Backend, options: &Options) -> Result<(), String> {
    let (asked, default) = (as_json(options), as_json(&Options::default()));
    let asked = asked.as_object().into_iter().flatten();
    for (name, _) in asked.filter(|(name, value)| default[name] != **value) {
        if name != "nodes" && !backend.options().contains(&name.as_str()) {
            let own = match backend.options() {
                [] => "it has none of its own".to_owned(),
                own => {
                    let names: Vec<&str> = own.iter().map(|name| option_name(name)).collect();
                    format!("it has --{}", names.join(", --"))
                }
            };
            return Err(format!(
                "--{} is no option of the backend {}; {own}",
                option_name(name),
                backend.name()
            ));
        }
    }
    backend.check(options)
}

/// As on the command line, where lengths of time say their unit themselves.
pub fn option_name(name: &str) -> &str {
    name.strip_suffix("-ms").unwrap_or(name)
}

fn as_json(options: &Options) -> serde_json::Value {
    serde_json::to_value(options).expect("options are always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_backend_takes_its_own_options_only() {
        let options = Options { redis_persistence: Persistence::Always, ..Options::default() };
        let check = |name: &str| check_options(crate::find(name).unwrap(), &options);
        assert_eq!(check("redlock"), Ok(()));
        let refusal = check("etcd").unwrap_err();
        assert!(refusal.contains("--redis-persistence is no option of the backend etcd"), "{refusal}");
    }

    #[test]
    fn what_backends_say_they_understand_exists() {
        let known = as_json(&Options::default());
        for backend in crate::registry() {
            for name in backend.options() {
                assert!(known.get(name).is_some(), "{}: there is no option {name}", backend.name());
            }
        }
    }
}
