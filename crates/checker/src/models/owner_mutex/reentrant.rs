//! A mutex that its holder may acquire again, and then has to release as often.
//!
//! # The algorithm
//! As for the [mutex with owners](super), which it is with a count: it applies where no process goes on after
//! an indeterminate operation. O(n) time and memory.
//!
//! *Certain holds.* From the completion of its outermost acquire to the invocation of its last release a
//! process holds the mutex for certain, whatever the order: the operations in between are its own, one after
//! the other, and leave the count above 0. So if an acquire of another process completes within, there is no
//! order. Else each acquire takes effect at its completion and each release at its invocation.
//!
//! *Indeterminate operations.* Each is the last thing its process does. An acquire by the holder changes
//! nothing for the others, who wait for ever with it or without; the release is best for them at its
//! invocation; all else is as without a count.

use super::super::{Codec, EventRefusal};
use super::conflict::not_owner;
use super::operation::LockOp;
use super::somebody_goes_on;
use crate::model::{Conflict, Decision, FastPath, History, Model};

/// An [`OwnerMutex`](super::OwnerMutex) that its holder acquires again and again, and releases as often.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReentrantMutex;

impl Model for ReentrantMutex {
    /// Who holds it, and how often it has to release it.
    type State = Option<(u32, u32)>;
    type Op = LockOp;
    type Ret = ();

    fn start(&self) -> Self::State {
        None
    }

    fn step(&self, state: &Self::State, op: &LockOp, _ret: Option<&()>) -> Option<Self::State> {
        match (*state, *op) {
            (None, LockOp::Acquire(process)) => Some(Some((process, 1))),
            (Some((holder, count)), LockOp::Acquire(process)) => {
                (holder == process).then_some(Some((holder, count + 1)))
            }
            (Some((holder, count)), LockOp::Release(process)) => {
                (holder == process).then_some((count > 1).then(|| (holder, count - 1)))
            }
            (None, LockOp::Release(_)) => None,
        }
    }

    fn show(&self, op: &LockOp, _ret: Option<&()>) -> String {
        op.show()
    }

    fn show_state(&self, state: &Self::State) -> String {
        match state {
            None => "free".to_owned(),
            Some((holder, 1)) => format!("held by process {holder}"),
            Some((holder, count)) => format!("held by process {holder}, {count} times"),
        }
    }
}

impl Codec for ReentrantMutex {
    fn invoke(&mut self, process: u64, f: &str, value: &str) -> Result<LockOp, EventRefusal> {
        // As runs of Fencepost write what a holder does.
        let name = match f {
            "reenter" => "acquire",
            "leave" => "release",
            name => name,
        };
        LockOp::read(process, name, value)
    }

    fn complete(&mut self, _op: &LockOp, _value: &str) -> Result<(), EventRefusal> {
        Ok(())
    }
}

impl FastPath for ReentrantMutex {
    fn decide(&self, history: &History<Self>, mut order: Option<&mut Vec<u32>>) -> Decision {
        if somebody_goes_on(history.list.iter().map(|each| (each.op.process(), each.certain()))) {
            return Decision::NotApplicable("a process goes on after an indeterminate operation");
        }
        let mut put = |at: u32| order.as_deref_mut().into_iter().for_each(|order| order.push(at));
        // The process, how often it has to release, and its outermost acquire.
        let mut holder: Option<(u32, u32, u32)> = None;
        for &event in &history.order {
            let at = event >> 1;
            let operation = &history.list[at as usize];
            match (operation.op, event & 1, holder) {
                (LockOp::Acquire(process), 1, None) => {
                    holder = Some((process, 1, at));
                    put(at);
                }
                (LockOp::Acquire(process), 1, Some((own, count, outermost))) if own == process => {
                    holder = Some((own, count + 1, outermost));
                    put(at);
                }
                (LockOp::Acquire(_), 1, Some((.., outermost))) => {
                    return Decision::Impossible(held_by_another(history, outermost, at));
                }
                (LockOp::Release(process), 0, Some((own, count, outermost))) if own == process => {
                    holder = (count > 1).then(|| (own, count - 1, outermost));
                    put(at);
                }
                (LockOp::Release(_), 0, _) if operation.certain() => {
                    return Decision::Impossible(not_owner::<Self>(history, at));
                }
                _ => {}
            }
        }
        Decision::Linearizable
    }
}

/// The operations of a process from its outermost acquire to the release that ends its hold, or all.
fn section(history: &History<ReentrantMutex>, outermost: u32) -> Vec<u32> {
    let process = history.list[outermost as usize].op.process();
    let (mut count, mut section) = (0_u32, Vec::new());
    let own =
        (outermost..history.len() as u32).filter(|&at| history.list[at as usize].op.process() == process);
    for at in own {
        section.push(at);
        match history.list[at as usize].op {
            LockOp::Acquire(_) => count += 1,
            LockOp::Release(_) => count = count.saturating_sub(1),
        }
        if count == 0 {
            break;
        }
    }
    section
}

fn held_by_another(history: &History<ReentrantMutex>, outermost: u32, later: u32) -> Conflict {
    let (first, second) = (history.process(outermost), history.process(later));
    let held = section(history, outermost);
    let is_release = |at: &u32| matches!(history.list[*at as usize].op, LockOp::Release(_));
    let (releases, acquires): (Vec<u32>, Vec<u32>) = held.iter().partition(|at| is_release(at));
    let last = releases.last().filter(|_| releases.len() == acquires.len());
    let state = match last {
        Some(&last) => format!("did not begin its last release before {}", history.invoked(last)),
        None => format!("acquired {} times in all and released {}", acquires.len(), releases.len()),
    };
    let sentence = format!(
        "process {second} acquired at {} while process {first}, which had acquired at {}, {state}",
        history.completed(later),
        history.completed(outermost),
    );
    let core = held.into_iter().chain(section(history, later)).collect();
    Conflict::new(core, later, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{accepts, rejects, undecided_by_fast_path};

    #[test]
    fn accepts_a_holder_that_acquires_again_and_releases_as_often() {
        accepts::<ReentrantMutex>("1( acquire) 1( acquire) 1( release) 1( release) 2( acquire)");
        accepts::<ReentrantMutex>(
            "1( acquire) 1( reenter) 2( acquire 1( leave) 1( release 2) 1) 2( release)",
        );
    }

    #[test]
    fn rejects_a_grant_to_another_before_the_last_release() {
        let conflict = rejects::<ReentrantMutex>(
            "1( acquire) 1( reenter) 1( leave) 2( acquire) 1( release) 2( release)",
        );
        assert_eq!(
            conflict.sentence,
            "process 2 acquired at event 7 while process 1, which had acquired at event 1, did not begin its last \
             release before event 8"
        );
        assert_eq!(conflict.core, [0, 1, 2, 3, 4, 5]);
        let conflict = rejects::<ReentrantMutex>("1( acquire) 1( acquire) 1( release) 2( acquire)");
        assert!(
            conflict.sentence.ends_with("acquired 2 times in all and released 1"),
            "{}",
            conflict.sentence
        );
    }

    #[test]
    fn rejects_more_releases_than_acquires() {
        let conflict =
            rejects::<ReentrantMutex>("1( acquire) 1( acquire) 1( release) 1( release) 1( release)");
        assert_eq!(conflict.core, [4]);
        rejects::<ReentrantMutex>("1( acquire) 1( acquire) 2( release)");
    }

    #[test]
    fn a_process_that_goes_on_is_left_to_the_search() {
        undecided_by_fast_path::<ReentrantMutex>("1( acquire? 1( release) 2( acquire)");
        accepts::<ReentrantMutex>("1( acquire) 1( acquire) 1( release) 1( release? 2( acquire)");
    }
}
