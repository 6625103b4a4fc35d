//! Zones: the algorithm of a register whose values are written once, after P. Gibbons and E. Korach, "Testing
//! shared memories", SIAM J. Computing 26(4), 1997. It applies to reads and writes where no value is written
//! twice (and null never). Then every read says which write it saw. The operations of one value, the write
//! and its reads, must stand together in any order. Their *zone* lies between the earliest completion and the
//! latest invocation among them. If the completion comes first the zone is *forward*: during all of it the
//! register must have had this value. Else it is *backward*: all operations of the value were open during all
//! of it, and any moment of it will do for them.
//!
//! An order exists if and only if every value read was written, by a write that did not begin after the read
//! was over; no two forward zones overlap; and no backward zone lies wholly inside a forward one. (If so, put
//! the forward zones in their order, and each backward zone at a moment of it that lies in none of them.)
//!
//! The first value, null, has a write that was complete before everything. An indeterminate write that no
//! process read is left out: nothing needs it. One that was read has no completion of its own, and its
//! readers bound it. O(n) time and memory, as the events are already in order.
//!
//! # The core of a violation
//! A zone is made by at most two operations and its write, so two in conflict make a core of at most six.

use super::{Register, RegisterOp, RegisterRet};
use crate::model::{Conflict, Decision, FastPath, History};
use crate::operations::NEVER;
use rustc_hash::FxHashMap;

const NONE: u32 = u32::MAX;

/// The operations of one value. The zone lies between the completion of `first` and the invocation of `last`.
#[derive(Clone, Copy)]
struct Zone {
    write: u32,
    first: u32,
    last: u32,
    /// Places count from 1; 0, of the first value, is before the history.
    first_complete: u32,
    last_invoke: u32,
}

impl Zone {
    const EMPTY: Zone = Zone { write: NONE, first: NONE, last: NONE, first_complete: NEVER, last_invoke: 0 };
    const FIRST_VALUE: Zone = Zone { first_complete: 0, ..Zone::EMPTY };

    fn forward(&self) -> bool {
        self.first_complete < self.last_invoke
    }

    fn extend(&mut self, at: u32, invoke: u32, complete: u32) {
        if complete < self.first_complete {
            (self.first, self.first_complete) = (at, complete);
        }
        if invoke > self.last_invoke {
            (self.last, self.last_invoke) = (at, invoke);
        }
    }
}

impl FastPath for Register {
    fn decide(&self, history: &History<Self>, order: Option<&mut Vec<u32>>) -> Decision {
        let zones = match zones(history) {
            Ok(zones) => zones,
            Err(Decision::NotApplicable(why)) => {
                return from_nowhere(history).map_or(Decision::NotApplicable(why), Decision::Impossible);
            }
            Err(decision) => return decision,
        };
        // The forward zone that is open, by its value; forward zones end at the invocation of their last.
        let mut open: Option<u32> = (zones[0].forward()).then_some(0);
        // Where in an order the zones come: a forward zone at its end, a backward one where none is open.
        let mut sequence: Vec<(u32, u32)> = Vec::new();
        if order.is_some() && zones[0].forward() {
            sequence.push((2 * zones[0].last_invoke, 0));
        }
        for (place, value) in boundaries(&zones, history.order.len()) {
            let zone = &zones[value as usize];
            if zone.forward() {
                if place == zone.first_complete {
                    if let Some(other) = open {
                        return Decision::Impossible(conflict(self, history, &zones, other, value));
                    }
                    open = Some(value);
                    if order.is_some() {
                        sequence.push((2 * zone.last_invoke, value));
                    }
                } else {
                    open = None;
                }
            } else {
                let around = open.map(|other| (other, zones[other as usize].last_invoke));
                if let Some((other, end)) = around
                    && zone.first_complete < end
                {
                    return Decision::Impossible(conflict(self, history, &zones, other, value));
                }
                if order.is_some() {
                    sequence.push((around.map_or(2 * place, |(_, end)| 2 * end + 1), value));
                }
            }
        }
        if let Some(order) = order {
            sequence.sort_unstable();
            write_order(history, zones.len(), &sequence, order);
        }
        Decision::Linearizable
    }
}

/// Bounds of zones, in order: the first completion of each forward zone, the last invocation of every zone.
fn boundaries(zones: &[Zone], events: usize) -> impl Iterator<Item = (u32, u32)> {
    // By place, the value plus one; 0 for no boundary. A place is one event of one operation of one value.
    let mut at = vec![0_u32; events + 1];
    for (value, zone) in (0_u32..).zip(zones) {
        if zone.first_complete == NEVER || zone.write == NONE && value != 0 {
            continue;
        }
        at[zone.last_invoke as usize] = value + 1;
        if zone.forward() {
            at[zone.first_complete as usize] = value + 1;
        }
    }
    // What is before the history was complete when it began.
    (0_u32..).zip(at).skip(1).filter(|(_, value)| *value != 0).map(|(place, value)| (place, value - 1))
}

fn value_of(op: &RegisterOp, ret: Option<RegisterRet>) -> Option<u32> {
    match (*op, ret) {
        (RegisterOp::Write(value), _) | (RegisterOp::Read, Some(RegisterRet::Value(value))) => Some(value),
        _ => None,
    }
}

/// Collects the operations of each value; an early decision where there is none to collect.
fn zones(history: &History<Register>) -> Result<Vec<Zone>, Decision> {
    let mut zones = vec![Zone::FIRST_VALUE];
    for (at, operation) in (0_u32..).zip(&history.list) {
        if matches!(operation.op, RegisterOp::Cas(..)) {
            return Err(Decision::NotApplicable("there are compare-and-sets"));
        }
        let Some(value) = value_of(&operation.op, operation.ret) else { continue };
        if value as usize >= zones.len() {
            // Values are numbered as they appear, so this grows by one; others are only slower.
            if value as usize > 4 * history.len() + 1024 {
                return Err(Decision::NotApplicable("values are not numbered densely"));
            }
            zones.resize(value as usize + 1, Zone::EMPTY);
        }
        let zone = &mut zones[value as usize];
        if operation.op != RegisterOp::Read {
            if zone.write != NONE || value == 0 {
                return Err(Decision::NotApplicable("a value is written more than once"));
            }
            zone.write = at;
            if !operation.certain() {
                // Its completion bounds nothing, and its invocation only if somebody read it: see below.
                continue;
            }
        }
        let complete = if operation.certain() { operation.complete + 1 } else { NEVER };
        zone.extend(at, operation.invoke + 1, complete);
    }
    for (value, zone) in zones.iter_mut().enumerate().skip(1) {
        if zone.first == NONE {
            continue;
        }
        let Some(write) = history.list.get(zone.write as usize) else {
            return Err(Decision::Impossible(never_written(history, zone.first)));
        };
        if write.invoke + 1 > zone.first_complete {
            return Err(Decision::Impossible(read_before_write(history, zone.first, zone.write)));
        }
        debug_assert!(value > 0);
        zone.extend(zone.write, write.invoke + 1, NEVER);
    }
    Ok(zones)
}

/// Lists the operations zone by zone: first the write, then the reads as they were invoked.
fn write_order(history: &History<Register>, count: usize, sequence: &[(u32, u32)], order: &mut Vec<u32>) {
    // Reads of one value as a list through the operations, in order of invocation.
    let mut heads = vec![NONE; count];
    let mut next = vec![NONE; history.len()];
    for (at, operation) in (0..history.len() as u32).zip(&history.list).rev() {
        if operation.op == RegisterOp::Read
            && let Some(value) = value_of(&operation.op, operation.ret)
        {
            next[at as usize] = heads[value as usize];
            heads[value as usize] = at;
        }
    }
    let mut writes = vec![NONE; count];
    for (at, operation) in (0_u32..).zip(&history.list) {
        if let RegisterOp::Write(value) = operation.op {
            writes[value as usize] = at;
        }
    }
    for &(_, value) in sequence {
        order.extend(Some(writes[value as usize]).filter(|&write| write != NONE));
        let mut at = heads[value as usize];
        while at != NONE {
            order.push(at);
            at = next[at as usize];
        }
    }
}

/// A read of a value that no operation had begun to write by then is refuted without a search.
fn from_nowhere(history: &History<Register>) -> Option<Conflict> {
    let mut begun: FxHashMap<u32, u32> = FxHashMap::default();
    for (at, operation) in (0_u32..).zip(&history.list) {
        if let RegisterOp::Write(value) | RegisterOp::Cas(_, value) = operation.op {
            begun.entry(value).or_insert(at);
        }
    }
    (0_u32..).zip(&history.list).find_map(|(at, operation)| {
        let Some(RegisterRet::Value(value @ 1..)) = operation.ret else { return None };
        match begun.get(&value) {
            None => Some(never_written(history, at)),
            Some(&giver) if history.list[giver as usize].invoke > operation.complete => {
                Some(read_before_write(history, at, giver))
            }
            Some(_) => None,
        }
    })
}

fn never_written(history: &History<Register>, read: u32) -> Conflict {
    let sentence = format!(
        "process {} read by {} a value that no process ever wrote",
        history.process(read),
        history.completed(read),
    );
    Conflict::new(vec![read], read, sentence)
}

fn read_before_write(history: &History<Register>, read: u32, write: u32) -> Conflict {
    let sentence = format!(
        "process {} had read the value by {}, but process {} began to write it only at {}",
        history.process(read),
        history.completed(read),
        history.process(write),
        history.invoked(write),
    );
    Conflict::new(vec![read, write], read, sentence)
}

fn conflict(
    model: &Register,
    history: &History<Register>,
    zones: &[Zone],
    around: u32,
    inside: u32,
) -> Conflict {
    let (a, b) = (&zones[around as usize], &zones[inside as usize]);
    let name = |value: u32| model.values.name(value);
    let describe = |at: u32| {
        let verb = if history.list[at as usize].op == RegisterOp::Read { "reading" } else { "writing" };
        format!("process {} {verb} it", history.process(at))
    };
    let held = if a.first == NONE {
        format!("the register had {} from the beginning", name(around))
    } else {
        format!("the register had {} by {} ({})", name(around), history.completed(a.first), describe(a.first))
    };
    let held = format!("{held} and still at {} ({})", history.invoked(a.last), describe(a.last));
    let (had, first) = (name(inside), describe(b.first));
    let (from, by) = (history.invoked(b.last), history.completed(b.first));
    let sentence = if b.forward() {
        format!(
            "{held}, although in between it also had {had}: by {by} ({first}) and still at {from} ({})",
            describe(b.last),
        )
    } else {
        format!(
            "{held}, although in between, from {from} to {by}, it must have had {had} for a moment ({first})"
        )
    };
    let core =
        [a.write, a.first, a.last, b.write, b.first, b.last].into_iter().filter(|&at| at != NONE).collect();
    let stuck = if a.last_invoke > b.last_invoke { a.last } else { b.last };
    Conflict::new(core, stuck, sentence)
}
