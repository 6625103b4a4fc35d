use crate::{Event, LockKind, TimeSpan};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The name (`f`) of the event that says which lock a history is about.
pub const LOCK: &str = "lock";

/// What ends a grant that its holder does not release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lease {
    /// A time that the client asks for.
    #[default]
    Ttl,
    /// The end of a session, which the client's library keeps alive without its user's help.
    Session,
    /// The end of the client's connection to the server.
    Connection,
    None,
}

impl Lease {
    /// Whether a grant ends when the TTL has passed and nothing has prolonged it.
    pub fn runs_out(self) -> bool {
        matches!(self, Lease::Ttl | Lease::Session)
    }
}

/// Its name in `lock.toml` and in histories.
impl fmt::Display for Lease {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(out)
    }
}

/// What is known of the lock under test: the event [`LOCK`], and the table `[lock]` of `run.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LockFacts {
    /// As users know it: `redlock`, `redis-py`.
    pub name: String,
    /// As the client's version command prints it: `redis-py 8.1.0`. None where it is Fencepost's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "LockKind::is_mutex")]
    pub kind: LockKind,
    #[serde(default)]
    pub lease: Lease,
    /// The library rounds TTLs up to multiples of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_step: Option<TimeSpan>,
    /// Names of the checkers whose properties the lock claims. None: all that its capabilities allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<Vec<String>>,
    /// What the clients can do, by the words of the hello's `can`.
    #[serde(default)]
    pub can: Vec<String>,
    /// The command that starts a client; empty for a lock that is built in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// How many of its servers may be down at once while it can be acquired. None: any minority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_be_down: Option<usize>,
    /// For so long a lock that was lost stays taken once its lease is over (Chubby). None: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_delay: Option<TimeSpan>,
}

impl LockFacts {
    /// Reads the value of a [`LOCK`]; none where the event is another.
    pub fn read(event: &Event) -> Option<LockFacts> {
        (event.f == LOCK).then(|| LockFacts::deserialize(&*event.value).ok())?
    }

    /// The lock and its version: `redis-py 8.1.0`; just the version where that begins with the lock's name.
    pub fn title(&self) -> String {
        match &self.version {
            Some(version) if version.split_whitespace().next() == Some(&self.name) => version.clone(),
            Some(version) => format!("{} ({version})", self.name),
            None => self.name.clone(),
        }
    }

    /// Whether anything is known: older histories say nothing of their lock.
    pub fn are_known(&self) -> bool {
        !self.name.is_empty()
    }

    /// How long a grant of `ttl_ms` lasts, rounded up to the library's step. None if its end is not timed.
    pub fn granted_ns(&self, ttl_ms: f64) -> Option<u64> {
        let ttl_ns = (ttl_ms * 1e6) as u64;
        let step_ns = self.ttl_step.map_or(1, |step| u64::try_from(step.0.as_nanos()).unwrap_or(u64::MAX));
        self.lease.runs_out().then(|| ttl_ns.checked_next_multiple_of(step_ns.max(1)).unwrap_or(ttl_ns))
    }

    /// Whether the clients can do what this word of the hello's `can` names.
    pub fn can(&self, word: &str) -> bool {
        self.can.iter().any(|can| can == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Process};
    use serde_json::json;

    fn facts() -> LockFacts {
        LockFacts {
            name: "redis-py".to_owned(),
            version: Some("redis-py 8.1.0".to_owned()),
            kind: LockKind::Semaphore,
            lease: Lease::Ttl,
            ttl_step: Some(TimeSpan::from_secs(1)),
            properties: Some(vec!["exclusion".to_owned()]),
            can: vec!["validity".to_owned()],
            client: vec!["python3".to_owned(), "client.py".to_owned()],
            files: Some("3fa9".to_owned()),
            may_be_down: Some(1),
            lock_delay: Some(TimeSpan::from_secs(10)),
        }
    }

    #[test]
    fn facts_are_read_from_an_event_as_they_were_recorded() {
        let value = serde_json::to_value(facts()).unwrap();
        assert_eq!(value["ttl-step"], json!("1s"));
        let (process, kind) = (Process::Nemesis, Kind::Info);
        let event = |f: &str| Event {
            index: 0,
            time: 0,
            process,
            kind,
            f: f.into(),
            key: None,
            value: value.clone().into(),
            error: None,
        };
        assert_eq!(LockFacts::read(&event(LOCK)), Some(facts()));
        assert_eq!(LockFacts::read(&event("servers")), None);
    }

    #[test]
    fn facts_are_a_table_of_toml() {
        let text = toml::to_string(&facts()).unwrap();
        assert!(text.contains("lease = \"ttl\"\nttl-step = \"1s\""), "{text}");
        assert_eq!(toml::from_str::<LockFacts>(&text).unwrap(), facts());
        let least: LockFacts = toml::from_str("name = \"redlock\"").unwrap();
        assert_eq!(least, LockFacts { name: "redlock".to_owned(), ..LockFacts::default() });
    }

    #[test]
    fn a_grant_lasts_for_whole_steps_or_does_not_end_by_itself() {
        let lasting = |lease, ttl_step| LockFacts { lease, ttl_step, ..LockFacts::default() };
        let second = Some(TimeSpan::from_secs(1));
        assert_eq!(lasting(Lease::Ttl, second).granted_ns(1500.0), Some(2_000_000_000));
        assert_eq!(lasting(Lease::Ttl, second).granted_ns(2000.0), Some(2_000_000_000));
        assert_eq!(lasting(Lease::Session, None).granted_ns(1500.0), Some(1_500_000_000));
        assert_eq!(lasting(Lease::Ttl, Some(TimeSpan::default())).granted_ns(0.5), Some(500_000));
        assert_eq!(lasting(Lease::Connection, second).granted_ns(1500.0), None);
        assert_eq!(lasting(Lease::None, None).granted_ns(1500.0), None);
    }

    #[test]
    fn a_title_says_the_name_once() {
        let titled = |name: &str, version: Option<&str>| {
            let version = version.map(str::to_owned);
            LockFacts { name: name.to_owned(), version, ..LockFacts::default() }.title()
        };
        assert_eq!(titled("redis-py", Some("redis-py 8.1.0")), "redis-py 8.1.0");
        assert_eq!(titled("my-lock", Some("redis-py 8.1.0")), "my-lock (redis-py 8.1.0)");
        assert_eq!(titled("redlock", None), "redlock");
    }
}
