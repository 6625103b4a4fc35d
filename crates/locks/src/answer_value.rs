//! What the value of an answer may be. The checkers would ignore any other value, so it ends the run.

use crate::protocol::{Answer, AnswerKind};
use fencepost_history::{Grant, Refusal, Released, f, printable};
use serde_json::Value;

/// The longest beginning of a value that a sentence shows, in characters.
const SHOWN: usize = 60;

/// A field of a value: its name, whether a value has it as it must be, and this in words.
type Field = (&'static str, fn(&Value) -> bool, &'static str);

/// The field of the type that reads such values.
macro_rules! field {
    ($of:ident.$field:ident, $words:literal) => {
        field!($of.$field if |_| true, $words)
    };
    ($of:ident.$field:ident if $right:expr, $words:literal) => {
        (stringify!($field), |value| $of::of(value).$field.is_some_and($right), $words)
    };
}

const GRANTED: [Field; 6] = [
    field!(Grant.token if |token| token >= 0, "a whole number from 0 to 2^63 - 1"),
    field!(Grant.validity_ms, "a number"),
    field!(Grant.waited_ms, "a number"),
    field!(Grant.granted_by, "a list of the names of servers"),
    field!(Grant.wakeups, "a whole number, not negative"),
    field!(Grant.arrival, "a number"),
];

const RELEASED: [Field; 3] = [
    field!(Released.believed, "true or false"),
    field!(Released.removed, "true or false"),
    field!(Released.removed_owner, "the number of a process, or null"),
];

impl Answer {
    /// Refuses a value that no answer to `f` has (docs/client-protocol.md), in words after the client's name.
    pub fn check_value(&self, f: &str) -> Result<(), Refusal> {
        let is_ok = self.kind == AnswerKind::Ok;
        match f {
            f::ACQUIRE => check_fields(f, &self.value, &GRANTED, "{\"token\":7}, or no value"),
            f::RELEASE => check_fields(f, &self.value, &RELEASED, "{\"believed\":true}"),
            f::HOLDS if is_ok && !self.value.is_boolean() => {
                Err(refused(f, "", &self.value, "true or false"))
            }
            f::READ if is_ok && !(self.value.is_number() || self.value.is_array()) => {
                Err(refused(f, "", &self.value, "a number or a list"))
            }
            _ => Ok(()),
        }
    }
}

fn check_fields(f: &str, value: &Value, fields: &[Field], example: &str) -> Result<(), Refusal> {
    if !value.is_null() && !value.is_object() {
        return Err(refused(f, "", value, example));
    }
    for (name, is_right, expected) in fields {
        match value.get(name) {
            Some(field) if !field.is_null() && !is_right(value) => {
                return Err(refused(f, &format!("the {name} "), field, expected).of(name));
            }
            _ => {}
        }
    }
    Ok(())
}

fn refused(f: &str, what: &str, value: &Value, expected: &str) -> Refusal {
    let whole = value.to_string();
    let mut shown: String = whole.chars().take(SHOWN).collect();
    if shown.len() < whole.len() {
        shown.push('…');
    }
    Refusal::new(format!("answered `{f}` with {what}{}: expected {expected}", printable(&shown)))
}

#[cfg(test)]
mod tests {
    use crate::protocol::FromClient;
    use fencepost_history::Refusal;

    fn checked(f: &str, kind: &str, value: &str) -> Result<(), Refusal> {
        let line = format!(r#"{{"id":1,"type":"{kind}","value":{value}}}"#);
        match serde_json::from_str(&line) {
            Ok(FromClient::Answer(answer)) => answer.check_value(f),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn what_a_client_may_answer_is_accepted() {
        for (f, kind, value) in [
            ("acquire", "ok", "null"),
            ("acquire", "ok", r#"{"token":0,"validity_ms":-1.5,"granted_by":["n1"],"arrival":3}"#),
            ("acquire", "ok", r#"{"token":9223372036854775807,"more":[1]}"#),
            ("acquire", "fail", r#"{"token":null,"wakeups":2}"#),
            ("release", "info", r#"{"believed":true,"removed_owner":null}"#),
            ("release", "fail", "null"),
            ("holds", "ok", "false"),
            ("holds", "fail", "null"),
            ("read", "ok", "[1,2]"),
            ("read", "ok", "7"),
            ("write", "ok", "8"),
        ] {
            assert_eq!(checked(f, kind, value), Ok(()), "{f} {value}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_refused_with_what_was_expected() {
        let refused = |f: &str, value: &str| checked(f, "ok", value).unwrap_err().sentence;
        let token = "expected a whole number from 0 to 2^63 - 1";
        for wrong in ["-1", "1.5", "9223372036854775808", "18446744073709551616", "\"7\"", "[7]", "true"] {
            let sentence = refused("acquire", &format!("{{\"token\":{wrong}}}"));
            assert!(
                sentence.starts_with("answered `acquire` with the token ") && sentence.ends_with(token),
                "{sentence}"
            );
        }
        for wrong in ["[7]", "7", "true", "\"granted\""] {
            let sentence = refused("acquire", wrong);
            assert_eq!(
                sentence,
                format!("answered `acquire` with {wrong}: expected {{\"token\":7}}, or no value")
            );
        }
        for (f, wrong, named) in [
            ("acquire", r#"{"validity_ms":"x"}"#, "the validity_ms \"x\": expected a number"),
            ("acquire", r#"{"granted_by":"n1"}"#, "the granted_by \"n1\": expected a list"),
            ("acquire", r#"{"wakeups":-1}"#, "the wakeups -1: expected a whole number"),
            ("release", r#"{"believed":"yes"}"#, "the believed \"yes\": expected true or false"),
            ("release", "true", "true: expected {\"believed\":true}"),
            ("holds", "1", "1: expected true or false"),
            ("read", "\"7\"", "\"7\": expected a number or a list"),
        ] {
            assert!(refused(f, wrong).contains(&format!("with {named}")), "{}", refused(f, wrong));
        }
        let long = refused("acquire", &format!("\"{}\"", "x".repeat(1000)));
        assert!(long.len() < 150, "{long}");
    }
}
