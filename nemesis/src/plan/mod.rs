//! The plan of a run: which faults are injected where, when, and for how long. Drawn before anything starts.

pub(crate) mod aim;
pub(crate) mod distributions;
pub(crate) mod draw_plan;
pub(crate) mod planned_fault;
pub(crate) mod resolution;
pub(crate) mod roles;
pub(crate) mod swarm;
pub(crate) mod topology;
pub(crate) mod trigger;
pub(crate) mod trigger_check;

use crate::fault_text::{FaultEntry, fault_text};
use crate::nemesis::Nemesis;
use crate::plan::planned_fault::PlannedFault;
use crate::plan::topology::Topology;
use crate::plan::trigger::Trigger;
use crate::registry::registry;
use fencepost_history::Refusal;
use fencepost_history::mistake::{Mistake, line_at, read_table, tables};
use fencepost_history::printable;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;
use toml::de::DeTable;

const FAULT: &str = "fault";

/// A nemesis that a swarm has enabled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enabled {
    pub nemesis: String,
    /// Its faults are drawn as if the TTL were so many times as long.
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
    /// What a swarm enabled, if the plan is a swarm's: it changes nothing about the faults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swarm: Vec<Enabled>,
    #[serde(default, rename = "fault")]
    pub faults: Vec<PlannedFault>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanTable {
    #[serde(default)]
    swarm: Vec<Enabled>,
    #[serde(rename = "fault")]
    _faults: Option<IgnoredAny>,
}

type Track<'a> = (&'a Option<Trigger>, BTreeMap<u64, usize>);

impl Plan {
    /// Reads a plan, and checks it against the nodes. Errors: the mistake, its line, the nearest name.
    pub fn parse(text: &str, topology: &Topology) -> Result<Plan, Refusal> {
        let refused = |place: &str, mistake: Mistake| {
            Refusal::new(format!("line {}{place}: {}", line_at(text, mistake.at), mistake.sentence))
        };
        let table = DeTable::parse(text).map_err(|error| refused("", Mistake::of_toml(&error)))?.into_inner();
        let faults = table.get(FAULT).cloned();
        let PlanTable { swarm, .. } = read_table(table, 0..0).map_err(|mistake| refused("", mistake))?;
        let faults = faults.map_or(Ok(Vec::new()), |faults| tables(faults, FAULT));
        let mut plan = Plan { swarm, faults: Vec::new() };
        for (number, (table, span)) in (1..).zip(faults.map_err(|mistake| refused("", mistake))?) {
            let name = table.get(FAULT).and_then(|name| name.get_ref().as_str());
            let place = match name {
                Some(name) => format!(", fault {number} ({})", printable(name)),
                None => format!(", fault {number}"),
            };
            let fault = FaultEntry::read(&table, span).and_then(|fault| fault.resolve(topology));
            plan.faults.push(fault.map_err(|mistake| refused(&place, mistake))?);
        }
        plan.check_overlaps()?;
        Ok(plan)
    }

    /// Checks a plan against the nodes. Errors: what is wrong, with the number of the fault.
    pub fn check(&self, topology: &Topology) -> Result<(), Refusal> {
        for (number, fault) in (1..).zip(&self.faults) {
            fault
                .check(topology, &|key| key)
                .map_err(|refusal| Refusal::new(format!("fault {number} ({}): {refusal}", fault.fault)))?;
        }
        self.check_overlaps()
    }

    /// Refuses two faults of one kind on one node at a time: each healing would undo the other.
    fn check_overlaps(&self) -> Result<(), Refusal> {
        // The faults that were looked at, by what they must not share. No two of one list overlap, so the
        // neighbours of a fault are all that it can meet: a plan may have many thousands of faults.
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
                    return Err(Refusal::new(format!(
                        "fault {} ({}): it is on {node} while fault {} ({}) still is, and either healing would undo the other; \
                         let one end before the next begins",
                        at + 1,
                        fault.fault,
                        other + 1,
                        self.faults[other].fault
                    )));
                }
                times.insert(fault.at_ms, at);
            }
        }
        Ok(())
    }

    pub fn nemeses(&self) -> Vec<&'static dyn Nemesis> {
        let used = |nemesis: &&dyn Nemesis| self.faults.iter().any(|fault| fault.fault == nemesis.name());
        registry().iter().copied().filter(used).collect()
    }

    /// The plan as a file.
    pub fn to_toml(&self) -> String {
        let swarm = self.swarm.iter().map(|enabled| {
            toml::to_string(&BTreeMap::from([("swarm", [enabled])]))
                .expect("a struct of plain fields is TOML")
        });
        let tables: Vec<String> = swarm.chain(self.faults.iter().map(fault_text)).collect();
        if self.faults.is_empty() {
            format!("{FAULT} = []\n{}", tables.join("\n"))
        } else {
            tables.join("\n")
        }
    }
}

#[cfg(test)]
mod tests;
