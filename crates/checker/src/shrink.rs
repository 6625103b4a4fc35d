//! From an impossible history to a small part of it that is impossible for the same reason. Operations are
//! taken away as long as what remains has no order. Not any operations: without the release between two
//! acquires there would be no order either, but that says nothing of the history. What remains must be
//! *closed*: whatever order the whole history had, its restriction to the part would be an order of the part.
//! Then a part without an order proves that the whole has none.
//!
//! Where effects speak of values, a part is closed if every operation that needs a value has with it all
//! those that may have given it: those that began before it ended, and that were not overwritten for certain
//! before it began, by an operation of the part. For the state that an operation sees is what the last one
//! before it gave, and that one is still there. Elsewhere a part is closed if it has everything that began
//! before any of it ended, but for operations without effect, which can always go.

use crate::budget::Budget;
use crate::model::{Effect, History, Model};
use crate::operations::{NEVER, Operations};
use crate::search::{SearchOutcome, search};
use rustc_hash::FxHashMap;

/// A small closed part, impossible too, within the budget. At `stuck`'s completion no order is left.
pub fn shrink<M: Model>(model: &M, history: &History<M>, stuck: u32, budget: &Budget) -> Vec<u32> {
    let effects = HistoryEffects::new(model, history);
    let impossible =
        |part: &[u32]| matches!(search(model, &history.only(part), budget), SearchOutcome::Stuck(_));
    let end = history.list[stuck as usize].complete;
    let all: Vec<u32> = (0..history.len() as u32).collect();
    let mut part = all.clone();
    // First a short stretch before the operation that got stuck, if one will do; then all before its end.
    let started = history.list.partition_point(|operation| operation.invoke < end) as u32;
    let mut stretch = 16;
    loop {
        let first = started.saturating_sub(stretch);
        let candidate = effects.close(history, (first..started).collect());
        if impossible(&candidate) {
            part = candidate;
            break;
        }
        if first == 0 || budget.is_over() {
            break;
        }
        stretch = stretch.saturating_mul(4);
    }
    let mut piece = part.len().div_ceil(2);
    while piece > 0 && !budget.is_over() {
        let mut at = 0;
        while at < part.len() && !budget.is_over() {
            let mut candidate = part.clone();
            candidate.drain(at..(at + piece).min(part.len()));
            let candidate = effects.close(history, candidate);
            if candidate.len() < part.len() && impossible(&candidate) {
                part = candidate;
            } else {
                at += piece;
            }
        }
        piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
    }
    if effects.of_values {
        effects.add_origins(history, &mut part);
    }
    part
}

struct HistoryEffects {
    effects: Vec<Effect>,
    of_values: bool,
    /// The operations that give a value: the certain ones in order of completion, and the others.
    givers: FxHashMap<u32, (Vec<u32>, Vec<u32>)>,
}

impl HistoryEffects {
    fn new<M: Model>(model: &M, history: &History<M>) -> HistoryEffects {
        let effect = |operation: &crate::operations::Operation<M::Op, M::Ret>| {
            model.effect(&operation.op, operation.ret.as_ref())
        };
        let effects: Vec<Effect> = history.list.iter().map(effect).collect();
        let of_values = !effects.iter().any(|effect| matches!(effect, Effect::Other | Effect::Pure));
        let mut givers: FxHashMap<u32, (Vec<u32>, Vec<u32>)> = FxHashMap::default();
        for (at, effect) in (0..).zip(&effects) {
            if let Effect::Write(value) | Effect::Swap(_, value) = effect {
                let (certain, others) = givers.entry(*value).or_default();
                if history.list[at as usize].certain() { certain.push(at) } else { others.push(at) }
            }
        }
        for (certain, _) in givers.values_mut() {
            certain.sort_by_key(|&at| history.list[at as usize].complete);
        }
        HistoryEffects { effects, of_values, givers }
    }

    /// The part without what cannot stand in it. `part` is ascending, and so is the answer.
    fn close<Op, Ret>(&self, history: &Operations<Op, Ret>, mut part: Vec<u32>) -> Vec<u32> {
        if !self.of_values {
            return self.close_prefix(history, part);
        }
        loop {
            let before = part.len();
            let setters = Setters::new(self, history, &part);
            let stands = |&at: &u32| self.stands(history, &part, &setters, at);
            let kept: Vec<u32> = part.iter().copied().filter(stands).collect();
            part = kept;
            if part.len() == before {
                return part;
            }
        }
    }

    /// Whether all that may have given what an operation needs are in the part.
    fn stands<Op, Ret>(
        &self,
        history: &Operations<Op, Ret>,
        part: &[u32],
        setters: &Setters,
        at: u32,
    ) -> bool {
        let operation = &history.list[at as usize];
        let covered = setters.covered_before(operation.invoke);
        let visible = |giver: u32| {
            let giver = &history.list[giver as usize];
            giver.complete >= covered && giver.invoke < operation.complete
        };
        let present = |(certain, others): &(Vec<u32>, Vec<u32>)| {
            let first = certain.partition_point(|&giver| history.list[giver as usize].complete < covered);
            let mut may_give =
                certain[first..].iter().chain(others).filter(|&&giver| giver != at && visible(giver));
            may_give.all(|giver| part.binary_search(giver).is_ok())
        };
        match self.effects[at as usize] {
            Effect::Read(value) | Effect::Swap(value, _) => self.givers.get(&value).is_none_or(present),
            Effect::Differs(unwanted) => {
                self.givers.iter().all(|(value, givers)| *value == unwanted || present(givers))
            }
            Effect::Write(_) | Effect::Other | Effect::Pure => true,
        }
    }

    /// Where effects do not speak of values: all up to the first gap, and what has no effect before it.
    fn close_prefix<Op, Ret>(&self, history: &Operations<Op, Ret>, mut part: Vec<u32>) -> Vec<u32> {
        loop {
            let missing = (0..history.len() as u32)
                .find(|&at| !self.effects[at as usize].is_pure() && part.binary_search(&at).is_err());
            let end = missing.map_or(NEVER, |at| history.list[at as usize].invoke);
            let before = part.len();
            part.retain(|&at| {
                let operation = &history.list[at as usize];
                operation.complete < end || !operation.certain() && operation.invoke < end
            });
            // What was dropped may itself be a gap.
            if part.len() == before {
                return part;
            }
        }
    }

    /// Adds to each value that is needed and that no operation of the part gives the last write of it, for
    /// the reader: without it the part is impossible as well, but leaves one wondering about the value.
    fn add_origins<Op, Ret>(&self, history: &Operations<Op, Ret>, part: &mut Vec<u32>) {
        let mut added = Vec::new();
        for &at in part.iter() {
            let (Effect::Read(value) | Effect::Swap(value, _)) = self.effects[at as usize] else { continue };
            let Some((certain, others)) = self.givers.get(&value) else { continue };
            let givers = certain.iter().chain(others);
            if givers.clone().all(|giver| part.binary_search(giver).is_err() && !added.contains(giver)) {
                let end = history.list[at as usize].complete;
                let early = |giver: &&u32| {
                    history.list[**giver as usize].invoke < end
                        && matches!(self.effects[**giver as usize], Effect::Write(_))
                };
                added.extend(givers.rev().find(early).copied());
            }
        }
        part.extend(added);
        part.sort_unstable();
    }
}

/// The certain operations of a part that give a value, so that one can ask which the last was for certain.
struct Setters {
    /// Completions, ascending, and for each the latest invocation so far.
    by_completion: Vec<(u32, u32)>,
}

impl Setters {
    fn new<Op, Ret>(effects: &HistoryEffects, history: &Operations<Op, Ret>, part: &[u32]) -> Setters {
        let gives = |at: &&u32| {
            let certain = history.list[**at as usize].certain();
            certain && matches!(effects.effects[**at as usize], Effect::Write(_) | Effect::Swap(..))
        };
        let times = |&at: &u32| (history.list[at as usize].complete, history.list[at as usize].invoke);
        let mut by_completion: Vec<(u32, u32)> = part.iter().filter(gives).map(times).collect();
        by_completion.sort_unstable();
        let mut latest = 0;
        for (_, invoke) in &mut by_completion {
            latest = latest.max(*invoke);
            *invoke = latest;
        }
        Setters { by_completion }
    }

    /// Whatever was complete before this was overwritten before the given moment.
    fn covered_before(&self, moment: u32) -> u32 {
        let count = self.by_completion.partition_point(|(complete, _)| *complete < moment);
        count.checked_sub(1).map_or(0, |last| self.by_completion[last].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Shape, generate};
    use crate::models::Register;
    use crate::testing::{brute_force, history, literal};
    use fencepost_history::Seed;
    use rand::RngExt;

    fn core(text: &str) -> String {
        let mut model = Register::with_cas();
        let history = history(&mut model, text);
        let SearchOutcome::Stuck(stuck) = search(&model, &history, &Budget::unlimited()) else {
            panic!("{text} is possible")
        };
        let part = shrink(&model, &history, stuck.at, &Budget::unlimited());
        literal(&model, &history.only(&part))
    }

    #[test]
    fn leaves_what_matters() {
        let noise = "1( write 1) 2( cas [1,2]) 3( read 2) 1( write 3) 3( cas [2,9]!mismatch";
        assert_eq!(
            core(&format!("{noise} 4( write 5) 5( write 6) 4( read 5) 1( write 7)")),
            "4( write 5 4) 5( write 6 5) 4( read → 5 4)"
        );
        assert_eq!(core(&format!("{noise} 4( cas [5,6]) 5( read 6)")), "4( cas 5 6 4)");
        // The write that might have given the value has to stay.
        let core = core(&format!("7( write 5? {noise} 4( read 5) 4( write 6) 4( read 5)"));
        assert_eq!(core, "7( write 5? 4( read → 5 4) 4( write 6 4) 4( read → 5 4)");
    }

    /// Whatever is taken away, what is closed has an order if the whole has one.
    #[test]
    fn closed_parts_of_possible_histories_are_possible() {
        for seed in 0..20_000 {
            let random = &mut Seed(seed).stream("parts");
            let model = Register { with_cas: seed % 2 == 0, ..Register::default() };
            let shape = Shape { seed, operations: 9, processes: 4, indeterminate: 0.15 };
            let history = generate(&model, &shape);
            let effects = HistoryEffects::new(&model, &history);
            let some = (0..history.len() as u32).filter(|_| random.random_ratio(3, 4)).collect();
            let part = effects.close(&history, some);
            assert!(
                brute_force(&model, &history.only(&part)),
                "{part:?} of {} is impossible",
                literal(&model, &history)
            );
        }
    }
}
