//! The fields of a struct of options, as the command line and every file name them.

use serde::Serialize;
use serde_json::{Map, Value};

/// All fields by their names.
pub fn fields(options: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(options) {
        Ok(Value::Object(fields)) => fields,
        other => unreachable!("options are always an object of JSON: {other:?}"),
    }
}

/// The fields whose values differ from the defaults.
pub fn changed_fields<T: Serialize + Default>(options: &T) -> Map<String, Value> {
    let default = fields(&T::default());
    fields(options).into_iter().filter(|(name, value)| default.get(name) != Some(value)).collect()
}
