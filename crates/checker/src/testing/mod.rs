//! Literal and random histories for tests, and a brute force that every answer is held against.
//!
//! A literal history is a line of words: `1( write 3` begins process 1's operation, `1)` completes it, and a
//! word that ends with `)` completes it at once. `?` leaves it indeterminate, `!` or `!error` fails it.

pub(crate) mod literal;
pub(crate) mod random_run;

use crate::budget::Budget;
use crate::model::{Conflict, Decision, History, Model};
use crate::models::Codec;
use crate::operations::Builder;
use crate::search::{SearchOutcome, search};
use std::collections::HashMap;

/// Reads a literal history.
pub fn history<M: Codec>(model: &mut M, text: &str) -> History<M> {
    let mut builder = Builder::new();
    let mut open: HashMap<u64, _> = HashMap::new();
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if let Some(process) = word.strip_suffix(')') {
            let process = process.parse().unwrap_or_else(|_| panic!("no process: {word}"));
            let (handle, ret) = open.remove(&process).expect("nothing is open");
            builder.complete(handle, ret);
            continue;
        }
        let process: u64 = word.strip_suffix('(').expect("a process and (").parse().unwrap();
        let f = words.next().expect("an operation");
        // All have a value but those of locks, which may have one.
        let lock = ["acquire", "release", "reenter", "leave"].iter().any(|name| f.starts_with(name));
        let has_value =
            !f.ends_with([')', '?', '!']) && words.peek().is_some_and(|word| !lock || word.starts_with('{'));
        let value = if has_value { words.next().unwrap() } else { "" };
        let last = if has_value { value } else { f };
        let (end, error) = match last.find('!') {
            Some(at) => ("!", &last[at + 1..]),
            None if last.ends_with(')') => (")", ""),
            None if last.ends_with('?') => ("?", ""),
            None => ("", ""),
        };
        let clean = |word: &str| word.split('!').next().unwrap().trim_end_matches([')', '?']).to_owned();
        let (f, value) = (clean(f), clean(value));
        let argument = if value.is_empty() { "null" } else { &value };
        let op =
            model.invoke(process, &f, argument).unwrap_or_else(|refusal| panic!("{word} {f}: {refusal:?}"));
        let handle = builder.invoke(process, op.clone());
        match end {
            "!" => match model.fail(&op, error) {
                Some(ret) => builder.complete(handle, ret),
                None => builder.drop(handle),
            },
            "?" => {}
            _ => {
                let result = if value.is_empty() { "null" } else { &value };
                let ret = model.complete(&op, result).unwrap_or_else(|refusal| panic!("{f}: {refusal:?}"));
                if end == ")" {
                    builder.complete(handle, ret);
                } else {
                    open.insert(process, (handle, ret));
                }
            }
        }
    }
    builder.finish()
}

pub fn literal<M: Model>(model: &M, history: &History<M>) -> String {
    let event = |&event: &u32| {
        let at = event >> 1;
        let (operation, process) = (&history.list[at as usize], history.process(at));
        match (event & 1, operation.certain()) {
            (0, true) => format!("{process}( {}", model.show(&operation.op, operation.ret.as_ref())),
            (0, false) => format!("{process}( {}?", model.show(&operation.op, None)),
            _ => format!("{process})"),
        }
    };
    history.order.iter().map(event).collect::<Vec<_>>().join(" ")
}

/// Tries every order.
pub fn brute_force<M: Model>(model: &M, history: &History<M>) -> bool {
    fn go<M: Model>(model: &M, history: &History<M>, state: &M::State, done: &mut Vec<bool>) -> bool {
        let left = |done: &[bool], at: usize| !done[at] && history.list[at].certain();
        if (0..history.len()).all(|at| !left(done, at)) {
            return true;
        }
        for at in (0..history.len()).filter(|&at| !done[at]).collect::<Vec<_>>() {
            let operation = &history.list[at];
            // Something that was complete before it began must come first.
            if (0..history.len())
                .any(|other| left(done, other) && history.list[other].complete < operation.invoke)
            {
                continue;
            }
            if let Some(next) = model.step(state, &operation.op, operation.ret.as_ref()) {
                done[at] = true;
                if go(model, history, &next, done) {
                    return true;
                }
                done[at] = false;
            }
        }
        false
    }
    go(model, history, &model.start(), &mut vec![false; history.len()])
}

/// Whether an order has every certain operation once, respects real time and fits the model.
pub fn replays<M: Model>(model: &M, history: &History<M>, order: &[u32]) -> Result<(), String> {
    let mut state = model.start();
    let mut latest_invoke = 0;
    let mut seen = vec![false; history.len()];
    for &at in order {
        let operation = &history.list[at as usize];
        let shown = model.show(&operation.op, operation.ret.as_ref());
        if std::mem::replace(&mut seen[at as usize], true) {
            return Err(format!("{at} ({shown}) stands twice in {order:?}"));
        }
        latest_invoke = latest_invoke.max(operation.invoke);
        if operation.complete < latest_invoke {
            return Err(format!("{at} ({shown}) comes too late in {order:?}"));
        }
        state = model.step(&state, &operation.op, operation.ret.as_ref()).ok_or_else(|| {
            format!("{at} ({shown}) does not fit {} in {order:?}", model.show_state(&state))
        })?;
    }
    match (0..history.len()).find(|&at| history.list[at].certain() && !seen[at]) {
        Some(missing) => Err(format!("{missing} is missing in {order:?}")),
        None => Ok(()),
    }
}

/// Whether all judges find the history possible (true) or impossible; panics where they differ, where an
/// order does not replay, or where a core is possible. The fast path's decision is returned.
pub fn judge_all<M: Codec>(model: &M, history: &History<M>) -> (bool, Decision) {
    let truth = brute_force(model, history);
    let text = || literal(model, history);
    match search(model, history, &Budget::unlimited()) {
        SearchOutcome::Order(order) => {
            assert!(truth, "the search finds an order: {} {order:?}", text());
            replays(model, history, &order).unwrap();
        }
        SearchOutcome::Stuck(stuck) => assert!(!truth, "the search is stuck at {}: {}", stuck.at, text()),
        SearchOutcome::Exhausted(_) => panic!("an unlimited budget ran out"),
    }
    let mut order = Vec::new();
    let decision = model.decide(history, Some(&mut order));
    assert_eq!(decision, model.decide(history, None));
    match &decision {
        Decision::Linearizable => {
            assert!(truth, "the fast path finds an order: {}", text());
            replays(model, history, &order).unwrap();
        }
        Decision::Impossible(conflict) => {
            assert!(!truth, "the fast path finds no order: {} {conflict:?}", text());
            if !conflict.core.is_empty() {
                assert!(
                    !brute_force(model, &history.only(&conflict.core)),
                    "the core is possible: {conflict:?}"
                );
            }
        }
        Decision::NotApplicable(_) => {}
    }
    (truth, decision)
}

pub fn accepts_with<M: Codec>(mut model: M, text: &str) {
    let history = history(&mut model, text);
    assert!(judge_all(&model, &history).0, "{text} is rejected");
}

/// The conflict is the fast path's, or without one an empty one.
pub fn rejects_with<M: Codec>(mut model: M, text: &str) -> Conflict {
    let history = history(&mut model, text);
    let (possible, decision) = judge_all(&model, &history);
    assert!(!possible, "{text} is accepted");
    match decision {
        Decision::Impossible(conflict) => conflict,
        _ => Conflict::new(Vec::new(), 0, String::new()),
    }
}

pub fn accepts<M: Codec + Default>(text: &str) {
    accepts_with(M::default(), text);
}

pub fn rejects<M: Codec + Default>(text: &str) -> Conflict {
    rejects_with(M::default(), text)
}

pub fn undecided_by_fast_path<M: Codec + Default>(text: &str) {
    let mut model = M::default();
    let history = history(&mut model, text);
    assert!(matches!(model.decide(&history, None), Decision::NotApplicable(_)), "{text} is decided");
}
