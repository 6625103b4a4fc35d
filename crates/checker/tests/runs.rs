//! Whole runs that were once judged wrongly, and what is right.

use fencepost_checker::{Outcome, Whose, check_run};
use fencepost_history::read_history;
use std::path::Path;

/// What a run shows: the checker and the class of its first finding, and whose failure that is; nothing of a
/// run that is valid.
type Shown<'a> = Option<(&'a str, &'a str, Whose)>;

const RUNS: [(&str, Shown); 7] = [
    // Without faults, no process gets a free lock for 17 of 20 seconds; the closing acquires have longer
    // time-outs than those of the run.
    ("fairness-bound", Some(("fairness", "idle", Whose::Library))),
    // Without faults, eight of ten processes never get the lock again: each refuses itself at once, since an
    // acquire that failed left something behind. And the same lock without that mistake.
    ("starved-below-the-bar", Some(("fairness", "starved", Whose::Library))),
    ("starved-below-the-bar-right", None),
    // A validity that counts from the first attempt, however long the lock was waited for.
    ("dead-on-arrival", Some(("validity", "over-on-arrival", Whose::Library))),
    // The lock lives for eight TTLs after its holder was killed.
    ("lease-outlives", Some(("progress", "late", Whose::Library))),
    // A lock that draws its token before it has the lock: holders get lower tokens than holds that were
    // released before them.
    ("token-drawn-early", Some(("fencing", "token-not-greater", Whose::Library))),
    // A grant that was waited for longer than its TTL, and renewed then.
    ("waited-longer-than-ttl", None),
];

#[test]
fn runs_that_were_once_judged_wrongly_are_judged_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs");
    for (name, shown) in RUNS {
        let events = read_history(&folder.join(format!("{name}.jsonl.gz"))).unwrap();
        let verdict = check_run(&events);
        let violated = verdict.verdicts.iter().find(|each| each.outcome == Outcome::Violation);
        let first = violated.map(|each| {
            let finding = &each.findings[0];
            (each.checker.as_str(), finding.class.as_str(), finding.whose.unwrap())
        });
        assert_eq!(first, shown, "{name}");
        let outcome = if shown.is_some() { Outcome::Violation } else { Outcome::Valid };
        assert_eq!(verdict.outcome, outcome, "{name}");
    }
}
