//! The table `[service]` of a `lock.toml`: servers that Fencepost does not know.

use super::file::CommandWords;
use super::texts;
use crate::described::{BY_COMMANDS, DESCRIBED, ONE};
use crate::readiness::START_TIME;
use crate::service::{LockService, ServerKind};
use fencepost_cluster::ClockMechanism;
use fencepost_history::{Refusal, TimeSpan};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

const PLACEHOLDERS: [&str; 6] = ["address", "data", "index", "name", "peers", "port"];

/// What stands under `service`.
#[derive(Clone)]
pub enum ServiceOf {
    BuiltIn(String),
    Own(Box<LockService>),
}

/// Servers that are described, rather than known.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct ServiceTable {
    nodes: Option<usize>,
    /// What each server runs. It stays in the foreground.
    program: Option<CommandWords>,
    /// Lines for the shell, before a server's first start; what they write to {data} counts as durable.
    prepare: Vec<String>,
    packages: Vec<String>,
    port: Option<u16>,
    /// When a server serves: `tcp`, when its port accepts a connection, or a command that then succeeds.
    ready: Option<CommandWords>,
    start_time: Option<TimeSpan>,
    /// A command that prints the name and the version of a server in its first line.
    version: Option<CommandWords>,
    /// A command that prints the name of the server that leads.
    leader: Option<CommandWords>,
    /// A command that asks the server on which it runs, the leader, to let another one lead.
    transfer: Option<CommandWords>,
    /// How the clocks of the programs can be moved, the way that suits them best first.
    clocks: Option<Vec<ClockMechanism>>,
    /// Lines for the shell that run on the first server, once, when all of them serve.
    after_start: Vec<String>,
    node: Vec<NodeTable>,
}

/// A table `[[service.node]]`, one of several kinds of servers; a single kind is in `[service]` itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct NodeTable {
    /// What commands call the addresses of its servers: `{NAME}`.
    name: String,
    #[serde(default = "one")]
    count: usize,
    program: CommandWords,
    #[serde(default)]
    prepare: Vec<String>,
    port: u16,
    ready: Option<CommandWords>,
    version: Option<CommandWords>,
    #[serde(default = "yes")]
    for_clients: bool,
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

impl ServiceTable {
    /// Its kinds of servers: a single one has no name. Errors: what is missing, or at the wrong place.
    fn kinds(&self) -> Result<Vec<NodeTable>, Refusal> {
        if self.node.is_empty() {
            let missing = |key: &str, example: &str| Refusal::new(format!("`{key}` is missing; {example}"));
            return Ok(vec![NodeTable {
                name: String::new(),
                count: self.nodes.unwrap_or(1),
                program: self
                    .program
                    .clone()
                    .ok_or_else(|| missing("program", "it is the command that each server runs"))?,
                prepare: self.prepare.clone(),
                port: self
                    .port
                    .ok_or_else(|| missing("port", "it is where clients reach a server, such as 3306"))?,
                ready: self.ready.clone(),
                version: self.version.clone(),
                for_clients: true,
            }]);
        }
        let misplaced = [
            ("nodes", self.nodes.is_some()),
            ("program", self.program.is_some()),
            ("prepare", !self.prepare.is_empty()),
            ("port", self.port.is_some()),
            ("ready", self.ready.is_some()),
            ("version", self.version.is_some()),
        ];
        match misplaced.into_iter().find(|(_, there)| *there) {
            Some((key, _)) => Err(Refusal::new(format!(
                "`{key}` stands in [service], which has several kinds of servers; write it into the [[service.node]] that it is of"
            ))),
            None => Ok(self.node.clone()),
        }
    }

    /// The service of this table. Errors: what could not be started, and what is possible.
    fn service(self) -> Result<LockService, Refusal> {
        let kinds = self.kinds()?;
        check_kinds(&kinds)?;
        if self.clocks.as_ref().is_some_and(Vec::is_empty) {
            return Err(Refusal::new(
                "`clocks` names no way; leave it out, or name \"vdso\" or \"faketime\"",
            ));
        }
        if self.transfer.is_some() && self.leader.is_none() {
            return Err(Refusal::new("`transfer` needs `leader`, a command that prints who leads"));
        }
        let kinds = kinds.into_iter().map(NodeTable::kind).collect::<Result<Vec<ServerKind>, _>>()?.leak();
        let service = LockService {
            name: kinds.iter().find(|kind| kind.for_clients).map_or("", |kind| kind.server),
            kinds,
            start_time: texts::start_time(self.start_time, START_TIME)?,
            clock_mechanisms: self.clocks.map_or(DESCRIBED.clock_mechanisms, |clocks| clocks.leak()),
            packages: leaked(self.packages),
            leader: words(self.leader.as_ref())?,
            transfer: words(self.transfer.as_ref())?,
            after_start: leaked(self.after_start),
            ..DESCRIBED
        };
        check_texts(&service)?;
        Ok(LockService { leadership: (!service.leader.is_empty()).then_some(BY_COMMANDS), ..service })
    }
}

impl NodeTable {
    fn kind(self) -> Result<ServerKind, Refusal> {
        let program = words(Some(&self.program))?;
        let server = Path::new(program[0]).file_name().and_then(OsStr::to_str).unwrap_or(program[0]);
        let ready = words(self.ready.as_ref())?;
        Ok(ServerKind {
            name: self.name.leak(),
            count: self.count,
            server,
            port: self.port,
            for_clients: self.for_clients,
            program,
            prepare: leaked(self.prepare),
            ready: if ready == ["tcp"] { &[] } else { ready },
            version: words(self.version.as_ref())?,
            ..ONE
        })
    }
}

/// The words of a command, for as long as the program runs; none where there is no command.
fn words(command: Option<&CommandWords>) -> Result<&'static [&'static str], Refusal> {
    Ok(leaked(command.map(CommandWords::words).transpose()?.unwrap_or_default()))
}

fn leaked(texts: Vec<String>) -> &'static [&'static str] {
    texts.into_iter().map(|text| &*text.leak()).collect::<Vec<&str>>().leak()
}

fn check_texts(service: &LockService) -> Result<(), Refusal> {
    let names = service.kinds.iter().map(|kind| kind.name).filter(|name| !name.is_empty());
    let known: Vec<&str> = PLACEHOLDERS.into_iter().chain(names).collect();
    let of_all = [service.leader, service.transfer, service.after_start];
    let of_kinds =
        service.kinds.iter().flat_map(|kind| [kind.program, kind.ready, kind.version, kind.prepare]);
    of_all.into_iter().chain(of_kinds).flatten().try_for_each(|text| check_placeholders(text, &known))
}

fn check_kinds(kinds: &[NodeTable]) -> Result<(), Refusal> {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
    for (at, kind) in kinds.iter().enumerate() {
        let fits = |name: &str| !name.is_empty() && name.chars().all(|letter| letter.is_ascii_lowercase());
        let is_named = kinds.len() > 1 || !kind.name.is_empty();
        if is_named && (!fits(&kind.name) || PLACEHOLDERS.contains(&kind.name.as_str())) {
            return Err(Refusal::new(format!(
                "`name = \"{}\"` of a [[service.node]]: a name is small letters only, and none of {}",
                fencepost_history::printable(&kind.name),
                PLACEHOLDERS.join(", ")
            )));
        }
        if names[..at].contains(&kind.name.as_str()) {
            return Err(Refusal::new(format!("two [[service.node]] are named \"{}\"", kind.name)));
        }
        if kind.count == 0 {
            let key = if kinds.len() > 1 { "count" } else { "nodes" };
            return Err(Refusal::new(format!("`{key}` is 0; a service has at least 1 server")));
        }
        if kind.port == 0 {
            return Err(Refusal::new("`port` is 0; it is where clients reach a server, such as 3306"));
        }
    }
    match kinds.iter().any(|kind| kind.for_clients) {
        true => Ok(()),
        false => {
            Err(Refusal::new("no [[service.node]] is for clients; leave out `for-clients = false` in one"))
        }
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
        Ok(ServiceOf::Own(Box::new(table.service().map_err(serde::de::Error::custom)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(more: &str) -> Result<(), Refusal> {
        let table: Result<ServiceTable, _> = toml::from_str(&format!("port = 1\n{more}"));
        table.map_err(|error| Refusal::new(error.message()))?.service().map(drop)
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(checked("program = 'x {address} {data}/a ${HOME} {\"a\":1}'"), Ok(()));
        let wrong = |more: &str| checked(more).unwrap_err().sentence;
        let unknown = wrong("program = 'x {adress}'");
        assert!(unknown.contains("placeholder") && unknown.contains("did you mean"), "{unknown}");
        assert_eq!(checked("program = 'x'\nready = 'y {peers}'\nversion = 'z {peers}'"), Ok(()));
        assert!(wrong("program = 'x'\nnodes = 0").contains("at least 1 server"));
        assert!(wrong("program = 'x'\nprepare = ['y {dat}']").contains("placeholder"));
        assert!(wrong("program = 'x'\ntransfer = 'y'").contains("needs `leader`"));
        assert!(wrong("program = \"x 'y\"").contains("not closed"));
        assert!(wrong("program = 'x'\nclocks = ['sun']").contains("unknown variant"));
        assert!(wrong("").contains("`program` is missing"));
    }

    #[test]
    fn kinds_of_servers_name_each_other() {
        let checked = |text: &str| {
            toml::from_str::<ServiceTable>(text)
                .map_err(|error| error.message().to_owned())
                .and_then(|table| table.service().map(drop).map_err(|refusal| refusal.sentence))
        };
        let database = "[[node]]\nname = 'database'\nprogram = 'db'\nport = 1\nfor-clients = false\n";
        let pooler = |more: &str| format!("[[node]]\nname = 'pooler'\nport = 2\n{more}\n");
        let both = |more: &str| checked(&format!("{database}{}", pooler(more)));
        assert_eq!(both("program = 'pool {database}'"), Ok(()));
        assert!(both("program = 'pool {databse}'").unwrap_err().contains("did you mean"));
        assert!(both("program = 'pool'\nfor-clients = false").unwrap_err().contains("is for clients"));
        assert!(checked(&format!("{database}{database}")).unwrap_err().contains("two [[service.node]]"));
        assert!(
            checked(&format!("port = 3\n{database}")).unwrap_err().contains("`port` stands in [service]")
        );
        assert!(checked(&database.replace("'database'", "'peers'")).unwrap_err().contains("none of"));
        assert!(both("program = 'x'\ncount = 0").unwrap_err().contains("`count` is 0"));
    }
}
