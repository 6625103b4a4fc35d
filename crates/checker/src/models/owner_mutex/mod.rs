//! A mutex that only its holder releases, and one whose every acquisition carries a greater token.
//!
//! # The algorithm
//! It applies where no process goes on after an indeterminate operation, as in Jepsen; else the search
//! decides. Then all operations of a process but the last are certain. O(n) time and memory.
//!
//! *Certain holds.* Between the completion of its acquire and the invocation of its release a process holds
//! the mutex for certain, whatever the order. So if two certain holds meet, there is no order. Else let each
//! acquire take effect at its completion and each release at its invocation. A release that is certain must
//! be its owner's, since no other process can have acquired in its name.
//!
//! *Indeterminate operations.* An acquire without a certain end is the last thing its process does; had it
//! taken effect no process could acquire any more, so every order remains one without it. A release without a
//! certain end is best for everybody else if it takes effect at its invocation.
//!
//! *Tokens.* Disjoint holds have one order, so each token is compared only with the one before it.

mod conflict;
mod operation;
mod reentrant;

use super::{Codec, EventRefusal};
use crate::model::{Decision, FastPath, History, Model};
pub use operation::LockOp;
pub use reentrant::ReentrantMutex;

pub(super) use conflict::not_owner;
use conflict::{held_twice, token_not_greater};
use rustc_hash::FxHashSet;
use serde::Deserialize;

/// A mutex that only its holder releases.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnerMutex;

/// An [`OwnerMutex`] whose every acquisition gets a greater token than all before.
#[derive(Clone, Copy, Debug, Default)]
pub struct FencedMutex;

fn show_holder(holder: Option<u32>) -> String {
    holder.map_or_else(|| "free".to_owned(), |process| format!("held by process {process}"))
}

impl Model for OwnerMutex {
    type State = Option<u32>;
    type Op = LockOp;
    type Ret = ();

    fn start(&self) -> Option<u32> {
        None
    }

    fn step(&self, holder: &Option<u32>, op: &LockOp, _ret: Option<&()>) -> Option<Option<u32>> {
        op.step(*holder)
    }

    fn show(&self, op: &LockOp, _ret: Option<&()>) -> String {
        op.show()
    }

    fn show_state(&self, holder: &Option<u32>) -> String {
        show_holder(*holder)
    }
}

impl Codec for OwnerMutex {
    fn invoke(&mut self, process: u64, f: &str, value: &str) -> Result<LockOp, EventRefusal> {
        LockOp::read(process, f, value)
    }

    fn complete(&mut self, _op: &LockOp, _value: &str) -> Result<(), EventRefusal> {
        Ok(())
    }
}

impl Model for FencedMutex {
    /// Who holds it, and the greatest token so far.
    type State = (Option<u32>, Option<i64>);
    type Op = LockOp;
    /// The token of an acquire; none for a release.
    type Ret = Option<i64>;

    fn start(&self) -> Self::State {
        (None, None)
    }

    fn step(&self, state: &Self::State, op: &LockOp, ret: Option<&Option<i64>>) -> Option<Self::State> {
        let holder = op.step(state.0)?;
        match ret.copied().flatten() {
            Some(token) => (state.1 < Some(token)).then_some((holder, Some(token))),
            None => Some((holder, state.1)),
        }
    }

    fn doomed(&self, state: &Self::State, _op: &LockOp, ret: Option<&Option<i64>>) -> bool {
        ret.copied().flatten().is_some_and(|token| state.1 >= Some(token))
    }

    fn show(&self, op: &LockOp, ret: Option<&Option<i64>>) -> String {
        match ret.copied().flatten() {
            Some(token) => format!("{} → token {token}", op.show()),
            None => op.show(),
        }
    }

    fn show_state(&self, state: &Self::State) -> String {
        match state.1 {
            Some(token) => format!("{}, greatest token {token}", show_holder(state.0)),
            None => show_holder(state.0),
        }
    }
}

impl Codec for FencedMutex {
    fn invoke(&mut self, process: u64, f: &str, value: &str) -> Result<LockOp, EventRefusal> {
        LockOp::read(process, f, value)
    }

    fn complete(&mut self, op: &LockOp, value: &str) -> Result<Option<i64>, EventRefusal> {
        #[derive(Deserialize)]
        struct CertainHold {
            token: i64,
        }
        match op {
            LockOp::Acquire(_) => match serde_json::from_str(value) {
                Ok(CertainHold { token }) => Ok(Some(token)),
                Err(_) => Err(EventRefusal::WrongValue("{\"token\": n} with a whole number n")),
            },
            LockOp::Release(_) => Ok(None),
        }
    }
}

impl FastPath for OwnerMutex {
    fn decide(&self, history: &History<Self>, order: Option<&mut Vec<u32>>) -> Decision {
        decide::<Self>(history, order, |()| None)
    }
}

impl FastPath for FencedMutex {
    fn decide(&self, history: &History<Self>, order: Option<&mut Vec<u32>>) -> Decision {
        decide::<Self>(history, order, |ret| *ret)
    }
}

fn decide<M: Model<Op = LockOp>>(
    history: &History<M>,
    mut order: Option<&mut Vec<u32>>,
    token_of: impl Fn(&M::Ret) -> Option<i64>,
) -> Decision {
    if somebody_goes_on(history.list.iter().map(|operation| (operation.op.process(), operation.certain()))) {
        return Decision::NotApplicable("a process goes on after an indeterminate operation");
    }
    let mut put = |at: u32| order.as_deref_mut().into_iter().for_each(|order| order.push(at));
    let mut holder: Option<(u32, u32)> = None;
    let mut last: Option<(i64, u32)> = None;
    for &event in &history.order {
        let at = event >> 1;
        let operation = &history.list[at as usize];
        match (operation.op, event & 1) {
            (LockOp::Acquire(process), 1) => {
                if let Some((_, earlier)) = holder {
                    return Decision::Impossible(held_twice::<M>(history, earlier, at));
                }
                let token = operation.ret.as_ref().and_then(&token_of);
                if let (Some((greatest, earlier)), Some(token)) = (last, token)
                    && token <= greatest
                {
                    let (earlier, later) = ((greatest, earlier), (token, at));
                    return Decision::Impossible(token_not_greater::<M>(history, earlier, later));
                }
                last = token.map(|token| (token, at)).or(last);
                holder = Some((process, at));
                put(at);
            }
            (LockOp::Release(process), 0) => {
                if holder.is_some_and(|(holder, _)| holder == process) {
                    holder = None;
                    put(at);
                } else if operation.certain() {
                    return Decision::Impossible(not_owner::<M>(history, at));
                }
            }
            _ => {}
        }
    }
    Decision::Linearizable
}

/// Whether a process invokes anything after an operation without a certain end.
pub(super) fn somebody_goes_on(operations: impl Iterator<Item = (u32, bool)> + Clone) -> bool {
    let (mut greatest, mut count, mut unseen) = (0, 0, false);
    for (process, certain) in operations.clone() {
        greatest = greatest.max(process as usize);
        count += 1;
        unseen |= !certain;
    }
    if !unseen {
        return false;
    }
    // Process numbers are dense in most histories; a bit each is then faster than a hash table.
    if greatest <= 64 * count + 1024 {
        let mut gone = vec![0_u64; greatest / 64 + 1];
        for (process, certain) in operations {
            let (word, bit) = (&mut gone[process as usize / 64], process % 64);
            if *word >> bit & 1 == 1 {
                return true;
            }
            *word |= u64::from(!certain) << bit;
        }
        return false;
    }
    let mut gone = FxHashSet::default();
    for (process, certain) in operations {
        if gone.contains(&process) {
            return true;
        }
        if !certain {
            gone.insert(process);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{accepts, rejects, undecided_by_fast_path};

    #[test]
    fn accepts_holds_one_after_the_other() {
        accepts::<OwnerMutex>("1( acquire) 2( acquire 1( release 2) 1) 2( release)");
        accepts::<FencedMutex>("1( acquire {\"token\":3}) 1( release) 2( acquire {\"token\":7}) 2( release)");
    }

    #[test]
    fn rejects_two_holders() {
        let conflict = rejects::<OwnerMutex>("3( acquire) 7( acquire) 3( release) 7( release)");
        assert_eq!(
            conflict.sentence,
            "process 7 acquired at event 3 while process 3, which had acquired at event 1, did not begin to release \
             before event 4"
        );
        assert_eq!(conflict.core, [0, 1, 2, 3]);
        rejects::<OwnerMutex>("1( acquire) 1( acquire)");
    }

    #[test]
    fn rejects_a_release_by_another() {
        let conflict = rejects::<OwnerMutex>("1( acquire) 2( release)");
        assert_eq!(conflict.core, [1]);
        rejects::<OwnerMutex>("1( acquire) 1( release) 1( release)");
    }

    #[test]
    fn rejects_a_token_that_is_not_greater() {
        for token in [3, 2] {
            let history = "1( acquire {\"token\":3}) 1( release) 2( acquire {\"token\":T}) 2( release)";
            let conflict = rejects::<FencedMutex>(&history.replace('T', &token.to_string()));
            assert_eq!(conflict.core, [0, 1, 2, 3]);
        }
        // In between somebody may have held it, with an unknown token.
        accepts::<FencedMutex>("1( acquire {\"token\":3}) 1( release) 9( acquire? 2( acquire {\"token\":4})");
    }

    #[test]
    fn a_release_may_end_a_hold_whose_release_was_not_observed() {
        accepts::<OwnerMutex>("1( acquire) 1( release? 2( acquire)");
        rejects::<OwnerMutex>("1( acquire) 2( acquire) 1( release?");
        accepts::<OwnerMutex>("1( acquire? 2( acquire) 2( release) 3( acquire)");
    }

    #[test]
    fn a_process_that_goes_on_is_left_to_the_search() {
        accepts::<OwnerMutex>("1( acquire? 1( release) 2( acquire)");
        undecided_by_fast_path::<OwnerMutex>("1( acquire? 1( release) 2( acquire)");
        rejects::<OwnerMutex>("1( acquire? 1( acquire) 2( acquire)");
        accepts::<OwnerMutex>("4000000000( acquire) 4000000000( release? 2( acquire)");
    }
}
