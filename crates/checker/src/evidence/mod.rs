mod timeline;

use crate::budget::Budget;
use crate::model::{Conflict, History, Model};
use crate::search::{SearchOutcome, search};
use crate::shrink::shrink;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Why a history is impossible: a few operations that cannot all have happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    pub sentence: String,
    /// In order of invocation. A large core is cut to those that are to be looked at.
    pub operations: Vec<ShownOperation>,
    /// What else the core holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// The state before them: not a new object's where something came before that does not matter here.
    pub start: String,
    /// A longest order that goes well, as places in `operations`, and the state that it leads to.
    pub order: Vec<usize>,
    pub state: String,
    /// The operation that fits into no order, as a place in `operations`.
    pub stuck: usize,
    /// Whether the times are real; else events are only numbered.
    pub timed: bool,
}

/// Equal operations of a core that are not shown one by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    pub text: String,
    pub indeterminate: bool,
    pub count: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShownOperation {
    pub process: u64,
    /// What it did and returned: `write 3`, `read → 3`.
    pub text: String,
    /// Indices of its events in the file; no end if that is unknown.
    pub invoke_index: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete_index: Option<u64>,
    pub invoke_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete_ns: Option<u64>,
    /// Places of its events in the order of the events shown.
    pub begin: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<u32>,
}

const SHRINK_TIME: Duration = Duration::from_millis(1500);

/// Finds the core of a conflict and says what can be said about it.
pub fn explain<M: Model>(model: &M, history: &History<M>, conflict: &Conflict, budget: &Budget) -> Evidence {
    // The time for the verdict may be over; what is left to do is small, and bounded by itself.
    let budget = Budget::new(SHRINK_TIME, budget.memory_bytes);
    let core = if conflict.core.is_empty() {
        shrink(model, history, conflict.stuck, &budget)
    } else {
        conflict.core.clone()
    };
    let (core, left_out) = in_focus(model, history, core, conflict);
    let part = history.only(&core);
    let expected = core.iter().position(|&at| at == conflict.stuck).unwrap_or(0);
    let gets_stuck = |start: M::State| match search(&Plain { model, start: start.clone() }, &part, &budget) {
        SearchOutcome::Stuck(stuck) => Some((start, stuck)),
        SearchOutcome::Order(_) | SearchOutcome::Exhausted(_) => None,
    };
    // Of the states that it may begin in, the one that shows best how far one comes.
    let best = model
        .starts(&part)
        .into_iter()
        .rev()
        .filter_map(gets_stuck)
        .max_by_key(|(_, stuck)| (stuck.at as usize == expected, stuck.longest.len()));
    let (stuck, order, start, state) = match best {
        Some((start, stuck)) => (stuck.at as usize, stuck.longest, start, stuck.state),
        // The search found no time to get stuck.
        None => (expected, Vec::new(), model.start(), model.start()),
    };
    let state = model.show_state(&state);
    let sentence = if conflict.core.is_empty() {
        sentence(model, &part, stuck, &order, &state)
    } else {
        conflict.sentence.clone()
    };
    Evidence {
        sentence,
        operations: (0..part.len()).map(|at| shown(model, &part, at)).collect(),
        left_out,
        order: order.into_iter().map(|at| at as usize).collect(),
        start: model.show_state(&start),
        state,
        stuck,
        timed: part.timed,
    }
}

/// A larger core is cut to the operations that are to be looked at.
const SHOWN_MAX: usize = 12;

fn in_focus<M: Model>(
    model: &M,
    history: &History<M>,
    core: Vec<u32>,
    conflict: &Conflict,
) -> (Vec<u32>, Vec<LeftOut>) {
    if core.len() <= SHOWN_MAX || conflict.focus.is_empty() {
        return (core, Vec::new());
    }
    let mut counts: BTreeMap<(String, bool), usize> = BTreeMap::new();
    for &at in core.iter().filter(|at| conflict.focus.binary_search(at).is_err()) {
        let operation = &history.list[at as usize];
        *counts.entry((model.show(&operation.op, None), !operation.certain())).or_default() += 1;
    }
    let left_out = counts
        .into_iter()
        .map(|((text, indeterminate), count)| LeftOut { text, indeterminate, count })
        .collect();
    (conflict.focus.clone(), left_out)
}

fn sentence<M: Model>(model: &M, part: &History<M>, stuck: usize, order: &[u32], state: &str) -> String {
    let operation = &part.list[stuck];
    let text = model.show(&operation.op, operation.ret.as_ref());
    let at = stuck as u32;
    let before = match order.len() {
        0 => "nothing can come before it".to_owned(),
        _ => format!("the longest order of what can come before it leads to {state}"),
    };
    format!(
        "process {} did \"{text}\" (from {} to {}), which fits into no order of these {} operations: {before}",
        part.process(at),
        part.invoked(at),
        part.completed(at),
        part.len(),
    )
}

impl fmt::Display for LeftOut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, text) = (self.count, &self.text);
        let unseen = if self.indeterminate { " (its end was not observed)" } else { "" };
        write!(out, "{count} × {text}{unseen}")
    }
}

impl Evidence {
    /// What the core holds besides the shown operations: `480 × release (the end is unknown)`.
    pub fn left_out(&self) -> Option<String> {
        let all: Vec<String> = self.left_out.iter().map(LeftOut::to_string).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

fn shown<M: Model>(model: &M, part: &History<M>, at: usize) -> ShownOperation {
    let (operation, source) = (&part.list[at], &part.sources[at]);
    let certain = operation.certain();
    ShownOperation {
        process: source.process,
        text: model.show(&operation.op, operation.ret.as_ref()),
        invoke_index: source.invoke_index,
        complete_index: certain.then_some(source.complete_index),
        invoke_ns: source.invoke_ns,
        complete_ns: certain.then_some(source.complete_ns),
        begin: operation.invoke,
        end: certain.then_some(operation.complete),
    }
}

/// The model without hints, so that the search gets stuck where a person would; with a first state.
struct Plain<'a, M: Model> {
    model: &'a M,
    start: M::State,
}

impl<M: Model> Model for Plain<'_, M> {
    type State = M::State;
    type Op = M::Op;
    type Ret = M::Ret;

    fn start(&self) -> M::State {
        self.start.clone()
    }

    fn step(&self, state: &M::State, op: &M::Op, ret: Option<&M::Ret>) -> Option<M::State> {
        self.model.step(state, op, ret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Algorithm, AlgorithmAnswer, decide};
    use crate::models::{Codec, Mutex, OwnerMutex, Register};
    use crate::testing::history;

    fn evidence<M: Codec>(mut model: M, text: &str) -> Evidence {
        let history = history(&mut model, text);
        let budget = Budget::unlimited();
        match decide(&model, &history, Algorithm::Auto, &budget, None) {
            AlgorithmAnswer::Impossible(conflict) => explain(&model, &history, &conflict, &budget),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn explanations_read_well() {
        let turns = "1( acquire) 1( release) 2( acquire) 2( release)";
        insta::assert_snapshot!(
            "mutex",
            evidence(Mutex, &format!("{turns} 1( acquire) 2( acquire) 3( release)"))
        );
        let overlap = format!("{turns} 3( acquire 7( acquire 3) 7) 3( release 7( release 3) 7)");
        insta::assert_snapshot!("owner-mutex", evidence(OwnerMutex, &overlap));
        let stale = "1( write 1) 1( write 2 2( read 2 3( read 1 2) 2( read 1) 3) 1) 1( write 3)";
        insta::assert_snapshot!("register", evidence(Register::default(), stale));
        let cas = "1( write 1) 2( cas [1,2] 3( cas [1,3] 2) 3) 1( write 4) 1( write 1)";
        insta::assert_snapshot!("cas-register", evidence(Register::with_cas(), cas));
    }
}
