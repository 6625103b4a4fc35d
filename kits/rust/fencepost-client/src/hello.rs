//! What the processes of one client share: what the controller's hello says, and the way to answer.

use serde_json::{json, Value};
use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub(crate) const BETWEEN_CHECK_AND_WRITE: &str = "between-check-and-write";

/// What the processes of one client share.
pub(crate) struct Client {
    pub(crate) hello: Value,
    pub(crate) lease_is_ttl: bool,
    pub(crate) careful: bool,
    pub(crate) marks_first: bool,
    pub(crate) storages: Vec<String>,
    /// Between the look at the validity and the write; only if the hello asks for it.
    pub(crate) pause: Option<Duration>,
    /// Number of the next write to replicas.
    pub(crate) next_write: AtomicU64,
    out: Mutex<Box<dyn Write + Send>>,
}

/// What the servers ask of a client; what they do not ask for is missing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Access {
    pub user: Option<String>,
    pub password: Option<String>,
    /// None: the servers speak no TLS.
    pub tls: Option<TlsFiles>,
}

/// What a client prints is kept: it leaves the password out.
impl std::fmt::Debug for Access {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Access { user, password: _, tls } = self;
        to.debug_struct("Access").field("user", user).field("tls", tls).finish_non_exhaustive()
    }
}

/// The paths of files in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities that the client trusts; none: those of its system.
    pub ca: Option<String>,
    /// The client's own certificate.
    pub certificate: Option<String>,
    /// The key of that certificate, as PKCS #8.
    pub key: Option<String>,
}

/// A server of the lock's service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    pub name: String,
    /// `host:port`.
    pub address: String,
    pub host: String,
    pub port: u16,
    /// The name that its certificate must have.
    pub tls_name: String,
}

impl Client {
    pub(crate) fn new(line: &str, output: impl Write + Send + 'static) -> Result<Client, String> {
        let hello: Value = serde_json::from_str(line)
            .map_err(|error| format!("the first line is no hello ({error}): {}", shown(line)))?;
        if hello["hello"] != 1 {
            return Err(format!(
                "the first line is no hello of version 1 of the client protocol: {}",
                shown(line)
            ));
        }
        let is = |name: &str| hello[name].as_bool().unwrap_or_default();
        let texts = |name: &str| -> Vec<String> {
            let all = hello[name].as_array().map(Vec::as_slice).unwrap_or_default();
            all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut storages = texts("storage_replicas");
        if storages.is_empty() {
            storages.extend(hello["storage"].as_str().map(str::to_owned));
        }
        let pause = texts("pause_at").iter().find_map(|point| {
            let (name, length) = point.split_once('=')?;
            (name == BETWEEN_CHECK_AND_WRITE).then(|| duration(length)).flatten()
        });
        Ok(Client {
            lease_is_ttl: matches!(hello["lease"].as_str(), None | Some("ttl")),
            careful: is("careful"),
            marks_first: is("marks_first"),
            storages,
            pause,
            next_write: AtomicU64::new(1),
            out: Mutex::new(Box::new(output)),
            hello,
        })
    }

    pub(crate) fn lease(&self) -> String {
        self.hello["lease"].as_str().unwrap_or("ttl").to_owned()
    }

    /// What lock.toml claims, what the kit does, and what the user declares.
    pub(crate) fn announced(&self, declared: &[&str]) -> Vec<String> {
        let claims = self.hello["claims"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut words: Vec<String> = claims.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let own = self.lease_is_ttl.then_some("validity");
        for word in own.iter().chain(declared) {
            if !words.iter().any(|known| known == word) {
                words.push((*word).to_owned());
            }
        }
        words
    }

    /// Writes one line, whole.
    pub(crate) fn send(&self, message: &Value) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // A controller that is gone needs no answer.
        let _ = out.write_all(format!("{message}\n").as_bytes()).and_then(|()| out.flush());
    }
}

/// The access of a hello.
pub(crate) fn access(hello: &Value) -> Access {
    let text = |place: &Value, name: &str| place[name].as_str().map(str::to_owned);
    let access = &hello["access"];
    let tls = access.get("tls").filter(|tls| tls.is_object());
    let files = |tls| TlsFiles { ca: text(tls, "ca"), certificate: text(tls, "certificate"), key: text(tls, "key") };
    Access { user: text(access, "user"), password: text(access, "password"), tls: tls.map(files) }
}

/// The servers of a hello.
pub(crate) fn servers(hello: &Value) -> Result<Vec<Server>, String> {
    let all = hello["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let server = |server: &Value| {
        let address = server["address"].as_str()?;
        let (host, port) = address.rsplit_once(':')?;
        let host = host.trim_matches(['[', ']']);
        Some(Server {
            tls_name: server["tls_name"].as_str().unwrap_or(host).to_owned(),
            name: server["name"].as_str().unwrap_or_default().to_owned(),
            address: address.to_owned(),
            host: host.to_owned(),
            port: port.parse().ok()?,
        })
    };
    all.iter()
        .map(|value| {
            server(value).ok_or_else(|| format!("the hello names a server without host:port: {value}"))
        })
        .collect()
}

/// The options of a hello, all as texts.
pub(crate) fn options(hello: &Value) -> HashMap<String, String> {
    let Some(options) = hello["options"].as_object() else { return HashMap::new() };
    let text = |value: &Value| value.as_str().map_or_else(|| json!(value).to_string(), str::to_owned);
    options.iter().map(|(name, value)| (name.clone(), text(value))).collect()
}

/// The beginning of a line, for a message.
pub(crate) fn shown(line: &str) -> String {
    let text: String = line.trim_end().chars().take(80).collect();
    format!("`{text}`")
}

/// `300ms` or `2s`.
fn duration(text: &str) -> Option<Duration> {
    if let Some(millis) = text.strip_suffix("ms") {
        return millis.trim().parse().ok().map(Duration::from_millis);
    }
    text.strip_suffix('s')?.trim().parse().ok().map(Duration::from_secs)
}
