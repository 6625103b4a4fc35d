//! Histories as Jepsen's EDN: a vector of maps, or maps one after the other. Everything is turned into JSON:
//! keywords and symbols become strings, all sequences arrays; tags, comments and discarded forms are dropped.

use super::json::{first_word, plain};
use super::{Line, Lines, ReadError, malformed};
use fencepost_history::{Kind, LINE_BYTES_MAX, too_long};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::io::BufRead;

pub struct Edn<R> {
    text: Text<R>,
    /// Whether the maps stand in a vector, once that is known.
    in_vector: Option<bool>,
}

impl<R: BufRead> Edn<R> {
    pub fn new(reader: R) -> Self {
        Edn { text: Text { reader, line: 1, of_event: None }, in_vector: None }
    }
}

impl<R: BufRead> Lines for Edn<R> {
    fn next_line(&mut self) -> Result<Option<Line<'_>>, ReadError> {
        self.text.skip_blank()?;
        if self.in_vector.is_none() {
            let vector = matches!(self.text.peek()?, Some(b'[' | b'('));
            if vector {
                self.text.take()?;
                self.text.skip_blank()?;
            }
            self.in_vector = Some(vector);
        }
        let line = self.text.line;
        match (self.text.peek()?, self.in_vector) {
            (None, Some(false)) => Ok(None),
            (None, _) => malformed(line, "the vector of events does not end"),
            (Some(b']' | b')'), Some(true)) => {
                self.text.take()?;
                self.text.skip_blank()?;
                match self.text.peek()? {
                    None => {
                        self.in_vector = Some(false);
                        Ok(None)
                    }
                    Some(_) => malformed(self.text.line, "something follows the vector of events"),
                }
            }
            _ => match self.text.event()? {
                Value::Object(map) => event(map, line).map(Some),
                other => malformed(line, format!("an event is a map, not {other}")),
            },
        }
    }
}

fn event(mut map: Map<String, Value>, line: u64) -> Result<Line<'static>, ReadError> {
    let mut text = |name: &str| match map.remove(name) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => malformed(line, format!("{name} is {other}")),
        None => malformed(line, format!("the event has no {name}")),
    };
    let name = text("type")?;
    let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == name) else {
        return malformed(line, format!("the type {name} is none of invoke, ok, fail and info"));
    };
    let f = text("f")?;
    let process = match map.remove("process") {
        Some(Value::String(name)) if name == "nemesis" => None,
        Some(Value::Number(number)) if number.is_u64() => number.as_u64(),
        other => {
            let other = other.unwrap_or_default();
            return malformed(line, format!("the process {other} is neither a number nor :nemesis"));
        }
    };
    let json = |value: Value| value.to_string();
    Ok(Line {
        number: line,
        index: map.get("index").and_then(Value::as_u64),
        time_ns: map.get("time").and_then(Value::as_u64),
        process,
        kind,
        f: Cow::Owned(f),
        key: map
            .remove("key")
            .filter(|key| !key.is_null())
            .map(|key| Cow::Owned(plain(&json(key)).into_owned())),
        value: Cow::Owned(map.remove("value").map_or_else(|| "null".to_owned(), json)),
        error: map
            .remove("error")
            .filter(|error| !error.is_null())
            .map(|error| Cow::Owned(first_word(&json(error)).into_owned())),
    })
}

const DEPTH_MAX: usize = 100;

struct Text<R> {
    reader: R,
    line: u64,
    /// How many bytes of an event were read; none between events, where nothing is kept of what is read.
    of_event: Option<u64>,
}

impl<R: BufRead> Text<R> {
    fn peek(&mut self) -> Result<Option<u8>, ReadError> {
        Ok(self.reader.fill_buf()?.first().copied())
    }

    fn take(&mut self) -> Result<Option<u8>, ReadError> {
        let byte = self.peek()?;
        if byte.is_some() {
            self.reader.consume(1);
        }
        self.line += u64::from(byte == Some(b'\n'));
        if let Some(bytes) = &mut self.of_event {
            *bytes += 1;
            if *bytes > LINE_BYTES_MAX {
                return malformed(self.line, too_long("an event", LINE_BYTES_MAX).to_string());
            }
        }
        Ok(byte)
    }

    fn event(&mut self) -> Result<Value, ReadError> {
        self.of_event = Some(0);
        let form = self.form(0)?;
        self.of_event = None;
        Ok(form)
    }

    fn skip_blank(&mut self) -> Result<(), ReadError> {
        while let Some(byte) = self.peek()? {
            match byte {
                b';' => while !matches!(self.take()?, None | Some(b'\n')) {},
                b',' => drop(self.take()?),
                _ if byte.is_ascii_whitespace() => drop(self.take()?),
                _ => break,
            }
        }
        Ok(())
    }

    fn form(&mut self, depth: usize) -> Result<Value, ReadError> {
        if depth > DEPTH_MAX {
            return malformed(self.line, "forms are nested too deeply");
        }
        self.skip_blank()?;
        match self.take()? {
            None => malformed(self.line, "the text ends within a form"),
            Some(b'{') => self.map(depth),
            Some(b'[') => Ok(Value::Array(self.sequence(b']', depth)?)),
            Some(b'(') => Ok(Value::Array(self.sequence(b')', depth)?)),
            Some(b'"') => self.string(),
            Some(b'#') => self.dispatch(depth),
            Some(b'\\') => {
                let word = self.word(Vec::new())?;
                Ok(Value::String(word))
            }
            Some(b':') => Ok(Value::String(self.word(Vec::new())?)),
            Some(b'^' | b'\'') => self.form(depth + 1),
            Some(byte) if is_end(byte) => {
                malformed(self.line, format!("{:?} has no beginning", byte as char))
            }
            Some(byte) => {
                let word = self.word(vec![byte])?;
                self.atom(word)
            }
        }
    }

    /// What follows a `#`: a set, a discarded form, or a tag, which is dropped.
    fn dispatch(&mut self, depth: usize) -> Result<Value, ReadError> {
        match self.peek()? {
            Some(b'{') => {
                self.take()?;
                Ok(Value::Array(self.sequence(b'}', depth)?))
            }
            Some(b'_') => {
                self.take()?;
                self.form(depth + 1)?;
                self.form(depth + 1)
            }
            _ => {
                let tag = self.word(Vec::new())?;
                if tag.is_empty() {
                    return malformed(self.line, "a # without a tag");
                }
                self.form(depth + 1)
            }
        }
    }

    fn sequence(&mut self, end: u8, depth: usize) -> Result<Vec<Value>, ReadError> {
        let mut items = Vec::new();
        loop {
            self.skip_blank()?;
            if self.peek()? == Some(end) {
                self.take()?;
                return Ok(items);
            }
            items.push(self.form(depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, ReadError> {
        let line = self.line;
        let items = self.sequence(b'}', depth)?;
        if items.len() % 2 == 1 {
            return malformed(line, "a map with a key that has no value");
        }
        let mut items = items.into_iter();
        let mut map = Map::new();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            let key = match key {
                Value::String(key) => key,
                other => other.to_string(),
            };
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }

    fn string(&mut self) -> Result<Value, ReadError> {
        let mut bytes = Vec::new();
        loop {
            match self.take()? {
                None => return malformed(self.line, "a string does not end"),
                Some(b'"') => return self.utf8(bytes).map(Value::String),
                Some(b'\\') => match self.take()? {
                    Some(b'n') => bytes.push(b'\n'),
                    Some(b't') => bytes.push(b'\t'),
                    Some(b'r') => bytes.push(b'\r'),
                    Some(byte) => bytes.push(byte),
                    None => return malformed(self.line, "a string does not end"),
                },
                Some(byte) => bytes.push(byte),
            }
        }
    }

    /// The rest of a word: up to white space or a bracket.
    fn word(&mut self, mut bytes: Vec<u8>) -> Result<String, ReadError> {
        while let Some(byte) = self.peek()? {
            if byte.is_ascii_whitespace()
                || is_end(byte)
                || matches!(byte, b'{' | b'[' | b'(' | b'"' | b',' | b';')
            {
                break;
            }
            bytes.push(byte);
            self.take()?;
        }
        self.utf8(bytes)
    }

    fn utf8(&self, bytes: Vec<u8>) -> Result<String, ReadError> {
        String::from_utf8(bytes).or_else(|_| malformed(self.line, "the text is not UTF-8"))
    }

    fn atom(&self, word: String) -> Result<Value, ReadError> {
        let number = word.strip_suffix(['N', 'M']).unwrap_or(&word);
        let number = number.strip_prefix('+').unwrap_or(number);
        Ok(match &*word {
            "nil" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => match (number.parse::<i64>(), number.parse::<f64>()) {
                (Ok(number), _) => Value::from(number),
                // Words such as "inf" are numbers to Rust, and symbols here.
                (_, Ok(float)) if number.bytes().any(|byte| byte.is_ascii_digit()) => Value::from(float),
                _ => Value::String(word),
            },
        })
    }
}

fn is_end(byte: u8) -> bool {
    matches!(byte, b'}' | b']' | b')')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Result<Vec<Line<'static>>, String> {
        let mut edn = Edn::new(text.as_bytes());
        let mut lines = Vec::new();
        while let Some(line) = edn.next_line().map_err(|error| error.to_string())? {
            // The lines that EDN makes borrow nothing.
            lines.push(Line {
                f: line.f.into_owned().into(),
                key: line.key.map(|key| key.into_owned().into()),
                value: line.value.into_owned().into(),
                error: line.error.map(|error| error.into_owned().into()),
                ..line
            });
        }
        Ok(lines)
    }

    #[test]
    fn a_key_is_read_and_forms_that_are_left_out_lie_no_deeper_than_others() {
        let keyed = lines(
            "{:type :ok, :f :read, :process 0, :key \"a\"} {:type :ok, :f :read, :process 0, :key nil}",
        )
        .unwrap();
        assert_eq!(keyed[0].key.as_deref(), Some("a"));
        assert_eq!(keyed[1].key, None);
        assert!(lines(&format!("{{{}", "#_".repeat(200_000))).is_err());
    }

    const JEPSEN: &str = r#"{:type :invoke, :f :read, :value nil, :process 0, :time 3291485317, :index 0}
{:type :info, :f :start, :process :nemesis, :time 3} ; a comment
#jepsen.history.Op{:type :fail, :f :cas, :value [1 2], :process 0, :error [:mismatch "x"], :index 1}"#;

    #[test]
    fn reads_maps_and_vectors_of_maps() {
        let read = lines(JEPSEN).unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!((read[0].kind, &*read[0].f, &*read[0].value), (Kind::Invoke, "read", "null"));
        assert_eq!((read[0].process, read[0].time_ns), (Some(0), Some(3_291_485_317)));
        assert_eq!(read[1].process, None);
        assert_eq!(
            (read[2].number, &*read[2].value, read[2].error.as_deref()),
            (3, "[1,2]", Some("mismatch"))
        );
        assert_eq!(lines(&format!("[{JEPSEN}\n]")).unwrap(), read);
        assert_eq!(lines("").unwrap(), []);
        assert_eq!(lines("[]").unwrap(), []);
    }

    #[test]
    fn reads_what_edn_has() {
        let value = |text: &str| {
            let text = format!("{{:type :ok :f :x :process 1 :value {text}}}");
            lines(&text).map(|lines| lines[0].value.to_string())
        };
        assert_eq!(value("#{1 2}").unwrap(), "[1,2]");
        assert_eq!(value("(1, -2.5 3N)").unwrap(), "[1,-2.5,3]");
        assert_eq!(value(r#"["a\"b\n" \c sym #_ignored true]"#).unwrap(), r#"["a\"b\n","c","sym",true]"#);
        assert_eq!(value("{:a {1 2}}").unwrap(), r#"{"a":{"1":2}}"#);
        assert_eq!(value("#inst \"2020\"").unwrap(), "\"2020\"");
        assert_eq!(value("[false true nil]").unwrap(), "[false,true,null]");
        assert_eq!(value(&"[".repeat(300)).unwrap_err(), "line 1: forms are nested too deeply");
        let nested = |depth: usize| value(&("[".repeat(depth) + &"]".repeat(depth)));
        assert!(nested(DEPTH_MAX).is_ok() && nested(DEPTH_MAX + 1).is_err());
    }

    #[test]
    fn refuses_what_is_no_event_and_says_where() {
        let refused = |text: &str| lines(text).unwrap_err();
        assert_eq!(
            refused(&JEPSEN.replace(":nemesis", ":x")),
            "line 2: the process \"x\" is neither a number nor :nemesis"
        );
        assert_eq!(
            refused(&JEPSEN.replace(":fail", ":done")),
            "line 3: the type done is none of invoke, ok, fail and info"
        );
        assert_eq!(refused("{:type :ok}"), "line 1: the event has no f");
        assert_eq!(refused("{:type}"), "line 1: a map with a key that has no value");
        assert_eq!(refused("\n[7]"), "line 2: an event is a map, not 7");
        assert_eq!(refused("["), "line 1: the vector of events does not end");
        assert_eq!(refused("{:a \"b"), "line 1: a string does not end");
        assert_eq!(refused("[] x"), "line 1: something follows the vector of events");
        assert_eq!(refused("}"), "line 1: '}' has no beginning");
    }

    #[test]
    fn an_event_without_an_end_is_refused() {
        use std::io::{BufReader, Read, repeat};
        // A word, a text, a vector of many lines, and what stands between events, which may be long.
        let inputs: [(&str, u8); 4] = [("", 0), ("{:f \"", b'x'), ("[[", b'\n'), ("{:f 1", b'9')];
        for (beginning, rest) in inputs {
            let text = beginning.as_bytes().chain(repeat(rest).take(LINE_BYTES_MAX + (1 << 20)));
            let refused = Edn::new(BufReader::new(text)).next_line().unwrap_err().to_string();
            assert!(refused.contains("an event is longer than 64 MiB, which is the limit"), "{refused}");
        }
        let (beginning, end) = ("{:type :ok :f :x :process 1 :value \"", "\"}");
        let longest = repeat(b'x').take(LINE_BYTES_MAX - (beginning.len() + end.len()) as u64);
        let longest = beginning.as_bytes().chain(longest).chain(end.as_bytes());
        assert!(Edn::new(BufReader::new(longest)).next_line().is_ok());
        let blank = repeat(b'\n').take(LINE_BYTES_MAX + 1);
        assert!(Edn::new(BufReader::new(blank)).next_line().unwrap().is_none());
    }
}
