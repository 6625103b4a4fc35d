//! The core of a violation: at most two reads and two additions.
//!
//! Say of an element that it *begins* with the first invocation of an addition of it, and is *due* at the
//! first completion of one. An order exists if and only if
//!
//! 1. no read saw an element that had not begun when the read was over,
//! 2. no read missed an element that was due before the read began,
//! 3. of any two reads one saw all that the other saw, and
//! 4. not the earlier one more, where one was over before the other began,
//! 5. no read saw an element and missed another that was due before the first began.
//!
//! *Why that is all.* By 3 the reads stand in one order of size, and an element has its place before the
//! first read that saw it. Whatever real time demands is a demand on a pair: of two reads (4), of a read and
//! an element (1 and 2), of two elements with different places (5, by a read between them). If every pair can
//! stand so, all can. So whatever is broken is broken by one pair, with the read between them and the
//! additions of what they differ by.

use super::operation::{SetHistory, SetOp};
use crate::model::Conflict;
use crate::models::values::Values;
use crate::operations::NEVER;

/// An addition that matters most to an element, with the moment at which it does.
#[derive(Clone, Copy)]
struct Moment {
    at: u32,
    place: u32,
}

/// An element, its beginning and its due.
#[derive(Clone, Copy)]
struct Element {
    begins: Option<Moment>,
    due: Option<Moment>,
}

struct Conflicts<'a> {
    values: &'a Values,
    history: &'a SetHistory,
    elements: Vec<Element>,
    /// Elements that are due at all, in order.
    by_due: Vec<u32>,
    /// Certain reads, by how much they saw.
    reads: Vec<u32>,
}

/// Finds a pair that cannot be; see the top of the file. None if every pair can stand.
pub(super) fn conflict(values: &Values, history: &SetHistory, count: usize) -> Option<Conflict> {
    let mut elements = vec![Element { begins: None, due: None }; count];
    for (at, operation) in (0_u32..).zip(&history.list) {
        let SetOp::Add(element) = operation.op else { continue };
        let element = &mut elements[element as usize];
        element.begins.get_or_insert(Moment { at, place: operation.invoke });
        if operation.certain() && element.due.is_none_or(|due| operation.complete < due.place) {
            element.due = Some(Moment { at, place: operation.complete });
        }
    }
    let due = |element: u32| elements[element as usize].due.map_or(NEVER, |due| due.place);
    let mut by_due: Vec<u32> = (0..count as u32).filter(|&element| due(element) != NEVER).collect();
    by_due.sort_by_key(|&element| due(element));
    let is_read = |at: &u32| {
        let operation = &history.list[*at as usize];
        operation.op == SetOp::Read && operation.certain()
    };
    let mut reads: Vec<u32> = (0..history.len() as u32).filter(is_read).collect();
    reads.sort_by_key(|&at| saw(history, at).len());
    let conflicts = Conflicts { values, history, elements, by_due, reads };
    let of_one = || conflicts.reads.iter().find_map(|&read| conflicts.of_one_read(read));
    let found = of_one().or_else(|| conflicts.incomparable()).or_else(|| conflicts.shrunk());
    // That is all there can be; else shrinking finds a core, and says so in words that fit all models.
    found
}

fn saw(history: &SetHistory, read: u32) -> &[u32] {
    history.list[read as usize].ret.as_deref().unwrap_or(&[])
}

fn has(seen: &[u32], element: u32) -> bool {
    seen.binary_search(&element).is_ok()
}

/// An element that the first saw and the second did not.
fn missing(first: &[u32], second: &[u32]) -> Option<u32> {
    first.iter().copied().find(|&element| !has(second, element))
}

impl Conflicts<'_> {
    fn name(&self, element: u32) -> String {
        self.values.name(element)
    }

    /// "process 3 read from 0.010 s to 0.020 s".
    fn reading(&self, read: u32) -> String {
        let history = self.history;
        format!(
            "process {} read from {} to {}",
            history.process(read),
            history.invoked(read),
            history.completed(read)
        )
    }

    /// The addition with which an element begins.
    fn origin(&self, element: u32) -> Option<u32> {
        self.elements[element as usize].begins.map(|begins| begins.at)
    }

    /// What one read saw and what it missed.
    fn of_one_read(&self, read: u32) -> Option<Conflict> {
        let history = self.history;
        let operation = &history.list[read as usize];
        let seen = saw(history, read);
        let begins =
            |element: &u32| self.elements[*element as usize].begins.map_or(NEVER, |begins| begins.place);
        let latest = seen.iter().copied().max_by_key(begins);
        if let Some(element) = latest.filter(|element| begins(element) > operation.complete) {
            let (reading, name) = (self.reading(read), self.name(element));
            let origin = self.origin(element);
            let when = origin.map_or("no process ever added".to_owned(), |add| {
                format!("process {} began to add only at {}", history.process(add), history.invoked(add))
            });
            let sentence = format!("{reading} and saw {name}, which {when}");
            return Some(Conflict::new(origin.into_iter().chain([read]).collect(), read, sentence));
        }
        let missed = self.by_due.iter().copied().find(|&element| !has(seen, element))?;
        let due = self.elements[missed as usize].due?;
        let added = format!(
            "process {} had added {} by {}",
            history.process(due.at),
            self.name(missed),
            history.completed(due.at)
        );
        if due.place < operation.invoke {
            let sentence =
                format!("{} and did not see {}, although {added}", self.reading(read), self.name(missed));
            return Some(Conflict::new(vec![due.at, read], read, sentence));
        }
        let latest = latest.filter(|element| begins(element) > due.place)?;
        let origin = self.origin(latest)?;
        let sentence = format!(
            "{} and saw {} but not {}, although {added}, before process {} began to add {} at {}",
            self.reading(read),
            self.name(latest),
            self.name(missed),
            history.process(origin),
            self.name(latest),
            history.invoked(origin),
        );
        Some(Conflict::new(vec![due.at, origin, read], read, sentence))
    }

    /// Two reads each of which saw what the other did not.
    fn incomparable(&self) -> Option<Conflict> {
        let history = self.history;
        self.reads.windows(2).find_map(|pair| {
            let (first, second) = (pair[0], pair[1]);
            let only_first = missing(saw(history, first), saw(history, second))?;
            let only_second = missing(saw(history, second), saw(history, first))?;
            let stuck = if history.list[first as usize].complete > history.list[second as usize].complete {
                first
            } else {
                second
            };
            let sentence = format!(
                "{} and saw {} but not {}; {} and saw {} but not {}: neither can have been first",
                self.reading(first),
                self.name(only_first),
                self.name(only_second),
                self.reading(second),
                self.name(only_second),
                self.name(only_first),
            );
            let origins = [only_first, only_second].into_iter().filter_map(|element| self.origin(element));
            Some(Conflict::new(origins.chain([first, second]).collect(), stuck, sentence))
        })
    }

    /// A read that saw less than one that was over before it began.
    fn shrunk(&self) -> Option<Conflict> {
        let history = self.history;
        let mut most: Option<u32> = None;
        for &event in &history.order {
            let at = event >> 1;
            let operation = &history.list[at as usize];
            if operation.op != SetOp::Read || !operation.certain() {
                continue;
            }
            let before = most.filter(|&most| saw(history, most).len() > saw(history, at).len());
            if event & 1 == 1 {
                most = before.or(Some(at));
            } else if let Some(before) = before {
                let element = missing(saw(history, before), saw(history, at))?;
                let sentence = format!(
                    "{} and did not see {}, although {} and saw it",
                    self.reading(at),
                    self.name(element),
                    self.reading(before),
                );
                let core = self.origin(element).into_iter().chain([before, at]).collect();
                return Some(Conflict::new(core, at, sentence));
            }
        }
        None
    }
}
