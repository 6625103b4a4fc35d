//! The fast paths, search and brute force must agree: on hundreds of thousands of small histories, some as
//! perfect objects make them, some with a few events out of place, some with anything in them.

use crate::generate::{Behaviour, CLAIMS, Shape, generate};
use crate::model::{Decision, History, Model};
use crate::models::{
    Codec, FencedMutex, LockOp, Mutex, MutexOp, OwnerMutex, ReentrantMutex, Register, RegisterOp,
    RegisterRet, ShareOp, SharedLock,
};
use crate::operations::Builder;
use crate::testing::judge_all;
use fencepost_history::{Seed, Stream};
use rand::RngExt;

const HISTORIES: u64 = 20_000;

/// The same history with its events moved about, some ends unseen and some results replaced.
fn disturb<M: Model>(
    history: &History<M>,
    random: &mut Stream,
    other: impl Fn(&mut Stream, &M::Ret) -> M::Ret,
) -> History<M> {
    let mut order = history.order.clone();
    for _ in 0..random.random_range(0..12) {
        if order.len() > 1 {
            let at = random.random_range(1..order.len());
            // The operations of a process follow each other.
            let process = |event: u32| history.sources[(event >> 1) as usize].process;
            if process(order[at - 1]) != process(order[at]) {
                order.swap(at - 1, at);
            }
        }
    }
    let mut builder = Builder::new();
    let mut handles = vec![None; history.len()];
    for event in order {
        let at = (event >> 1) as usize;
        let operation = &history.list[at];
        if event & 1 == 0 {
            handles[at] = Some(builder.invoke(history.sources[at].process, operation.op.clone()));
        } else if !random.random_ratio(1, 25) {
            let ret = operation.ret.clone().expect("a completion has a result");
            let ret = if random.random_ratio(1, 6) { other(random, &ret) } else { ret };
            builder.complete(handles[at].expect("it began"), ret);
        }
    }
    builder.finish()
}

/// Checks histories that a perfect object makes, and disturbed ones.
fn perfect_and_disturbed<M: Codec + Behaviour>(model: &M, other: impl Fn(&mut Stream, &M::Ret) -> M::Ret) {
    let (mut possible, mut fitting) = (0, 0);
    for seed in 0..HISTORIES {
        let random = &mut Seed(seed).stream("shape");
        let shape = Shape {
            seed,
            operations: random.random_range(2..8),
            processes: random.random_range(1..5),
            indeterminate: *[0.0, 0.0, 0.1, 0.3].get(random.random_range(0..4)).unwrap_or(&0.0),
        };
        let history = generate(model, &shape);
        let disturbed = seed % 4 != 0;
        let history = if disturbed { disturb::<M>(&history, random, &other) } else { history };
        let (answer, decision) = judge_all(model, &history);
        assert!(answer || disturbed, "a perfect object made this: {history:?}");
        possible += u64::from(answer);
        fitting += u64::from(!matches!(decision, Decision::NotApplicable(_)));
    }
    assert!(
        possible > HISTORIES / 3 && possible < HISTORIES * 98 / 100,
        "{possible} of {HISTORIES} are possible"
    );
    assert!(fitting > 0);
}

/// Checks histories of random operations with random results, in a random order of events.
fn random<M: Codec>(
    model: &M,
    op: impl Fn(&mut Stream, u32) -> M::Op,
    ret: impl Fn(&mut Stream, &M::Op) -> M::Ret,
) {
    for seed in 0..HISTORIES {
        let random = &mut Seed(seed).stream("random");
        let mut builder = Builder::new();
        let processes = random.random_range(1..5_usize);
        let mut open = vec![None; processes];
        let mut numbers: Vec<u64> = (0..processes as u64).collect();
        let mut left = random.random_range(1..8);
        let unseen = random.random_range(0..4);
        while left > 0 || open.iter().any(Option::is_some) {
            let at = random.random_range(0..processes);
            match open[at].take() {
                None if left > 0 => {
                    left -= 1;
                    let op = op(random, numbers[at] as u32);
                    open[at] = Some((builder.invoke(numbers[at], op.clone()), op));
                }
                None => {}
                Some(_) if random.random_range(0..10) < unseen => {
                    // In half of all histories the process goes on, as Jepsen's never do.
                    numbers[at] += if seed % 2 == 0 { 0 } else { processes as u64 };
                }
                Some((handle, op)) => builder.complete(handle, ret(random, &op)),
            }
        }
        judge_all(model, &builder.finish());
    }
}

#[test]
fn mutex() {
    perfect_and_disturbed(&Mutex, |_, ()| ());
    random(&Mutex, |random, _| if random.random() { MutexOp::Acquire } else { MutexOp::Release }, |_, _| ());
}

fn lock_op(random: &mut Stream, process: u32) -> LockOp {
    if random.random() { LockOp::Acquire(process) } else { LockOp::Release(process) }
}

#[test]
fn owner_mutex() {
    perfect_and_disturbed(&OwnerMutex, |_, ()| ());
    random(&OwnerMutex, lock_op, |_, _| ());
}

#[test]
fn reentrant_mutex() {
    perfect_and_disturbed(&ReentrantMutex, |_, ()| ());
    random(&ReentrantMutex, lock_op, |_, _| ());
}

#[test]
fn fenced_mutex() {
    perfect_and_disturbed(&FencedMutex, |random, token| {
        token.map(|token| token + random.random_range(-3..3))
    });
    random(&FencedMutex, lock_op, |random, op| {
        matches!(op, LockOp::Acquire(_)).then(|| random.random_range(0..6))
    });
}

#[test]
fn shared_lock() {
    perfect_and_disturbed(&SharedLock, |_, ()| ());
    let op = |random: &mut Stream, process| match random.random_range(0..2) {
        0 => ShareOp::Acquire(process, CLAIMS[random.random_range(0..CLAIMS.len())]),
        _ => ShareOp::Release(process),
    };
    random(&SharedLock, op, |_, _| ());
}

#[test]
fn register() {
    let other = |random: &mut Stream, ret: &RegisterRet| match ret {
        RegisterRet::Value(_) => RegisterRet::Value(random.random_range(0..8)),
        done => *done,
    };
    perfect_and_disturbed(&Register::default(), other);
    perfect_and_disturbed(&Register::with_cas(), other);
    let any = |values: u32, with_cas: bool| {
        move |random: &mut Stream, _: u32| match random.random_range(0..if with_cas { 3 } else { 2 }) {
            0 => RegisterOp::Read,
            1 => RegisterOp::Write(random.random_range(1..=values)),
            _ => RegisterOp::Cas(random.random_range(0..=values), random.random_range(1..=values)),
        }
    };
    let ret = |values: u32| {
        move |random: &mut Stream, op: &RegisterOp| match op {
            RegisterOp::Read => RegisterRet::Value(random.random_range(0..=values)),
            RegisterOp::Cas(..) if random.random() => RegisterRet::Mismatch,
            RegisterOp::Cas(..) | RegisterOp::Write(_) => RegisterRet::Done,
        }
    };
    random(&Register::default(), any(2, false), ret(2));
    random(&Register::default(), any(8, false), ret(8));
    random(&Register::with_cas(), any(2, true), ret(2));
    random(&Register::with_cas(), any(4, true), ret(4));
}

#[test]
fn perfect_objects_at_length() {
    fn long<M: Codec + Behaviour>(model: &M) {
        for (operations, processes, indeterminate) in [(3_000, 5, 0.0), (3_000, 20, 0.01), (1_000, 60, 0.05)]
        {
            let history = generate(model, &Shape { seed: 1, operations, processes, indeterminate });
            assert!(history.len() > operations / 2, "{} operations", history.len());
            let mut order = Vec::new();
            if let Decision::Linearizable = model.decide(&history, Some(&mut order)) {
                crate::testing::replays(model, &history, &order).unwrap();
            } else {
                panic!("rejected");
            }
        }
    }
    long(&Mutex);
    long(&OwnerMutex);
    long(&FencedMutex);
    long(&ReentrantMutex);
    long(&SharedLock);
    long(&Register::default());
}
