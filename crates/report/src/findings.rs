//! `finding.json`: a violation that was played again, made smaller, and kept as a scenario.

use fencepost_checker::{LockPhase, TargetRole, Whose};
use fencepost_history::prose::counted;
use fencepost_history::run::{RunError, read_regular, write_inside};
use fencepost_history::{Seed, TimeSpan, once};
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// The name of the file, in the folder of its finding.
pub const FINDING: &str = "finding.json";

/// The folder of its run, and the scenario that plays it, beside it.
pub const RUN: &str = "run";
pub const SCENARIO: &str = "scenario.toml";

/// The name, or where it is taken the first with a number that is free: `name-2`, `name-3`, …
pub fn free_name(name: String, is_free: impl Fn(&str) -> bool) -> String {
    let numbered = (2_u64..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| is_free(name)).expect("numbers do not end")
}

/// A finding, as its folder keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FindingFile {
    pub fencepost: String,
    /// The name of its folder, made from the signature.
    pub name: String,
    pub signature: Signature,
    /// Whose failure it is. None in files of before that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whose: Option<Whose>,
    /// What happened in the run that is kept, in a sentence.
    pub sentence: String,
    pub lock: String,
    pub seed: Seed,
    /// Plays of the smallest schedule, and how many of them show the violation.
    pub plays: usize,
    pub violations: usize,
    /// The schedule as it was found, and as small as it became.
    pub before: Size,
    pub after: Size,
    pub plays_to_shrink: usize,
    /// False where the time was up before all was tried.
    pub complete: bool,
    /// Plays the scenario again.
    pub command: String,
}

impl FindingFile {
    /// Reads the finding in this folder. Errors: missing or malformed.
    pub fn read(folder: &Path) -> Result<FindingFile, RunError> {
        let path = folder.join(FINDING);
        let text = read_regular(&path).map_err(|source| RunError::Read { path: path.clone(), source })?;
        serde_json::from_str(&text)
            .map_err(|error| RunError::Malformed { path, reason: format!("this is no finding: {error}") })
    }

    pub fn write(&self, folder: &Path) -> Result<(), RunError> {
        let text = serde_json::to_string_pretty(self).expect("a finding is always JSON") + "\n";
        write_inside(folder, FINDING, text.as_bytes())
    }
}

/// What tells one finding from another: what was violated, and which faults came before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Signature {
    pub checker: String,
    pub class: String,
    /// In order, each once; empty where the lock is broken without faults.
    pub causes: Vec<FaultCause>,
}

/// A fault, what its target was to the lock, and what the lock was doing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FaultCause {
    pub fault: String,
    /// `holder`, `granting`, `leader`, `storage`, …
    pub role: String,
    /// `held`, `free`, …
    pub phase: String,
}

/// So many causes stand in a name; a name with more would be long and say little.
const NAMED_CAUSES: usize = 2;

impl Signature {
    /// A short name, for a folder: `granted-twice-clock-jump-granting`.
    pub fn name(&self) -> String {
        let part = |FaultCause { fault, role, .. }: &FaultCause| format!("{fault}-{role}");
        let mut parts = once(self.causes.iter().map(part));
        parts.truncate(NAMED_CAUSES);
        let cause = if parts.is_empty() { "in-peace".to_owned() } else { parts.join("-") };
        format!("{}-{cause}", self.class)
    }
}

fn known<T: DeserializeOwned>(name: &str) -> Option<T> {
    let name: StrDeserializer<serde::de::value::Error> = name.into_deserializer();
    T::deserialize(name).ok()
}

impl fmt::Display for Signature {
    /// `granted twice (exclusion): clock-jump on granting server (lock held)`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.kind(), self.under())
    }
}

impl Signature {
    /// What was violated: `granted twice (exclusion)`.
    pub fn kind(&self) -> String {
        format!("{} ({})", self.class.replace('-', " "), self.checker)
    }

    /// The faults that came before it: `clock-jump on granting server (lock held)`.
    pub fn under(&self) -> String {
        let cause = |FaultCause { fault, role, phase }: &FaultCause| {
            let role = known(role).map_or(role.as_str(), |role: TargetRole| role.words());
            let phase = known(phase).map_or(phase.as_str(), |phase: LockPhase| phase.words());
            format!("{fault} on {role} (lock {phase})")
        };
        let causes: Vec<String> = self.causes.iter().map(cause).collect();
        if causes.is_empty() { "without any fault".to_owned() } else { causes.join(", ") }
    }

    /// The names of these faults, each once.
    pub fn faults(&self) -> BTreeSet<&str> {
        self.causes.iter().map(|cause| cause.fault.as_str()).collect()
    }
}

/// `granted twice (exclusion) under clock-drift, clock-jump`, without lists of faults that hold another list.
pub fn in_short<'a>(signatures: impl Iterator<Item = &'a Signature>) -> String {
    let mut kinds: BTreeMap<String, BTreeSet<BTreeSet<&str>>> = BTreeMap::new();
    for signature in signatures {
        kinds.entry(signature.kind()).or_default().insert(signature.faults());
    }
    let kind = |(kind, all): (String, BTreeSet<BTreeSet<&str>>)| {
        let is_least =
            |faults: &&BTreeSet<&str>| !all.iter().any(|other| other != *faults && other.is_subset(faults));
        let least = all.iter().filter(is_least);
        let named: Vec<String> =
            least.map(|faults| faults.iter().copied().collect::<Vec<_>>().join(" with ")).collect();
        match named.iter().any(String::is_empty) {
            true => format!("{kind} without any fault"),
            false => format!("{kind} under {}", named.join(", ")),
        }
    };
    kinds.into_iter().map(kind).collect::<Vec<_>>().join("; ")
}

/// How large the schedule of a run is: what shrinking makes smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Size {
    pub faults: usize,
    pub clients: usize,
    pub processes: usize,
    pub keys: usize,
    pub servers: usize,
    pub time_limit: TimeSpan,
}

impl fmt::Display for Size {
    /// `1 fault, 2 clients, 2 processes, 1 key, 5 servers, 3s`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size { faults, clients, processes, keys, servers, time_limit } = *self;
        let counts = [
            (faults, "fault", "faults"),
            (clients, "client", "clients"),
            (processes, "process", "processes"),
            (keys, "key", "keys"),
            (servers, "server", "servers"),
        ];
        for (count, one, many) in counts {
            write!(out, "{}, ", counted(count as u64, one, many))?;
        }
        write!(out, "{time_limit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(fault: &str, role: &str) -> FaultCause {
        FaultCause { fault: fault.to_owned(), role: role.to_owned(), phase: "held".to_owned() }
    }

    fn signature(causes: Vec<FaultCause>) -> Signature {
        Signature { checker: "exclusion".to_owned(), class: "granted-twice".to_owned(), causes }
    }

    #[test]
    fn a_name_is_short_and_says_what_broke_and_by_what() {
        let jump = cause("clock-jump", "granting");
        assert_eq!(signature(vec![jump.clone()]).name(), "granted-twice-clock-jump-granting");
        assert_eq!(signature(Vec::new()).name(), "granted-twice-in-peace");
        let released = FaultCause { phase: "releasing".to_owned(), ..jump.clone() };
        let many = vec![jump.clone(), released, cause("delay", "holder"), cause("pause", "holder")];
        assert_eq!(signature(many).name(), "granted-twice-clock-jump-granting-delay-holder");
        let words = "granted twice (exclusion): clock-jump on granting server (lock held)";
        assert_eq!(signature(vec![jump]).to_string(), words);
    }

    #[test]
    fn a_finding_is_read_as_it_was_written_and_anything_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let finding = FindingFile {
            fencepost: "0.1.0".to_owned(),
            name: "granted-twice-in-peace".to_owned(),
            signature: signature(vec![cause("pause", "holder")]),
            whose: Some(Whose::NoFence),
            sentence: "so".to_owned(),
            lock: "redlock".to_owned(),
            seed: Seed(4),
            plays: 10,
            violations: 9,
            before: Size::default(),
            after: Size { faults: 1, servers: 5, ..Size::default() },
            plays_to_shrink: 60,
            complete: true,
            command: "fencepost scenario scenario.toml".to_owned(),
        };
        finding.write(folder.path()).unwrap();
        assert_eq!(FindingFile::read(folder.path()).unwrap(), finding);
        std::fs::write(folder.path().join(FINDING), "{}").unwrap();
        let error = FindingFile::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("finding.json: this is no finding: missing field"), "{error}");
    }
}
