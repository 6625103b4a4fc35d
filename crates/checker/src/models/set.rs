//! A set that only grows, and is read as a whole. It starts empty.
//!
//! # The algorithm
//! Elements do not leave the set, so be lazy: an element comes in when it must. At the completion of an
//! addition its element must be in; at the completion of a read exactly the elements that it saw. A read that
//! saw too little to come after some addition must take effect before that addition does, which is at the
//! latest at the addition's completion: reads that are open then and lack its element take effect right
//! there, the smaller before the larger; and likewise before another read that saw it.
//!
//! *Exact.* Keep the least set. Whatever an order does from a greater set it can do from a smaller one, as
//! long as additions that could come in still can, and they can until their completion; so it is never better
//! to let an element in early. A read that takes effect needs the set to be contained in what it saw, and
//! every element that is missing to have been invoked; then the set becomes what it saw.
//!
//! Time: the sum of the sizes of all reads, times the operations open at once. The core of a violation has
//! its own argument: [conflict].

pub mod conflict;
mod operation;

use super::{Codec, Refusal, Values};
use crate::model::{Decision, Effect, FastPath, History, Model, stuck_conflict};
pub use operation::SetOp;

use conflict::conflict;

/// A set that only grows.
#[derive(Clone, Debug, Default)]
pub struct Set {
    pub values: Values,
}

/// Elements of a set that are written out.
const SHOWN_MAX: usize = 8;

impl Model for Set {
    /// The elements, ascending.
    type State = Vec<u32>;
    type Op = SetOp;
    /// What a read saw, ascending; nothing for an addition.
    type Ret = Vec<u32>;

    fn start(&self) -> Vec<u32> {
        Vec::new()
    }

    fn step(&self, state: &Vec<u32>, op: &SetOp, ret: Option<&Vec<u32>>) -> Option<Vec<u32>> {
        match op {
            SetOp::Add(element) => {
                let mut state = state.clone();
                if let Err(place) = state.binary_search(element) {
                    state.insert(place, *element);
                }
                Some(state)
            }
            SetOp::Read => ret.is_none_or(|ret| ret == state).then(|| state.clone()),
        }
    }

    fn effect(&self, op: &SetOp, _ret: Option<&Vec<u32>>) -> Effect {
        if *op == SetOp::Read { Effect::Pure } else { Effect::Other }
    }

    fn doomed(&self, state: &Vec<u32>, op: &SetOp, ret: Option<&Vec<u32>>) -> bool {
        let lacks = |saw: &Vec<u32>| state.iter().any(|element| saw.binary_search(element).is_err());
        *op == SetOp::Read && ret.is_some_and(lacks)
    }

    /// Elements that no process adds in the part are left out of what its reads saw, if anybody adds
    /// anything: the history of some elements only.
    fn simplify(&self, mut part: History<Self>) -> History<Self> {
        let added: Vec<u32> = part
            .list
            .iter()
            .filter_map(|operation| match operation.op {
                SetOp::Add(element) => Some(element),
                SetOp::Read => None,
            })
            .collect();
        if !added.is_empty() {
            for saw in part.list.iter_mut().filter_map(|operation| operation.ret.as_mut()) {
                saw.retain(|element| added.contains(element));
            }
        }
        part
    }

    fn show(&self, op: &SetOp, ret: Option<&Vec<u32>>) -> String {
        match (op, ret) {
            (SetOp::Add(element), _) => format!("add {}", self.values.name(*element)),
            (SetOp::Read, Some(saw)) => format!("read → {}", self.show_state(saw)),
            (SetOp::Read, None) => "read".to_owned(),
        }
    }

    fn show_state(&self, state: &Vec<u32>) -> String {
        let names = |some: &[u32]| {
            some.iter().map(|element| self.values.name(*element)).collect::<Vec<_>>().join(", ")
        };
        match state.len().checked_sub(SHOWN_MAX) {
            Some(more) if more > 0 => format!("{{{}, and {more} more}}", names(&state[..SHOWN_MAX])),
            _ => format!("{{{}}}", names(state)),
        }
    }
}

impl Codec for Set {
    fn invoke(&mut self, _process: u64, f: &str, value: &str) -> Result<SetOp, Refusal> {
        match f {
            "add" => self.values.number(value).map(SetOp::Add).ok_or(Refusal::WrongValue("a JSON value")),
            "read" => Ok(SetOp::Read),
            _ => Err(Refusal::UnknownOperation("add and read")),
        }
    }

    fn complete(&mut self, op: &SetOp, value: &str) -> Result<Vec<u32>, Refusal> {
        if matches!(op, SetOp::Add(_)) {
            return Ok(Vec::new());
        }
        let wrong = Refusal::WrongValue("a list of elements");
        let Ok(elements) = serde_json::from_str::<Vec<&serde_json::value::RawValue>>(value) else {
            return Err(wrong);
        };
        let numbers = elements.iter().map(|element| self.values.number(element.get()));
        let mut numbers: Vec<u32> = numbers.collect::<Option<_>>().ok_or(wrong)?;
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }
}

/// The least set so far, and what could be in it.
struct Sweep<'a> {
    history: &'a History<Set>,
    /// By element: an addition of it that was invoked, and whether it is in.
    invoked: Vec<Option<u32>>,
    within: Vec<bool>,
    size: usize,
    /// Reads that are open and have not taken effect.
    open: Vec<u32>,
    order: Option<&'a mut Vec<u32>>,
}

impl FastPath for Set {
    fn decide(&self, history: &History<Self>, order: Option<&mut Vec<u32>>) -> Decision {
        let elements = history.list.iter().flat_map(|operation| match (&operation.op, &operation.ret) {
            (SetOp::Add(element), _) => std::slice::from_ref(element).iter(),
            (SetOp::Read, Some(saw)) => saw.iter(),
            (SetOp::Read, None) => [].iter(),
        });
        let count = elements.max().map_or(0, |greatest| *greatest as usize + 1);
        let mut sweep = Sweep {
            history,
            invoked: vec![None; count],
            within: vec![false; count],
            size: 0,
            open: Vec::new(),
            order,
        };
        for &event in &history.order {
            let at = event >> 1;
            let operation = &history.list[at as usize];
            let done = match (operation.op, event & 1) {
                (SetOp::Add(element), 0) => {
                    sweep.invoked[element as usize].get_or_insert(at);
                    true
                }
                (SetOp::Add(element), _) => sweep.complete_add(at, element),
                (SetOp::Read, 0) => {
                    if operation.certain() {
                        sweep.open.push(at);
                    }
                    true
                }
                (SetOp::Read, _) => sweep.take_effect(at),
            };
            if !done {
                let found = conflict(&self.values, history, count);
                return Decision::Impossible(found.unwrap_or_else(|| stuck_conflict(self, history, at)));
            }
        }
        Decision::Linearizable
    }
}

impl Sweep<'_> {
    fn saw(&self, read: u32) -> &[u32] {
        self.history.list[read as usize].ret.as_deref().unwrap_or(&[])
    }

    fn let_in(&mut self, element: u32, by: u32) {
        if !self.within[element as usize] {
            self.within[element as usize] = true;
            self.size += 1;
            // Its other additions come in at their completions, where they change nothing.
            if let Some(order) = self.order.as_deref_mut() {
                order.push(by);
            }
        }
    }

    fn complete_add(&mut self, at: u32, element: u32) -> bool {
        if !self.take_effect_first(&[element]) {
            return false;
        }
        let first = self.invoked[element as usize].unwrap_or(at);
        self.let_in(element, first);
        // Another addition of the same element changes nothing.
        if first != at
            && let Some(order) = self.order.as_deref_mut()
        {
            order.push(at);
        }
        true
    }

    /// Open reads that lack one of these elements take effect, the smaller before the larger.
    fn take_effect_first(&mut self, elements: &[u32]) -> bool {
        let lacks = |saw: &[u32]| elements.iter().any(|element| saw.binary_search(element).is_err());
        let mut first: Vec<u32> = self.open.iter().copied().filter(|&read| lacks(self.saw(read))).collect();
        first.sort_by_key(|&read| self.saw(read).len());
        self.open.retain(|read| !first.contains(read));
        first.into_iter().all(|read| self.put_read(read))
    }

    /// A read takes effect, unless it did already.
    fn take_effect(&mut self, read: u32) -> bool {
        let Some(place) = self.open.iter().position(|&open| open == read) else { return true };
        self.open.swap_remove(place);
        let history = self.history;
        let saw = history.list[read as usize].ret.as_deref().unwrap_or(&[]);
        self.take_effect_first(saw) && self.put_read(read)
    }

    fn put_read(&mut self, read: u32) -> bool {
        let history = self.history;
        let saw = history.list[read as usize].ret.as_deref().unwrap_or(&[]);
        let common = saw.iter().filter(|element| self.within[**element as usize]).count();
        if common < self.size {
            return false;
        }
        for &element in saw {
            match self.invoked[element as usize] {
                Some(by) => self.let_in(element, by),
                None => return false,
            }
        }
        if let Some(order) = self.order.as_deref_mut() {
            order.push(read);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{accepts, rejects};

    #[test]
    fn accepts_a_set_that_grows() {
        accepts::<Set>("1( read []) 1( add 1) 2( read [1]) 1( add 2 2( read [1]) 3( read [2,1]) 1)");
        accepts::<Set>("1( add 1 2( add 2 3( read [2]) 1) 2)");
        accepts::<Set>("1( add 1 2( read [] 1) 3( add 1) 3( read [1]) 2)");
        accepts::<Set>("1( add 1? 2( add 1 3( read [1]) 2)");
    }

    #[test]
    fn a_core_is_two_reads_and_two_additions_at_most() {
        let cores = [
            (
                "1( add 1) 2( read [])",
                "process 2 read from event 2 to event 3 and did not see 1, although process 1 had added 1 by event 1",
            ),
            (
                "2( read [1]) 1( add 1)",
                "process 2 read from event 0 to event 1 and saw 1, which process 1 began to add only at event 2",
            ),
            (
                "3( read [2] 1( add 1) 1( add 2) 3)",
                "process 3 read from event 0 to event 5 and saw 2 but not 1, although process 1 had added 1 by event 2, before \
                 process 1 began to add 2 at event 3",
            ),
            (
                "1( add 1 2( add 2 3( read [2] 4( read [1] 3) 4) 1) 2)",
                "process 3 read from event 2 to event 4 and saw 2 but not 1; process 4 read from event 3 to event 5 and saw 1 \
                 but not 2: neither can have been first",
            ),
            (
                "1( add 1? 2( read [1]) 3( read [])",
                "process 3 read from event 3 to event 4 and did not see 1, although process 2 read from event 1 to event 2 and \
                 saw it",
            ),
        ];
        for (text, sentence) in cores {
            let conflict = rejects::<Set>(text);
            assert_eq!(conflict.sentence, sentence);
            assert!((2..=4).contains(&conflict.core.len()), "{:?}", conflict.core);
        }
    }

    #[test]
    fn rejects_what_was_lost_or_never_added() {
        rejects::<Set>("1( add 1) 2( read [])");
        rejects::<Set>("2( read [1])");
        rejects::<Set>("1( add 1 2( add 2 3( read [2]) 3( read [1]) 1) 2)");
        rejects::<Set>("1( add 1 2( add 2 3( read [2] 4( read [1] 3) 4) 1) 2)");
        rejects::<Set>("1( add 1? 2( read [1]) 3( read [])");
    }
}
