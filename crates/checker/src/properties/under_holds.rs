use crate::run_index::{Operation, RunIndex};
use fencepost_history::{Kind, OperationError, f};
use rustc_hash::FxHashMap;

pub(super) fn is_rejected(operation: &Operation) -> bool {
    let fail = operation.completion.filter(|event| operation.f() == f::WRITE && event.kind == Kind::Fail);
    fail.and_then(|event| event.error.as_ref()).is_some_and(OperationError::is_rejected)
}

/// The hold of each operation by its invocation's index: its process's last on the key, released or not.
pub(super) fn holds_of_operations(run: &RunIndex) -> FxHashMap<u64, usize> {
    let mut acquired: Vec<(u64, u64, &str, usize)> =
        run.excluding_holds().map(|(at, hold)| (hold.from, hold.process, hold.key, at)).collect();
    acquired.sort_unstable();
    let mut acquired = acquired.into_iter().peekable();
    let mut last: FxHashMap<(u64, &str), usize> = FxHashMap::default();
    let mut holds = FxHashMap::default();
    for operation in &run.operations {
        while let Some((_, process, key, at)) = acquired.next_if(|(from, ..)| *from < operation.invoke.index)
        {
            last.insert((process, key), at);
        }
        if let Some(&hold) = last.get(&(operation.process, operation.key)) {
            holds.insert(operation.invoke.index, hold);
        }
    }
    holds
}
