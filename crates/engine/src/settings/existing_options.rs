//! The options of runs on servers that exist already: where these are, and how they are reached.

use crate::refuse_option;
use crate::settings::names::BadUsage;
use clap::Args;
use fencepost_history::without_secrets;
use fencepost_locks::{LockDefinition, Options, registry};
use fencepost_nemesis::{HookAction, ServerFaults};
use http::Uri;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

pub const PASSWORD: &str = fencepost_cluster::SERVERS_PASSWORD;

/// Servers that exist already, and what may be done to them.
#[derive(Clone, Debug, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct ExistingOptions {
    /// Servers that exist already, HOST:PORT or a URL each, separated by commas; no server is started.
    #[arg(long, value_name = "SERVER", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<String>,
    /// Use the servers of --servers; without this option, the run only says what it would do there.
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub i_own_these_servers: bool,
    /// User that logs in to --servers; the password is in FENCEPOST_SERVERS_PASSWORD or --password-file.
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers_user: Option<String>,
    /// File with the password of --servers in its first line.
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// Certificates of the authorities that signed the certificates of --servers, in PEM; the servers speak
    /// TLS.
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers_ca: Option<PathBuf>,
    /// Certificate of the clients for --servers, in PEM.
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers_certificate: Option<PathBuf>,
    /// Key of --servers-certificate, in PEM.
    #[arg(long, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers_key: Option<PathBuf>,
    /// Command that stops, continues, kills and restarts one of --servers, with {action} and {server} in it.
    #[arg(long, value_name = "COMMAND")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_hook: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub host: String,
    pub port: u16,
    pub tls: bool,
    user: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}", self.host, self.port)
    }
}

impl ExistingOptions {
    /// Whether the servers exist already.
    pub fn are_used(&self) -> bool {
        !self.servers.is_empty()
    }

    pub(crate) fn server_faults(&self) -> ServerFaults {
        match (self.are_used(), &self.server_hook) {
            (false, _) => ServerFaults::All,
            (true, None) => ServerFaults::Packets,
            (true, Some(_)) => ServerFaults::ByHook,
        }
    }

    /// Refuses these options for a command that starts its servers itself. Errors: names the option.
    pub fn check_unused(&self) -> Result<(), BadUsage> {
        let changed = fencepost_history::changed_fields(self);
        let name = if self.are_used() { Some("servers") } else { changed.keys().next().map(String::as_str) };
        match name {
            Some(name) => refuse_option!(
                name,
                "--{name} is for `fencepost test` alone, without --against: other commands start their servers themselves"
            ),
            None => Ok(()),
        }
    }

    fn check_alone(&self) -> Result<(), BadUsage> {
        if self.are_used() {
            return Ok(());
        }
        match fencepost_history::changed_fields(self).keys().next() {
            Some(name) => refuse_option!(
                name,
                "--{name} is about servers that exist already; name them by --servers, or leave it out"
            ),
            None => Ok(()),
        }
    }

    /// Refuses what cannot work with this lock. Errors: what cannot work, and what would.
    pub(crate) fn check(&self, lock: &LockDefinition, options: &Options) -> Result<(), BadUsage> {
        self.check_alone()?;
        if !self.are_used() {
            return Ok(());
        }
        let Some(existing) = lock.service.existing else {
            let possible = registry().iter().filter(|lock| lock.service.existing.is_some());
            let possible: Vec<&str> = possible.map(|lock| lock.name).collect();
            refuse_option!(
                "servers",
                "{} cannot be tested on servers that exist already; these locks can: {}",
                lock.name,
                possible.join(", ")
            );
        };
        let nodes = options.nodes.map(|_| "nodes".to_owned());
        let shaping = nodes.into_iter().chain(options.changed()).find(|name| {
            matches!(&**name, "nodes" | "server" | "tls" | "auth")
                || lock.service.options.contains(&name.as_str())
        });
        if let Some(name) = shaping {
            refuse_option!(
                &name,
                "--{name} shapes servers that the run starts, and those of --servers exist already; leave it out"
            );
        }
        let places = self.places(lock.service.port())?;
        if !existing.shares_keys() {
            lock.service.check(&Options { nodes: Some(places.len()), ..Options::default() }).map_err(
                |refused| {
                    let sentence = format!("--servers names {} servers: {}", places.len(), refused.sentence);
                    BadUsage::at("servers", sentence)
                },
            )?;
        }
        self.check_tls(&places)?;
        self.hook_words().map(drop)
    }

    fn check_tls(&self, places: &[Place]) -> Result<(), BadUsage> {
        let tls = places.iter().filter(|place| place.tls).count();
        if tls != 0 && tls != places.len() {
            refuse_option!(
                "servers",
                "some of --servers speak TLS by their URLs, and some do not; all must speak alike"
            );
        }
        if tls == 0
            && (self.servers_ca.is_some() || self.servers_certificate.is_some() || self.servers_key.is_some())
        {
            refuse_option!(
                "servers",
                "the URLs of --servers say that they speak no TLS, and the options --servers-ca, --servers-certificate and --servers-key are about TLS; write rediss:// or https://, or leave these out"
            );
        }
        if tls != 0 && self.servers_ca.is_none() {
            refuse_option!(
                "servers-ca",
                "servers that speak TLS have certificates of some authority; name the file with its certificate by --servers-ca"
            );
        }
        match (&self.servers_certificate, &self.servers_key) {
            (Some(_), None) => {
                refuse_option!(
                    "servers-key",
                    "--servers-certificate needs its key; name the file by --servers-key"
                )
            }
            (None, Some(_)) => refuse_option!(
                "servers-certificate",
                "--servers-key needs its certificate; name the file by --servers-certificate"
            ),
            _ => Ok(()),
        }
    }

    /// Where the servers are; `port` is the service's usual one. Errors never repeat a password.
    pub(crate) fn places(&self, port: u16) -> Result<Vec<Place>, BadUsage> {
        if self.servers_user.as_ref().is_some_and(|user| user.contains(':')) {
            refuse_option!(
                "servers-user",
                "--servers-user has a colon in it, as if a password followed the name: leave that out there, and give it in {PASSWORD} or by --password-file"
            );
        }
        let has_ca = self.servers_ca.is_some();
        let places: Vec<Place> =
            self.servers.iter().map(|text| parse(text, port, has_ca)).collect::<Result<_, _>>()?;
        for (at, place) in places.iter().enumerate() {
            if places[..at].iter().any(|other| (&other.host, other.port) == (&place.host, place.port)) {
                refuse_option!("servers", "--servers names {place} twice; name each server once");
            }
        }
        Ok(places)
    }

    pub(crate) fn user(&self, places: &[Place]) -> Option<String> {
        self.servers_user.clone().or_else(|| places.iter().find_map(|place| place.user.clone()))
    }

    pub(crate) fn hook_words(&self) -> Result<Option<Vec<String>>, BadUsage> {
        let Some(command) = &self.server_hook else { return Ok(None) };
        let words = shlex::split(command).filter(|words| !words.is_empty());
        let Some(words) = words else {
            refuse_option!(
                "server-hook",
                "--server-hook `{command}` is no command: a quote is not closed, or it is empty"
            );
        };
        let gives_password = |word: &String| {
            let word = word.to_ascii_lowercase();
            let url = word.split_once("://").and_then(|(_, rest)| rest.split_once('@'));
            word.contains("password=") || url.is_some_and(|(user, _)| user.contains(':'))
        };
        if words.iter().any(gives_password) {
            refuse_option!(
                "server-hook",
                "a password in --server-hook can be read by every user of this machine, and is kept with the results; let the \
                 command be a script that reads it from a file"
            );
        }
        if !command.contains("{action}") || !command.contains("{server}") {
            let actions = [HookAction::Stop, HookAction::Continue, HookAction::Kill, HookAction::Restart];
            refuse_option!(
                "server-hook",
                "--server-hook `{command}` does not say what to do where: it needs {{action}} ({}) and {{server}} in it",
                actions.map(HookAction::name).join(", ")
            );
        }
        Ok(Some(words))
    }
}

fn parse(text: &str, port: u16, has_ca: bool) -> Result<Place, BadUsage> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    let tls = match scheme {
        "" => has_ca,
        "redis" | "valkey" | "http" => false,
        "rediss" | "valkeys" | "https" => true,
        _ => {
            refuse_option!(
                "servers",
                "a URL in --servers begins with redis://, rediss://, http:// or https://"
            );
        }
    };
    let user = rest.rsplit_once('@').map(|(user, _)| user);
    let has_password = |user: &str| user.contains(':') || user.to_ascii_lowercase().contains("%3a");
    let asks = rest.split_once('?').is_some_and(|(_, query)| query.to_ascii_lowercase().contains("pass"));
    if user.is_some_and(has_password) || asks {
        refuse_option!(
            "servers",
            "a password in --servers can be read by every user of this machine; leave it out there, and give it in {PASSWORD} or by --password-file"
        );
    }
    let no_server = || {
        BadUsage::at(
            "servers",
            format!(
                "`{}` in --servers is no server: expected HOST:PORT, or a URL such as rediss://HOST:PORT",
                shown(text)
            ),
        )
    };
    let uri: Uri = format!("http://{rest}").parse().map_err(|_| no_server())?;
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(no_server)?;
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() || rest.contains('#') {
        return Err(no_server());
    }
    // The crate takes a port of any length, and then gives none.
    let after = uri.authority().and_then(|authority| authority.as_str().rsplit_once(host));
    let port = match after.map(|(_, after)| after).filter(|after| !after.is_empty()) {
        Some(_) => uri.port_u16().ok_or_else(no_server)?,
        None => port,
    };
    Ok(Place {
        host: host.to_owned(),
        port,
        tls,
        user: user.filter(|user| !user.is_empty()).map(str::to_owned),
    })
}

/// A server as it may be repeated. What a comma in a password cut off looks like a port that is no number.
fn shown(text: &str) -> String {
    let shown = without_secrets(text);
    let is_number = |port: &str| port.chars().all(|c| c.is_ascii_digit() || c == '/');
    match shown.rsplit_once(':') {
        Some((host, port)) if !port.starts_with("//") && !is_number(port) => format!("{host}:…"),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(servers: &str) -> Result<Vec<Place>, String> {
        let servers = servers.split(',').map(str::to_owned).collect();
        let options = ExistingOptions { servers, ..ExistingOptions::default() };
        options.places(6379).map_err(|error| error.sentence)
    }

    #[test]
    fn a_hook_holds_no_password() {
        let of = |command: &str| {
            let options =
                ExistingOptions { server_hook: Some(command.to_owned()), ..ExistingOptions::default() };
            options.hook_words().map(|_| ()).map_err(|error| error.sentence)
        };
        assert_eq!(of("./hook.sh {action} {server} --as admin"), Ok(()));
        for secret in ["curl http://me:hidden@db/{action}/{server}", "x {action} {server} --Password=hidden"]
        {
            let refused = of(secret).unwrap_err();
            assert!(refused.starts_with("a password in --server-hook") && !refused.contains("hidden"));
        }
    }

    #[test]
    fn a_server_is_a_host_with_a_port_or_a_url() {
        let place = |host: &str, port, tls| Place { host: host.to_owned(), port, tls, user: None };
        assert_eq!(places("db").unwrap(), [place("db", 6379, false)]);
        assert_eq!(
            places("db:7000,[::1]:7001").unwrap(),
            [place("db", 7000, false), place("[::1]", 7001, false)]
        );
        assert_eq!(places("rediss://db.example:6380/").unwrap(), [place("db.example", 6380, true)]);
        assert_eq!(places("https://ann@db").unwrap()[0].user.as_deref(), Some("ann"));
        for wrong in ["", "db:99999", "db:x", "ftp://db", "db/path", "a b"] {
            assert!(places(wrong).is_err(), "{wrong}");
        }
        assert!(places("db,db:6379").unwrap_err().contains("twice"));
    }

    #[test]
    fn a_password_on_the_command_line_is_refused_and_not_repeated() {
        let refused = places("rediss://ann:hunter2@db:6379").unwrap_err();
        assert!(refused.contains("FENCEPOST_SERVERS_PASSWORD") && !refused.contains("hunter2"), "{refused}");
        for given in [
            "redis://:hunter2@db",
            "ann:hunter2@db",
            "redis://ann%3Ahunter2@db",
            "redis://ann%3ahunter2@db",
            "redis://ann:hun/hunter2@db",
            "redis://ann:x#hunter2@db",
            "redis://db?password=hunter2",
            "redis://db/?PASSWORD=hunter2",
            "db?password=hunter2",
            "redis://db/0?auth=hunter2",
            "redis://db#hunter2",
            "foo://ann:hunter2@db",
            // The comma stands for the end of a server.
            "redis://ann:hunter2,x@db",
        ] {
            let refused = places(given).unwrap_err();
            assert!(!refused.contains("hunter2"), "{given}: {refused}");
        }
    }

    #[test]
    fn a_user_with_a_password_behind_it_is_refused_and_not_repeated() {
        let options = ExistingOptions {
            servers: vec!["db".to_owned()],
            servers_user: Some("ann:hunter2".to_owned()),
            ..ExistingOptions::default()
        };
        let refused = options.places(6379).unwrap_err().sentence;
        assert!(refused.contains("--password-file") && !refused.contains("hunter2"), "{refused}");
    }
}
