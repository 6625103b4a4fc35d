//! A counter that is added to and read. It starts as 0.
//!
//! # The algorithm
//! It applies where all amounts other than 0 are the same; amounts that differ make it a question of which of
//! them sum up to a value, and the search decides. Sweep in order of time, and keep how many additions have
//! taken effect, no more than must have: an addition at its completion, and before a read completes as many
//! as it saw, earliest deadline first, indeterminate ones last.
//!
//! *Exact.* The count at any moment is the least of all orders that explain the history so far (laziness),
//! and taking additions in order of deadline loses nothing (they all do the same; exchange them, as in
//! [`Mutex`](super::Mutex)). So a read that began when there were more than it saw fits nowhere, and one that
//! ended when there were too few to be had fits nowhere. Any other fits: the count was not above what it saw
//! when it began, not below when it ended, and grew by one at a time.
//!
//! O(n log n) time, with a logarithm to base 64 (see `pending.rs`), and O(n) memory.

pub mod conflict;
mod operation;

use super::pending::Pending;
use super::{Codec, Refusal, integer};
use crate::model::{Decision, Effect, FastPath, History, Model};
pub use operation::CounterOp;

use conflict::conflict;
use rustc_hash::FxHashMap;

/// A counter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter;

impl Model for Counter {
    type State = i64;
    type Op = CounterOp;
    /// What a read saw; none for an addition.
    type Ret = Option<i64>;

    fn start(&self) -> i64 {
        0
    }

    fn step(&self, state: &i64, op: &CounterOp, ret: Option<&Option<i64>>) -> Option<i64> {
        match op {
            CounterOp::Add(amount) => Some(state.saturating_add(*amount)),
            CounterOp::Read => ret.is_none_or(|ret| *ret == Some(*state)).then_some(*state),
        }
    }

    fn effect(&self, op: &CounterOp, _ret: Option<&Option<i64>>) -> Effect {
        if matches!(op, CounterOp::Read | CounterOp::Add(0)) { Effect::Pure } else { Effect::Other }
    }

    fn doomed(&self, state: &i64, op: &CounterOp, ret: Option<&Option<i64>>) -> bool {
        *op == CounterOp::Read && ret.copied().flatten().is_some_and(|value| value < *state)
    }

    fn starts(&self, part: &History<Self>) -> Vec<i64> {
        let first = part.list.iter().find_map(|operation| operation.ret.flatten());
        [0].into_iter().chain(first).collect()
    }

    fn show(&self, op: &CounterOp, ret: Option<&Option<i64>>) -> String {
        match (op, ret.copied().flatten()) {
            (CounterOp::Add(amount), _) => format!("add {amount}"),
            (CounterOp::Read, Some(value)) => format!("read → {value}"),
            (CounterOp::Read, None) => "read".to_owned(),
        }
    }
}

impl Codec for Counter {
    fn invoke(&mut self, _process: u64, f: &str, value: &str) -> Result<CounterOp, Refusal> {
        match f {
            "add" => match integer(value) {
                Some(amount) if amount >= 0 => Ok(CounterOp::Add(amount)),
                _ => Err(Refusal::WrongValue("a whole number, not negative")),
            },
            "read" => Ok(CounterOp::Read),
            _ => Err(Refusal::UnknownOperation("add and read")),
        }
    }

    fn complete(&mut self, op: &CounterOp, value: &str) -> Result<Option<i64>, Refusal> {
        match op {
            CounterOp::Add(_) => Ok(None),
            CounterOp::Read => match integer(value) {
                Some(value) => Ok(Some(value)),
                None => Err(Refusal::WrongValue("a whole number")),
            },
        }
    }
}

/// The amount of all additions that change anything; none if there are several. Without any, 1.
fn amount(history: &History<Counter>) -> Option<i64> {
    let mut amount = None;
    for operation in &history.list {
        match operation.op {
            CounterOp::Add(by) if by != 0 && amount.is_some_and(|amount| amount != by) => return None,
            CounterOp::Add(by) if by != 0 => amount = Some(by),
            _ => {}
        }
    }
    Some(amount.unwrap_or(1))
}

impl FastPath for Counter {
    fn decide(&self, history: &History<Self>, order: Option<&mut Vec<u32>>) -> Decision {
        let Some(amount) = amount(history) else {
            return Decision::NotApplicable("the amounts added differ");
        };
        let mut sweep = Sweep {
            events: &history.order,
            count: 0,
            pending: Pending::new(history.order.len()),
            order,
            waiting: FxHashMap::default(),
        };
        for (place, &event) in history.order.iter().enumerate() {
            let at = event >> 1;
            let operation = &history.list[at as usize];
            let begins = event & 1 == 0;
            match (operation.op, operation.ret) {
                (CounterOp::Add(0), _) => {
                    if !begins {
                        sweep.put(at);
                    }
                }
                (CounterOp::Add(_), _) if begins => sweep.pending.push(at, operation.complete),
                (CounterOp::Add(_), _) => {
                    if sweep.pending.take_completing(place as u32) {
                        sweep.add(at);
                    }
                }
                (CounterOp::Read, Some(Some(value))) => {
                    let fits = value >= 0 && value % amount == 0;
                    let done = if !fits {
                        false
                    } else if begins {
                        sweep.begin_read(at, value / amount)
                    } else {
                        sweep.reach(value / amount)
                    };
                    if !done {
                        return Decision::Impossible(conflict(history, at));
                    }
                }
                // A read of unknown result says nothing.
                (CounterOp::Read, _) => {}
            }
        }
        Decision::Linearizable
    }
}

struct Sweep<'a> {
    events: &'a [u32],
    /// How many additions have taken effect.
    count: i64,
    pending: Pending,
    order: Option<&'a mut Vec<u32>>,
    /// Reads that wait for the count to reach what they saw; kept only if an order is wanted.
    waiting: FxHashMap<i64, Vec<u32>>,
}

impl Sweep<'_> {
    fn put(&mut self, at: u32) {
        if let Some(order) = self.order.as_deref_mut() {
            order.push(at);
        }
    }

    fn add(&mut self, at: u32) {
        self.count += 1;
        if let Some(order) = self.order.as_deref_mut() {
            order.push(at);
            order.extend(self.waiting.remove(&self.count).into_iter().flatten());
        }
    }

    fn begin_read(&mut self, at: u32, count: i64) -> bool {
        if self.order.is_some() {
            if count == self.count {
                self.put(at);
            } else {
                self.waiting.entry(count).or_default().push(at);
            }
        }
        count >= self.count
    }

    fn reach(&mut self, count: i64) -> bool {
        while self.count < count {
            match self.pending.take() {
                Some(taken) => self.add(taken.operation(self.events)),
                None => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{accepts, rejects, undecided_by_fast_path};

    #[test]
    fn accepts_what_was_added() {
        accepts::<Counter>("1( add 1) 2( read 1) 1( add 1 2( read 1) 1) 2( read 2)");
        accepts::<Counter>("1( add 5) 2( read 5) 3( add 0) 2( read 5)");
        // A read between two additions that are both open, in either order.
        accepts::<Counter>("1( add 1 2( add 1 3( read 1 1) 2) 3)");
    }

    #[test]
    fn rejects_too_little() {
        let conflict = rejects::<Counter>("1( add 1) 1( add 1) 2( read 2) 1( add 1) 3( read 2)");
        assert_eq!(conflict.core, [2, 3, 4]);
        assert_eq!(
            conflict.sentence,
            "process 3 read 2 from event 8 on, although before that read began process 2 had read 2 (from event 4 to \
             event 5) and 1 addition was added to it"
        );
        rejects::<Counter>("1( add 1) 2( read 0)");
    }

    #[test]
    fn rejects_too_much() {
        let conflict = rejects::<Counter>("1( add 1) 2( read 1) 3( read 3) 1( add 1)");
        assert_eq!(conflict.core, [1, 2]);
        rejects::<Counter>("2( read 1)");
        rejects::<Counter>("1( add 2) 2( read 1)");
        rejects::<Counter>("2( read -1)");
    }

    #[test]
    fn an_indeterminate_addition_counts_if_it_must() {
        accepts::<Counter>("1( add 1? 2( read 1) 3( read 1)");
        accepts::<Counter>("1( add 1? 2( read 0) 3( read 1)");
        rejects::<Counter>("1( add 1? 2( read 1) 3( read 0)");
        rejects::<Counter>("1( add 1? 2( read 2)");
    }

    #[test]
    fn different_amounts_are_left_to_the_search() {
        undecided_by_fast_path::<Counter>("1( add 1) 1( add 2)");
        accepts::<Counter>("1( add 1 2( add 2 3( read 2) 1) 2)");
        rejects::<Counter>("1( add 1 2( add 2 3( read 2) 4( read 1) 1) 2)");
    }
}
