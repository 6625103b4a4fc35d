//! The general search, for every model, after G. Lowe, "Testing for linearizability", Concurrency and
//! Computation 29(4), 2017, which improves on J. Wing and C. Gong, "Testing and verifying concurrent
//! objects", J. Parallel and Distributed Computing 17, 1993. The history is walked event by event with the
//! set of all *configurations* that explain it so far: a state, and which of the open operations have taken
//! effect. An operation takes effect at its completion at the latest, and before that only to let one that
//! completes take effect. When the set becomes empty there is no order. The time is in proportion to the
//! history and to how much its window of open operations leaves open.
//!
//! What keeps the set small, each with why it loses nothing:
//!
//! 1. *Operations without effect* ([`Effect::Pure`] and its kin) take effect as soon as the state allows:
//!    they change nothing, and are done.
//! 2. *Equal operations* (same operation, same result) are taken in order of deadline: exchange two that are
//!    not.
//! 3. *Indeterminate operations* that are equal are a class with a count. A certain one is preferred to an
//!    equal indeterminate one, which can wait for ever. One that would not change the state is not tried.
//! 4. *Dominance*: of two configurations with the same state and the same open operations done, the one that
//!    used no more of any class can do all that the other can.
//! 5. *Doomed*: a configuration in which an open operation can never take effect is dropped.
//! 6. What [`Effect`]s tell about values; see `search/values.rs`.

mod bits;
mod frontier;
mod outcome;
mod trail;
mod used;
mod values;
mod walk;

pub use outcome::{Exhausted, SearchOutcome, Stuck};

use crate::budget::Budget;
#[cfg(doc)]
use crate::model::Effect;
use crate::model::{History, Model};

pub fn search<M: Model>(model: &M, history: &History<M>, budget: &Budget) -> SearchOutcome<M::State> {
    let open = open_max::<M>(history);
    match open {
        0..=64 => walk::walk::<M, 1>(model, history, budget),
        65..=256 => walk::walk::<M, 4>(model, history, budget),
        257..=4096 => walk::walk::<M, 64>(model, history, budget),
        _ => SearchOutcome::Exhausted(Exhausted {
            reason: "more than 4096 operations are open at the same time",
            events_done: 0,
            events: history.order.len(),
        }),
    }
}

fn open_max<M: Model>(history: &History<M>) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for &event in &history.order {
        if event & 1 == 1 {
            open -= 1;
        } else if history.list[(event >> 1) as usize].certain() {
            open += 1;
            most = most.max(open);
        }
    }
    most
}
