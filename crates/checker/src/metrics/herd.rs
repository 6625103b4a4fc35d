//! Waiters, where acquires ask for it (`"queue": true`): wake-ups a release, and the order of grants against
//! that of arrival. A lock that knows tells with each grant how often its waiter was woken (`wakeups`) and
//! its place in the queue (`arrival`: a sequence number, a create revision); else invocations give the order.

use super::Metric;
use crate::run_index::{Operation, RunIndex};
use fencepost_history::f;
use rustc_hash::FxHashMap;

pub(crate) const WAKEUPS: &str = "wake-ups a release";
/// The share of grants that went to somebody while one who had come earlier still waited.
pub(crate) const PASSED: &str = "grants that went past an earlier waiter";

pub(crate) fn metrics(run: &RunIndex) -> Vec<Metric> {
    let queued =
        |operation: &&Operation| operation.f() == f::ACQUIRE && operation.asked().queue == Some(true);
    let mut grants: Vec<&Operation> =
        run.operations.iter().filter(queued).filter(|operation| operation.ok().is_some()).collect();
    if grants.is_empty() {
        return Vec::new();
    }
    grants.sort_by_key(|grant| grant.completion.map(|event| event.index));
    let mut metrics: Vec<Metric> = wakeups(run, &grants).into_iter().collect();
    metrics.push(Metric::share(PASSED, passed(&grants), grants.len()));
    metrics
}

fn wakeups(run: &RunIndex, grants: &[&Operation]) -> Option<Metric> {
    let reported: Vec<u64> = grants.iter().filter_map(|grant| number(grant, "wakeups")).collect();
    if reported.is_empty() {
        return None;
    }
    let released =
        run.operations.iter().filter(|operation| operation.f() == f::RELEASE && operation.ok().is_some());
    let releases = released.count().max(1);
    Some(Metric::new(WAKEUPS, reported.iter().sum::<u64>() as f64 / releases as f64, ""))
}

fn passed(grants: &[&Operation]) -> usize {
    let mut arrivals: FxHashMap<&str, Vec<u64>> = FxHashMap::default();
    for grant in grants {
        let arrival = number(grant, "arrival").unwrap_or(grant.invoke.index);
        arrivals.entry(grant.key).or_default().push(arrival);
    }
    let mut count = 0;
    for arrivals in arrivals.values() {
        let mut earliest_later = u64::MAX;
        for &arrival in arrivals.iter().rev() {
            count += usize::from(earliest_later < arrival);
            earliest_later = earliest_later.min(arrival);
        }
    }
    count
}

fn number(grant: &Operation, name: &str) -> Option<u64> {
    grant.ok()?.value.get(name)?.as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::events;

    fn shown(text: &str) -> Vec<String> {
        metrics(&RunIndex::new(&events(text)).unwrap()).iter().map(ToString::to_string).collect()
    }

    const QUEUE: &str = "
        0 1 invoke acquire a {queue:true}
        1 2 invoke acquire a {queue:true}
        2 3 invoke acquire a {queue:true}
        3 1 ok     acquire a {wakeups:0}
        4 1 invoke release a
        5 1 ok     release a
        6 2 ok     acquire a {wakeups:1}
        7 2 invoke release a
        8 2 ok     release a
        9 3 ok     acquire a {wakeups:2}";

    #[test]
    fn a_queue_is_in_order() {
        let [wakeups, passed] = &shown(QUEUE)[..] else { panic!("two metrics") };
        assert_eq!(wakeups, "wake-ups a release 1.5");
        assert!(passed.starts_with("grants that went past an earlier waiter 0.0 %"), "{passed}");
    }

    #[test]
    fn a_grant_out_of_order_is_counted_by_invocation_or_by_place() {
        let passed = |text: &str| shown(text).last().unwrap().split(" (").next().unwrap().to_owned();
        let swapped =
            QUEUE.replace("6 2 ok     acquire a {wakeups:1}", "6 3 ok acquire a").replace("9 3 ok", "9 2 ok");
        let swapped = swapped.replace("7 2 invoke", "7 3 invoke").replace("8 2 ok", "8 3 ok");
        assert_eq!(passed(&swapped), "grants that went past an earlier waiter 33.3 %");
        // By its place in the queue, 3 had come before 2.
        let placed = swapped
            .replace("1 ok     acquire a {wakeups:0}", "1 ok acquire a {arrival:10}")
            .replace("6 3 ok acquire a", "6 3 ok acquire a {arrival:11}")
            .replace("9 2 ok     acquire a {wakeups:2}", "9 2 ok acquire a {arrival:12}");
        assert_eq!(passed(&placed), "grants that went past an earlier waiter 0.0 %");
    }

    #[test]
    fn is_absent_without_a_queue() {
        assert_eq!(shown(&QUEUE.replace("{queue:true}", "null")), Vec::<String>::new());
    }
}
