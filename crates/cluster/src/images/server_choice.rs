//! The server that a user chose: a release, or one of the user's own.

use super::own_server::OwnServer;
use super::releases::{RELEASES, Release};
use fencepost_history::Refusal;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The server that a user chose. A release is written `redis-7.0`; `redis@7.0` is read, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ServerChoice {
    Release(&'static Release),
    Own(&'static OwnServer),
}

impl ServerChoice {
    /// The releases of these servers, for messages: `redis-7.0, redis-8.0`.
    pub fn names(servers: &[&str]) -> String {
        let of_them = RELEASES.iter().filter(|release| servers.contains(&release.server));
        of_them.map(Release::name).collect::<Vec<_>>().join(", ")
    }

    /// The release that a lock's name ends in: `redis-7.0`, or the version alone of the first server.
    pub fn of_suffix(suffix: &str, servers: &[&str]) -> Option<ServerChoice> {
        if is_place(suffix) {
            return suffix.parse().ok();
        }
        let suffix = usual(suffix);
        let is_meant = |release: &&Release| match servers.first() {
            Some(first) if *first == release.server && release.version == suffix => true,
            _ => servers.contains(&release.server) && release.name() == suffix,
        };
        RELEASES.iter().find(is_meant).map(ServerChoice::Release)
    }

    /// A name and the server behind its `@`: `redlock` and `redis-7.0`, `./my-lock@careful` and `./etcd`.
    pub fn behind(name: &str) -> Option<(&str, ServerChoice)> {
        let splits = name.match_indices('@').map(|(at, _)| (&name[..at], &name[at + 1..]));
        let server =
            |text: &str| if text.contains('/') && !is_place(text) { None } else { text.parse().ok() };
        splits.into_iter().find_map(|(rest, text)| Some((rest, server(text)?)))
    }

    fn own(own: OwnServer) -> ServerChoice {
        ServerChoice::Own(Box::leak(Box::new(own)))
    }
}

/// Whether this, behind a name, can only be a server of one's own: other names have slashes, too.
fn is_place(text: &str) -> bool {
    text == "machine"
        || ["./", "../", "/", "program:", "folder:", "image:"].iter().any(|start| text.starts_with(start))
}

/// `redis-7.0` of `redis@7.0`.
fn usual(text: &str) -> String {
    text.replacen('@', "-", 1)
}

impl FromStr for ServerChoice {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<ServerChoice, Refusal> {
        let port = text.rsplit_once(':').filter(|_| !text.starts_with("image:"));
        if text.contains("://") || port.is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
            return Err(Refusal::new(format!(
                "--server chooses which servers are started; those that run already are named by --servers {text}"
            )));
        }
        if let Some(own) = OwnServer::parse(text) {
            return Ok(ServerChoice::own(own));
        }
        let name = usual(text);
        let release = RELEASES.iter().find(|release| release.name() == name);
        release.map(ServerChoice::Release).ok_or_else(|| {
            let names: Vec<String> = RELEASES.iter().map(Release::name).collect();
            let server = name.rsplit_once('-').map_or(name.as_str(), |(server, _)| server);
            let versions = ServerChoice::names(&[server]);
            match versions.is_empty() {
                true => {
                    Refusal::unknown("server", text, &names.iter().map(String::as_str).collect::<Vec<_>>())
                }
                false => Refusal::new(format!(
                    "unknown server \"{text}\": of {server} there are {versions} (`fencepost list servers`)"
                )),
            }
        })
    }
}

impl TryFrom<String> for ServerChoice {
    type Error = Refusal;

    fn try_from(text: String) -> Result<ServerChoice, Refusal> {
        text.parse()
    }
}

impl From<ServerChoice> for String {
    fn from(choice: ServerChoice) -> String {
        choice.to_string()
    }
}

impl fmt::Display for ServerChoice {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerChoice::Release(release) => release.fmt(to),
            ServerChoice::Own(own) => own.fmt(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_its_version() {
        let parse = |text: &str| text.parse::<ServerChoice>().map(|choice| choice.to_string());
        assert_eq!(parse("redis-7.0"), Ok("redis-7.0".to_owned()));
        assert_eq!(parse("etcd@3.4"), Ok("etcd-3.4".to_owned()));
        let refused = parse("redis-6.2").unwrap_err().sentence;
        assert!(refused.contains("of redis there are redis-7.0, redis-8.0"), "{refused}");
        assert!(parse("rediss-7.0").unwrap_err().sentence.contains("redis-7.0"));
        let suffix = |text: &str, servers: &[&str]| ServerChoice::of_suffix(text, servers).map(String::from);
        assert_eq!(suffix("3.4", &["etcd"]).as_deref(), Some("etcd-3.4"));
        assert_eq!(suffix("valkey-9.1", &["redis", "valkey"]).as_deref(), Some("valkey-9.1"));
        assert_eq!(suffix("careful", &["redis"]), None);
        for running in ["redis://db.example", "db.example:6379", "rediss://me@[::1]:6380"] {
            assert!(parse(running).unwrap_err().sentence.ends_with(&format!("--servers {running}")));
        }
    }

    #[test]
    fn a_server_stands_behind_a_name() {
        let behind = |name: &'static str| ServerChoice::behind(name).map(|(rest, it)| (rest, it.to_string()));
        let both = |rest, server: &str| Some((rest, server.to_owned()));
        assert_eq!(behind("redlock@redis@7.0"), both("redlock", "redis-7.0"));
        assert_eq!(behind("adapters/x@careful@./etcd"), both("adapters/x@careful", "./etcd"));
        assert_eq!(
            behind("redlock@image:valkey/valkey@sha256:1"),
            both("redlock", "image:valkey/valkey@sha256:1")
        );
        assert_eq!(behind("here@there/my-lock@careful"), None);
    }
}
