//! A lock on several names is judged name by name. This holds that against one object with all names, whose
//! every order a brute force tries: both give the same answer.

use super::{LockOp, OwnerMutex};
use crate::model::{Decision, FastPath, History, Model};
use crate::operations::Builder;
use crate::testing::{brute_force, literal};
use fencepost_history::{Seed, Stream};
use rand::RngExt;

const HISTORIES: u64 = 20_000;
const NAMES: usize = 3;

/// One bit for each name.
type Names = u8;

/// All names as one object: a set is acquired and released as a whole, in one step.
#[derive(Debug)]
struct AllNames;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SetOp {
    names: Names,
    op: LockOp,
}

impl Model for AllNames {
    type State = [Option<u32>; NAMES];
    type Op = SetOp;
    type Ret = ();

    fn start(&self) -> Self::State {
        [None; NAMES]
    }

    fn step(&self, holders: &Self::State, op: &SetOp, _ret: Option<&()>) -> Option<Self::State> {
        let mut holders = *holders;
        for name in (0..NAMES).filter(|name| op.names & (1 << name) != 0) {
            holders[name] = match (op.op, holders[name]) {
                (LockOp::Acquire(process), None) => Some(process),
                (LockOp::Release(process), Some(holder)) if process == holder => None,
                _ => return None,
            };
        }
        Some(holders)
    }
}

/// Processes that acquire and release random sets, with random ends. A release names what its process asked
/// for last, and a process does nothing after an operation of unknown end, as in each run.
fn random_history(random: &mut Stream) -> History<AllNames> {
    let mut builder = Builder::new();
    let processes = random.random_range(1..5_usize);
    let (mut open, mut asked) = (vec![None; processes], vec![None; processes]);
    let mut is_gone = vec![false; processes];
    for _ in 0..random.random_range(2..18) {
        let at = random.random_range(0..processes);
        match open[at].take() {
            _ if is_gone[at] => {}
            Some(_) if random.random_ratio(1, 12) => is_gone[at] = true,
            Some(handle) => builder.complete(handle, ()),
            None => {
                let process = at as u32;
                let release = asked[at].take().filter(|_| random.random_ratio(9, 10));
                let op = release.map_or_else(
                    || SetOp { names: random.random_range(1..1 << NAMES), op: LockOp::Acquire(process) },
                    |names| SetOp { names, op: LockOp::Release(process) },
                );
                asked[at] = matches!(op.op, LockOp::Acquire(_)).then_some(op.names);
                open[at] = Some(builder.invoke(at as u64, op));
            }
        }
    }
    builder.finish()
}

/// What of the history concerns this name.
fn of_name(history: &History<AllNames>, name: usize) -> History<OwnerMutex> {
    let mut builder = Builder::new();
    let mut handles = vec![None; history.len()];
    for event in &history.order {
        let at = (event >> 1) as usize;
        let SetOp { names, op } = history.list[at].op;
        match (names & (1 << name), event & 1) {
            (0, _) => {}
            (_, 0) => handles[at] = Some(builder.invoke(history.process(at as u32), op)),
            _ => builder.complete(handles[at].expect("it began"), ()),
        }
    }
    builder.finish()
}

#[test]
fn each_name_by_itself_says_what_all_names_as_one_object_say() {
    let mut possible = 0;
    for seed in 0..HISTORIES {
        let history = random_history(&mut Seed(seed).stream("sets"));
        let truth = brute_force(&AllNames, &history);
        let by_name = (0..NAMES).all(|name| match OwnerMutex.decide(&of_name(&history, name), None) {
            Decision::Linearizable => true,
            Decision::Impossible(_) => false,
            Decision::NotApplicable(why) => panic!("{why}"),
        });
        assert_eq!(by_name, truth, "{}", literal(&AllNames, &history));
        possible += u64::from(truth);
    }
    assert!(
        (HISTORIES / 5..HISTORIES * 9 / 10).contains(&possible),
        "{possible} of {HISTORIES} are possible"
    );
}
