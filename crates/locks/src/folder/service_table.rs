//! The table `[service]` of a `lock.toml`: servers that Fencepost does not know.

use super::file::CommandWords;
use fencepost_cluster::ClockMechanism;
use fencepost_history::{Refusal, TimeSpan};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// What can stand in braces in a command.
const PLACEHOLDERS: [&str; 6] = ["address", "data", "index", "name", "peers", "port"];

/// What stands under `service`.
#[derive(Clone, Debug)]
pub enum ServiceOf {
    /// The name of a built-in service.
    BuiltIn(String),
    Own(Box<ServiceTable>),
}

/// Servers that are described, rather than known.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ServiceTable {
    /// How many servers there are, if the user does not say otherwise.
    #[serde(default = "one")]
    pub nodes: usize,
    /// What each server runs. It stays in the foreground.
    pub program: CommandWords,
    /// Lines for the shell that run on each server before its first start; what they write to {data} counts
    /// as durable.
    #[serde(default)]
    pub prepare: Vec<String>,
    /// Debian packages that the program needs.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Where clients reach each server.
    pub port: u16,
    /// When a server serves: `tcp`, as soon as its port accepts a connection, or a command that succeeds
    /// then.
    #[serde(default = "tcp")]
    pub ready: CommandWords,
    /// How long a server may take until it serves.
    pub start_time: Option<TimeSpan>,
    /// A command that prints the name and the version of a server in its first line.
    pub version: Option<CommandWords>,
    /// A command that prints the name of the server that leads.
    pub leader: Option<CommandWords>,
    /// A command that asks the server on which it runs, the leader, to let another one lead.
    pub transfer: Option<CommandWords>,
    /// How the clocks of the program can be moved, the way that suits it best first.
    #[serde(default = "vdso")]
    pub clocks: Vec<ClockMechanism>,
}

fn one() -> usize {
    1
}

fn tcp() -> CommandWords {
    CommandWords::Line("tcp".to_owned())
}

fn vdso() -> Vec<ClockMechanism> {
    vec![ClockMechanism::Vdso]
}

impl ServiceTable {
    /// Refuses what could not be started.
    ///
    /// # Errors
    /// One sentence: what is wrong, and what is possible.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.nodes == 0 {
            return Err(Refusal::new("`nodes` is 0; a service has at least 1 server"));
        }
        if self.port == 0 {
            return Err(Refusal::new("`port` is 0; it is where clients reach a server, such as 3306"));
        }
        if self.clocks.is_empty() {
            return Err(Refusal::new(
                "`clocks` names no way; leave it out, or name \"vdso\" or \"faketime\"",
            ));
        }
        if self.transfer.is_some() && self.leader.is_none() {
            return Err(Refusal::new("`transfer` needs `leader`, a command that prints who leads"));
        }
        let all = [Some(&self.program), self.leader.as_ref(), self.transfer.as_ref()];
        for command in all.into_iter().flatten() {
            command.words()?.iter().try_for_each(|word| check_placeholders(word, &PLACEHOLDERS))?;
        }
        // They concern one server, which may have been started again.
        let alone: Vec<&str> = PLACEHOLDERS.into_iter().filter(|word| *word != "peers").collect();
        for command in [Some(&self.ready), self.version.as_ref()].into_iter().flatten() {
            command.words()?.iter().try_for_each(|word| check_placeholders(word, &alone))?;
        }
        self.prepare.iter().try_for_each(|line| check_placeholders(line, &PLACEHOLDERS))
    }
}

/// `{adress}` is a mistake, `${variable}` is the shell's, and `{"json": 1}` is neither.
fn check_placeholders(text: &str, known: &[&str]) -> Result<(), Refusal> {
    for (at, _) in text.match_indices('{').filter(|(at, _)| !text[..*at].ends_with('$')) {
        let Some((word, _)) = text[at + 1..].split_once('}') else { continue };
        let is_word = !word.is_empty() && word.chars().all(|letter| letter.is_ascii_lowercase());
        if is_word && !known.contains(&word) {
            return Err(Refusal::unknown("placeholder", word, known));
        }
    }
    Ok(())
}

impl<'de> Deserialize<'de> for ServiceOf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ServiceOf, D::Error> {
        deserializer.deserialize_any(NameOrTable)
    }
}

/// By hand, because serde's untagged enumerations do not say what is wrong inside the table.
struct NameOrTable;

impl<'de> Visitor<'de> for NameOrTable {
    type Value = ServiceOf;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the name of a built-in service, or a table [service]")
    }

    fn visit_str<E>(self, name: &str) -> Result<ServiceOf, E> {
        Ok(ServiceOf::BuiltIn(name.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<ServiceOf, A::Error> {
        let table = ServiceTable::deserialize(MapAccessDeserializer::new(table))?;
        Ok(ServiceOf::Own(Box::new(table)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(more: &str) -> Result<(), Refusal> {
        let table: Result<ServiceTable, _> = toml::from_str(&format!("port = 1\n{more}"));
        table.map_err(|error| Refusal::new(error.message()))?.check()
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(checked("program = 'x {address} {data}/a ${HOME} {\"a\":1}'"), Ok(()));
        let wrong = |more: &str| checked(more).unwrap_err().sentence;
        let unknown = wrong("program = 'x {adress}'");
        assert!(unknown.contains("placeholder") && unknown.contains("did you mean"), "{unknown}");
        assert!(wrong("program = 'x'\nready = 'y {peers}'").contains("placeholder"));
        assert!(wrong("program = 'x'\nnodes = 0").contains("at least 1 server"));
        assert!(wrong("program = 'x'\nprepare = ['y {dat}']").contains("placeholder"));
        assert!(wrong("program = 'x'\ntransfer = 'y'").contains("needs `leader`"));
        assert!(wrong("program = \"x 'y\"").contains("not closed"));
        assert!(wrong("program = 'x'\nclocks = ['sun']").contains("unknown variant"));
    }
}
