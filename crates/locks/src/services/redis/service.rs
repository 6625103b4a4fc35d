//! A Redis server: how it is started, and how it says that it serves.

use super::access;
pub(crate) use super::ask::{PORT, ask};
use super::existing::ExistingRedis;
use super::orders;
use crate::described::{DESCRIBED, ONE};
use crate::options::{Options, Persistence};
use crate::service::{LockService, ServerKind};
use fencepost_cluster::ClockMechanism;
use fencepost_cluster::protocol::Service;

pub(crate) const SERVERS: &[&str] = &["redis", "valkey"];

/// Redis servers that know nothing of each other. One that still loads its file is a refusal to clients.
pub(crate) const INDEPENDENT: LockService = LockService {
    servers: SERVERS,
    options: &["redis-persistence", "tls", "auth"],
    // Redis is C, and takes its time through libc, which takes it from the vDSO.
    clock_mechanisms: &[ClockMechanism::Vdso, ClockMechanism::Faketime],
    start: |_, _, _, options| start_command(options),
    access_files: |access| access::files(access, None),
    version,
    existing: Some(&ExistingRedis),
    orders: Some(orders::INDEPENDENT),
    ..DESCRIBED
};

pub(crate) const SERVER: ServerKind = ServerKind {
    server: "Redis",
    processes: &["redis", "sentinel"],
    port: PORT,
    version: &["redis-server", "--version"],
    ..ONE
};

pub(crate) fn start_command(options: &Options) -> Service {
    let mut argv = vec!["redis-server".to_owned()];
    if options.tls || options.auth {
        argv.push(access::CONFIGURATION.to_owned());
    }
    argv.extend(arguments(options));
    Service { name: "redis".to_owned(), argv, env: Vec::new(), refuses_root: false }
}

pub(crate) fn arguments(options: &Options) -> Vec<String> {
    // `--save ''`: no snapshots. What survives a restart is then exactly what the append-only file holds.
    let fixed = ["--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--dir", "{data}"];
    let mut argv: Vec<String> = fixed.map(str::to_owned).to_vec();
    if options.tls {
        argv.extend(["--port", "0", "--tls-port"].map(str::to_owned));
    } else {
        argv.push("--port".to_owned());
    }
    argv.push(PORT.to_string());
    let append: &[&str] = match options.redis_persistence {
        Persistence::None => &["--appendonly", "no"],
        Persistence::Everysec => &["--appendonly", "yes", "--appendfsync", "everysec"],
        Persistence::Always => &["--appendonly", "yes", "--appendfsync", "always"],
    };
    argv.extend(append.iter().map(|word| (*word).to_owned()));
    argv
}

/// `redis-server 7.0.15`, or `valkey-server 8.1.1`: what it is called, the server says itself. From `Redis
/// server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=…`, or `Valkey server v=…`.
fn version(line: &str) -> Option<String> {
    let (name, rest) = line.split_once(" server ")?;
    let version = rest.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    Some(format!("{}-server {version}", name.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_the_servers_own_words() {
        let line = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0";
        assert_eq!(version(line).as_deref(), Some("redis-server 7.0.15"));
        let valkey = "Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1a2b";
        assert_eq!(version(valkey).as_deref(), Some("valkey-server 8.1.1"));
        assert_eq!(version("sh: redis-server: not found"), None);
    }

    #[test]
    fn persistence_reaches_the_command_line() {
        let line = |redis_persistence| {
            start_command(&Options { redis_persistence, ..Options::default() }).argv.join(" ")
        };
        assert!(line(Persistence::None).ends_with("--appendonly no"));
        assert!(line(Persistence::Always).ends_with("--appendonly yes --appendfsync always"));
    }
}
