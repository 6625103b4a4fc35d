use serde::Serialize;
use serde_json::{Map, Value};

/// All fields of a struct of options by their names, as the command line and files have them.
pub fn fields(options: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(options) {
        Ok(Value::Object(fields)) => fields,
        other => unreachable!("options are always an object of JSON: {other:?}"),
    }
}

pub fn changed_fields<T: Serialize + Default>(options: &T) -> Map<String, Value> {
    let default = fields(&T::default());
    fields(options).into_iter().filter(|(name, value)| default.get(name) != Some(value)).collect()
}
