//! Text from outside that people will read. Control characters could steer a terminal or end a line; others
//! turn a text's direction, so that it reads otherwise (Boucher and Anderson, "Trojan Source", 2021).

use serde_json::Value;
use std::borrow::Cow;

/// Whether a character changes how others are shown: a control character, or one that turns the direction.
pub fn is_steering(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with blanks for [steering](is_steering) white space, and `U+FFFD` for other steering characters.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_steering) {
        return Cow::Borrowed(text);
    }
    let replaced = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        c if is_steering(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    Cow::Owned(text.chars().map(replaced).collect())
}

pub(crate) fn make_printable(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(replaced) = printable(text) {
                *text = replaced;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(make_printable),
        Value::Object(fields) => {
            fields.values_mut().for_each(make_printable);
            if fields.keys().any(|name| name.contains(char::is_control)) {
                let all = std::mem::take(fields).into_iter();
                fields.extend(all.map(|(name, value)| (printable(&name).into_owned(), value)));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether a line of JSON can hold a control character: in ASCII as an escape, else as bytes beyond ASCII.
pub(crate) fn may_hold_control_characters(json: &[u8]) -> bool {
    json.iter().any(|&byte| byte == b'\\' || byte >= 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn control_characters_are_replaced_and_nothing_else() {
        assert!(matches!(printable("täglich <b>"), Cow::Borrowed(_)));
        assert_eq!(printable("a\u{1b}[31mb\nc\u{85}"), "a\u{fffd}[31mb c\u{fffd}");
        assert_eq!(printable("lock\u{202e}dilav\u{2066}"), "lock\u{fffd}dilav\u{fffd}");
        let mut value = json!({"a\u{7}": ["\u{0}", {"b": "c\td"}], "n": 1});
        make_printable(&mut value);
        assert_eq!(value, json!({"a\u{fffd}": ["\u{fffd}", {"b": "c d"}], "n": 1}));
    }
}
