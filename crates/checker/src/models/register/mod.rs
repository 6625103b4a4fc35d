//! A register that is read and written, and one with compare-and-set. It starts as null, or with a given
//! value. Without repeated values and comparisons it is decided by [zones], O(n); else by the search.

pub mod zones;

use super::{Codec, EventRefusal, Values};
use crate::model::{Effect, Model};

/// A register. `with_cas` only says which operations its codec reads.
#[derive(Clone, Debug, Default)]
pub struct Register {
    pub with_cas: bool,
    pub values: Values,
}

impl Register {
    /// The register that starts with this value, as JSON.
    pub fn starting_with(initial: Option<&str>) -> Register {
        let values = initial.map_or_else(Values::default, Values::starting_with);
        Register { with_cas: false, values }
    }

    /// The register that has compare-and-set too.
    pub fn with_cas() -> Register {
        Register { with_cas: true, values: Values::default() }
    }
}

/// Values are numbers given out by [`Values`]; 0 is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegisterOp {
    Read,
    Write(u32),
    Cas(u32, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegisterRet {
    Value(u32),
    Done,
    /// A compare-and-set found another value than it compared with.
    Mismatch,
}

impl Model for Register {
    type State = u32;
    type Op = RegisterOp;
    type Ret = RegisterRet;

    fn start(&self) -> u32 {
        0
    }

    fn step(&self, state: &u32, op: &RegisterOp, ret: Option<&RegisterRet>) -> Option<u32> {
        match (*op, ret) {
            (RegisterOp::Read, Some(RegisterRet::Value(value))) => (value == state).then_some(*state),
            (RegisterOp::Read, _) => Some(*state),
            (RegisterOp::Write(value), _) => Some(value),
            (RegisterOp::Cas(from, _), Some(RegisterRet::Mismatch)) => (from != *state).then_some(*state),
            (RegisterOp::Cas(from, to), Some(_)) => (from == *state).then_some(to),
            // Where it compares with another value it may have happened too, and changed nothing.
            (RegisterOp::Cas(from, to), None) => Some(if from == *state { to } else { *state }),
        }
    }

    fn effect(&self, op: &RegisterOp, ret: Option<&RegisterRet>) -> Effect {
        match (*op, ret) {
            (RegisterOp::Read, Some(RegisterRet::Value(value))) => Effect::Read(*value),
            (RegisterOp::Read, _) => Effect::Pure,
            (RegisterOp::Write(value), _) => Effect::Write(value),
            (RegisterOp::Cas(from, _), Some(RegisterRet::Mismatch)) => Effect::Differs(from),
            (RegisterOp::Cas(from, to), _) => Effect::Swap(from, to),
        }
    }

    fn value(&self, state: &u32) -> Option<u32> {
        Some(*state)
    }

    fn show(&self, op: &RegisterOp, ret: Option<&RegisterRet>) -> String {
        let name = |value: u32| self.values.name(value);
        let text = match *op {
            RegisterOp::Read => "read".to_owned(),
            RegisterOp::Write(value) => format!("write {}", name(value)),
            RegisterOp::Cas(from, to) => format!("cas {} {}", name(from), name(to)),
        };
        match ret {
            Some(RegisterRet::Value(value)) => format!("{text} → {}", name(*value)),
            Some(RegisterRet::Mismatch) => format!("{text} → mismatch"),
            Some(RegisterRet::Done) | None => text,
        }
    }

    fn show_state(&self, state: &u32) -> String {
        self.values.name(*state)
    }
}

impl Codec for Register {
    fn invoke(&mut self, _process: u64, f: &str, value: &str) -> Result<RegisterOp, EventRefusal> {
        match f {
            "read" => Ok(RegisterOp::Read),
            "write" => {
                let number = self.values.number(value).ok_or(EventRefusal::WrongValue("a JSON value"))?;
                Ok(RegisterOp::Write(number))
            }
            "cas" if self.with_cas => {
                let wrong = EventRefusal::WrongValue("[from, to]");
                let Ok([from, to]) = serde_json::from_str::<[&serde_json::value::RawValue; 2]>(value) else {
                    return Err(wrong);
                };
                match (self.values.number(from.get()), self.values.number(to.get())) {
                    (Some(from), Some(to)) => Ok(RegisterOp::Cas(from, to)),
                    _ => Err(wrong),
                }
            }
            _ if self.with_cas => Err(EventRefusal::UnknownOperation("read, write and cas")),
            _ => Err(EventRefusal::UnknownOperation("read and write")),
        }
    }

    fn complete(&mut self, op: &RegisterOp, value: &str) -> Result<RegisterRet, EventRefusal> {
        match op {
            RegisterOp::Read => {
                let number = self.values.number(value).ok_or(EventRefusal::WrongValue("a JSON value"))?;
                Ok(RegisterRet::Value(number))
            }
            RegisterOp::Write(_) | RegisterOp::Cas(..) => Ok(RegisterRet::Done),
        }
    }

    fn fail(&mut self, op: &RegisterOp, error: &str) -> Option<RegisterRet> {
        // Errors begin with a code; what follows is for people.
        let code = error.split([':', ' ']).next();
        (matches!(op, RegisterOp::Cas(..)) && code == Some("mismatch")).then_some(RegisterRet::Mismatch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{accepts, accepts_with, rejects, rejects_with, undecided_by_fast_path};

    #[test]
    fn only_a_register_with_cas_knows_it() {
        let cas = |mut register: Register| register.invoke(1, "cas", "[1, 2]").map(drop);
        assert_eq!(cas(Register::default()), Err(EventRefusal::UnknownOperation("read and write")));
        assert_eq!(cas(Register::with_cas()), Ok(()));
    }

    #[test]
    fn accepts_reads_of_the_last_write() {
        accepts::<Register>("1( read null) 1( write 1) 2( read 1) 1( write 2 2( read 1) 3( read 2) 1)");
        accepts::<Register>("1( write 1 2( write 2 3( read 1) 3( read 2) 1) 2)");
        accepts::<Register>("1( write \"x\") 2( read \"x\")");
    }

    #[test]
    fn rejects_a_value_that_comes_back() {
        let conflict = rejects::<Register>("1( write 1) 1( write 2) 2( read 1)");
        assert_eq!(
            conflict.sentence,
            "the register had 1 by event 1 (process 1 writing it) and still at event 4 (process 2 reading it), although \
             in between, from event 2 to event 3, it must have had 2 for a moment (process 1 writing it)"
        );
        assert_eq!(conflict.core, [0, 1, 2]);
        rejects::<Register>("1( write 1) 2( read null)");
        rejects::<Register>("1( write 1 2( write 2 3( read 1) 3( read 2) 3( read 1) 1) 2)");
        rejects::<Register>("1( write 1 2( write 2 3( read 1) 4( read 2) 3( read 1 4( read 2) 3) 1) 2)");
    }

    #[test]
    fn rejects_a_value_from_nowhere() {
        assert_eq!(rejects::<Register>("1( write 1) 2( read 2)").core, [1]);
        assert_eq!(rejects::<Register>("2( read 1) 1( write 1)").core, [0, 1]);
    }

    #[test]
    fn an_indeterminate_write_may_show_late_or_never() {
        accepts::<Register>("1( write 1? 2( write 2) 2( read 2) 2( read 1)");
        accepts::<Register>("1( write 1? 2( read null)");
        rejects::<Register>("1( write 1? 2( write 2) 2( read 1) 2( read 2)");
        accepts::<Register>("1( write 1? 2( write 2 2) 3( read 1)");
        // It cannot show before it began.
        rejects::<Register>("2( read 1) 1( write 1?");
    }

    #[test]
    fn repeated_values_are_left_to_the_search() {
        undecided_by_fast_path::<Register>("1( write 1) 1( write 1)");
        accepts::<Register>("1( write 1) 1( write 2) 1( write 1) 2( read 1)");
        rejects::<Register>("1( write 1) 1( write 2) 2( read 1) 1( write 1)");
        accepts::<Register>("1( write 1) 1( write null) 1( read null)");
    }

    #[test]
    fn compare_and_set_compares() {
        let accepts = |text| accepts_with(Register::with_cas(), text);
        let rejects = |text| rejects_with(Register::with_cas(), text);
        accepts("1( cas [null,1]) 2( cas [1,2]) 1( read 2)");
        rejects("1( write 1) 2( cas [2,3])");
        accepts("1( write 1) 2( cas [2,3]!mismatch");
        rejects("1( write 1) 2( cas [1,3]!mismatch");
        // Any other failure says nothing about the value.
        accepts("1( write 1) 2( cas [1,3]!timeout 1( read 1)");
        rejects("1( write 1) 2( cas [1,3]!timeout 1( read 3)");
        accepts("1( write 1) 2( cas [1,3]? 1( read 1) 1( read 3)");
        rejects("1( write 1) 2( cas [1,3]? 1( read 3) 1( read 1)");
    }
}
