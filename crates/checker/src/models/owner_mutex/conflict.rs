use super::operation::LockOp;
use crate::model::{Conflict, History, Model};

fn release_of<M: Model<Op = LockOp>>(history: &History<M>, acquire: u32) -> Option<u32> {
    let process = history.list[acquire as usize].op.process();
    let mut after =
        (acquire + 1..history.len() as u32).filter(|&at| history.list[at as usize].op.process() == process);
    after.next().filter(|&at| matches!(history.list[at as usize].op, LockOp::Release(_)))
}

pub(super) fn held_twice<M: Model<Op = LockOp>>(history: &History<M>, earlier: u32, later: u32) -> Conflict {
    let (first, second) = (history.process(earlier), history.process(later));
    let release = release_of::<M>(history, earlier);
    let state = match release {
        Some(release) => format!("did not begin to release before {}", history.invoked(release)),
        None => "never released".to_owned(),
    };
    let sentence = if first == second {
        format!(
            "process {second} acquired at {} although it had already acquired at {} and not released",
            history.completed(later),
            history.completed(earlier),
        )
    } else {
        format!(
            "process {second} acquired at {} while process {first}, which had acquired at {}, {state}",
            history.completed(later),
            history.completed(earlier),
        )
    };
    let core = [Some(earlier), release, Some(later), release_of::<M>(history, later)];
    Conflict::new(core.into_iter().flatten().collect(), later, sentence)
}

pub(super) fn token_not_greater<M: Model<Op = LockOp>>(
    history: &History<M>,
    earlier: (i64, u32),
    later: (i64, u32),
) -> Conflict {
    let ((less, first), (token, second)) = (earlier, later);
    let [one, other] = [second, first].map(|at| (history.process(at), history.completed(at)));
    let sentence = format!(
        "process {} acquired at {} and got token {token}, although process {} had acquired before it, at {}, with token {less}",
        one.0, one.1, other.0, other.1,
    );
    let core = [Some(first), release_of::<M>(history, first), Some(second), release_of::<M>(history, second)];
    Conflict::new(core.into_iter().flatten().collect(), second, sentence)
}

pub(in crate::models) fn not_owner<M: Model>(history: &History<M>, release: u32) -> Conflict {
    let process = history.process(release);
    let sentence = format!(
        "process {process} released from {} to {}, but it had not acquired since it last released",
        history.invoked(release),
        history.completed(release),
    );
    Conflict::new(vec![release], release, sentence)
}
