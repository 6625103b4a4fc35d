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

macro_rules! groups {
    ($([$($name:literal of $about:ident by $check:path: $asks:literal),+ $(,)?],)+) => {
        &[$(&[$(Rule {
            name: $name,
            asks: $asks,
            about: RuleSubject::$about,
            check: |context| Box::pin($check(context)),
        }),+]),+]
    };
}

/// Points that are checked at the same time, because they mostly wait; others are alone.
pub(super) const GROUPS: &[&[Rule]] = groups![
    ["hello" of Client by beginning::hello: "the hello is answered in time, with what lock.toml promises"],
    ["grant" of Client by operations::grants:
        "a free lock is granted and released; a release has `believed`"],
    ["keys" of Library by keys::are_apart: "a key is granted while another key is held"],
    ["processes" of Client by operations::processes: "processes of one client do not wait for each other"],
    ["time-out" of Library by operations::time_out: "an acquire of a taken lock ends by its time-out"],
    ["next" of Library by operations::next: "after a release another client acquires"],
    ["together" of Library by together::check:
        "as many hold the lock together as its kind permits, and no more"],
    ["holds" of Client by operations::holds: "holds is true while the lock is held only"],
    ["validity" of Library by grants::validity: "validity_ms is never more than the TTL"],
    ["tokens" of Library by grants::tokens: "fencing tokens grow"],
    [
        "client-gone" of Library by lease::client_gone:
            "the lock of a client that is gone becomes free by itself",
        "process-over" of Client by lease::process_over:
            "the lock of a process that is over becomes free by itself",
        "late-release" of Library by lease::late_release:
            "a release after the TTL leaves the next holder's lock alone",
        "renewal" of Library by lease::renewal: "a lock that announces `extend` reports each renewal",
        "prolong" of Library by prolong::check: "a lock is prolonged while it is held, and no longer",
        "cancel" of Library by cancel::check:
            "an acquire that is given up ends soon, and leaves no lock behind",
        "leader" of Library by leader::check:
            "a client that can say who leads names the leader, and not one that has resigned",
    ],
    ["peace" of Library by load::use_without_faults:
        "without faults: at most 1 % `info`, at least one grant a second"],
    ["end-of-input" of Client by beginning::end_of_input: "the client exits when its input ends"],
    ["unanswered" of Client by outage::unanswered:
        "an acquire that no server answers is `info`, unless it is certain"],
    ["lost" of Library by outage::lost: "a lost lock is reported, and holds is false after that"],
    ["unreachable" of Client by outage::unreachable: "an acquire that was not sent is `fail`"],
];
