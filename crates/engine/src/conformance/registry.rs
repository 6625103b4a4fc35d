//! All points, in the order in which they are checked. Those that disturb the servers come last.

use super::check_result::{Checked, PointSubject};
use super::session::PointContext;
use super::{beginning, grants, lease, load, operations, outage};
use std::pin::Pin;

type Check = for<'a> fn(&'a PointContext<'a>) -> Pin<Box<dyn Future<Output = Checked> + Send + 'a>>;

/// Something that every client must do.
pub(super) struct Point {
    /// As in the report.
    pub(super) name: &'static str,
    /// What the client protocol asks for: one line.
    pub(super) rule: &'static str,
    /// Whose part it is.
    pub(super) about: PointSubject,
    pub(super) check: Check,
}

/// Points that are checked at the same time, because they mostly wait; others are alone.
pub(super) const GROUPS: &[&[Point]] = &[
    &[Point {
        name: "hello",
        rule: "the hello is answered in time, with what lock.toml promises",
        about: PointSubject::Client,
        check: |context| Box::pin(beginning::hello(context)),
    }],
    &[Point {
        name: "grant",
        rule: "a free lock is granted and released; a release has `believed`",
        about: PointSubject::Client,
        check: |context| Box::pin(operations::grants(context)),
    }],
    &[Point {
        name: "processes",
        rule: "processes of one client do not wait for each other",
        about: PointSubject::Client,
        check: |context| Box::pin(operations::processes(context)),
    }],
    &[Point {
        name: "time-out",
        rule: "an acquire of a taken lock ends by its time-out",
        about: PointSubject::Library,
        check: |context| Box::pin(operations::time_out(context)),
    }],
    &[Point {
        name: "next",
        rule: "after a release another client acquires",
        about: PointSubject::Library,
        check: |context| Box::pin(operations::next(context)),
    }],
    &[Point {
        name: "holds",
        rule: "holds is true while the lock is held only",
        about: PointSubject::Client,
        check: |context| Box::pin(operations::holds(context)),
    }],
    &[Point {
        name: "validity",
        rule: "validity_ms is never more than the TTL",
        about: PointSubject::Library,
        check: |context| Box::pin(grants::validity(context)),
    }],
    &[Point {
        name: "tokens",
        rule: "fencing tokens grow",
        about: PointSubject::Library,
        check: |context| Box::pin(grants::tokens(context)),
    }],
    &[
        Point {
            name: "client-gone",
            rule: "the lock of a client that is gone becomes free by itself",
            about: PointSubject::Library,
            check: |context| Box::pin(lease::client_gone(context)),
        },
        Point {
            name: "process-over",
            rule: "the lock of a process that is over becomes free by itself",
            about: PointSubject::Client,
            check: |context| Box::pin(lease::process_over(context)),
        },
        Point {
            name: "late-release",
            rule: "a release after the TTL leaves the next holder's lock alone",
            about: PointSubject::Library,
            check: |context| Box::pin(lease::late_release(context)),
        },
        Point {
            name: "renewal",
            rule: "a lock that announces `extend` reports each renewal",
            about: PointSubject::Library,
            check: |context| Box::pin(lease::renewal(context)),
        },
    ],
    &[Point {
        name: "peace",
        rule: "without faults: at most 1 % `info`, at least one grant a second",
        about: PointSubject::Library,
        check: |context| Box::pin(load::use_in_peace(context)),
    }],
    &[Point {
        name: "end-of-input",
        rule: "the client exits when its input ends",
        about: PointSubject::Client,
        check: |context| Box::pin(beginning::end_of_input(context)),
    }],
    &[Point {
        name: "unanswered",
        rule: "an acquire that no server answers is `info`, unless it is certain",
        about: PointSubject::Client,
        check: |context| Box::pin(outage::unanswered(context)),
    }],
    &[Point {
        name: "lost",
        rule: "a lost lock is reported, and holds is false after that",
        about: PointSubject::Library,
        check: |context| Box::pin(outage::lost(context)),
    }],
    &[Point {
        name: "unreachable",
        rule: "an acquire that was not sent is `fail`",
        about: PointSubject::Client,
        check: |context| Box::pin(outage::unreachable(context)),
    }],
];
