//! A counter that is added to and read. It starts as 0.
//!
//! # The algorithm
//! It applies where all amounts other than 0 are the same; amounts that differ make it a question of which of
//! them sum up to a value, and the search decides. Sweep in order of time, and keep how many additions have taken
//! effect, no more than must have: an addition at its completion, and before a read completes as many as it saw,
//! earliest deadline first, indeterminate ones last.
//!
//! *Exact.* The count at any moment is the least of all orders that explain the history so far (laziness), and
//! taking additions in order of deadline loses nothing (they all do the same; exchange them, as in
//! [`Mutex`](super::Mutex)). So a read that began when there were more than it saw fits nowhere, and one that
//! ended when there were too few to be had fits nowhere. Any other fits: the count was not above what it saw when
//! it began, not below when it ended, and grew by one at a time.
//!
//! O(n log n) time, with a logarithm to base 64 (see `pending.rs`), and O(n) memory.
//!
//! # The core of a violation
//! Let an earlier read that saw v be complete before a later one begins. All additions that began and ended
//! between them are in what the later one sees, so it cannot have seen less than v plus their sum; and only those
//! that were open at some moment from the beginning of the earlier to the end of the later read can have been
//! added. The nearest earlier read against which the later one is wrong (or the beginning, when the counter was
//! 0) and these additions are the core.

use super::pending::Pending;
use super::{Refusal, Vocabulary, integer};
use crate::model::{Conflict, Decision, History, Model, Role, Special};
use rustc_hash::FxHashMap;

/// A counter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CounterOp {
    Add(i64),
    Read,
}

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

    fn role(&self, op: &CounterOp, _ret: Option<&Option<i64>>) -> Role {
        if matches!(op, CounterOp::Read | CounterOp::Add(0)) { Role::Pure } else { Role::Other }
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

impl Vocabulary for Counter {
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

impl Special for Counter {
    fn decide(&self, history: &History<Self>, order: Option<&mut Vec<u32>>) -> Decision {
        let Some(amount) = amount(history) else { return Decision::Unfit("the amounts added differ") };
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
                // A read that nobody saw the result of says nothing.
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

/// Finds the nearest earlier read against which this one is wrong; see the top of the file.
fn conflict(history: &History<Counter>, stuck: u32) -> Conflict {
    let later = &history.list[stuck as usize];
    let saw = later.ret.flatten().unwrap_or(0);
    let by = |at: u32| match history.list[at as usize].op {
        CounterOp::Add(by) => by,
        CounterOp::Read => 0,
    };
    // Walking back from the later read: additions that began and ended in between, and those that only overlap.
    let (mut within, mut sum_within) = (Vec::new(), 0_i64);
    let (mut maybe, mut sum_maybe) = (Vec::new(), 0_i64);
    for &event in &history.order[later.invoke as usize..later.complete as usize] {
        if event & 1 == 0 {
            maybe.push(event >> 1);
        }
    }
    for &event in &history.order[..later.invoke as usize] {
        if event & 1 == 0 && history.list[(event >> 1) as usize].complete > later.invoke {
            maybe.push(event >> 1);
        }
    }
    maybe.retain(|&at| by(at) != 0);
    sum_maybe += maybe.iter().map(|&at| by(at)).sum::<i64>();
    // The greatest lower bound so far seen for a read whose window reaches back beyond its own invocation.
    let mut open_reads: Vec<(u32, i64)> = Vec::new();
    for &event in history.order[..later.invoke as usize].iter().rev() {
        let at = event >> 1;
        let operation = &history.list[at as usize];
        let begins = event & 1 == 0;
        match (operation.op, operation.ret) {
            (CounterOp::Add(amount), _) if amount != 0 => {
                if begins && operation.complete < later.invoke {
                    within.push(at);
                    sum_within += amount;
                } else if !begins {
                    maybe.push(at);
                    sum_maybe += amount;
                }
            }
            (CounterOp::Read, Some(Some(value))) if !begins => {
                if value.saturating_add(sum_within) > saw {
                    return too_little(history, stuck, Some(at), within);
                }
                open_reads.push((at, value));
            }
            (CounterOp::Read, Some(Some(value))) => {
                let complete = open_reads.iter().any(|(read, _)| *read == at);
                open_reads.retain(|(read, _)| *read != at);
                if complete && value.saturating_add(sum_maybe) < saw {
                    return too_much(history, stuck, Some(at), maybe);
                }
            }
            _ => {}
        }
    }
    if sum_within > saw {
        return too_little(history, stuck, None, within);
    }
    if sum_maybe < saw {
        return too_much(history, stuck, None, maybe);
    }
    let sentence = format!(
        "process {} read {saw} by {}, which is no sum of additions",
        history.process(stuck),
        history.completed(stuck)
    );
    Conflict::new(vec![stuck], stuck, sentence)
}

fn too_little(history: &History<Counter>, stuck: u32, earlier: Option<u32>, within: Vec<u32>) -> Conflict {
    let sentence = format!(
        "process {} read {} from {} on, although {} and {} added to it before that read began",
        history.process(stuck),
        saw(history, stuck),
        history.invoked(stuck),
        since(history, earlier),
        additions(within.len(), "was", "were"),
    );
    Conflict::new(within.into_iter().chain(earlier).chain([stuck]).collect(), stuck, sentence)
}

fn too_much(history: &History<Counter>, stuck: u32, earlier: Option<u32>, maybe: Vec<u32>) -> Conflict {
    let sentence = format!(
        "process {} read {} by {}, although {} and only {} under way from then until that read ended",
        history.process(stuck),
        saw(history, stuck),
        history.completed(stuck),
        since(history, earlier),
        additions(maybe.len(), "was", "were"),
    );
    Conflict::new(maybe.into_iter().chain(earlier).chain([stuck]).collect(), stuck, sentence)
}

fn saw(history: &History<Counter>, read: u32) -> i64 {
    history.list[read as usize].ret.flatten().unwrap_or(0)
}

fn since(history: &History<Counter>, earlier: Option<u32>) -> String {
    match earlier {
        Some(read) => format!(
            "process {} had read {} (from {} to {})",
            history.process(read),
            saw(history, read),
            history.invoked(read),
            history.completed(read)
        ),
        None => "the counter began as 0".to_owned(),
    }
}

fn additions(count: usize, one: &str, many: &str) -> String {
    if count == 1 { format!("1 addition {one}") } else { format!("{count} additions {many}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{accepts, rejects, undecided_specially};

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
            "process 3 read 2 from event 8 on, although process 2 had read 2 (from event 4 to event 5) and 1 addition \
             was added to it before that read began"
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
        undecided_specially::<Counter>("1( add 1) 1( add 2)");
        accepts::<Counter>("1( add 1 2( add 2 3( read 2) 1) 2)");
        rejects::<Counter>("1( add 1 2( add 2 3( read 2) 4( read 1) 1) 2)");
    }
}
