//! Reads a fault as people write it. Each value keeps its place in the text, so that a mistake has a line.

use super::event::AwaitedEvent;
use crate::nemesis::{Nemesis, NemesisDescription};
use crate::packets::groups::{Flow, GROUPS, Groups, OneWay, parse_flow, parse_partition};
use crate::plan::planned_fault::PlannedFault;
use crate::plan::topology::Topology;
use crate::plan::trigger::Trigger;
use crate::registry::{find, registry};
use fencepost_history::mistake::{Mistake, read_table, tables};
use fencepost_history::prose::second_of_a_name;
use fencepost_history::{Refusal, TimeSpan, inline_toml, printable, read_fields};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue, ValueDeserializer};

/// Keys of a fault, besides the parameters of its nemesis.
pub const FAULT_KEYS: [&str; 9] = ["fault", "on", "flow", GROUPS, "when", "after", "then", "until", "for"];

/// Keys of earlier versions, which are numbers of milliseconds, and those that say the same.
const IN_MS: [(&str, &str); 2] = [("at_ms", "after"), ("for_ms", "for")];

const FAULT: &str = "fault";

/// Faults without `for` last until the run ends and everything is healed.
const UNTIL_HEALED_MS: u64 = 3_600_000;

/// One fault as it stands in a file. Names of nodes are checked against a run in [`FaultEntry::resolve`].
#[derive(Clone, Debug)]
pub struct FaultEntry {
    keys: ReadKeys,
    nemesis: NemesisDescription,
    given: Vec<GivenField>,
    span: Range<usize>,
}

#[derive(Clone, Debug, Deserialize)]
struct ReadKeys {
    fault: Spanned<String>,
    #[serde(default)]
    on: Vec<Spanned<String>>,
    flow: Option<Spanned<String>>,
    groups: Option<Spanned<String>>,
    when: Option<Spanned<AwaitedEvent>>,
    then: Option<Spanned<AwaitedEvent>>,
    until: Option<Spanned<AwaitedEvent>>,
    after: Option<TimeSpan>,
    at_ms: Option<u64>,
    r#for: Option<TimeSpan>,
    for_ms: Option<u64>,
}

#[derive(Clone, Debug)]
struct GivenField {
    key: String,
    /// As the plan calls it: a duration has `_ms` behind its name there.
    name: String,
    value: Option<Value>,
    span: Range<usize>,
}

/// A fault whose keys are JSON, in the words of a plan. Errors: as in a plan, without a line.
pub fn fault_of_json(keys: &Map<String, Value>, topology: &Topology) -> Result<PlannedFault, Refusal> {
    let text = format!("{FAULT} = {}", inline_toml(&json!(keys)));
    let read = || {
        let mut table = DeTable::parse(&text).map_err(|error| Mistake::of_toml(&error))?.into_inner();
        let fault = table.remove(FAULT).map_or(Ok(Vec::new()), |fault| tables(fault, FAULT))?;
        let (table, span) = fault.first().ok_or_else(|| Mistake::new(0..0, "there is no fault"))?;
        FaultEntry::read(table, span.clone())?.resolve(topology)
    };
    read().map_err(|mistake: Mistake| Refusal::new(mistake.sentence))
}

impl FaultEntry {
    /// Reads a fault. Errors: a value does not fit its key, or the nemesis does not exist.
    pub fn read(table: &DeTable<'_>, span: Range<usize>) -> Result<FaultEntry, Mistake> {
        let pairs = || table.iter().map(|(key, value)| (key.clone(), value.clone()));
        let own: DeTable<'_> = pairs().filter(|(key, value)| is_own(key, value)).collect();
        let keys: ReadKeys = read_table(own, span.clone())?;
        let given: Vec<GivenField> =
            pairs().map(|(key, value)| GivenField::read(&key, value)).collect::<Result<_, _>>()?;
        said_once(&given)?;
        let nemesis = find(keys.fault.get_ref()).map(Nemesis::description).ok_or_else(|| {
            let names: Vec<&str> = registry().iter().map(|nemesis| nemesis.name()).collect();
            Mistake::unknown(keys.fault.span(), "fault", keys.fault.get_ref(), &names)
        })?;
        Ok(FaultEntry { keys, nemesis, given, span })
    }

    /// The events that it waits for, and where they stand.
    pub fn events(&self) -> impl Iterator<Item = Spanned<Trigger>> {
        let all = [&self.keys.when, &self.keys.then, &self.keys.until];
        all.into_iter().flatten().map(|event| Spanned::new(event.span(), event.get_ref().0.clone()))
    }

    /// The fault, on the nodes of this run. Errors: the run lacks a node, or the nemesis refuses parameters.
    pub fn resolve(&self, topology: &Topology) -> Result<PlannedFault, Mistake> {
        let keys = &self.keys;
        let trigger = |event: &Option<Spanned<AwaitedEvent>>| Some(event.as_ref()?.get_ref().0.clone());
        let time_ms = |time: Option<TimeSpan>, ms: Option<u64>| time.map(TimeSpan::millis).or(ms);
        let parameters = self.given.iter().filter_map(|each| Some((each.name.clone(), each.value.clone()?)));
        let mut fault = PlannedFault {
            at_ms: time_ms(keys.after, keys.at_ms).unwrap_or_default(),
            for_ms: time_ms(keys.r#for, keys.for_ms).unwrap_or(UNTIL_HEALED_MS),
            fault: keys.fault.get_ref().clone(),
            on: self.targets(topology)?,
            when: trigger(&keys.when),
            then: trigger(&keys.then),
            until: trigger(&keys.until),
            parameters: parameters.collect(),
        };
        self.aim_at_groups(&mut fault, topology)?;
        self.aim_at_flow(&mut fault, topology)?;
        fault.check(topology, &|name| self.as_written(name)).map_err(|refusal| self.placed(refusal))?;
        Ok(fault)
    }

    fn targets(&self, topology: &Topology) -> Result<Vec<String>, Mistake> {
        let on: Vec<String> = self.keys.on.iter().map(|name| name.get_ref().clone()).collect();
        if let Some(second) = second_of_a_name(&on) {
            let sentence = format!("`on` names {} twice; name it once", printable(&on[second]));
            return Err(Mistake::new(self.keys.on[second].span(), sentence));
        }
        for name in &self.keys.on {
            let checked = self.nemesis.check_target(name.get_ref(), topology);
            checked.map_err(|refusal| Mistake::new(name.span(), refusal.sentence))?;
        }
        Ok(on)
    }

    /// Reads the groups of a partition. They name its targets: `on` need not name them again.
    fn aim_at_groups(&self, fault: &mut PlannedFault, topology: &Topology) -> Result<(), Mistake> {
        if let Some(text) = &self.keys.groups {
            if !self.nemesis.parts_groups {
                let sentence = "only a partition has groups; name the nodes with `on`";
                return Err(Mistake::new(text.span(), sentence));
            }
            let groups = parse_partition(text.get_ref(), topology);
            part(fault, &groups.map_err(|refusal| Mistake::new(text.span(), refusal.sentence))?);
        } else if self.nemesis.parts_groups && fault.on.is_empty() {
            // What is wrong with them is said where parameters are read.
            let groups = read_fields::<Groups>(&fault.parameters);
            fault.on = groups.map(|groups| groups.targets()).unwrap_or_default();
        }
        Ok(())
    }

    /// Puts in place of `flow` what it stands for: targets, peers and ways, or the groups of a partition.
    fn aim_at_flow(&self, fault: &mut PlannedFault, topology: &Topology) -> Result<(), Mistake> {
        let Some(flow) = &self.keys.flow else { return Ok(()) };
        let refused = |refusal: Refusal| Mistake::new(flow.span(), refusal.sentence);
        if !self.nemesis.on_packets {
            return Err(refused(Refusal::new(format!(
                "{} does nothing to packets, so it has no flow; name its targets with `on`",
                fault.fault
            ))));
        }
        if !fault.on.is_empty() {
            let names = if self.keys.groups.is_some() { GROUPS } else { "on" };
            return Err(refused(Refusal::new(format!("`flow` names the targets: leave out `{names}`"))));
        }
        if self.nemesis.parts_groups {
            part(fault, &parse_partition(flow.get_ref(), topology).map_err(refused)?);
            return Ok(());
        }
        let Flow { first, second, one_way } = parse_flow(flow.get_ref(), topology).map_err(refused)?;
        let ways = match one_way {
            Some(OneWay::ToSecond) => "out",
            Some(OneWay::ToFirst) => "in",
            None => "both",
        };
        fault.on = first;
        fault.parameters.extend([("peers".to_owned(), json!(second)), ("ways".to_owned(), json!(ways))]);
        Ok(())
    }

    fn given(&self, name: &str) -> Option<&GivenField> {
        self.given.iter().find(|each| each.name == name)
    }

    fn as_written<'a>(&'a self, name: &'a str) -> &'a str {
        self.given(name).map_or(name, |given| &given.key)
    }

    fn placed(&self, refusal: Refusal) -> Mistake {
        let given = refusal.key.as_deref().and_then(|key| self.given(key));
        let span = given.map_or(&self.span, |given| &given.span).clone();
        let (Some(given), Some(known)) = (given, refusal.known) else {
            return Mistake::new(span, refusal.sentence);
        };
        if known.contains(&given.key) {
            return Mistake::new(span, format!("`{}` is no duration", given.key));
        }
        // A duration would be read under the name without its unit.
        let parameter = |name: &String| match name.strip_suffix("_ms") {
            Some(bare) if given.key != given.name => bare.to_owned(),
            _ => name.clone(),
        };
        let parameters: Vec<String> = known.iter().map(parameter).collect();
        let known: Vec<&str> = parameters.iter().map(String::as_str).chain(FAULT_KEYS).collect();
        Mistake::unknown(span, "key", &given.key, &known)
    }
}

/// Whether a key is one of every fault. Groups as lists are a parameter of a partition.
fn is_own(key: &Spanned<DeString<'_>>, value: &Spanned<DeValue<'_>>) -> bool {
    let key = key.get_ref().as_ref();
    let in_ms = IN_MS.iter().any(|(name, _)| *name == key);
    in_ms || (FAULT_KEYS.contains(&key) && (key != GROUPS || value.get_ref().is_str()))
}

fn part(fault: &mut PlannedFault, groups: &Groups) {
    if fault.on.is_empty() {
        fault.on = groups.targets();
    }
    let Value::Object(fields) = json!(groups) else { unreachable!("groups are a struct") };
    fault.parameters.extend(fields);
}

/// Refuses a key that is given twice, in milliseconds and with a unit.
fn said_once(given: &[GivenField]) -> Result<(), Mistake> {
    let mut known: HashMap<&str, &GivenField> = HashMap::new();
    for each in given {
        if let Some(other) = known.insert(&each.name, each) {
            let sentence = format!("`{}` and `{}` say the same: leave one out", other.key, each.key);
            return Err(Mistake::new(each.span.clone(), sentence));
        }
    }
    Ok(())
}

impl GivenField {
    fn read(key: &Spanned<DeString<'_>>, value: Spanned<DeValue<'_>>) -> Result<GivenField, Mistake> {
        let (span, key_text) = (key.span(), key.get_ref().to_string());
        if is_own(key, &value) {
            let in_ms = IN_MS.iter().find(|(_, written)| *written == key_text);
            let name = in_ms.map_or_else(|| key_text.clone(), |(name, _)| (*name).to_owned());
            return Ok(GivenField { key: key_text, name, value: None, span });
        }
        let value =
            Value::deserialize(ValueDeserializer::from(value)).map_err(|error| Mistake::of_toml(&error))?;
        let (name, value) = match value.as_str().and_then(signed_ms) {
            Some(ms) => (format!("{key_text}_ms"), ms),
            None => (key_text.clone(), value),
        };
        Ok(GivenField { key: key_text, name, value: Some(value), span })
    }
}

/// The number of milliseconds of a duration, which may be negative: a clock can jump back.
pub(super) fn signed_ms(text: &str) -> Option<Value> {
    let (sign, length) = text.strip_prefix('-').map_or((1, text), |length| (-1, length));
    let length: TimeSpan = length.parse().ok()?;
    let is_whole = length.0.subsec_nanos().is_multiple_of(1_000_000);
    let whole_ms = i64::try_from(length.0.as_millis()).ok().filter(|_| is_whole);
    Some(whole_ms.map_or_else(
        || json!(f64::from(sign) * length.0.as_nanos() as f64 / 1e6),
        |ms| json!(i64::from(sign) * ms),
    ))
}
