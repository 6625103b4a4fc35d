//! A lock whose holds also end by themselves: each hold is granted once, and ends once, perhaps without
//! anybody's doing.
//!
//! A history of it has two operations for each hold: the grant, and its end. The end is indeterminate, since
//! a lease ends at a moment that no history shows; it is invoked at the last moment at which the hold was
//! certainly still in force. A hold that is shared may stand beside others that are.
//!
//! # The algorithm
//! It applies where every grant is certain and every end is indeterminate. Let a hold be *in force* from the
//! completion of its grant to the invocation of its end. If two holds that exclude each other are in force at
//! the same moment, there is no order: each was granted before that moment and ended after it. If no two are,
//! there is one: let each grant take effect at its completion, and each end at its invocation. O(n) time for
//! as many shared holds at a time as there are processes.

use crate::claim::Claim;
use crate::model::{Conflict, Decision, FastPath, History, Model};

/// A lock with leases, exclusive or shared.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeasedLock;

/// An operation on the hold of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeasedLockOp {
    Grant { hold: u32, claim: Claim },
    End { hold: u32 },
}

/// The holds that are in force, in order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holders {
    holds: Vec<(u32, Claim)>,
}

impl Holders {
    fn place(&self, hold: u32) -> Result<usize, usize> {
        self.holds.binary_search_by_key(&hold, |(number, _)| *number)
    }
}

impl Model for LeasedLock {
    type State = Holders;
    type Op = LeasedLockOp;
    type Ret = ();

    fn start(&self) -> Holders {
        Holders::default()
    }

    fn step(&self, state: &Holders, op: &LeasedLockOp, _ret: Option<&()>) -> Option<Holders> {
        let mut state = state.clone();
        match *op {
            LeasedLockOp::Grant { hold, claim } => {
                if state.holds.iter().any(|(_, beside)| claim.excludes(*beside)) {
                    return None;
                }
                let place = state.place(hold).err()?;
                state.holds.insert(place, (hold, claim));
            }
            LeasedLockOp::End { hold } => {
                let place = state.place(hold).ok()?;
                state.holds.remove(place);
            }
        }
        Some(state)
    }

    fn show(&self, op: &LeasedLockOp, _ret: Option<&()>) -> String {
        match op {
            LeasedLockOp::Grant { claim: Claim::Shared, .. } => "acquire shared".to_owned(),
            LeasedLockOp::Grant { .. } => "acquire".to_owned(),
            LeasedLockOp::End { .. } => "hold ends".to_owned(),
        }
    }

    fn show_state(&self, state: &Holders) -> String {
        match &state.holds[..] {
            [] => "free".to_owned(),
            [(_, claim)] if claim.is_alone() => "held".to_owned(),
            holds => format!("shared by {}", holds.len()),
        }
    }
}

/// A hold in force: its number, its claim, and the place of its grant.
type InForce = (u32, Claim, u32);

impl FastPath for LeasedLock {
    fn decide(&self, history: &History<Self>, mut order: Option<&mut Vec<u32>>) -> Decision {
        let mut in_force: Vec<InForce> = Vec::new();
        for &event in &history.order {
            let (at, begins) = (event >> 1, event & 1 == 0);
            let operation = &history.list[at as usize];
            match operation.op {
                LeasedLockOp::Grant { .. } if !operation.certain() => {
                    return Decision::NotApplicable("a grant is indeterminate");
                }
                LeasedLockOp::End { .. } if operation.certain() => {
                    return Decision::NotApplicable("an end is certain");
                }
                LeasedLockOp::Grant { .. } if begins => continue,
                LeasedLockOp::Grant { hold, claim } => {
                    let other = in_force.iter().find(|(_, beside, _)| claim.excludes(*beside));
                    if let Some(&(_, _, earlier)) = other {
                        return Decision::Impossible(held_twice(history, earlier, at));
                    }
                    in_force.push((hold, claim, at));
                }
                LeasedLockOp::End { hold } => {
                    let count = in_force.len();
                    in_force.retain(|(other, _, _)| *other != hold);
                    if in_force.len() == count {
                        // A hold that ends before it was granted can wait: nothing needs its end.
                        continue;
                    }
                }
            }
            if let Some(order) = order.as_deref_mut() {
                order.push(at);
            }
        }
        Decision::Linearizable
    }
}

fn held_twice(history: &History<LeasedLock>, earlier: u32, later: u32) -> Conflict {
    let end_of = |grant: u32| {
        let LeasedLockOp::Grant { hold, .. } = history.list[grant as usize].op else { return None };
        let mut after = grant + 1..history.len() as u32;
        after.find(|&at| history.list[at as usize].op == LeasedLockOp::End { hold })
    };
    let (first, second, end) = (history.process(earlier), history.process(later), end_of(earlier));
    let until = end.map_or("the end".to_owned(), |end| history.invoked(end));
    let sentence = format!(
        "process {second} was granted the lock by {}, although process {first}, which had been granted it by {}, \
         certainly held it until {until}",
        history.completed(later),
        history.completed(earlier),
    );
    let core = [Some(earlier), end, Some(later), end_of(later)];
    Conflict::new(core.into_iter().flatten().collect(), later, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::judge::{Algorithm, Answer, decide};
    use crate::operations::Builder;
    use proptest::prelude::*;

    /// `(hold`: its grant is invoked; `hold)`: it completes; `hold/`: from here on the hold may have ended. A
    /// capital letter stands for an exclusive hold, a small one for a shared one.
    fn history(text: &str) -> History<LeasedLock> {
        let mut builder = Builder::new();
        let mut open = std::collections::BTreeMap::new();
        for word in text.split_whitespace() {
            let letter = word.chars().find(|letter| letter.is_ascii_alphabetic()).expect("a hold");
            let hold = u32::from(letter);
            let claim = if letter.is_ascii_lowercase() { Claim::Shared } else { Claim::Exclusive };
            if word.starts_with('(') {
                open.insert(hold, builder.invoke(hold.into(), LeasedLockOp::Grant { hold, claim }));
            } else if word.ends_with(')') {
                builder.complete(open.remove(&hold).expect("it was invoked"), ());
            } else {
                builder.invoke(hold.into(), LeasedLockOp::End { hold });
            }
        }
        builder.finish()
    }

    fn answer(text: &str) -> Answer {
        let history = history(text);
        let [fast, searched] = [Algorithm::FastPath, Algorithm::Search]
            .map(|algorithm| decide(&LeasedLock, &history, algorithm, &Budget::unlimited(), None));
        let linearizable = |answer: &Answer| matches!(answer, Answer::Linearizable);
        assert_eq!(linearizable(&fast), linearizable(&searched), "{text}: {fast:?}, {searched:?}");
        fast
    }

    fn accepts(text: &str) {
        assert_eq!(answer(text), Answer::Linearizable, "{text}");
    }

    fn rejects(text: &str) -> Conflict {
        match answer(text) {
            Answer::Impossible(conflict) => conflict,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn accepts_holds_one_after_the_other() {
        accepts("(A A) A/ (B B) B/");
        accepts("(A (B A) A/ B) B/");
    }

    #[test]
    fn accepts_a_hold_that_ended_without_a_sign() {
        accepts("(A A) A/ (B B) (C B/ C) C/");
    }

    #[test]
    fn rejects_two_holds_in_force_at_once() {
        let conflict = rejects("(A A) (B B) A/ B/");
        assert_eq!(conflict.core, [0, 1, 2, 3]);
        assert_eq!(
            conflict.sentence,
            "process 66 was granted the lock by event 3, although process 65, which had been granted it by event 1, \
             certainly held it until event 4"
        );
        rejects("(A (B A) B) A/ B/");
    }

    #[test]
    fn those_that_share_stand_side_by_side_and_keep_others_out() {
        accepts("(a a) (b b) a/ b/ (C C) C/");
        rejects("(a a) (b b) b/ (C C) a/ C/");
        rejects("(C C) (a a) C/ a/");
    }

    proptest! {
        #[test]
        fn the_fast_path_agrees_with_the_search(choices in prop::collection::vec((0..4_u8, prop::sample::select(&Claim::ALL[1..])), 0..24)) {
            // Each of four processes goes through invocation, completion and end, again and again.
            let mut builder = Builder::new();
            let mut stages = [None; 4];
            let mut next = 0;
            for (process, claim) in choices {
                let stage = &mut stages[usize::from(process)];
                *stage = match *stage {
                    None => {
                        next += 1;
                        let grant = LeasedLockOp::Grant { hold: next, claim };
                        Some((next, Some(builder.invoke(process.into(), grant))))
                    }
                    Some((hold, Some(handle))) => {
                        builder.complete(handle, ());
                        Some((hold, None))
                    }
                    Some((hold, None)) => {
                        builder.invoke(process.into(), LeasedLockOp::End { hold });
                        None
                    }
                };
            }
            for (hold, handle) in stages.into_iter().flatten() {
                if let Some(handle) = handle {
                    builder.complete(handle, ());
                }
                builder.invoke(0, LeasedLockOp::End { hold });
            }
            let history = builder.finish();
            let mut order = Vec::new();
            let fast = decide(&LeasedLock, &history, Algorithm::FastPath, &Budget::unlimited(), Some(&mut order));
            let searched = decide(&LeasedLock, &history, Algorithm::Search, &Budget::unlimited(), None);
            prop_assert_eq!(fast == Answer::Linearizable, searched == Answer::Linearizable);
            if fast == Answer::Linearizable {
                let replayed = order.iter().try_fold(LeasedLock.start(), |state, &at| {
                    LeasedLock.step(&state, &history.list[at as usize].op, None)
                });
                prop_assert!(replayed.is_some(), "the order {:?} cannot be replayed", order);
            }
        }
    }
}
