//! The plan of a run: which faults are injected into which nodes, when, and for how long. Drawn from the seed before
//! anything starts, and kept with the results.

use crate::groups::{Flow, Groups, OneWay, parse_flow, parse_partition};
use crate::motion::Motions;
use crate::nemesis::Nemesis;
use crate::registry::{find, registry};
use crate::roles::RoleTarget;
use crate::topology::Topology;
use crate::trigger::Trigger;
use fencepost_history::mistake::{line_at, with_nearest};
use fencepost_history::printable;
use fencepost_history::prose::{second_of_a_name, unknown};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;
use toml::de::DeTable;

/// One fault of a plan, with its targets, its beginning and its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// Time from the start of the main phase, or from the moment that `when` names, to the injection, in milliseconds.
    #[serde(default)]
    pub at_ms: u64,
    /// Time from the beginning of the injection to the healing, in milliseconds, so that a plan reads as a time table. A
    /// fault that takes longer to inject and to be observed is healed right after that.
    pub for_ms: u64,
    /// Name of the nemesis.
    pub fault: String,
    /// Its targets: `n1`, `c2`, `storage`; or roles, which are resolved when it is injected: `holder`, `granting:2`.
    #[serde(default)]
    pub on: Vec<String>,
    /// Waits for this event of the history first, so that a directed plan does not rest on sleeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Trigger>,
    /// Once its time has come, waits for the next event that fits (for 2 s at most, and for 5 s if such events are rare): a
    /// clock that jumps right after an acquire finds a holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Trigger>,
    /// Ends when this event has come since the injection began, and after `for_ms` at the latest: a holder that was stopped goes on
    /// just when another has read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Trigger>,
    /// All other keys: parameters in the nemesis's own terms.
    #[serde(flatten)]
    pub parameters: Map<String, Value>,
}

/// The key of a fault of packets that names its flow, `holder > storage`, in place of targets and peers.
const FLOW: &str = "flow";

/// Keys of a fault that are not parameters.
const KEYS: [&str; 8] = ["at_ms", "for_ms", "fault", "on", FLOW, "when", "then", "until"];

/// The longest time in a plan.
const LONGEST_MS: f64 = 100.0 * 365.0 * 24.0 * 3600.0 * 1000.0;

/// A nemesis that a swarm has enabled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enabled {
    pub nemesis: String,
    /// Its faults are drawn as if the TTL were so many times as long: lengths, delays and jumps grow and shrink with it.
    pub strength: f64,
    /// Mean time between the end of a fault and the next, in milliseconds.
    pub every_ms: u64,
}

impl fmt::Display for Enabled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let every = humantime::format_duration(Duration::from_millis(self.every_ms));
        write!(out, "{} ×{} every {every}", self.nemesis, self.strength)
    }
}

/// All faults of a run, by time. As a file it is TOML, one `[[fault]]` each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What a swarm enabled, where one was drawn. It says where the faults come from, and changes nothing about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swarm: Vec<Enabled>,
    #[serde(default, rename = "fault")]
    pub faults: Vec<PlannedFault>,
}

/// What is wrong with a fault of a plan: one sentence, and the key that it is about, if it is about one.
#[derive(Clone, Debug, PartialEq)]
struct Mistake {
    key: Option<String>,
    sentence: String,
}

impl Mistake {
    fn at(key: &str, sentence: impl Into<String>) -> Mistake {
        Mistake { key: Some(key.to_owned()), sentence: sentence.into() }
    }
}

/// Places of faults that wait for the same event, by their beginnings.
type Track<'a> = (&'a Option<Trigger>, BTreeMap<u64, usize>);

impl Plan {
    /// Reads a plan from TOML and checks it against the nodes that there are.
    ///
    /// # Errors
    /// One sentence that names the line, and for a misspelled key or name the nearest right one.
    pub fn parse(text: &str, topology: &Topology) -> Result<Plan, String> {
        let mut plan: Plan = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            format!("line {}: {}", line_at(text, start), with_nearest(error.message(), &[]))
        })?;
        for (number, fault) in (1..).zip(&mut plan.faults) {
            let expanded = fault.expand_flow(topology).map_err(|sentence| Mistake::at(FLOW, sentence));
            expanded.and_then(|()| fault.mistake(topology)).map_err(|mistake| {
                let line = line_of(text, number, mistake.key.as_deref()).unwrap_or(1);
                format!("line {line}, fault {number} ({}): {}", fault.fault, mistake.sentence)
            })?;
        }
        plan.check_overlaps()?;
        Ok(plan)
    }

    /// Checks a plan against the nodes that there are.
    ///
    /// # Errors
    /// One sentence that names the fault by its number.
    pub fn check(&self, topology: &Topology) -> Result<(), String> {
        for (number, fault) in (1..).zip(&self.faults) {
            fault
                .mistake(topology)
                .map_err(|mistake| format!("fault {number} ({}): {}", fault.fault, mistake.sentence))?;
        }
        self.check_overlaps()
    }

    /// Refuses two faults of one kind on one node at a time, as far as times tell: each healing would undo the other.
    fn check_overlaps(&self) -> Result<(), String> {
        // The faults that were looked at, by what they must not share. No two of one list overlap, so the neighbours of a fault are
        // all that it can meet: a plan may have many thousands of faults.
        let mut known: HashMap<(&str, &str), Vec<Track<'_>>> = HashMap::new();
        for (at, fault) in self.faults.iter().enumerate() {
            let Some(kind) = fault.kind() else { continue };
            for node in fault.nodes() {
                let triggers = known.entry((kind, node.as_str())).or_default();
                let place = triggers.iter().position(|(when, _)| **when == fault.when);
                let place = place.unwrap_or_else(|| {
                    triggers.push((&fault.when, BTreeMap::new()));
                    triggers.len() - 1
                });
                let times = &mut triggers[place].1;
                let before = times.range(..=fault.at_ms).next_back();
                let after = times.range(fault.at_ms..).next();
                let mut neighbours = before.into_iter().chain(after).map(|(_, other)| *other);
                if let Some(other) = neighbours.find(|other| !fault.is_apart_from(&self.faults[*other])) {
                    return Err(format!(
                        "fault {} ({}): it is on {node} while fault {} ({}) still is, and either healing would undo the other; \
                         let one end before the next begins",
                        at + 1,
                        fault.fault,
                        other + 1,
                        self.faults[other].fault
                    ));
                }
                times.insert(fault.at_ms, at);
            }
        }
        Ok(())
    }

    /// The nemeses that it uses.
    pub fn nemeses(&self) -> Vec<&'static dyn Nemesis> {
        let used = |nemesis: &&dyn Nemesis| self.faults.iter().any(|fault| fault.fault == nemesis.name());
        registry().iter().copied().filter(used).collect()
    }

    /// The plan as a file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a plan is always TOML")
    }
}

/// The line of a key of the fault with that number, or of the fault itself.
fn line_of(text: &str, number: usize, key: Option<&str>) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let fault = table.get_ref().get("fault")?.get_ref().as_array()?.get(number - 1)?;
    let mut keys = fault.get_ref().as_table()?.keys();
    let named = key.and_then(|key| keys.find(|name| name.get_ref().as_ref() == key));
    Some(line_at(text, named.map_or(fault.span().start, |name| name.span().start)))
}

impl PlannedFault {
    /// What it does to clocks; none where it does nothing to them.
    pub fn motions(&self) -> Option<Motions> {
        find(&self.fault)?.prepare(&self.on, &self.parameters).ok()?.motions()
    }

    /// The groups of a partition name its targets: `on` need not name them again.
    fn aim_at_groups(&mut self) {
        let parts_groups = find(&self.fault).is_some_and(|nemesis| nemesis.description().parts_groups);
        if parts_groups && self.on.is_empty() {
            let groups = serde_json::from_value::<Groups>(Value::Object(self.parameters.clone()));
            // What is wrong with them is said where parameters are read.
            self.on = groups.map(|groups| groups.targets()).unwrap_or_default();
        }
    }

    /// Replaces the key `flow` by what it stands for: targets, peers and ways, or the groups of a partition.
    ///
    /// # Errors
    /// One sentence: the flow cannot be read, or this fault has none.
    pub fn expand_flow(&mut self, topology: &Topology) -> Result<(), String> {
        self.aim_at_groups();
        let Some(flow) = self.parameters.remove(FLOW) else { return Ok(()) };
        let Value::String(text) = flow else {
            return Err("`flow` is a text, like \"holder > storage\"".to_owned());
        };
        let Some(nemesis) = find(&self.fault) else { return Ok(()) };
        if !nemesis.description().on_packets {
            return Err(format!(
                "{} does nothing to packets, so it has no flow; name its targets with `on`",
                self.fault
            ));
        }
        if !self.on.is_empty() {
            return Err("`flow` names the targets: leave out `on`".to_owned());
        }
        if nemesis.description().parts_groups {
            let groups = parse_partition(&text, topology)?;
            self.on = groups.targets();
            let Value::Object(fields) = json!(groups) else { unreachable!("groups are a struct") };
            self.parameters.extend(fields);
            return Ok(());
        }
        let Flow { first, second, one_way } = parse_flow(&text, topology)?;
        let ways = match one_way {
            Some(OneWay::ToSecond) => "out",
            Some(OneWay::ToFirst) => "in",
            None => "both",
        };
        self.on = first;
        self.parameters.extend([("peers".to_owned(), json!(second)), ("ways".to_owned(), json!(ways))]);
        Ok(())
    }

    /// The node on which both would be in force at a time, if they are of one kind and wait for the same event.
    pub(crate) fn clashes_with(&self, other: &PlannedFault) -> Option<&String> {
        if self.is_apart_from(other)
            || self.when != other.when
            || self.kind().is_none()
            || self.kind() != other.kind()
        {
            return None;
        }
        self.nodes().find(|node| other.on.contains(node))
    }

    /// Whether one is over when the other begins, as far as times tell.
    fn is_apart_from(&self, other: &PlannedFault) -> bool {
        self.at_ms >= other.at_ms + other.for_ms || other.at_ms >= self.at_ms + self.for_ms
    }

    /// What it shares with other faults whose healing would undo it.
    fn kind(&self) -> Option<&'static str> {
        find(&self.fault)?.description().kind
    }

    /// Its targets that are nodes: which nodes a role stands for is known only when it is injected.
    fn nodes(&self) -> impl Iterator<Item = &String> {
        self.on.iter().filter(|name| RoleTarget::parse(name).is_none())
    }

    fn mistake(&self, topology: &Topology) -> Result<(), Mistake> {
        let nemesis = find(&self.fault).ok_or_else(|| {
            let names: Vec<&str> = registry().iter().map(|nemesis| nemesis.name()).collect();
            Mistake::at("fault", unknown("nemesis", &self.fault, &names))
        })?;
        if self.on.is_empty() {
            return Err(Mistake::at("on", "`on` names no node"));
        }
        if self.for_ms == 0 {
            return Err(Mistake::at("for_ms", "`for_ms` must be longer than 0"));
        }
        self.check_times()?;
        if let Some((key, sentence)) = self.named_twice() {
            return Err(Mistake::at(key, sentence));
        }
        for name in &self.on {
            nemesis
                .description()
                .check_target(name, topology)
                .map_err(|sentence| Mistake::at("on", sentence))?;
        }
        for (key, trigger) in [("when", &self.when), ("then", &self.then), ("until", &self.until)] {
            let checked = trigger.as_ref().map_or(Ok(()), |trigger| trigger.check(topology));
            checked.map_err(|sentence| Mistake::at(key, format!("`{key}`: {sentence}")))?;
        }
        let fault = nemesis.prepare(&self.on, &self.parameters).map_err(|sentence| {
            let named = sentence.split('`').nth(1).filter(|name| self.parameters.contains_key(*name));
            Mistake { key: named.map(str::to_owned), sentence: with_nearest(&sentence, &KEYS) }
        })?;
        let unknown = fault.names().iter().find_map(|name| topology.check_target(name).err());
        unknown.map_or(Ok(()), |sentence| Err(Mistake { key: None, sentence }))
    }

    /// A list that names something twice: its key, and a sentence. Each name would cost as much as the first, and say nothing.
    pub fn named_twice(&self) -> Option<(&str, String)> {
        let texts = |value: &'_ Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        };
        let parameters =
            self.parameters.iter().filter_map(|(key, value)| Some((key.as_str(), texts(value)?)));
        let mut lists = std::iter::once(("on", self.on.clone())).chain(parameters);
        lists.find_map(|(key, names)| {
            let name = printable(&names[second_of_a_name(&names)?]).into_owned();
            Some((key, format!("`{key}` names {name} twice; name it once")))
        })
    }

    /// Refuses times that no fault can last or clock can jump, with which sums would overflow.
    fn check_times(&self) -> Result<(), Mistake> {
        let times = self.parameters.iter().filter(|(key, _)| key.ends_with("_ms"));
        let times = times.filter_map(|(key, time)| Some((key.as_str(), time.as_f64()?)));
        let own = [("at_ms", self.at_ms as f64), ("for_ms", self.for_ms as f64)];
        match own.into_iter().chain(times).find(|(_, ms)| ms.abs() > LONGEST_MS) {
            Some((key, ms)) => {
                Err(Mistake::at(key, format!("`{key}` is at most {LONGEST_MS} ms (100 years), not {ms}")))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
