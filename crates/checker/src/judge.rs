use crate::budget::Budget;
use crate::evidence::{Evidence, explain};
use crate::model::{Conflict, Decision, FastPath, History, Model, stuck_conflict};
use crate::models::Codec;
use crate::read::KeyHistory;
use crate::search::{SearchOutcome, search};
use crate::verdict::Outcome;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// The model's own where it applies, else the search.
    #[default]
    Auto,
    /// The model's own; where it does not apply the answer is unknown.
    FastPath,
    Search,
}

/// What is wanted of a judgement.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    pub algorithm: Algorithm,
    pub budget: Budget,
    pub evidence: bool,
    /// Orders for valid histories.
    pub witness: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyVerdict {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub outcome: Outcome,
    pub operations: usize,
    /// Why it is unknown, or in one sentence why it is a violation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// The operations in an order that explains the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witness: Option<Vec<Step>>,
}

/// One operation of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub process: u64,
    pub operation: String,
    pub index: u64,
    pub indeterminate: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlgorithmAnswer {
    Linearizable,
    Impossible(Conflict),
    Unknown(String),
}

/// Decides one history. If `order` is given and the history has an order, it is put there.
pub fn decide<M: FastPath>(
    model: &M,
    history: &History<M>,
    algorithm: Algorithm,
    budget: &Budget,
    mut order: Option<&mut Vec<u32>>,
) -> AlgorithmAnswer {
    if algorithm != Algorithm::Search {
        match model.decide(history, order.as_deref_mut()) {
            Decision::Linearizable => return AlgorithmAnswer::Linearizable,
            Decision::Impossible(conflict) => return AlgorithmAnswer::Impossible(conflict),
            Decision::NotApplicable(why) if algorithm == Algorithm::FastPath => {
                return AlgorithmAnswer::Unknown(format!("the fast path does not apply: {why}"));
            }
            Decision::NotApplicable(_) => {
                if let Some(order) = order.as_deref_mut() {
                    order.clear();
                }
            }
        }
    }
    match search(model, history, budget) {
        SearchOutcome::Order(found) => {
            if let Some(order) = order {
                *order = found;
            }
            AlgorithmAnswer::Linearizable
        }
        SearchOutcome::Stuck(stuck) => AlgorithmAnswer::Impossible(stuck_conflict(model, history, stuck.at)),
        SearchOutcome::Exhausted(exhausted) => AlgorithmAnswer::Unknown(format!(
            "{}: {} of {} events could be explained by then",
            exhausted.reason, exhausted.events_done, exhausted.events
        )),
    }
}

/// Judges each key by itself, on all cores: a history is linearizable if and only if it is key by key (M.
/// Herlihy and J. Wing, "Linearizability", ACM TOPLAS 12(3), 1990). Gives a verdict for each.
pub fn judge<M: Codec>(parts: &[KeyHistory<M>], options: &CheckOptions) -> Vec<KeyVerdict> {
    // Large ones first, so that no core ends up alone with the largest.
    let mut sequence: Vec<usize> = (0..parts.len()).collect();
    sequence.sort_by_key(|&at| std::cmp::Reverse(parts[at].history.len()));
    let mut verdicts: Vec<(usize, KeyVerdict)> =
        sequence.into_par_iter().with_max_len(1).map(|at| (at, judge_part(&parts[at], options))).collect();
    verdicts.sort_by_key(|(at, _)| *at);
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

pub(crate) const NOTHING_SUCCEEDED: &str = "no operation is known to have succeeded, so nothing was tested";

fn judge_part<M: Codec>(part: &KeyHistory<M>, options: &CheckOptions) -> KeyVerdict {
    let (model, history) = (&part.model, &part.history);
    let mut order = options.witness.then(Vec::new);
    let answer = decide(model, history, options.algorithm, &options.budget, order.as_mut());
    let mut verdict = KeyVerdict {
        key: part.key.clone(),
        outcome: Outcome::Valid,
        operations: history.len(),
        reason: None,
        evidence: None,
        witness: None,
    };
    if history.list.iter().all(|entry| entry.ret.is_none()) {
        (verdict.outcome, verdict.reason) = (Outcome::Vacuous, Some(NOTHING_SUCCEEDED.to_owned()));
        return verdict;
    }
    match answer {
        AlgorithmAnswer::Linearizable => {
            verdict.witness = order.map(|order| order.iter().map(|&at| step(model, history, at)).collect());
        }
        AlgorithmAnswer::Unknown(reason) => {
            verdict.outcome = Outcome::Unknown;
            verdict.reason = Some(reason);
        }
        AlgorithmAnswer::Impossible(conflict) => {
            verdict.outcome = Outcome::Violation;
            verdict.reason = Some(conflict.sentence.clone());
            verdict.evidence = options.evidence.then(|| explain(model, history, &conflict, &options.budget));
        }
    }
    verdict
}

fn step<M: Model>(model: &M, history: &History<M>, at: u32) -> Step {
    let operation = &history.list[at as usize];
    Step {
        process: history.process(at),
        operation: model.show(&operation.op, operation.ret.as_ref()),
        index: history.sources[at as usize].invoke_index,
        indeterminate: !operation.certain(),
    }
}
