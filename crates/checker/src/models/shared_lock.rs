//! A lock that several processes may hold together: readers, or one for each of its permits. Only a process
//! that holds it releases it.
//!
//! # The algorithm
//! As for a [mutex with owners](super::owner_mutex), it applies where no process goes on after an
//! indeterminate operation, and all operations of a process but the last are certain. O(n p) time for p
//! processes that hold at once, O(n) memory.
//!
//! *Certain holds.* Between the completion of its acquire and the invocation of its release a process holds
//! the lock for certain, whatever the order. If the claims of the certain holds of one moment do not fit
//! together, there is no order. Else let each acquire take effect at its completion and each release at its
//! invocation: the holds are then the certain ones, and fit at every moment, since claims that fit do so
//! without some of them. A release that is certain must be its owner's.
//!
//! *Indeterminate operations.* An indeterminate acquire is its process's last act: every order remains one
//! without it. An indeterminate release is best for the others at its invocation.

use super::owner_mutex::{not_owner, somebody_goes_on};
use super::{Codec, EventRefusal};
use crate::claim::Claim;
use crate::model::{Conflict, Decision, FastPath, History, Model};
use fencepost_history::AcquireArguments;

/// A read-write lock or a semaphore, by what each acquire asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShareOp {
    Acquire(u32, Claim),
    Release(u32),
}

impl ShareOp {
    fn process(self) -> u32 {
        let (ShareOp::Acquire(process, _) | ShareOp::Release(process)) = self;
        process
    }
}

impl Model for SharedLock {
    /// Who holds it, in order of their numbers, and how.
    type State = Vec<(u32, Claim)>;
    type Op = ShareOp;
    type Ret = ();

    fn start(&self) -> Self::State {
        Vec::new()
    }

    fn step(&self, holders: &Self::State, op: &ShareOp, _ret: Option<&()>) -> Option<Self::State> {
        let place = holders.binary_search_by_key(&op.process(), |(process, _)| *process);
        let mut holders = holders.clone();
        match (*op, place) {
            (ShareOp::Acquire(process, claim), Err(place)) => holders.insert(place, (process, claim)),
            (ShareOp::Release(_), Ok(place)) => drop(holders.remove(place)),
            _ => return None,
        }
        Claim::fit(holders.iter().map(|(_, claim)| *claim)).then_some(holders)
    }

    fn show(&self, op: &ShareOp, _ret: Option<&()>) -> String {
        match op {
            ShareOp::Acquire(_, Claim::SHARED) => "acquire {\"mode\":\"shared\"}".to_owned(),
            ShareOp::Acquire(_, claim) if claim.is_alone() => "acquire".to_owned(),
            ShareOp::Acquire(_, claim) => format!("acquire {{\"capacity\":{}}}", claim.capacity),
            ShareOp::Release(_) => "release".to_owned(),
        }
    }

    fn show_state(&self, holders: &Self::State) -> String {
        match &holders[..] {
            [] => "free".to_owned(),
            [(process, _)] => format!("held by process {process}"),
            holders => {
                let numbers: Vec<String> = holders.iter().map(|(process, _)| process.to_string()).collect();
                format!("held by processes {}", numbers.join(", "))
            }
        }
    }
}

impl Codec for SharedLock {
    fn invoke(&mut self, process: u64, f: &str, value: &str) -> Result<ShareOp, EventRefusal> {
        let process =
            u32::try_from(process).map_err(|_| EventRefusal::WrongValue("a process number below 2^32"))?;
        match f {
            "acquire" => {
                let value: serde_json::Value = serde_json::from_str(value).unwrap_or_default();
                Ok(ShareOp::Acquire(process, Claim::asked(&AcquireArguments::of(&value))))
            }
            "release" => Ok(ShareOp::Release(process)),
            _ => Err(EventRefusal::UnknownOperation("acquire and release")),
        }
    }

    fn complete(&mut self, _op: &ShareOp, _value: &str) -> Result<(), EventRefusal> {
        Ok(())
    }
}

impl FastPath for SharedLock {
    fn decide(&self, history: &History<Self>, mut order: Option<&mut Vec<u32>>) -> Decision {
        if somebody_goes_on(history.list.iter().map(|each| (each.op.process(), each.certain()))) {
            return Decision::NotApplicable("a process goes on after an indeterminate operation");
        }
        let mut put = |at: u32| order.as_deref_mut().into_iter().for_each(|order| order.push(at));
        let mut holders: Vec<(u32, Claim, u32)> = Vec::new();
        for &event in &history.order {
            let at = event >> 1;
            let operation = &history.list[at as usize];
            let place = holders.iter().position(|(process, ..)| *process == operation.op.process());
            match (operation.op, event & 1) {
                (ShareOp::Acquire(process, claim), 1) => {
                    holders.push((process, claim, at));
                    if place.is_some() || !Claim::fit(holders.iter().map(|(_, claim, _)| *claim)) {
                        return Decision::Impossible(too_many(history, &holders));
                    }
                    put(at);
                }
                (ShareOp::Release(_), 0) => match place {
                    Some(place) => {
                        holders.swap_remove(place);
                        put(at);
                    }
                    None if operation.certain() => {
                        return Decision::Impossible(not_owner::<Self>(history, at));
                    }
                    None => {}
                },
                _ => {}
            }
        }
        Decision::Linearizable
    }
}

/// The last of these holders acquired beside others that leave no room for it.
fn too_many(history: &History<SharedLock>, holders: &[(u32, Claim, u32)]) -> Conflict {
    let Some((&(_, claim, later), earlier)) = holders.split_last() else {
        unreachable!("it acquired just now")
    };
    // Of a pair that does not fit, both say it all; else it takes them all.
    let alone = earlier.iter().find(|other| !Claim::fit([claim, other.1]));
    let beside: Vec<u32> = alone.map_or(earlier, std::slice::from_ref).iter().map(|(.., at)| *at).collect();
    let process = history.process(later);
    let own = beside.iter().find(|&&at| history.process(at) == process);
    let sentence = match (own, &beside[..]) {
        (Some(&own), _) => format!(
            "process {process} acquired at {} although it had already acquired at {} and not released",
            history.completed(later),
            history.completed(own)
        ),
        (None, beside) => {
            let others: Vec<String> = beside.iter().map(|&at| history.process(at).to_string()).collect();
            let (at, others) = (history.completed(later), others.join(", "));
            let who = if beside.len() == 1 { "process" } else { "processes" };
            format!("process {process} acquired at {at} while it was held for certain by {who} {others}")
        }
    };
    let release = |acquire: u32| {
        let process = history.list[acquire as usize].op.process();
        let mut after = (acquire + 1..history.len() as u32)
            .filter(|&at| history.list[at as usize].op.process() == process);
        after.next().filter(|&at| matches!(history.list[at as usize].op, ShareOp::Release(_)))
    };
    let core = beside.into_iter().chain([later]).flat_map(|at| [Some(at), release(at)]).flatten();
    Conflict::new(core.collect(), later, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{accepts, rejects, undecided_by_fast_path};

    #[test]
    fn accepts_readers_together_and_as_many_holders_as_permits() {
        accepts::<SharedLock>(
            "1( acquire {\"mode\":\"shared\"}) 2( acquire {\"mode\":\"shared\"}) 1( release) 2( release) 3( acquire)",
        );
        accepts::<SharedLock>(
            "1( acquire {\"capacity\":2}) 2( acquire {\"capacity\":2}) 2( release) 3( acquire {\"capacity\":2})",
        );
        accepts::<SharedLock>("1( acquire) 2( acquire {\"mode\":\"shared\"} 1( release 2) 1) 2( release)");
    }

    #[test]
    fn rejects_a_reader_beside_a_writer() {
        let conflict = rejects::<SharedLock>(
            "1( acquire {\"mode\":\"shared\"}) 2( acquire {\"mode\":\"shared\"}) 1( release) 3( acquire)",
        );
        assert_eq!(
            conflict.sentence,
            "process 3 acquired at event 7 while it was held for certain by process 2"
        );
        rejects::<SharedLock>("1( acquire) 2( acquire {\"mode\":\"shared\"})");
    }

    #[test]
    fn rejects_more_holders_than_permits() {
        let conflict = rejects::<SharedLock>(
            "1( acquire {\"capacity\":2}) 2( acquire {\"capacity\":2}) 3( acquire {\"capacity\":2}) 1( release)",
        );
        assert_eq!(
            conflict.sentence,
            "process 3 acquired at event 5 while it was held for certain by processes 1, 2"
        );
        assert_eq!(conflict.core, [0, 1, 2, 3]);
    }

    #[test]
    fn rejects_a_release_by_another_and_a_second_acquire() {
        rejects::<SharedLock>("1( acquire {\"mode\":\"shared\"}) 2( release)");
        let twice = rejects::<SharedLock>("1( acquire {\"capacity\":3}) 1( acquire {\"capacity\":3})");
        assert!(twice.sentence.contains("although it had already acquired"), "{}", twice.sentence);
    }

    #[test]
    fn a_process_that_goes_on_is_left_to_the_search() {
        undecided_by_fast_path::<SharedLock>("1( acquire? 1( release) 2( acquire)");
        accepts::<SharedLock>("1( acquire) 1( release? 2( acquire)");
    }
}
