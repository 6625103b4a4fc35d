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
    let sentence = format!(
        "process {} acquired at {} and got token {}, although process {} had acquired before it, at {}, with token {}",
        history.process(later.1),
        history.completed(later.1),
        later.0,
        history.process(earlier.1),
        history.completed(earlier.1),
        earlier.0,
    );
    let core = [
        Some(earlier.1),
        release_of::<M>(history, earlier.1),
        Some(later.1),
        release_of::<M>(history, later.1),
    ];
    Conflict::new(core.into_iter().flatten().collect(), later.1, sentence)
}

pub(super) fn not_owner<M: Model<Op = LockOp>>(history: &History<M>, release: u32) -> Conflict {
    let process = history.process(release);
    let sentence = format!(
        "process {process} released from {} to {}, but it had not acquired since it last released",
        history.invoked(release),
        history.completed(release),
    );
    Conflict::new(vec![release], release, sentence)
}
