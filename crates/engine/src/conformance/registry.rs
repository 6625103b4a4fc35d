//! All rules, in the order in which they are checked. Those that disturb the servers come last.

use super::check_result::{Checked, RuleSubject};
use super::session::RuleContext;
use super::{beginning, cancel, grants, keys, leader, lease, load, operations, outage, prolong, together};
use fencepost_history::LockKind;
use std::pin::Pin;

type CheckFunction = for<'a> fn(&'a RuleContext<'a>) -> Pin<Box<dyn Future<Output = Checked> + Send + 'a>>;

pub(super) struct Rule {
    pub(super) name: &'static str,
    /// What the client protocol asks for: one line.
    pub(super) asks: &'static str,
    pub(super) about: RuleSubject,
    pub(super) check: CheckFunction,
}

/// The rule that a mutex has no use for.
const TOGETHER: &str = "together";

/// The rules of which nothing is said where a lock cannot do it.
pub(super) const OPTIONAL: [&str; 3] = ["prolong", "cancel", "leader"];

pub(super) fn groups(kind: LockKind) -> impl Iterator<Item = &'static [Rule]> {
    let groups = GROUPS.iter().filter(move |group| kind.announced().is_some() || group[0].name != TOGETHER);
    groups.copied()
}

/// Points that are checked at the same time, because they mostly wait; others are alone.
pub(super) const GROUPS: &[&[Rule]] = &[
    &[Rule {
        name: "hello",
        asks: "the hello is answered in time, with what lock.toml promises",
        about: RuleSubject::Client,
        check: |context| Box::pin(beginning::hello(context)),
    }],
    &[Rule {
        name: "grant",
        asks: "a free lock is granted and released; a release has `believed`",
        about: RuleSubject::Client,
        check: |context| Box::pin(operations::grants(context)),
    }],
    &[Rule {
        name: "keys",
        asks: "a key is granted while another key is held",
        about: RuleSubject::Library,
        check: |context| Box::pin(keys::are_apart(context)),
    }],
    &[Rule {
        name: "processes",
        asks: "processes of one client do not wait for each other",
        about: RuleSubject::Client,
        check: |context| Box::pin(operations::processes(context)),
    }],
    &[Rule {
        name: "time-out",
        asks: "an acquire of a taken lock ends by its time-out",
        about: RuleSubject::Library,
        check: |context| Box::pin(operations::time_out(context)),
    }],
    &[Rule {
        name: "next",
        asks: "after a release another client acquires",
        about: RuleSubject::Library,
        check: |context| Box::pin(operations::next(context)),
    }],
    &[Rule {
        name: TOGETHER,
        asks: "as many hold the lock together as its kind permits, and no more",
        about: RuleSubject::Library,
        check: |context| Box::pin(together::check(context)),
    }],
    &[Rule {
        name: "holds",
        asks: "holds is true while the lock is held only",
        about: RuleSubject::Client,
        check: |context| Box::pin(operations::holds(context)),
    }],
    &[Rule {
        name: "validity",
        asks: "validity_ms is never more than the TTL",
        about: RuleSubject::Library,
        check: |context| Box::pin(grants::validity(context)),
    }],
    &[Rule {
        name: "tokens",
        asks: "fencing tokens grow",
        about: RuleSubject::Library,
        check: |context| Box::pin(grants::tokens(context)),
    }],
    &[
        Rule {
            name: "client-gone",
            asks: "the lock of a client that is gone becomes free by itself",
            about: RuleSubject::Library,
            check: |context| Box::pin(lease::client_gone(context)),
        },
        Rule {
            name: "process-over",
            asks: "the lock of a process that is over becomes free by itself",
            about: RuleSubject::Client,
            check: |context| Box::pin(lease::process_over(context)),
        },
        Rule {
            name: "late-release",
            asks: "a release after the TTL leaves the next holder's lock alone",
            about: RuleSubject::Library,
            check: |context| Box::pin(lease::late_release(context)),
        },
        Rule {
            name: "renewal",
            asks: "a lock that announces `extend` reports each renewal",
            about: RuleSubject::Library,
            check: |context| Box::pin(lease::renewal(context)),
        },
        Rule {
            name: "prolong",
            asks: "a lock is prolonged while it is held, and no longer",
            about: RuleSubject::Library,
            check: |context| Box::pin(prolong::check(context)),
        },
        Rule {
            name: "cancel",
            asks: "an acquire that is given up ends soon, and leaves no lock behind",
            about: RuleSubject::Library,
            check: |context| Box::pin(cancel::check(context)),
        },
        Rule {
            name: "leader",
            asks: "a client that can say who leads names the leader, and not one that has resigned",
            about: RuleSubject::Library,
            check: |context| Box::pin(leader::check(context)),
        },
    ],
    &[Rule {
        name: "peace",
        asks: "without faults: at most 1 % `info`, at least one grant a second",
        about: RuleSubject::Library,
        check: |context| Box::pin(load::use_without_faults(context)),
    }],
    &[Rule {
        name: "end-of-input",
        asks: "the client exits when its input ends",
        about: RuleSubject::Client,
        check: |context| Box::pin(beginning::end_of_input(context)),
    }],
    &[Rule {
        name: "unanswered",
        asks: "an acquire that no server answers is `info`, unless it is certain",
        about: RuleSubject::Client,
        check: |context| Box::pin(outage::unanswered(context)),
    }],
    &[Rule {
        name: "lost",
        asks: "a lost lock is reported, and holds is false after that",
        about: RuleSubject::Library,
        check: |context| Box::pin(outage::lost(context)),
    }],
    &[Rule {
        name: "unreachable",
        asks: "an acquire that was not sent is `fail`",
        about: RuleSubject::Client,
        check: |context| Box::pin(outage::unreachable(context)),
    }],
];
