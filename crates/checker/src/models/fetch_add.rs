//! A counter whose every addition returns the value that was there before. It starts as 0.
//!
//! # The algorithm
//! It applies where every amount is 1 and nothing is only read. Then the value that an operation returned is
//! its place in the order: 0, 1, 2, and so on. Two operations with the same value cannot both be; a place
//! that no operation returned, below one that somebody did, was taken by an indeterminate operation, and
//! which one does not matter but for when it was invoked: give the earliest places to those invoked first
//! (two that stand the other way round can be exchanged).
//!
//! *Exact.* Operations with given places can be put into real time in this order if and only if no operation
//! was invoked after another with a higher place was complete: walking the places, keep the latest invocation
//! so far; it must not be later than the completion of the operation at hand. Each can then take effect right
//! after that latest invocation.
//!
//! O(n) time and memory.

use super::{Codec, Refusal, integer};
use crate::model::{Conflict, Decision, Effect, FastPath, History, Model};
use crate::operations::NEVER;

/// A counter whose additions return the value before.
#[derive(Clone, Copy, Debug, Default)]
pub struct FetchAdd;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchAddOp {
    Add(i64),
    Read,
}

impl Model for FetchAdd {
    type State = i64;
    type Op = FetchAddOp;
    /// The value before.
    type Ret = i64;

    fn start(&self) -> i64 {
        0
    }

    fn step(&self, state: &i64, op: &FetchAddOp, ret: Option<&i64>) -> Option<i64> {
        let fits = ret.is_none_or(|before| before == state);
        fits.then(|| match op {
            FetchAddOp::Add(amount) => state.saturating_add(*amount),
            FetchAddOp::Read => *state,
        })
    }

    fn effect(&self, op: &FetchAddOp, _ret: Option<&i64>) -> Effect {
        if matches!(op, FetchAddOp::Read | FetchAddOp::Add(0)) { Effect::Pure } else { Effect::Other }
    }

    fn starts(&self, part: &History<Self>) -> Vec<i64> {
        let least = part.list.iter().filter_map(|operation| operation.ret).min();
        [0].into_iter().chain(least).collect()
    }

    fn show(&self, op: &FetchAddOp, ret: Option<&i64>) -> String {
        let name = match op {
            FetchAddOp::Add(1) => "fetch-add".to_owned(),
            FetchAddOp::Add(amount) => format!("fetch-add {amount}"),
            FetchAddOp::Read => "read".to_owned(),
        };
        ret.map_or(name.clone(), |before| format!("{name} → {before}"))
    }
}

impl Codec for FetchAdd {
    fn invoke(&mut self, _process: u64, f: &str, value: &str) -> Result<FetchAddOp, Refusal> {
        match f {
            "fetch-add" | "fetch_add" | "add" => match (value.trim(), integer(value)) {
                ("null" | "", _) => Ok(FetchAddOp::Add(1)),
                (_, Some(amount)) => Ok(FetchAddOp::Add(amount)),
                (_, None) => Err(Refusal::WrongValue("a whole number, or null for 1")),
            },
            "read" => Ok(FetchAddOp::Read),
            _ => Err(Refusal::UnknownOperation("fetch-add and read")),
        }
    }

    fn complete(&mut self, _op: &FetchAddOp, value: &str) -> Result<i64, Refusal> {
        integer(value).ok_or(Refusal::WrongValue("a whole number, the value before"))
    }
}

/// No operation stands in this place yet.
const NONE_YET: u32 = u32::MAX;

impl FastPath for FetchAdd {
    fn decide(&self, history: &History<Self>, mut order: Option<&mut Vec<u32>>) -> Decision {
        if history.list.iter().any(|operation| operation.op != FetchAddOp::Add(1)) {
            return Decision::NotApplicable("an amount is not 1, or there are reads");
        }
        let mut places = vec![NONE_YET; history.len()];
        let mut used = 0;
        for (at, operation) in (0_u32..).zip(&history.list) {
            let Some(before) = operation.ret else { continue };
            let place = usize::try_from(before).ok().filter(|place| *place < places.len());
            let Some(place) = place else { return Decision::Impossible(not_enough(history, at)) };
            if places[place] != NONE_YET {
                return Decision::Impossible(twice(history, places[place], at));
            }
            places[place] = at;
            used = used.max(place + 1);
        }
        let mut spare = (0_u32..)
            .zip(&history.list)
            .filter(|(_, operation)| operation.complete == NEVER)
            .map(|(at, _)| at);
        let mut latest = NONE_YET;
        for (place, &at) in places[..used].iter().enumerate() {
            let at = if at == NONE_YET { spare.next().unwrap_or(NONE_YET) } else { at };
            if at == NONE_YET {
                // Somebody has a higher place, and no other can have this one.
                let next = places[place..used].iter().copied().find(|&at| at != NONE_YET);
                return Decision::Impossible(not_enough(history, next.unwrap_or(0)));
            }
            let operation = &history.list[at as usize];
            if latest == NONE_YET || history.list[latest as usize].invoke < operation.invoke {
                latest = at;
            }
            if history.list[latest as usize].invoke > operation.complete {
                return Decision::Impossible(out_of_order(history, latest, at));
            }
            if let Some(order) = order.as_deref_mut() {
                order.push(at);
            }
        }
        Decision::Linearizable
    }
}

fn before(history: &History<FetchAdd>, at: u32) -> i64 {
    history.list[at as usize].ret.unwrap_or(0)
}

fn twice(history: &History<FetchAdd>, first: u32, second: u32) -> Conflict {
    let sentence = format!(
        "process {} and process {} both got the answer that the value before was {}, by {} and by {}",
        history.process(first),
        history.process(second),
        before(history, first),
        history.completed(first),
        history.completed(second),
    );
    Conflict::new(vec![first, second], second, sentence)
}

fn out_of_order(history: &History<FetchAdd>, latest: u32, early: u32) -> Conflict {
    if history.list[latest as usize].ret.is_none() {
        return not_enough(history, early);
    }
    let sentence = format!(
        "process {} got the answer {} by {}, and process {}, which began only at {}, got the smaller answer {}",
        history.process(early),
        before(history, early),
        history.completed(early),
        history.process(latest),
        history.invoked(latest),
        before(history, latest),
    );
    Conflict::new(vec![latest, early], latest, sentence)
}

/// The operation returned more than there can have been additions before it. Its core is it and those since
/// the nearest earlier operation from which on they are too few.
fn not_enough(history: &History<FetchAdd>, stuck: u32) -> Conflict {
    let operation = &history.list[stuck as usize];
    let answer = before(history, stuck);
    let mut open: Vec<u32> = Vec::new();
    for &event in &history.order[..operation.complete as usize] {
        let at = event >> 1;
        if event & 1 == 0 && history.list[at as usize].complete > operation.complete && at != stuck {
            open.push(at);
        }
    }
    let mut base = None;
    for &event in history.order[..operation.complete as usize].iter().rev() {
        let at = event >> 1;
        if event & 1 == 1 {
            open.push(at);
        } else if history.list[at as usize].certain()
            && at != stuck
            && history.list[at as usize].complete < operation.complete
        {
            // What stands between the two places was open at some moment between this invocation and the end.
            let between = answer.saturating_sub(before(history, at)).saturating_sub(1);
            if answer > before(history, at) && between > open.len() as i64 - 1 {
                base = Some(at);
                break;
            }
        }
    }
    let (since, count) = match base {
        Some(at) => {
            let answer =
                format!("process {} had got the answer {}", history.process(at), before(history, at));
            (format!("{answer} (from {} to {})", history.invoked(at), history.completed(at)), open.len() - 1)
        }
        None => ("the value began as 0".to_owned(), open.len()),
    };
    let additions = if count == 1 {
        "one other addition was".to_owned()
    } else {
        format!("{count} other additions were")
    };
    let sentence = format!(
        "process {} got the answer by {} that the value before was {answer}, but {since} and only {additions} under way from \
         then on",
        history.process(stuck),
        history.completed(stuck),
    );
    Conflict::new(open.into_iter().chain([stuck]).collect(), stuck, sentence)
        .with_focus(base.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{accepts, rejects, undecided_by_fast_path};

    #[test]
    fn accepts_places_in_order() {
        accepts::<FetchAdd>("1( fetch-add 0) 2( fetch-add 1)");
        accepts::<FetchAdd>("1( fetch-add 1 2( fetch-add 0) 1)");
        accepts::<FetchAdd>("1( fetch-add? 2( fetch-add 1) 3( fetch-add 2)");
    }

    #[test]
    fn rejects_the_same_place_twice() {
        assert_eq!(rejects::<FetchAdd>("1( fetch-add 0 2( fetch-add 0 1) 2)").core, [0, 1]);
    }

    #[test]
    fn rejects_places_out_of_order() {
        let conflict = rejects::<FetchAdd>("1( fetch-add 1) 2( fetch-add 0)");
        assert_eq!(conflict.core, [0, 1]);
        assert_eq!(
            conflict.sentence,
            "process 1 got the answer 1 by event 1, and process 2, which began only at event 2, got the smaller answer 0"
        );
    }

    #[test]
    fn rejects_more_than_there_were() {
        rejects::<FetchAdd>("1( fetch-add 1)");
        rejects::<FetchAdd>("1( fetch-add -1)");
        rejects::<FetchAdd>("1( fetch-add 1) 2( fetch-add?");
        rejects::<FetchAdd>("3( fetch-add? 1( fetch-add 0) 2( fetch-add 3)");
        let later = rejects::<FetchAdd>("1( fetch-add 0) 1( fetch-add 1) 2( fetch-add 3)");
        assert_eq!(later.core, [1, 2]);
    }

    #[test]
    fn other_amounts_and_reads_are_left_to_the_search() {
        undecided_by_fast_path::<FetchAdd>("1( read 0)");
        accepts::<FetchAdd>("1( fetch-add 0) 2( read 1)");
        rejects::<FetchAdd>("1( fetch-add 0) 2( read 0)");
    }
}
