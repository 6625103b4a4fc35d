//! One fault of a plan: what is injected into which nodes, when, and for how long.

use crate::clocks::motion::Motions;
use crate::plan::roles::RoleTarget;
use crate::plan::topology::Topology;
use crate::plan::trigger::Trigger;
use crate::registry::{find, registry};
use fencepost_history::printable;
use fencepost_history::prose::{second_of_a_name, unknown};
use fencepost_history::{Refusal, TimeSpan};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

/// One fault of a plan, with its targets, its beginning and its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// Time from the start of the main phase, or from `when`, to the injection, in milliseconds.
    #[serde(default)]
    pub at_ms: u64,
    /// Time from the beginning of the injection to the healing, in milliseconds, so that a plan reads as a
    /// time table. A fault that takes longer to inject and to be observed is healed right after that.
    pub for_ms: u64,
    pub fault: String,
    /// Its targets: `n1`, `c2`, `storage`; or roles, resolved at the injection: `holder`, `granting:2`.
    #[serde(default)]
    pub on: Vec<String>,
    /// Waits for this event of the history first, so that a directed plan does not rest on sleeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Trigger>,
    /// Then waits for the next fitting event (2 s at most, 5 s for rare ones): a holder for a clock jump.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Trigger>,
    /// Ends at this event, after `for_ms` at the latest: a stopped holder goes on just when another has read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Trigger>,
    /// All other keys: parameters in the nemesis's own terms.
    #[serde(flatten)]
    pub parameters: Map<String, Value>,
}

const LONGEST_MS: f64 = 100.0 * 365.0 * 24.0 * 3600.0 * 1000.0;

impl PlannedFault {
    /// At the beginning of the main phase, and healed so much later.
    pub fn new(fault: &str, on: &[&str], length: Duration) -> PlannedFault {
        PlannedFault {
            for_ms: TimeSpan(length).millis().max(1),
            fault: fault.to_owned(),
            on: on.iter().map(|&name| name.to_owned()).collect(),
            ..PlannedFault::default()
        }
    }

    #[must_use]
    pub fn then(self, event: Trigger) -> PlannedFault {
        PlannedFault { then: Some(event), ..self }
    }

    /// Ends at such an event, if that comes before its time is over.
    #[must_use]
    pub fn until(self, event: Trigger) -> PlannedFault {
        PlannedFault { until: Some(event), ..self }
    }

    #[must_use]
    pub fn with(mut self, parameter: &str, value: Value) -> PlannedFault {
        self.parameters.insert(parameter.to_owned(), value);
        self
    }

    /// What it does to clocks; none where it does nothing to them.
    pub fn motions(&self) -> Option<Motions> {
        find(&self.fault)?.prepare(&self.on, &self.parameters).ok()?.motions()
    }

    /// The node on which both would be in force at a time, if they are of one kind and wait for one event.
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
    pub(crate) fn is_apart_from(&self, other: &PlannedFault) -> bool {
        self.at_ms >= other.at_ms + other.for_ms || other.at_ms >= self.at_ms + self.for_ms
    }

    /// What it shares with other faults whose healing would undo it.
    pub(crate) fn kind(&self) -> Option<&'static str> {
        find(&self.fault)?.description().kind
    }

    /// Its targets that are nodes: which nodes a role stands for is known only when it is injected.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &String> {
        self.on.iter().filter(|name| RoleTarget::parse(name).is_none())
    }

    /// Refuses what cannot be injected into these nodes. `as_written` is how a key is called in the file.
    pub(crate) fn check<'a>(
        &'a self,
        topology: &Topology,
        as_written: &dyn Fn(&'a str) -> &'a str,
    ) -> Result<(), Refusal> {
        let nemesis = find(&self.fault).ok_or_else(|| {
            let names: Vec<&str> = registry().iter().map(|nemesis| nemesis.name()).collect();
            Refusal::at("fault", unknown("fault", &self.fault, &names))
        })?;
        if self.on.is_empty() {
            // A misspelled `on` is a key that the nemesis does not know.
            let misspelled = nemesis.prepare(&self.on, &self.parameters).err();
            let misspelled = misspelled.filter(|refusal| refusal.known.is_some());
            return Err(misspelled.unwrap_or_else(|| Refusal::at("on", "`on` names no node")));
        }
        self.check_times(as_written)?;
        self.named_once()?;
        for name in &self.on {
            nemesis.description().check_target(name, topology).map_err(|refusal| refusal.of("on"))?;
        }
        for (key, trigger) in [("when", &self.when), ("then", &self.then), ("until", &self.until)] {
            let checked = trigger.as_ref().map_or(Ok(()), |trigger| trigger.check(topology));
            checked.map_err(|refusal| Refusal::at(key, format!("`{key}`: {refusal}")))?;
        }
        let fault = nemesis.prepare(&self.on, &self.parameters)?;
        fault.names().iter().try_for_each(|name| topology.check_target(name))
    }

    /// Refuses a list that names something twice. Each name would cost as much as the first, and say nothing.
    fn named_once(&self) -> Result<(), Refusal> {
        let texts = |value: &'_ Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        };
        let parameters =
            self.parameters.iter().filter_map(|(key, value)| Some((key.as_str(), texts(value)?)));
        for (key, names) in std::iter::once(("on", self.on.clone())).chain(parameters) {
            if let Some(second) = second_of_a_name(&names) {
                let sentence = format!("`{key}` names {} twice; name it once", printable(&names[second]));
                return Err(Refusal::at(key, sentence));
            }
        }
        Ok(())
    }

    /// Refuses times that no fault can last or clock can jump, with which sums would overflow.
    fn check_times<'a>(&'a self, as_written: &dyn Fn(&'a str) -> &'a str) -> Result<(), Refusal> {
        let times = self.parameters.iter().filter(|(key, _)| key.ends_with("_ms"));
        let times = times.filter_map(|(key, time)| Some((key.as_str(), time.as_f64()?)));
        let own = [("at_ms", self.at_ms as f64), ("for_ms", self.for_ms as f64)];
        let refused = |key, what: String| Err(Refusal::at(key, format!("`{}` {what}", as_written(key))));
        match own.into_iter().chain(times).find(|(_, ms)| ms.abs() > LONGEST_MS) {
            Some((key, ms)) => refused(key, format!("is at most {LONGEST_MS} ms (100 years), not {ms}")),
            None if self.for_ms == 0 => refused("for_ms", "must be longer than 0".to_owned()),
            None => Ok(()),
        }
    }
}
