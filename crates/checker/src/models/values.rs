use super::integer;
use rustc_hash::FxHashMap;

/// The values of one register, numbered in order of appearance; 0 is null, or what the register starts with.
#[derive(Clone, Debug)]
pub struct Values {
    integers: FxHashMap<i64, u32>,
    others: FxHashMap<String, u32>,
    names: Vec<ValueName>,
}

#[derive(Clone, Debug)]
enum ValueName {
    Integer(i64),
    Json(String),
}

impl Default for Values {
    fn default() -> Self {
        let null = "null".to_owned();
        let others = FxHashMap::from_iter([(null.clone(), 0)]);
        Values { integers: FxHashMap::default(), others, names: vec![ValueName::Json(null)] }
    }
}

impl Values {
    /// The values of a register whose first one, with the number 0, is this JSON value.
    pub fn starting_with(json: &str) -> Values {
        let mut values = Values { others: FxHashMap::default(), names: Vec::new(), ..Values::default() };
        // What is no JSON was refused before.
        values.number(json);
        values
    }

    /// The number of a JSON value. None if it is not JSON.
    pub fn number(&mut self, json: &str) -> Option<u32> {
        let next = self.names.len() as u32;
        if let Some(value) = integer(json) {
            let number = *self.integers.entry(value).or_insert(next);
            if number == next {
                self.names.push(ValueName::Integer(value));
            }
            return Some(number);
        }
        if let Some(&null) = self.others.get("null").filter(|_| json == "null") {
            return Some(null);
        }
        // Through a value, so that two spellings of the same are the same.
        let value: serde_json::Value = serde_json::from_str(json).ok()?;
        let text = value.to_string();
        let number = *self.others.entry(text.clone()).or_insert(next);
        if number == next {
            self.names.push(ValueName::Json(text));
        }
        Some(number)
    }

    /// A number for a value that is known to be new, and is shown like this.
    pub fn add(&mut self, shown: String) -> u32 {
        self.names.push(ValueName::Json(shown));
        self.names.len() as u32 - 1
    }

    /// The value as JSON.
    pub fn name(&self, number: u32) -> String {
        match self.names.get(number as usize) {
            Some(ValueName::Integer(value)) => value.to_string(),
            Some(ValueName::Json(text)) => text.clone(),
            // A history that was built by hand has its own numbers.
            None => format!("#{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_starts_with_its_first_value_and_no_other() {
        let mut values = Values::starting_with("7");
        assert_eq!((values.number("7"), values.name(0)), (Some(0), "7".to_owned()));
        assert_eq!(values.number("null"), Some(1));
    }

    #[test]
    fn the_same_value_has_the_same_number() {
        let mut values = Values::default();
        assert_eq!(values.number("null"), Some(0));
        assert_eq!(values.number("7"), Some(1));
        assert_eq!(values.number("\"7\""), Some(2));
        assert_eq!(values.number(" 7.0"), Some(1));
        assert_eq!(values.number(r#"{"b":1,"a":2}"#), values.number(r#"{ "a": 2, "b": 1 }"#));
        assert_eq!(values.number("{"), None);
        assert_eq!(values.name(2), "\"7\"");
    }
}
