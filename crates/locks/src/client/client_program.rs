//! The client of a lock of one's own: a program in any language, in place of Fencepost's own client.

use crate::capabilities::Capabilities;
use fencepost_cluster::Environment;
use fencepost_history::{Lease, LockFacts, LockKind, Refusal, TimeSpan};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A program that speaks the client protocol, and what is said about the lock that it uses.
#[derive(Clone, Debug, Default)]
pub struct ClientProgram {
    /// The lock's name, as reports write it: `redis-py@with-statement`.
    pub name: String,
    /// Its command line, in the folder of its environment.
    pub command: Vec<String>,
    /// A command that prints the name and the version of the library.
    pub version: Option<Vec<String>>,
    /// The folder that it lies in, and what its nodes are made of; none for a program of this machine.
    pub environment: Option<Arc<Environment>>,
    pub kind: LockKind,
    pub lease: Lease,
    pub ttl_step: Option<TimeSpan>,
    /// What the lock claims, by the names of checkers; none for whatever can be judged.
    pub properties: Option<Vec<String>>,
    /// What `lock.toml` promises; none where no `lock.toml` says anything, and the hello decides.
    pub promised: Option<GrantValues>,
    /// The longest time until it answers the hello.
    pub start_time: Duration,
    pub options: BTreeMap<String, OwnOption>,
    /// Other ways to use the same lock (`FOLDER@VARIANT`), with a line about each.
    pub variants: BTreeMap<String, String>,
}

/// An option of a lock of one's own: a table `[options.NAME]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OwnOption {
    #[serde(default)]
    pub about: String,
    pub default: String,
}

/// What grants hand out, by `lock.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantValues {
    pub token: bool,
    pub unique: bool,
}

impl ClientProgram {
    /// What the lock can do, as far as it is known before its client has said hello: it is taken that it can
    /// do what no `lock.toml` says and a guard or a workload needs, and its hello is held against that.
    pub fn capabilities(&self) -> Capabilities {
        let GrantValues { token, unique } =
            self.promised.unwrap_or(GrantValues { token: true, unique: true });
        let (unique_value, kind, lease) = (unique, self.kind, self.lease);
        Capabilities { token, unique_value, prolong: true, kind, lease, ..Capabilities::NONE }
    }

    /// The words that its hello must have in `can`, as `lock.toml` promises.
    pub fn must_announce(&self) -> Vec<String> {
        let promised = self.promised.unwrap_or(GrantValues { token: false, unique: false });
        let words = [(promised.token, "token"), (promised.unique, "unique")];
        let words = words.into_iter().filter(|(is, _)| *is).map(|(_, word)| word);
        words.chain(self.kind.announced()).map(str::to_owned).collect()
    }

    /// Compares a hello's `can` with what was promised and is needed. The error names the word.
    pub fn check_announced(&self, can: &[String], needs: &[(&str, &str)]) -> Result<(), Refusal> {
        let known = [
            "token",
            "unique",
            "validity",
            "lost",
            "extend",
            "prolong",
            "cancel",
            "leader",
            "frees-on-terminate",
            "mode",
            "permits",
            "reentrant",
            "several",
        ];
        if let Some(unknown) = can.iter().find(|word| !known.contains(&word.as_str())) {
            return Err(Refusal::unknown("word in `can` of its hello", unknown, &known));
        }
        let lacks = |word: &str| !can.iter().any(|can| can == word);
        let missing = self.must_announce().into_iter().find(|word| lacks(word));
        Err(Refusal::new(match (missing, needs.iter().find(|(word, _)| lacks(word))) {
            (Some(missing), _) => format!("its hello does not announce {missing}, which lock.toml promises"),
            (None, Some((needed, by))) => {
                format!("its hello does not announce {needed}, which the {by} needs")
            }
            (None, None) => return Ok(()),
        }))
    }

    /// What the history says about the lock. `can` is what its client announced.
    pub fn facts(&self, version: Option<String>, can: &[String]) -> LockFacts {
        LockFacts {
            name: self.name.clone(),
            version,
            kind: self.kind,
            lease: self.lease,
            ttl_step: self.ttl_step,
            properties: self.properties.clone(),
            can: can.to_vec(),
            client: self.command.clone(),
            files: self.environment.as_ref().and_then(|environment| environment.hash().ok()),
            may_be_down: None,
            lock_delay: None,
        }
    }
}
