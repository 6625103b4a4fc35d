//! Histories of any size for tests and benchmarks: what processes would see that use a perfect object.

use fencepost_checker::Claim;
use fencepost_checker::model::{History, Model};
use fencepost_checker::models::{
    FencedMutex, LockOp, Mutex, MutexOp, OwnerMutex, ReentrantMutex, Register, RegisterOp, RegisterRet,
    ShareOp, SharedLock,
};
use fencepost_checker::operations::{Builder, OpenHandle, Stamp};
use fencepost_history::{Seed, Stream};
use rand::RngExt;

/// How large a history is to be, and of what kind.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub seed: u64,
    pub operations: usize,
    /// Each has one operation open nearly all the time.
    pub processes: u32,
    /// The share of operations of unknown end. Their processes go on under new numbers.
    pub indeterminate: f64,
}

/// What the processes of a model do.
pub trait Behaviour: Model {
    /// What a process does after its last operation. `count` numbers the operations.
    fn next(&self, random: &mut Stream, process: u32, last: Option<&Self::Op>, count: u32) -> Self::Op;

    /// The same, for a model whose processes know by its state how often they hold it.
    fn next_in(
        &self,
        random: &mut Stream,
        process: u32,
        last: Option<&Self::Op>,
        (count, _state): (u32, &Self::State),
    ) -> Self::Op {
        self.next(random, process, last, count)
    }

    /// Whether the process can be over with this operation and leave nothing held for good.
    fn may_be_over(&self, _state: &Self::State, _op: &Self::Op) -> bool {
        true
    }

    /// What the operation returns in this state; none if it has to wait.
    fn result(&self, random: &mut Stream, state: &Self::State, op: &Self::Op) -> Option<Self::Ret>;

    /// Whether an operation of unknown end may take effect.
    fn may_linger(&self, _op: &Self::Op) -> bool {
        true
    }
}

struct Running<M: Model> {
    number: u32,
    last: Option<M::Op>,
    open: Option<(OpenHandle, M::Op, Option<M::Ret>)>,
    /// Nothing is recorded of the end of its open operation.
    fated: bool,
}

/// Runs the processes of a model against a perfect object.
pub fn generate<M: Behaviour>(model: &M, shape: &Shape) -> History<M> {
    let random = &mut Seed(shape.seed).stream("history");
    let mut builder = Builder::new();
    let mut state = model.start();
    let mut numbers = 0..;
    let mut running: Vec<Running<M>> = numbers
        .by_ref()
        .take(shape.processes as usize)
        .map(|number| Running { number, last: None, open: None, fated: false })
        .collect();
    // Operations whose processes are gone. They may take effect at any moment, once.
    let mut lingering: Vec<M::Op> = Vec::new();
    let (mut invoked, mut time_ns) = (0, 0);
    let mut idle = 0;
    while idle < 1000 * shape.processes as usize {
        if !lingering.is_empty() && random.random_ratio(1, 20) {
            let op = lingering.swap_remove(random.random_range(0..lingering.len()));
            state = model.step(&state, &op, None).unwrap_or(state);
        }
        let process = &mut running[random.random_range(0..shape.processes as usize)];
        time_ns += random.random_range(0..40_000);
        let stamp = Stamp { index: time_ns, time_ns: Some(time_ns) };
        idle += 1;
        match &mut process.open {
            None if invoked == shape.operations => {}
            None => {
                let op =
                    model.next_in(random, process.number, process.last.as_ref(), (invoked as u32, &state));
                invoked += 1;
                let may_be_over = model.may_be_over(&state, &op);
                let handle = builder.invoke_at(process.number.into(), op.clone(), stamp);
                process.open = Some((handle, op, None));
                process.fated =
                    shape.indeterminate > 0.0 && random.random_bool(shape.indeterminate) && may_be_over;
                idle = 0;
            }
            Some((_, op, ret @ None)) => {
                if process.fated {
                    lingering.extend(Some(op.clone()).filter(|op| model.may_linger(op)));
                    *process =
                        Running { number: numbers.next().unwrap_or(0), last: None, open: None, fated: false };
                } else if let Some(result) = model.result(random, &state, op)
                    && let Some(next) = model.step(&state, op, Some(&result))
                {
                    (state, *ret) = (next, Some(result));
                }
                idle = 0;
            }
            Some((handle, op, Some(ret))) => {
                builder.complete_at(*handle, ret.clone(), stamp);
                process.last = Some(op.clone());
                process.open = None;
                idle = 0;
            }
        }
        // Locks can be left held by a process that is gone: the others then wait in vain.
        if invoked == shape.operations
            && running.iter().all(|process| !matches!(&process.open, Some((_, _, Some(_)))))
        {
            break;
        }
    }
    builder.finish()
}

impl Behaviour for Mutex {
    fn next(&self, _random: &mut Stream, _process: u32, last: Option<&MutexOp>, _count: u32) -> MutexOp {
        if last == Some(&MutexOp::Acquire) { MutexOp::Release } else { MutexOp::Acquire }
    }

    fn result(&self, _random: &mut Stream, state: &bool, op: &MutexOp) -> Option<()> {
        self.step(state, op, None).map(|_| ())
    }

    // An acquire that took effect unseen would leave the mutex held for good.
    fn may_linger(&self, op: &MutexOp) -> bool {
        *op == MutexOp::Release
    }
}

fn next_lock_op(process: u32, last: Option<&LockOp>) -> LockOp {
    match last {
        Some(LockOp::Acquire(_)) => LockOp::Release(process),
        _ => LockOp::Acquire(process),
    }
}

impl Behaviour for OwnerMutex {
    fn next(&self, _random: &mut Stream, process: u32, last: Option<&LockOp>, _count: u32) -> LockOp {
        next_lock_op(process, last)
    }

    fn result(&self, _random: &mut Stream, state: &Option<u32>, op: &LockOp) -> Option<()> {
        self.step(state, op, None).map(|_| ())
    }

    fn may_linger(&self, op: &LockOp) -> bool {
        matches!(op, LockOp::Release(_))
    }
}

impl Behaviour for ReentrantMutex {
    fn next(&self, _random: &mut Stream, process: u32, _last: Option<&LockOp>, _count: u32) -> LockOp {
        LockOp::Acquire(process)
    }

    fn next_in(
        &self,
        random: &mut Stream,
        process: u32,
        last: Option<&LockOp>,
        (count, state): (u32, &Self::State),
    ) -> LockOp {
        match state {
            Some((holder, _)) if *holder == process && random.random_ratio(9, 10) => LockOp::Release(process),
            _ => self.next(random, process, last, count),
        }
    }

    fn may_be_over(&self, state: &Self::State, op: &LockOp) -> bool {
        match (state, op) {
            (Some((holder, count)), LockOp::Release(process)) if holder == process => *count == 1,
            (Some((holder, _)), LockOp::Acquire(process)) => holder != process,
            _ => true,
        }
    }

    fn result(&self, _random: &mut Stream, state: &Self::State, op: &LockOp) -> Option<()> {
        self.step(state, op, None).map(|_| ())
    }

    fn may_linger(&self, op: &LockOp) -> bool {
        matches!(op, LockOp::Release(_))
    }
}

impl Behaviour for FencedMutex {
    fn next(&self, _random: &mut Stream, process: u32, last: Option<&LockOp>, _count: u32) -> LockOp {
        next_lock_op(process, last)
    }

    fn result(&self, random: &mut Stream, state: &Self::State, op: &LockOp) -> Option<Option<i64>> {
        self.step(state, op, None)?;
        let token = state.1.unwrap_or(0) + random.random_range(1..4);
        Some(matches!(op, LockOp::Acquire(_)).then_some(token))
    }

    fn may_linger(&self, op: &LockOp) -> bool {
        matches!(op, LockOp::Release(_))
    }
}

/// What an acquire may ask for: all of the lock (most of them), to read, or one of two permits.
pub const CLAIMS: [Claim; 6] = [
    Claim::EXCLUSIVE,
    Claim::EXCLUSIVE,
    Claim::EXCLUSIVE,
    Claim::EXCLUSIVE,
    Claim::SHARED,
    Claim { weight: 1, capacity: 2 },
];

impl Behaviour for SharedLock {
    fn next(&self, random: &mut Stream, process: u32, last: Option<&ShareOp>, _count: u32) -> ShareOp {
        match last {
            Some(ShareOp::Acquire(..)) => ShareOp::Release(process),
            _ => ShareOp::Acquire(process, CLAIMS[random.random_range(0..CLAIMS.len())]),
        }
    }

    fn result(&self, _random: &mut Stream, state: &Self::State, op: &ShareOp) -> Option<()> {
        self.step(state, op, None).map(|_| ())
    }

    fn may_linger(&self, op: &ShareOp) -> bool {
        matches!(op, ShareOp::Release(_))
    }
}

impl Behaviour for Register {
    /// Each write has a value of its own; with compare-and-set there are five values.
    fn next(&self, random: &mut Stream, _process: u32, _last: Option<&RegisterOp>, count: u32) -> RegisterOp {
        let value = |random: &mut Stream| random.random_range(1..=5);
        match (self.with_cas, random.random_range(0..3)) {
            (false, _) if random.random() => RegisterOp::Write(count + 1),
            (true, 0) => RegisterOp::Write(value(random)),
            (true, 1) => RegisterOp::Cas(value(random), value(random)),
            _ => RegisterOp::Read,
        }
    }

    fn result(&self, _random: &mut Stream, state: &u32, op: &RegisterOp) -> Option<RegisterRet> {
        Some(match *op {
            RegisterOp::Read => RegisterRet::Value(*state),
            RegisterOp::Cas(from, _) if from != *state => RegisterRet::Mismatch,
            RegisterOp::Write(_) | RegisterOp::Cas(..) => RegisterRet::Done,
        })
    }
}
