//! Faults of a scenario: as in a plan, but for durations, which are texts, and partitions, which are groups of names.

use super::event::AwaitedEvent;
use super::keys;
use crate::names::pick_at;
use fencepost_history::TimeSpan;
use fencepost_history::mistake::{Mistake, read_table};
use fencepost_history::prose::second_of_a_name;
use fencepost_nemesis::{Groups, PlannedFault, Topology, Trigger, parse_partition};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// The parameter of a partition that names its groups of nodes.
pub(super) const GROUPS: &str = "groups";

/// What faults are called whose groups of nodes stand in a text: `c1|n4,n5`.
const PARTITION: &str = "partition";

/// Faults without `for` last until the run ends and everything is healed.
const UNTIL_HEALED_MS: u64 = 3_600_000;

/// One fault as it stands in the file. Names of nodes are checked against a run in [`FaultEntry::resolve`].
#[derive(Clone, Debug)]
pub(super) struct FaultEntry {
    keys: FaultKeys,
    parameters: Vec<Parameter>,
    span: Range<usize>,
}

#[derive(Clone, Debug, Deserialize)]
struct FaultKeys {
    fault: Spanned<String>,
    #[serde(default)]
    on: Vec<Spanned<String>>,
    groups: Option<Spanned<String>>,
    when: Option<Spanned<AwaitedEvent>>,
    then: Option<Spanned<AwaitedEvent>>,
    until: Option<Spanned<AwaitedEvent>>,
    after: Option<TimeSpan>,
    r#for: Option<TimeSpan>,
}

/// A parameter in the nemesis's own terms.
#[derive(Clone, Debug)]
struct Parameter {
    /// As it stands in the file.
    key: String,
    /// As the nemesis calls it: a duration has `_ms` behind its name there.
    name: String,
    value: Value,
    span: Range<usize>,
}

impl FaultEntry {
    /// Reads a fault.
    ///
    /// # Errors
    /// A key without a value that fits it, or a nemesis that does not exist.
    pub(super) fn read(table: &DeTable<'_>, span: Range<usize>) -> Result<FaultEntry, Mistake> {
        let is_own = |key: &Spanned<DeString<'_>>| keys::FAULT.contains(&key.get_ref().as_ref());
        let pairs = || table.iter().map(|(key, value)| (key.clone(), value.clone()));
        let own: DeTable<'_> = pairs().filter(|(key, _)| is_own(key)).collect();
        let keys: FaultKeys = read_table(own, span.clone())?;
        let parameters = pairs().filter(|(key, _)| !is_own(key)).map(|(key, value)| parameter(&key, value));
        let parameters = parameters.collect::<Result<_, _>>()?;
        pick_at("fault", &keys.fault, fencepost_nemesis::registry(), |nemesis| nemesis.name())?;
        Ok(FaultEntry { keys, parameters, span })
    }

    /// The events that it waits for, and where they stand.
    pub(super) fn events(&self) -> impl Iterator<Item = Spanned<Trigger>> {
        let all = [&self.keys.when, &self.keys.then, &self.keys.until];
        all.into_iter().flatten().map(|event| Spanned::new(event.span(), event.get_ref().0.clone()))
    }

    /// The fault, on the nodes of this run.
    ///
    /// # Errors
    /// A node that the run does not have, or parameters that the nemesis refuses.
    pub(super) fn resolve(&self, topology: &Topology) -> Result<PlannedFault, Mistake> {
        let nemesis = fencepost_nemesis::find(self.keys.fault.get_ref());
        for (name, nemesis) in self.keys.on.iter().zip(nemesis.iter().cycle()) {
            let checked = nemesis.description().check_target(name.get_ref(), topology);
            checked.map_err(|sentence| Mistake::new(name.span(), sentence))?;
        }
        let mut on: Vec<String> = self.keys.on.iter().map(|name| name.get_ref().clone()).collect();
        if let Some(at) = second_of_a_name(&on) {
            return Err(Mistake::new(
                self.keys.on[at].span(),
                format!("`on` names {} twice; name it once", on[at]),
            ));
        }
        let named = self.parameters.iter().map(|each| (each.name.clone(), each.value.clone()));
        let mut parameters: Map<String, Value> = named.collect();
        if let Some(text) = &self.keys.groups {
            let groups = self.groups(text, topology)?;
            if on.is_empty() {
                on = groups.targets();
            }
            if let Ok(Value::Object(fields)) = serde_json::to_value(groups) {
                parameters.extend(fields);
            }
        }
        let trigger =
            |event: &Option<Spanned<AwaitedEvent>>| event.as_ref().map(|event| event.get_ref().0.clone());
        let mut fault = PlannedFault {
            at_ms: self.keys.after.map_or(0, TimeSpan::millis),
            for_ms: self.keys.r#for.map_or(UNTIL_HEALED_MS, TimeSpan::millis),
            fault: self.keys.fault.get_ref().clone(),
            on,
            when: trigger(&self.keys.when),
            then: trigger(&self.keys.then),
            until: trigger(&self.keys.until),
            parameters,
        };
        fault.expand_flow(topology).map_err(|sentence| {
            let flow = self.parameters.iter().find(|each| each.name == "flow");
            Mistake::new(flow.map_or_else(|| self.span.clone(), |flow| flow.span.clone()), sentence)
        })?;
        self.check(&fault, topology)?;
        Ok(fault)
    }

    fn groups(&self, text: &Spanned<String>, topology: &Topology) -> Result<Groups, Mistake> {
        if self.keys.fault.get_ref() != PARTITION {
            let sentence = format!("only a {PARTITION} has groups; name the nodes with `on`");
            return Err(Mistake::new(text.span(), sentence));
        }
        parse_partition(text.get_ref(), topology).map_err(|sentence| Mistake::new(text.span(), sentence))
    }

    /// Lets the nemesis look at its parameters.
    fn check(&self, fault: &PlannedFault, topology: &Topology) -> Result<(), Mistake> {
        let Some(nemesis) = fencepost_nemesis::find(&fault.fault) else { return Ok(()) };
        let ready = nemesis.prepare(&fault.on, &fault.parameters);
        let ready = ready.map_err(|sentence| self.refused(&sentence))?;
        if fault.on.is_empty() {
            return Err(Mistake::new(self.span.clone(), "`on` is missing: name the nodes of this fault"));
        }
        if let Some((key, sentence)) = fault.named_twice() {
            let parameter = self.parameters.iter().find(|each| each.name == key);
            return Err(Mistake::new(
                parameter.map_or_else(|| self.span.clone(), |each| each.span.clone()),
                sentence,
            ));
        }
        let unknown = ready.names().iter().find_map(|name| topology.check_target(name).err());
        unknown.map_or(Ok(()), |sentence| Err(Mistake::new(self.span.clone(), sentence)))
    }

    /// A refusal by the nemesis, at the parameter that it names.
    fn refused(&self, sentence: &str) -> Mistake {
        let names: Vec<&str> = sentence.split('`').skip(1).step_by(2).collect();
        let (true, [name, known @ ..]) = (sentence.contains("unknown field"), &names[..]) else {
            return Mistake::new(self.span.clone(), sentence);
        };
        match self.parameters.iter().find(|each| each.name == *name) {
            Some(parameter) => {
                let known: Vec<&str> = known.iter().map(|name| name.trim_end_matches("_ms")).collect();
                let known: Vec<&str> = known.into_iter().chain(keys::FAULT.iter().copied()).collect();
                Mistake::unknown(parameter.span.clone(), "key", &parameter.key, &known)
            }
            None => Mistake::new(self.span.clone(), sentence),
        }
    }
}

/// A text that is a duration becomes the nemesis's number of milliseconds.
fn parameter(key: &Spanned<DeString<'_>>, value: Spanned<DeValue<'_>>) -> Result<Parameter, Mistake> {
    let (span, name) = (key.span(), key.get_ref().to_string());
    let value = toml::de::ValueDeserializer::from(value);
    let value = Value::deserialize(value).map_err(|error| Mistake::of_toml(&error))?;
    let duration = value.as_str().and_then(signed_ms);
    Ok(match duration {
        Some(milliseconds) => {
            Parameter { name: format!("{name}_ms"), key: name, value: milliseconds.into(), span }
        }
        None => Parameter { key: name.clone(), name, value, span },
    })
}

/// The number of milliseconds of a duration, which may be negative: a clock can jump back.
fn signed_ms(text: &str) -> Option<i64> {
    let (sign, length) = text.strip_prefix('-').map_or((1, text), |length| (-1, length));
    let length: TimeSpan = length.parse().ok()?;
    Some(sign * i64::try_from(length.millis()).ok()?)
}
