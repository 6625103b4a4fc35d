use crate::printable::{make_printable, may_hold_control_characters};
use crate::run::open_regular;
use crate::{Event, HistoryError, decompressed, is_too_long, read_line};
use serde_json::Value;
use std::collections::HashSet;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `history.jsonl.gz` for `history.jsonl`.
pub fn compressed_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    PathBuf::from(name)
}

/// The file of this history, plain or compressed; the plain one if both exist (a compression was cut off).
pub fn find_history(path: &Path) -> Option<PathBuf> {
    [path.to_owned(), compressed_name(path)].into_iter().find(|file| file.is_file())
}

/// The events of a history, one by one: memory does not grow with the file. A last line that is cut short is
/// left out. Any other line that is no event, and a file that cannot be read, is an error and the last item.
pub struct Events {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    line: Vec<u8>,
    number: usize,
    over: bool,
    values: SharedValues,
}

impl Events {
    /// Opens a history by the name of the plain file, whether it lies there or compressed beside it.
    pub fn open(path: &Path) -> Result<Events, HistoryError> {
        let path = find_history(path).unwrap_or_else(|| path.to_owned());
        let fail = |source| HistoryError::Read { path: path.clone(), source };
        let reader = open_regular(&path).and_then(decompressed).map_err(fail)?;
        Ok(Events { path, reader, line: Vec::new(), number: 0, over: false, values: SharedValues::default() })
    }

    fn read(&mut self) -> Result<Option<Event>, HistoryError> {
        loop {
            self.line.clear();
            self.number += 1;
            match read_line(&mut self.reader, &mut self.line) {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) if is_too_long(&error) => return Err(self.malformed(error.to_string())),
                Err(source) => return Err(HistoryError::Read { path: self.path.clone(), source }),
            }
            if self.line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return match parse(&self.line) {
                Ok(event) if event.key.as_ref().is_some_and(|key| key.len() > KEY_BYTES_MAX) => {
                    Err(self.malformed(format!("its key is longer than {KEY_BYTES_MAX} bytes")))
                }
                Ok(event) => Ok(Some(self.values.share(event))),
                Err(_) if self.line.last() != Some(&b'\n') => Ok(None),
                Err(error) => Err(self.malformed(error.to_string())),
            };
        }
    }
}

impl Events {
    fn malformed(&self, reason: String) -> HistoryError {
        HistoryError::Malformed { path: self.path.clone(), line: self.number, reason }
    }
}

/// The longest key, in bytes: it is the name of a lock, and stands in titles, pictures and tables.
pub const KEY_BYTES_MAX: usize = 200;

/// An event from its line, with all texts printable.
fn parse(line: &[u8]) -> serde_json::Result<Event> {
    if !may_hold_control_characters(line) {
        return serde_json::from_slice(line);
    }
    let mut value: Value = serde_json::from_slice(line)?;
    make_printable(&mut value);
    serde_json::from_value(value)
}

impl Iterator for Events {
    type Item = Result<Event, HistoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.read().transpose();
        self.over = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Values that many events share, such as the arguments of an acquire: an object takes over half a kilobyte.
#[derive(Default)]
struct SharedValues(HashSet<Arc<Value>>);

impl SharedValues {
    /// No more are looked for: where each event has its own value, nothing would be won.
    const MOST: usize = 1024;

    fn share(&mut self, mut event: Event) -> Event {
        if let Some(known) = self.0.get(&event.value) {
            event.value = known.clone();
        } else if self.0.len() < SharedValues::MOST {
            self.0.insert(event.value.clone());
        }
        event
    }
}

/// Reads a whole history, plain or compressed. Errors: those of [`Events`].
pub fn read_history(path: &Path) -> Result<Vec<Event>, HistoryError> {
    Events::open(path)?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const LINES: &str = r#"{"index":0,"time":5,"process":1,"type":"invoke","f":"acquire","key":"a","value":{"ttl_ms":3}}
{"index":1,"time":6,"process":"nemesis","type":"info","f":"phase","value":"main"}
"#;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("fencepost-stored-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        path
    }

    fn compressed(text: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        crate::compress(text, &mut file).unwrap();
        file
    }

    #[test]
    fn a_compressed_history_reads_like_a_plain_one() {
        let folder = folder("both");
        let path = folder.join("history.jsonl");
        std::fs::write(&path, LINES).unwrap();
        let plain = read_history(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(compressed_name(&path), compressed(LINES.as_bytes())).unwrap();
        assert_eq!(find_history(&path), Some(compressed_name(&path)));
        assert_eq!((plain.len(), read_history(&path).unwrap()), (2, plain));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn equal_values_are_kept_once() {
        let folder = folder("shared");
        let path = folder.join("history.jsonl");
        std::fs::write(&path, LINES.repeat(3).replace("3}}\n{", "4}}\n{").replacen("4}}", "3}}", 2)).unwrap();
        let events = read_history(&path).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        let shared = |a: usize, b: usize| Arc::ptr_eq(&events[a].value, &events[b].value);
        assert!(shared(0, 2) && !shared(0, 4) && !shared(0, 1) && shared(1, 5));
    }

    #[test]
    fn a_cut_last_line_is_left_out_and_a_cut_compression_is_an_error() {
        let folder = folder("cut");
        let path = folder.join("history.jsonl");
        std::fs::File::create(&path).unwrap().write_all(&LINES.as_bytes()[..LINES.len() - 9]).unwrap();
        assert_eq!(read_history(&path).unwrap().len(), 1);
        std::fs::write(&path, LINES.replace("acquire", "acquire\"")).unwrap();
        let refused = read_history(&path).unwrap_err().to_string();
        assert!(refused.contains("history.jsonl, line 1:"), "{refused}");
        std::fs::remove_file(&path).unwrap();
        let whole = compressed(LINES.as_bytes());
        std::fs::write(compressed_name(&path), &whole[..whole.len() - 5]).unwrap();
        assert!(read_history(&path).unwrap_err().to_string().contains("history.jsonl.gz"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_line_without_an_end_is_refused_plain_and_compressed() {
        let folder = folder("endless");
        let path = folder.join("history.jsonl");
        std::fs::write(&path, LINES).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(40 << 30).unwrap();
        let refused = read_history(&path).unwrap_err().to_string();
        assert!(refused.contains("history.jsonl, line 3: the line is longer than 64 MiB"), "{refused}");
        std::fs::remove_file(&path).unwrap();
        let zeros = std::io::Read::take(std::io::repeat(0), 100 << 20);
        crate::compress(zeros, std::fs::File::create(compressed_name(&path)).unwrap()).unwrap();
        let refused = read_history(&path).unwrap_err().to_string();
        assert!(refused.contains("history.jsonl.gz, line 1: the line is longer than 64 MiB"), "{refused}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn texts_are_made_printable_and_long_keys_are_refused() {
        let folder = folder("hostile");
        let path = folder.join("history.jsonl");
        std::fs::write(&path, LINES.replace("\"a\"", r#""a\u001b[2J""#)).unwrap();
        let events = read_history(&path).unwrap();
        assert_eq!(events[0].key.as_deref(), Some("a\u{fffd}[2J"));
        std::fs::write(&path, LINES.replace("\"a\"", &format!("{:?}", "k".repeat(201)))).unwrap();
        let refused = read_history(&path).unwrap_err().to_string();
        assert!(refused.contains("line 1: its key is longer than 200 bytes"), "{refused}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
