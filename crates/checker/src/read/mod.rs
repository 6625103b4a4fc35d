//! Reads histories, one event at a time. Memory grows with the operations, not with the text.

mod array;
mod columns;
mod edn;
mod json;

pub use array::ArrayLines;
pub use columns::{ColumnLines, looks_like_columns};
pub use edn::Edn;
pub use json::JsonLines;

use crate::model::History;
use crate::models::{Codec, EventRefusal};
use crate::operations::{Builder, OpenHandle, Stamp};
use fencepost_history::{AcquireArguments, ErrorCode, Kind, Name, OperationError, f, sorted_once};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::io::{self, BufRead};

/// One event as it stands in a file. Values are JSON text.
#[derive(Clone, Debug, PartialEq)]
pub struct Line<'a> {
    /// Where it stands, from 1.
    pub number: u64,
    pub index: Option<u64>,
    pub time_ns: Option<u64>,
    /// None for the nemesis.
    pub process: Option<u64>,
    pub kind: Kind,
    pub f: Cow<'a, str>,
    pub key: Option<Cow<'a, str>>,
    pub value: Cow<'a, str>,
    pub error: Option<Cow<'a, str>>,
}

fn read_ready(reader: &mut impl BufRead, to: &mut [u8]) -> io::Result<usize> {
    let ready = reader.fill_buf()?;
    let count = ready.len().min(to.len());
    to[..count].copy_from_slice(&ready[..count]);
    reader.consume(count);
    Ok(count)
}

/// Why a history is refused.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("line {line}: {reason}")]
    Malformed { line: u64, reason: String },
}

pub(crate) fn malformed<T>(line: u64, reason: impl Into<String>) -> Result<T, ReadError> {
    Err(ReadError::Malformed { line, reason: reason.into() })
}

/// A source of events.
pub trait Lines {
    /// The next event; none at the end.
    fn next_line(&mut self) -> Result<Option<Line<'_>>, ReadError>;
}

/// How events are to be understood.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Values are `[key, value]`, as Jepsen's independent keys write them.
    pub independent: bool,
    pub skip: Vec<String>,
    /// What the file calls an operation, and what the model calls it.
    pub rename: Vec<(String, String)>,
    /// What the model calls a field of values, and what the file calls it.
    pub fields: Vec<(String, String)>,
    /// The value that a register starts with, as JSON; null unless given.
    pub initial: Option<String>,
}

impl ReadOptions {
    /// The line in the model's words; none where it is to be left out.
    pub(crate) fn apply<'a>(&self, mut line: Line<'a>) -> Option<Line<'a>> {
        if let Some((_, name)) = self.rename.iter().find(|(name, _)| *name == line.f) {
            line.f = name.clone().into();
        }
        if line.process.is_none() || self.skip.iter().any(|skip| *skip == line.f) {
            return None;
        }
        if !self.fields.is_empty()
            && let Ok(serde_json::Value::Object(mut value)) = serde_json::from_str(&line.value)
        {
            for (model, file) in &self.fields {
                if let Some(field) = value.remove(file) {
                    value.insert(model.clone(), field);
                }
            }
            line.value = serde_json::Value::Object(value).to_string().into();
        }
        Some(line)
    }
}

pub struct KeyHistory<M: Codec> {
    /// None where the events have no key.
    pub key: Option<String>,
    pub model: M,
    pub history: History<M>,
}

/// Reads a history, key by key in order of appearance. An error where it is no history of this model.
pub fn read<M: Codec + Clone>(
    model: &M,
    lines: &mut dyn Lines,
    reading: &ReadOptions,
) -> Result<Vec<KeyHistory<M>>, ReadError> {
    let mut collector = Collector::new(model.clone());
    while let Some(line) = lines.next_line()? {
        let Some(line) = reading.apply(line).filter(|line| !is_notice(line)) else { continue };
        if reading.independent {
            let (key, value) = split(&line)?;
            let (key, value) = (key.to_owned(), value.into_owned());
            collector.take(&Line { key: Some(key.into()), value: value.into(), ..line })?;
        } else {
            collector.take(&line)?;
        }
    }
    Ok(collector.finish())
}

pub(crate) fn is_notice(line: &Line) -> bool {
    line.kind == Kind::Info && fencepost_history::f::is_notice(&line.f)
}

fn is_no_of_library(line: &Line) -> bool {
    let error = line.error.as_deref().map(OperationError::from);
    error.is_some_and(|error| error.code() == ErrorCode::RefusedByLibrary)
}

/// The key and the value of `[key, value]`; of `[key, from, to]`, a compare-and-set's, the value is the rest.
pub(crate) fn split<'a>(line: &'a Line) -> Result<(&'a str, Cow<'a, str>), ReadError> {
    let parts = serde_json::from_str::<Vec<&serde_json::value::RawValue>>(&line.value);
    match parts.as_deref() {
        Ok([key, value]) => Ok((key.get(), value.get().into())),
        Ok([key, rest @ ..]) if rest.len() > 1 => {
            let rest: Vec<&str> = rest.iter().map(|value| value.get()).collect();
            Ok((key.get(), format!("[{}]", rest.join(",")).into()))
        }
        _ => malformed(line.number, format!("the value {} is not [key, value]", shortened(&line.value))),
    }
}

fn shortened(value: &str) -> Cow<'_, str> {
    const CHARACTERS_MAX: usize = 120;
    match value.char_indices().nth(CHARACTERS_MAX) {
        Some((at, _)) => format!("{}…", &value[..at]).into(),
        None => value.into(),
    }
}

fn refused<T>(line: &Line, refusal: EventRefusal) -> Result<T, ReadError> {
    let (f, value) = (&line.f, shortened(&line.value));
    let reason = match refusal {
        EventRefusal::UnknownOperation(known) => format!(
            "the model knows {known}, not {f:?} (--rename {f}=NAME if it is one of these; --skip {f} leaves it out, which is right only for \
             an operation that does not change the object)"
        ),
        EventRefusal::NotAlone if !value.contains("mode") => format!(
            "the model knows one holder at a time, and {f:?} asks for {value}: use --model shared-lock, which knows how many may hold a key"
        ),
        EventRefusal::NotAlone => format!(
            "the model knows no mode, and {f:?} asks for {value}: use --model shared-lock, which knows both modes"
        ),
        EventRefusal::WrongValue(wanted) => format!("{f:?} wants {wanted}, and the value is {value}"),
    };
    malformed(line.number, reason)
}

struct OpenLine {
    part: usize,
    f: usize,
    handle: OpenHandle,
    /// The same of the other names of a set: all are acquired and released in one step.
    also: Vec<(usize, OpenHandle)>,
}

fn others(line: &Line) -> Vec<Name> {
    if !line.value.contains("\"also\"") {
        return Vec::new();
    }
    let value: serde_json::Value = serde_json::from_str(&line.value).unwrap_or_default();
    let mut others = sorted_once(AcquireArguments::of(&value).also.unwrap_or_default());
    others.retain(|other| Some(&**other) != line.key.as_deref());
    others
}

type Growing<M> = (Option<String>, M, Builder<<M as crate::Model>::Op, <M as crate::Model>::Ret>);

struct Collector<M: Codec> {
    template: M,
    parts: Vec<Growing<M>>,
    by_key: FxHashMap<String, usize>,
    keyless: Option<usize>,
    open: FxHashMap<u64, OpenLine>,
    /// Names of operations, few enough to look through.
    names: Vec<String>,
}

impl<M: Codec + Clone> Collector<M> {
    fn new(template: M) -> Self {
        let (by_key, open) = Default::default();
        Collector { template, parts: vec![], by_key, keyless: None, open, names: vec![] }
    }

    fn part(&mut self, key: Option<&str>) -> usize {
        let known = key.map_or(self.keyless, |key| self.by_key.get(key).copied());
        known.unwrap_or_else(|| {
            let part = self.parts.len();
            self.parts.push((key.map(str::to_owned), self.template.clone(), Builder::new()));
            match key {
                Some(key) => drop(self.by_key.insert(key.to_owned(), part)),
                None => self.keyless = Some(part),
            }
            part
        })
    }

    fn name(&mut self, f: &str) -> usize {
        self.names.iter().position(|name| name == f).unwrap_or_else(|| {
            self.names.push(f.to_owned());
            self.names.len() - 1
        })
    }

    fn take(&mut self, line: &Line) -> Result<(), ReadError> {
        let process = line.process.expect("the nemesis was left out");
        let stamp = Stamp { index: line.index.unwrap_or(line.number - 1), time_ns: line.time_ns };
        let f = self.name(&line.f);
        match line.kind {
            Kind::Invoke => self.invoke(line, process, f, stamp),
            _ => self.complete(line, process, f, stamp),
        }
    }

    fn invoke(&mut self, line: &Line, process: u64, f: usize, stamp: Stamp) -> Result<(), ReadError> {
        let (part, handle) = self.begin(line, line.key.as_deref(), process, stamp)?;
        let others = others(line).into_iter().map(|other| self.begin(line, Some(&*other), process, stamp));
        let also = others.collect::<Result<Vec<_>, ReadError>>()?;
        if self.open.insert(process, OpenLine { part, f, handle, also }).is_some() {
            return malformed(line.number, format!("process {process} already has an operation open"));
        }
        Ok(())
    }

    fn begin(
        &mut self,
        line: &Line,
        key: Option<&str>,
        process: u64,
        stamp: Stamp,
    ) -> Result<(usize, OpenHandle), ReadError> {
        let part = self.part(key);
        let (_, model, builder) = &mut self.parts[part];
        match model.invoke(process, &line.f, &line.value) {
            Ok(op) => Ok((part, builder.invoke_at(process, op, stamp))),
            Err(refusal) => refused(line, refusal),
        }
    }

    fn complete(&mut self, line: &Line, process: u64, f: usize, stamp: Stamp) -> Result<(), ReadError> {
        let Some(open) = self.open.remove(&process) else {
            let why = format!("process {process} completes an operation that it never invoked");
            return malformed(line.number, why);
        };
        let (key, ..) = &self.parts[open.part];
        if open.f != f {
            let invoked = &self.names[open.f];
            let why = format!("process {process} invoked {invoked:?} and completes {:?}", line.f);
            return malformed(line.number, why);
        }
        if line.key.is_some() && line.key.as_deref() != key.as_deref() {
            let invoked = key.as_deref().unwrap_or("none");
            let why = format!("process {process} invoked it on another key ({invoked})");
            return malformed(line.number, why);
        }
        let own = (open.part, open.handle);
        std::iter::once(own).chain(open.also).try_for_each(|of_name| self.end(line, of_name, stamp))
    }

    fn end(
        &mut self,
        line: &Line,
        (part, handle): (usize, OpenHandle),
        stamp: Stamp,
    ) -> Result<(), ReadError> {
        let (_, model, builder) = &mut self.parts[part];
        let op = builder.op(handle).clone();
        match line.kind {
            Kind::Ok => match model.complete(&op, &line.value) {
                Ok(ret) => builder.complete_at(handle, ret, stamp),
                Err(refusal) => return refused(line, refusal),
            },
            // A library that said no after tries of its own may have taken the lock.
            Kind::Fail if line.f == f::ACQUIRE && is_no_of_library(line) => {}
            Kind::Fail => match model.fail(&op, line.error.as_deref().unwrap_or("")) {
                Some(ret) => builder.complete_at(handle, ret, stamp),
                None => builder.drop(handle),
            },
            // The process may go on, with an operation of unknown end.
            Kind::Info | Kind::Invoke => {}
        }
        Ok(())
    }

    fn finish(self) -> Vec<KeyHistory<M>> {
        let parts = self.parts.into_iter();
        parts.map(|(key, model, builder)| KeyHistory { key, model, history: builder.finish() }).collect()
    }
}

#[cfg(test)]
mod tests;
