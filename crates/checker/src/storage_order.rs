use crate::run_index::{Operation, RunIndex};
use fencepost_history::{Kind, STORAGE_LOG, StorageAccess, f};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use serde_json::Value;

/// The operations that reached the storage, as places in [`RunIndex::operations`], in the order of the
/// storage's own log; empty where the history has none. A process's requests reach the storage in their
/// order, but for a read that it gave up: that may stand in the place of a later one of the same process,
/// which makes no holder look later than it was. Processes whose accesses do not fit their operations are
/// left out: nothing is concluded from what is not understood.
pub(crate) fn storage_order(run: &RunIndex) -> Vec<usize> {
    let accesses = log(run);
    if accesses.is_empty() {
        return Vec::new();
    }
    let mut sent: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    for (at, operation) in run.operations.iter().enumerate().filter(|(_, operation)| may_arrive(operation)) {
        sent.entry(operation.process).or_default().push(at);
    }
    let mut next: FxHashMap<u64, usize> = FxHashMap::default();
    let mut order = Vec::new();
    let mut not_in_log_order: FxHashSet<u64> = FxHashSet::default();
    for access in accesses {
        let (Some(sent), next) = (sent.get(&access.process), next.entry(access.process).or_default()) else {
            continue;
        };
        let fitting = (*next..sent.len()).find(|at| is_of(&run.operations[sent[*at]], &access));
        let Some(at) = fitting else {
            not_in_log_order.insert(access.process);
            continue;
        };
        if sent[*next..at].iter().any(|skipped| run.operations[*skipped].ok().is_some()) {
            not_in_log_order.insert(access.process);
        }
        *next = at + 1;
        order.push(sent[at]);
    }
    // An operation that was answered must be in the log.
    for (process, sent) in &sent {
        let rest = &sent[next.get(process).copied().unwrap_or_default()..];
        if rest.iter().any(|missing| run.operations[*missing].ok().is_some()) {
            not_in_log_order.insert(*process);
        }
    }
    order.retain(|at| !not_in_log_order.contains(&run.operations[*at].process));
    order
}

fn log(run: &RunIndex) -> Vec<StorageAccess> {
    let parts = run.events.iter().filter(|event| event.f == STORAGE_LOG);
    parts.flat_map(|event| Vec::<StorageAccess>::deserialize(&*event.value).unwrap_or_default()).collect()
}

/// Whether the storage may have carried it out: also a read that was given up, which ends in `fail`.
fn may_arrive(operation: &Operation) -> bool {
    match operation.f() {
        f::READ => true,
        f::WRITE => operation.completion.is_none_or(|event| event.kind != Kind::Fail),
        _ => false,
    }
}

fn is_of(operation: &Operation, access: &StorageAccess) -> bool {
    let written = || match operation.invoke.value.as_array() {
        Some(list) => list.last().unwrap_or(&Value::Null),
        None => &*operation.invoke.value,
    };
    operation.f() == &*access.f
        && operation.key == &*access.key
        && (operation.f() == f::READ || *written() == access.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::events;

    const RUN: &str = "
        0  1 invoke acquire a {ttl_ms:10}
        1  1 ok     acquire a
        2  1 invoke read    a
        3  1 ok     read    a 4
        4  1 invoke write   a 5
        5  2 invoke acquire a {ttl_ms:10}
        21 2 ok     acquire a
        22 2 invoke read    a
        23 2 ok     read    a 4
        30 1 info   write   a null timeout: no answer";

    fn order(log: &str) -> Vec<(u64, String)> {
        let events = events(&format!("{RUN}\n40 nemesis info storage-log - {log}"));
        let run = RunIndex::new(&events).expect("well formed");
        let named = |at: &usize| (run.operations[*at].process, run.operations[*at].f().to_owned());
        storage_order(&run).iter().map(named).collect()
    }

    #[test]
    fn each_access_is_the_operation_that_sent_it() {
        let order = order(r#"[["a",1,"read",null],["a",2,"read",null],["a",1,"write",5]]"#);
        assert_eq!(order, [(1, "read".to_owned()), (2, "read".to_owned()), (1, "write".to_owned())]);
    }

    #[test]
    fn an_indeterminate_write_may_be_missing() {
        let order = order(r#"[["a",1,"read",null],["a",2,"read",null]]"#);
        assert_eq!(order.len(), 2);
    }

    #[test]
    fn a_process_whose_accesses_do_not_fit_is_left_out() {
        // Its read was answered, and is not in the log.
        assert_eq!(order(r#"[["a",2,"read",null],["a",1,"write",5]]"#), [(2, "read".to_owned())]);
        // It never wrote a 6.
        let foreign = r#"[["a",1,"read",null],["a",2,"read",null],["a",1,"write",6]]"#;
        assert_eq!(order(foreign), [(2, "read".to_owned())]);
        assert!(order("[]").is_empty());
    }
}
