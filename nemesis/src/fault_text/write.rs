//! Writes a fault as people write it.

use super::read::signed_ms;
use crate::packets::groups::{GROUPS, Groups};
use crate::plan::planned_fault::PlannedFault;
use crate::plan::trigger::Trigger;
use fencepost_history::{TimeSpan, inline_toml, read_fields};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::time::Duration;

/// The fault as a `[[fault]]`, its keys in the order in which it happens.
pub fn fault_text(fault: &PlannedFault) -> String {
    let mut text = "[[fault]]\n".to_owned();
    let mut key = |name: &str, value: &Value| {
        let _ = writeln!(text, "{name} = {}", inline_toml(value));
    };
    if let Some(when) = &fault.when {
        key("when", &event(when));
    }
    if fault.at_ms > 0 {
        key("after", &length(fault.at_ms));
    }
    if let Some(then) = &fault.then {
        key("then", &event(then));
    }
    key("fault", &json!(fault.fault));
    key("on", &json!(fault.on));
    let mut parameters = fault.parameters.clone();
    if let Some(groups) = take_groups(&mut parameters) {
        key(GROUPS, &json!(groups));
    }
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_null()) {
        match name.strip_suffix("_ms").and_then(|bare| Some((bare, signed_length(value)?))) {
            Some((bare, length)) => key(bare, &length),
            None => key(name, value),
        }
    }
    if let Some(until) = &fault.until {
        key("until", &event(until));
    }
    key("for", &length(fault.for_ms));
    text
}

fn length(ms: u64) -> Value {
    json!(TimeSpan::from_millis(ms))
}

/// A number of milliseconds with its unit, if that is read as the same number again.
fn signed_length(ms: &Value) -> Option<Value> {
    let nanos = ms.as_i64().map(|ms| i128::from(ms) * 1_000_000);
    let nanos = nanos.or_else(|| ms.as_f64().map(|ms| (ms * 1e6) as i128))?;
    let length = TimeSpan(Duration::from_nanos(u64::try_from(nanos.abs()).ok()?));
    let text = format!("{}{length}", if nanos < 0 { "-" } else { "" });
    (signed_ms(&text).as_ref() == Some(ms)).then(|| json!(text))
}

/// Takes the groups of a partition out of its parameters, as text; none where there is no such text.
fn take_groups(fields: &mut Map<String, Value>) -> Option<String> {
    fields.get(GROUPS)?;
    let text = read_fields::<Groups>(fields).ok()?.text()?;
    [GROUPS, "one_way"].iter().for_each(|name| drop(fields.remove(*name)));
    Some(text)
}

fn event(trigger: &Trigger) -> Value {
    trigger.text().map_or_else(|| json!(trigger), Value::from)
}
