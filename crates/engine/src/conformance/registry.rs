//! All points, in the order in which they are checked. Those that disturb the servers come last.

use super::finding::Checked;
use super::scope::Scope;
use super::{beginning, grants, lease, load, operations, outage};
use std::pin::Pin;

type Check = for<'a> fn(&'a Scope<'a>) -> Pin<Box<dyn Future<Output = Checked> + Send + 'a>>;

/// Something that every client must do.
pub(super) struct Point {
    /// As in the report.
    pub(super) name: &'static str,
    /// What the client protocol asks for: one line.
    pub(super) rule: &'static str,
    pub(super) check: Check,
}

/// Points that are checked at the same time, because they mostly wait; others are alone.
pub(super) const GROUPS: &[&[Point]] = &[
    &[Point {
        name: "hello",
        rule: "the hello is answered in time, with what lock.toml promises",
        check: |scope| Box::pin(beginning::hello(scope)),
    }],
    &[Point {
        name: "grant",
        rule: "a free lock is granted and released; a release has `believed`",
        check: |scope| Box::pin(operations::grants(scope)),
    }],
    &[Point {
        name: "processes",
        rule: "processes of one client do not wait for each other",
        check: |scope| Box::pin(operations::processes(scope)),
    }],
    &[Point {
        name: "time-out",
        rule: "an acquire of a taken lock ends by its time-out",
        check: |scope| Box::pin(operations::time_out(scope)),
    }],
    &[Point {
        name: "next",
        rule: "after a release another client acquires",
        check: |scope| Box::pin(operations::next(scope)),
    }],
    &[Point {
        name: "holds",
        rule: "holds is true while the lock is held only",
        check: |scope| Box::pin(operations::holds(scope)),
    }],
    &[Point {
        name: "validity",
        rule: "validity_ms is never more than the TTL",
        check: |scope| Box::pin(grants::validity(scope)),
    }],
    &[Point { name: "tokens", rule: "fencing tokens grow", check: |scope| Box::pin(grants::tokens(scope)) }],
    &[
        Point {
            name: "client-gone",
            rule: "the lock of a client that is gone becomes free by itself",
            check: |scope| Box::pin(lease::client_gone(scope)),
        },
        Point {
            name: "process-over",
            rule: "the lock of a process that is over becomes free by itself",
            check: |scope| Box::pin(lease::process_over(scope)),
        },
        Point {
            name: "late-release",
            rule: "a release after the TTL leaves the next holder's lock alone",
            check: |scope| Box::pin(lease::late_release(scope)),
        },
    ],
    &[Point {
        name: "peace",
        rule: "without faults: at most 1 % `info`, at least one grant a second",
        check: |scope| Box::pin(load::use_in_peace(scope)),
    }],
    &[Point {
        name: "end-of-input",
        rule: "the client exits when its input ends",
        check: |scope| Box::pin(beginning::end_of_input(scope)),
    }],
    &[Point {
        name: "unanswered",
        rule: "an acquire that no server answers is `info`, unless it is certain",
        check: |scope| Box::pin(outage::unanswered(scope)),
    }],
    &[Point {
        name: "lost",
        rule: "a lost lock is reported, and holds is false after that",
        check: |scope| Box::pin(outage::lost(scope)),
    }],
    &[Point {
        name: "unreachable",
        rule: "an acquire that was not sent is `fail`",
        check: |scope| Box::pin(outage::unreachable(scope)),
    }],
];
