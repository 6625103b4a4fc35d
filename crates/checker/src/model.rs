//! What an object is: a state, and what each operation does to it.

use crate::operations::Operations;
use fencepost_history::sorted_once;
use std::fmt::Debug;
use std::hash::Hash;

/// A sequential specification, also of an object of your own. A step depends on nothing but its
/// arguments. [`effect`](Model::effect) and [`doomed`](Model::doomed) only make the search faster.
///
/// ```
/// use fencepost_checker::{Budget, Builder, SearchOutcome, Model, search};
///
/// /// A stack of numbers.
/// struct Stack;
///
/// #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
/// enum Op {
///     Push(i64),
///     Pop,
/// }
///
/// impl Model for Stack {
///     type State = Vec<i64>;
///     type Op = Op;
///     /// What a pop returned; none for a push, and for a pop of an empty stack.
///     type Ret = Option<i64>;
///
///     fn start(&self) -> Vec<i64> {
///         Vec::new()
///     }
///
///     fn step(&self, state: &Vec<i64>, op: &Op, ret: Option<&Option<i64>>) -> Option<Vec<i64>> {
///         let mut state = state.clone();
///         match op {
///             Op::Push(value) => state.push(*value),
///             Op::Pop => {
///                 let popped = state.pop();
///                 // An indeterminate pop may have returned anything.
///                 if ret.is_some_and(|ret| *ret != popped) {
///                     return None;
///                 }
///             }
///         }
///         Some(state)
///     }
/// }
///
/// let mut history = Builder::new();
/// let first = history.invoke(1, Op::Push(1));
/// let second = history.invoke(2, Op::Push(2));
/// history.complete(first, None);
/// history.complete(second, None);
/// let pop = history.invoke(1, Op::Pop);
/// history.complete(pop, Some(2));
/// let history = history.finish();
/// assert!(matches!(search(&Stack, &history, &Budget::unlimited()), SearchOutcome::Order(_)));
/// ```
pub trait Model: Sync {
    type State: Clone + Eq + Hash + Debug + Send + Sync;
    type Op: Clone + Eq + Hash + Debug + Send + Sync;
    type Ret: Clone + Eq + Hash + Debug + Send + Sync;

    fn start(&self) -> Self::State;

    /// The state after an operation, or none if it cannot happen in this state or with this result. `ret` is
    /// none for an indeterminate operation: then any result will do. Whenever a step is possible with a
    /// result, it must be possible without, and lead to the same state.
    fn step(&self, state: &Self::State, op: &Self::Op, ret: Option<&Self::Ret>) -> Option<Self::State>;

    /// What can be said of an operation beforehand. A wrong answer makes verdicts wrong.
    fn effect(&self, _op: &Self::Op, _ret: Option<&Self::Ret>) -> Effect {
        Effect::Other
    }

    /// Whether an operation can never happen any more from here. A wrong `true` makes verdicts wrong.
    fn doomed(&self, _state: &Self::State, _op: &Self::Op, _ret: Option<&Self::Ret>) -> bool {
        false
    }

    /// The value of the object in this state, if the model's effects speak of values.
    fn value(&self, _state: &Self::State) -> Option<u32> {
        None
    }

    /// States in which a part of a history may begin when it is shown by itself.
    fn starts(&self, _part: &History<Self>) -> Vec<Self::State>
    where
        Self: Sized,
    {
        vec![self.start()]
    }

    /// The operation as people write it: `write 3`, `read → 3`.
    fn show(&self, op: &Self::Op, ret: Option<&Self::Ret>) -> String {
        match ret {
            Some(ret) => format!("{op:?} → {ret:?}"),
            None => format!("{op:?}"),
        }
    }

    fn show_state(&self, state: &Self::State) -> String {
        format!("{state:?}")
    }
}

/// What is known of an operation without knowing the state. Values are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Other,
    Pure,
    /// As [`Pure`](Effect::Pure), and fits exactly where the object has this value.
    Read(u32),
    /// As [`Pure`](Effect::Pure), and fits exactly where the object has another value.
    Differs(u32),
    /// It fits everywhere, and the object then has this value and no other memory.
    Write(u32),
    /// It fits exactly where the object has the first value, and then the object has the second.
    Swap(u32, u32),
}

impl Effect {
    pub(crate) fn is_pure(self) -> bool {
        matches!(self, Effect::Pure | Effect::Read(_) | Effect::Differs(_))
    }
}

pub type History<M> = Operations<<M as Model>::Op, <M as Model>::Ret>;

/// A model that also has an algorithm of its own, faster than the search.
pub trait FastPath: Model + Sized {
    /// Decides a history, or says why the algorithm does not apply. Puts an order, if any, in `order`.
    fn decide(&self, history: &History<Self>, order: Option<&mut Vec<u32>>) -> Decision;
}

/// What a fast path says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Linearizable,
    Impossible(Conflict),
    /// The reason why the history is not of the kind that the algorithm decides.
    NotApplicable(&'static str),
}

/// Why no order exists: a few operations that cannot all have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Places in the history, in order of invocation. Empty where only the lack of an order is known.
    pub core: Vec<u32>,
    pub stuck: u32,
    /// The operations of a large core to be looked at. Empty: all.
    pub focus: Vec<u32>,
    pub sentence: String,
}

impl Conflict {
    pub(crate) fn new(core: Vec<u32>, stuck: u32, sentence: String) -> Conflict {
        Conflict { core: sorted_once(core), stuck, focus: Vec::new(), sentence }
    }

    pub(crate) fn with_focus(self, focus: Vec<u32>) -> Conflict {
        Conflict { focus: sorted_once(focus.into_iter().chain([self.stuck])), ..self }
    }
}

/// What can be said where only the operation is known at which every order gets stuck.
pub(crate) fn stuck_conflict<M: Model>(model: &M, history: &History<M>, at: u32) -> Conflict {
    let operation = &history.list[at as usize];
    let sentence = format!(
        "process {} completed \"{}\" at {}, and no order of the operations up to then allows it",
        history.process(at),
        model.show(&operation.op, operation.ret.as_ref()),
        history.completed(at),
    );
    Conflict::new(Vec::new(), at, sentence)
}
