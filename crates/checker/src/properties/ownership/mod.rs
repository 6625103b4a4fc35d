//! Only the owner releases: no release removes the lock of another process. A process that overstayed its
//! lease and then releases without looking deletes whatever stands there, which may be the next holder's
//! lock. Only the lock can see that, in the answer of its server. Two things count as evidence, each from the
//! release itself; nothing is inferred from holds alone.
//!
//! - *The owner.* The completion says whose lock it removed (`removed_owner`: a process number, or null for
//!   none), and that is another process.
//! - *Something.* Where the lock has one place, the completion may say only that something was removed from
//!   it (`removed`). Let process p be granted the lock, and later q: the acquire of q was invoked after that
//!   of p was complete, and complete before p began its release; and p's lease had run out before it began.
//!   (While it still ran, q may have been granted another place, as with a key of each client's own.) If p
//!   acquired nothing since, what its release removed was not its own. That holds where there is one server
//!   that forgot nothing in between: with several, q may have been granted the lock at another than p
//!   releases it at, and a server that was started again may have p's lock back. An acquire of p's that ended
//!   without a certain no may have taken the place for p, too.
//!
//! A release that removed nothing while its process still believed shows that the lock was gone, not who
//! removed it: the lease may have run out, or the request been sent twice. These are counted. A release
//! answered as done while no server could be reached: see [`unreached`].

mod unreached;

use super::checker::{Checker, FindingClass, NotJudged, not_judged_if};
use crate::figures::figures;
use crate::ledger::removals::took;
use crate::prose::seconds;
use crate::run_index::{Hold, HoldEnd, Operation, RunIndex};
use crate::verdict::{Finding, Verdict};
use fencepost_history::prose::counted;
use fencepost_history::{Kind, Released, f};
use std::ops::Range;
use unreached::{Unreached, unreached};

figures! {
    /// What releases removed.
    OwnershipFigures of "ownership" {
        /// Those that say what they removed.
        releases: u64,
        found_nothing: u64,
        of_others: u64,
    }
}

#[derive(Clone, Copy)]
enum Removed {
    Owner(Option<u64>),
    Something(bool),
}

pub(super) const OWNERSHIP: Checker = Checker {
    classes: &[
        FindingClass {
            name: "removed-by-another",
            meaning: "A release removed the lock of another process.",
            advice: "Release by comparing and deleting in one step, with a value that is unique to each acquisition.",
        },
        FindingClass {
            name: "released-by-no-server",
            meaning: "A release was answered as done while no server could be reached, so it released nothing.",
            advice: "Let a release whose request failed, or was not answered, say so: the lock is taken until its lease runs out.",
        },
    ],
    ..Checker::of::<OwnershipFigures>("ownership: no release removed the lock of another process", check)
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let releases = run.calls(f::RELEASE);
    let reported: Vec<(&Operation, Removed)> =
        releases.filter_map(|release| Some((release, removed(release)?))).collect();
    let unreached: Vec<Finding> = unreached(run).iter().map(released_by_no_server).collect();
    not_judged_if!(reported.is_empty() && unreached.is_empty(), "no release reported what it removed");
    let findings: Vec<Finding> =
        reported.iter().filter_map(|&(release, removed)| broken(run, release, removed)).collect();
    let nothing = |(_, removed): &&(&Operation, Removed)| {
        matches!(removed, Removed::Owner(None) | Removed::Something(false))
    };
    let found_nothing = reported.iter().filter(nothing).count();
    let (reported, count) = (reported.len(), findings.len());
    let summary = match count {
        0 => {
            let rest = match found_nothing {
                0 => String::new(),
                many => format!(", and {many} found nothing"),
            };
            format!(
                "of {reported} releases that reported what they removed, none removed another's lock{rest}"
            )
        }
        1 => format!("one of {reported} releases removed the lock of another process"),
        _ => format!("{count} of {reported} releases removed the lock of another process"),
    };
    let summary = match (unreached.len() as u64, count) {
        (0, _) => summary,
        (many, 0) => done_by_none(many),
        (many, _) => format!("{summary}; {}", done_by_none(many)),
    };
    let (releases, found_nothing, of_others) = (reported as u64, found_nothing as u64, count as u64);
    let figures = OwnershipFigures { releases, found_nothing, of_others };
    Ok(checker.judged(summary, &figures, [findings, unreached].concat()))
}

fn done_by_none(many: u64) -> String {
    let were = counted(many, "release was", "releases were");
    format!("{were} answered as done while no server could be reached")
}

fn removed(release: &Operation) -> Option<Removed> {
    let said = Released::of(&release.completion?.value);
    if let Some(owner) = said.removed_owner {
        return Some(Removed::Owner(owner));
    }
    match (said.removed?, release.completion?.kind) {
        (removed, Kind::Ok) => Some(Removed::Something(removed)),
        // It did not happen because there was nothing to remove.
        (false, Kind::Fail) => Some(Removed::Something(false)),
        _ => None,
    }
}

fn broken(run: &RunIndex, release: &Operation, removed: Removed) -> Option<Finding> {
    match removed {
        Removed::Owner(Some(owner)) if owner != release.process => Some(of_another(run, release, owner)),
        Removed::Something(true) => not_its_own(run, release),
        Removed::Owner(_) | Removed::Something(false) => None,
    }
}

fn finding(release: &Operation, holds: &[&Hold], sentence: String) -> Finding {
    let done = release.completion.expect("only a completion says what was removed");
    let events = holds.iter().map(|hold| hold.from).chain([release.invoke.index, done.index]);
    Finding::new("removed-by-another", release.key, done.time, events.collect(), sentence)
}

fn described(release: &Operation) -> String {
    let lock =
        if release.key.is_empty() { "the lock".to_owned() } else { format!("the lock {}", release.key) };
    let done_ns = release.completion.map_or(release.invoke.time, |event| event.time);
    let (began, ended) = (seconds(release.invoke.time), seconds(done_ns));
    format!("the release of {lock} by process {} (from {began} to {ended})", release.process)
}

fn of_another(run: &RunIndex, release: &Operation, owner: u64) -> Finding {
    let done = release.completion.expect("only a completion says what was removed");
    let hold = last_hold(run, release, 0..done.index, |hold| hold.process == owner);
    let held = match hold {
        Some(hold) if hold.ends.how == HoldEnd::Open || hold.ends.let_go_ns > done.time => {
            format!(", which had acquired it at {} and not yet begun to release", seconds(hold.from_ns))
        }
        Some(hold) => format!(", which had acquired it at {}", seconds(hold.from_ns)),
        None => ", which had not yet learned that it had acquired it".to_owned(),
    };
    let sentence = format!("{} removed the lock of process {owner}{held}", described(release));
    finding(release, hold.as_slice(), sentence)
}

fn released_by_no_server(unreached: &Unreached) -> Finding {
    let Unreached { release, hold, outage: (from_ns, until_ns) } = unreached;
    let until = if *until_ns == u64::MAX { "the end".to_owned() } else { seconds(*until_ns) };
    let sentence = format!(
        "{} was answered as done, although no server could be reached from its client from {} to {until}: it removed nothing of the \
         lock that was acquired at {}",
        described(release),
        seconds(*from_ns),
        seconds(hold.from_ns),
    );
    Finding { class: "released-by-no-server".to_owned(), ..finding(release, &[hold], sentence) }
}

fn not_its_own(run: &RunIndex, release: &Operation) -> Option<Finding> {
    let before = release.invoke.index;
    let own = last_hold(run, release, 0..before, |hold| hold.process == release.process)?;
    // In most runs there is none: only those that began after its own are looked at.
    let later = last_hold(run, release, own.from..before, |hold| {
        hold.process != release.process && run.operations[hold.acquire].invoke.index > own.from
    })?;
    // Counted from its latest beginning: the answer, or the last renewal.
    let had_run_out = own.ends.over.is_some_and(|over| over.ns <= release.invoke.time);
    let done_ns = release.completion.map_or(release.invoke.time, |event| event.time);
    // Those who share a lock stand side by side.
    let are_alone = own.claim.is_alone() && later.claim.is_alone();
    if !had_run_out || !are_alone || !took(&run.setting(), &run.holds, later, release) {
        return None;
    }
    let [own_from, from, to] = [own.from_ns, later.invoke_ns, later.from_ns].map(seconds);
    let sentence = format!(
        "{} removed {}: its own, acquired at {own_from}, had run out by then, and process {} had acquired the lock from {from} to {to}",
        described(release),
        whose(later, done_ns),
        later.process,
    );
    Some(finding(release, &[own, later], sentence))
}

fn whose(later: &Hold, done_ns: u64) -> String {
    let held = later.end_earliest_ns() > done_ns;
    match held {
        true => format!("the lock of process {}", later.process),
        false => "a lock of another process".to_owned(),
    }
}

/// The last hold of the key that fits, and began between two events.
fn last_hold<'a>(
    run: &'a RunIndex,
    release: &Operation,
    between: Range<u64>,
    fits: impl Fn(&Hold) -> bool,
) -> Option<&'a Hold<'a>> {
    let [first, end] =
        [between.start, between.end].map(|at| run.holds.partition_point(|hold| hold.from < at));
    run.holds[first..end].iter().rev().find(|hold| hold.key == release.key && fits(hold))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{maybe_verdict, verdict};
    use crate::verdict::Outcome;

    /// Process 1 overstays, and its release removes the lock of process 2.
    const BLIND: &str = "
        0    1 invoke acquire a {ttl_ms:2000}
        10   1 ok     acquire a
        2100 2 invoke acquire a {ttl_ms:2000}
        2110 2 ok     acquire a
        2200 1 invoke release a
        2210 1 ok     release a {believed:true,removed_owner:2}
        2300 2 invoke release a
        2310 2 ok     release a {believed:true,removed_owner:null}";

    #[test]
    fn rejects_a_release_that_removes_the_lock_of_another() {
        let verdict = verdict(&OWNERSHIP, BLIND);
        assert_eq!(verdict.outcome, Outcome::Violation);
        assert_eq!(verdict.summary, "one of 2 releases removed the lock of another process");
        assert_eq!(verdict.findings[0].events, [3, 4, 5]);
        assert_eq!(
            verdict.findings[0].sentence,
            "the release of the lock a by process 1 (from 2.200 s to 2.210 s) removed the lock of process 2, which had \
             acquired it at 2.110 s and not yet begun to release"
        );
    }

    /// Process 2 came and went while process 1 overstayed.
    const GONE: &str = "
        0    1 invoke acquire a {ttl_ms:2000}
        10   1 ok     acquire a
        2500 2 invoke acquire a {ttl_ms:2000}
        2510 2 ok     acquire a
        2600 2 invoke release a
        2700 2 ok     release a {believed:true,removed:true}
        3000 1 info   at      a
        3200 1 invoke release a
        3210 1 ok     release a {believed:true,removed:true}";

    #[test]
    fn a_renewal_may_have_taken_the_lock_again() {
        assert_eq!(verdict(&OWNERSHIP, GONE).outcome, Outcome::Violation);
        assert_eq!(verdict(&OWNERSHIP, &GONE.replace("info   at", "info   renewed")).outcome, Outcome::Valid);
    }

    #[test]
    fn accepts_own_locks_and_releases_that_find_nothing() {
        let compared = BLIND.replace("removed_owner:2", "removed_owner:null").replace(
            "2310 2 ok     release a {believed:true,removed_owner:null}",
            "2310 2 ok release a {removed_owner:2}",
        );
        let verdict = verdict(&OWNERSHIP, &compared);
        assert_eq!(verdict.outcome, Outcome::Valid);
        assert_eq!(
            verdict.summary,
            "of 2 releases that reported what they removed, none removed another's lock, and 1 found nothing"
        );
    }

    #[test]
    fn a_lock_can_be_removed_before_its_owner_hears_of_it() {
        let early = BLIND.replace("2110 2 ok     acquire a", "").replace(
            "2300 2 invoke release a",
            "2300 2 ok acquire a
             2305 2 invoke release a",
        );
        let verdict = verdict(&OWNERSHIP, &early);
        assert_eq!(verdict.outcome, Outcome::Violation);
        assert!(verdict.findings[0].sentence.contains("had not yet learned"), "{:?}", verdict.findings[0]);
    }

    #[test]
    fn makes_no_statement_where_locks_do_not_report_the_owner() {
        let silent = BLIND.replace(",removed_owner:2", "").replace(",removed_owner:null", "");
        assert!(maybe_verdict(&OWNERSHIP, &silent).is_none());
    }

    /// As [`BLIND`], where the server says only that something was there.
    fn removing(something: bool) -> String {
        BLIND
            .replace("removed_owner:2", &format!("removed:{something}"))
            .replace("removed_owner:null", "removed:false")
    }

    #[test]
    fn what_is_removed_after_another_was_granted_the_lock_is_not_ones_own() {
        let reported = verdict(&OWNERSHIP, &removing(true));
        assert_eq!(reported.outcome, Outcome::Violation);
        assert_eq!(reported.findings[0].events, [1, 3, 4, 5]);
        assert_eq!(
            reported.findings[0].sentence,
            "the release of the lock a by process 1 (from 2.200 s to 2.210 s) removed the lock of process 2: its own, acquired \
             at 0.010 s, had run out by then, and process 2 had acquired the lock from 2.100 s to 2.110 s"
        );
        assert_eq!(verdict(&OWNERSHIP, &removing(false)).outcome, Outcome::Valid);
    }

    #[test]
    fn a_process_that_was_refused_by_its_library_may_have_the_lock_again() {
        let refused = |error: &str| {
            removing(true).replace(
                "2200 1 invoke",
                &format!("2150 1 invoke acquire a\n2160 1 fail acquire a null {error}\n2200 1 invoke"),
            )
        };
        assert_eq!(verdict(&OWNERSHIP, &refused("taken")).outcome, Outcome::Violation);
        assert_eq!(verdict(&OWNERSHIP, &refused("refused-by-library: no")).outcome, Outcome::Valid);
    }

    #[test]
    fn a_release_that_failed_since_there_was_nothing_to_remove_says_so() {
        let failed = removing(false).replace("ok     release", "fail release");
        let verdict = verdict(&OWNERSHIP, &failed);
        assert_eq!((verdict.outcome, verdict.stats["found_nothing"].as_u64()), (Outcome::Valid, Some(2)));
        assert!(maybe_verdict(&OWNERSHIP, &failed.replace("removed:false", "removed:true")).is_none());
    }

    #[test]
    fn a_key_of_each_clients_own_is_ones_own() {
        // Granted while the first lease still ran: both may hold a key of their own, and remove that.
        let twice = removing(true).replace("{ttl_ms:2000}", "{ttl_ms:9000}");
        assert_eq!(verdict(&OWNERSHIP, &twice).outcome, Outcome::Valid);
        // It counts from the answer at the latest, however long the acquire waited.
        let waited = removing(true).replace("10   1 ok", "500  1 ok");
        assert_eq!(verdict(&OWNERSHIP, &waited).outcome, Outcome::Valid);
        // It had run out before the release began, wherever the other was granted: that was not its own.
        let late = removing(true).replace("10   1 ok", "150  1 ok");
        assert_eq!(verdict(&OWNERSHIP, &late).outcome, Outcome::Violation);
    }

    #[test]
    fn the_order_of_grants_must_be_certain() {
        // The acquires overlap: process 2 may have been first.
        let overlapping = removing(true).replace("2100 2 invoke acquire", "5 2 invoke acquire");
        let overlapping: Vec<&str> = overlapping.lines().filter(|line| !line.trim().is_empty()).collect();
        let moved = [overlapping[0], overlapping[2], overlapping[1]]
            .into_iter()
            .chain(overlapping[3..].iter().copied());
        let moved: Vec<&str> = moved.collect();
        assert_eq!(verdict(&OWNERSHIP, &moved.join("\n")).outcome, Outcome::Valid);
        let shared = removing(true).replace("{ttl_ms:2000}", "{ttl_ms:2000,mode:\"shared\"}");
        assert_eq!(verdict(&OWNERSHIP, &shared).outcome, Outcome::Valid);
    }

    #[test]
    fn a_release_may_find_its_own_lock_elsewhere_or_again() {
        let several = format!("0 nemesis info servers - [\"n1\",\"n2\"]{}", removing(true));
        assert_eq!(verdict(&OWNERSHIP, &several).outcome, Outcome::Valid);
        let restarted = removing(true).replace(
            "2200 1 invoke",
            "2150 nemesis invoke kill - {id:1,stage:\"inject\",targets:[\"n1\"]}
             2200 1 invoke",
        );
        assert_eq!(verdict(&OWNERSHIP, &restarted).outcome, Outcome::Valid);
    }
}
