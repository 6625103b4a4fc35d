//! Reads the parameters of a nemesis from those of a plan. Not by way of `serde_json`, whose errors are
//! texts: here a [`Refusal`] says which key is wrong, and which there are.

use crate::refusal::Refusal;
use serde::de::value::{BorrowedStrDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::map::Iter;
use serde_json::{Map, Value};

/// Reads parameters.
pub(crate) fn read<T: DeserializeOwned>(parameters: &Map<String, Value>) -> Result<T, Refusal> {
    T::deserialize(Fields { rest: parameters.iter(), field: None })
}

/// Fields that are being read, and the one whose value comes next.
struct Fields<'de> {
    rest: Iter<'de>,
    field: Option<(&'de String, &'de Value)>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refusal> {
        self.field = self.rest.next();
        let Some((name, _)) = self.field else { return Ok(None) };
        seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refusal> {
        let Some((name, value)) = self.field.take() else {
            return Err(Refusal::new("a value without a key"));
        };
        seed.deserialize(Given(value)).map_err(|refusal| refusal.of(name))
    }
}

impl<'de> Deserializer<'de> for Fields<'de> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// One value.
struct Given<'de>(&'de Value);

impl<'de> IntoDeserializer<'de, Refusal> for Given<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Given<'de> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(given) => visitor.visit_bool(*given),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (_, Some(number)) => visitor.visit_i64(number),
                _ => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.iter().map(Given))),
            Value::Object(fields) => visitor.visit_map(Fields { rest: fields.iter(), field: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        match self.0 {
            Value::String(text) => {
                BorrowedStrDeserializer::new(text).deserialize_enum(name, variants, visitor)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Parameters {
        stop_ms: Option<u64>,
        #[serde(default)]
        peers: Vec<String>,
        #[serde(default)]
        way: Option<Way>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Way {
        In,
        Out,
    }

    fn read(value: Value) -> Result<Parameters, Refusal> {
        super::read(value.as_object().unwrap())
    }

    #[test]
    fn parameters_are_read() {
        let parameters = read(json!({"stop_ms": 5, "peers": ["n1"], "way": "out"})).unwrap();
        let expected = Parameters { stop_ms: Some(5), peers: vec!["n1".to_owned()], way: Some(Way::Out) };
        assert_eq!(parameters, expected);
        assert_eq!(read(json!({"stop_ms": null})).unwrap().stop_ms, None);
    }

    #[test]
    fn a_refusal_names_the_key_and_those_that_there_are() {
        let unknown = read(json!({"stop": 5})).unwrap_err();
        assert_eq!(unknown.key.as_deref(), Some("stop"));
        assert_eq!(unknown.known.unwrap(), ["stop_ms", "peers", "way"]);
        for (value, key, sentence) in [
            (
                json!({"stop_ms": "x"}),
                "stop_ms",
                "invalid type: string \"x\", expected a whole number, not negative",
            ),
            (
                json!({"stop_ms": -2}),
                "stop_ms",
                "invalid value: integer `-2`, expected a whole number, not negative",
            ),
            (json!({"peers": [7]}), "peers", "invalid type: integer `7`, expected a string"),
            (json!({"way": "inn"}), "way", "unknown value \"inn\": did you mean \"in\"?"),
        ] {
            assert_eq!(read(value).unwrap_err(), Refusal::at(key, sentence));
        }
    }
}
