//! Reads values of JSON and TOML with a [`Refusal`]: which key is wrong, where, and which keys there are.

use crate::refusal::Refusal;
use serde::de::value::{MapAccessDeserializer, SeqDeserializer};
use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};
use serde_spanned::de::{SpannedDeserializer, is_spanned};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeInteger, DeString, DeValue};

/// Reads the fields of a JSON object. The error is the first key or value that does not fit.
pub fn read_fields<T: DeserializeOwned>(fields: &Map<String, Value>) -> Result<T, Refusal> {
    T::deserialize(MapAccessDeserializer::new(fields_of_json(fields)))
}

pub(crate) fn read_value<T: DeserializeOwned>(value: &Spanned<DeValue<'_>>) -> Result<T, Refusal> {
    T::deserialize(Given::new(Form::Toml(value)))
}

#[derive(Clone, Copy)]
struct Given<'de> {
    key: Option<&'de str>,
    form: Form<'de>,
}

#[derive(Clone, Copy)]
enum Form<'de> {
    Json(&'de Value),
    Toml(&'de Spanned<DeValue<'de>>),
    Name(&'de str),
    /// A key of TOML, which may be read with its place as a value may.
    Key(&'de Spanned<DeString<'de>>),
}

impl<'de> Given<'de> {
    fn new(form: Form<'de>) -> Given<'de> {
        Given { key: None, form }
    }

    fn span(self) -> Option<Range<usize>> {
        match self.form {
            Form::Json(_) | Form::Name(_) => None,
            Form::Toml(value) => Some(value.span()),
            Form::Key(key) => Some(key.span()),
        }
    }

    /// The refusal, with this value's key and place where it has no closer one.
    fn placed(self, refusal: Refusal) -> Refusal {
        let place = refusal.place.or(self.span().map(|span| span.start));
        let refusal = Refusal { place, ..refusal };
        if let Some(key) = self.key { refusal.of(key) } else { refusal }
    }
}

/// The fields of an object or a table. A refusal has its place also where the type refuses what was read.
struct Fields<'de, I> {
    rest: I,
    value: Option<Given<'de>>,
}

impl<'de, I: Iterator<Item = (Given<'de>, Given<'de>)>> MapAccess<'de> for Fields<'de, I> {
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refusal> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refusal> {
        let value = self.value.take().expect("a key comes before its value");
        seed.deserialize(value).map_err(|refusal| value.placed(refusal))
    }
}

fn fields_of_json<'de>(
    fields: &'de Map<String, Value>,
) -> Fields<'de, impl Iterator<Item = (Given<'de>, Given<'de>)>> {
    let field = |(key, value): (&'de String, &'de Value)| {
        (Given::new(Form::Name(key)), Given { key: Some(key), form: Form::Json(value) })
    };
    Fields { rest: fields.iter().map(field), value: None }
}

fn visit_json<'de, V: Visitor<'de>>(value: &'de Value, visitor: V) -> Result<V::Value, Refusal> {
    let item = |item| Given::new(Form::Json(item));
    match value {
        Value::Null => visitor.visit_unit(),
        Value::Bool(given) => visitor.visit_bool(*given),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => visitor.visit_u64(number),
            (_, Some(number)) => visitor.visit_i64(number),
            _ => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => visitor.visit_borrowed_str(text),
        Value::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.iter().map(item))),
        Value::Object(fields) => visitor.visit_map(fields_of_json(fields)),
    }
}

fn visit_toml<'de, V: Visitor<'de>>(value: &'de DeValue<'de>, visitor: V) -> Result<V::Value, Refusal> {
    let item = |item| Given::new(Form::Toml(item));
    match value {
        DeValue::Boolean(given) => visitor.visit_bool(*given),
        DeValue::Integer(number) => visit_integer(number, visitor),
        DeValue::Float(number) => visitor.visit_f64(number.as_str().parse().map_err(Refusal::custom)?),
        DeValue::String(text) => visitor.visit_borrowed_str(text),
        DeValue::Datetime(_) => Err(Refusal::invalid_type(Unexpected::Other("date"), &visitor)),
        DeValue::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.iter().map(item))),
        DeValue::Table(table) => {
            let field = |(key, value): (&'de Spanned<DeString<'de>>, _)| {
                (Given::new(Form::Key(key)), Given { key: Some(key.get_ref()), form: Form::Toml(value) })
            };
            visitor.visit_map(Fields { rest: table.iter().map(field), value: None })
        }
    }
}

fn visit_integer<'de, V: Visitor<'de>>(number: &DeInteger<'_>, visitor: V) -> Result<V::Value, Refusal> {
    let (digits, radix) = (number.as_str(), number.radix());
    match (i64::from_str_radix(digits, radix), u64::from_str_radix(digits, radix)) {
        (Ok(number), _) => visitor.visit_i64(number),
        (_, Ok(number)) => visitor.visit_u64(number),
        _ => Err(Refusal::new("integer number overflowed")),
    }
}

impl<'de> IntoDeserializer<'de, Refusal> for Given<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Given<'de> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        let read = match self.form {
            Form::Json(value) => visit_json(value, visitor),
            Form::Toml(value) => visit_toml(value.get_ref(), visitor),
            Form::Name(name) => visitor.visit_borrowed_str(name),
            Form::Key(key) => visitor.visit_borrowed_str(key.get_ref()),
        };
        read.map_err(|refusal| self.placed(refusal))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.form {
            Form::Json(Value::Null) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        match self.span().filter(|_| is_spanned(name)) {
            Some(span) => visitor.visit_map(SpannedDeserializer::new(self, span)),
            None => self.deserialize_any(visitor),
        }
    }

    /// The enumerations of files have names, and nothing beside them.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let variant = String::deserialize(self)?.into_deserializer();
        let read = variant.deserialize_enum(name, variants, visitor);
        read.map_err(|refusal: Refusal| self.placed(refusal))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier ignored_any
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
        read_fields(value.as_object().unwrap())
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
