//! Whose failure a finding shows.
//!
//! A run by itself shows what happened, and which faults were there; it does not show the code. So the rules
//! go by what can have done it, and docs/checking.md gives their reasons:
//!
//! - *No fence*: a holder was late, since a fault had come that delays, stops or cuts off. No lock prevents
//!   that; a token does, or a transaction, that the storage checks.
//! - *The machine*: a holder was late without any fault, by more than it had been asked to hold the lock for.
//! - *The service*: it granted, forgot or refused against its claim, and a fault had hit its servers.
//! - *The library*: everything else, and whatever only the client's side can do: remove another's lock,
//!   report too long a validity, keep its holder believing.

use crate::properties::{Blame, Checker, Class, Overlap};
use crate::run_index::{Hold, Operation, RunIndex};
use crate::story::overlap_among;
use crate::verdict::{Finding, Verdict};
use crate::whose::Whose;

/// Says of every finding of a checker whose failure it shows. `overlaps` are those of the run.
pub(crate) fn say_whose(run: &RunIndex, overlaps: &[Overlap], checker: &dyn Checker, verdict: &mut Verdict) {
    verdict.say_whose(checker.harm(), |finding| whose(run, overlaps, checker.blame(), finding));
}

fn whose(run: &RunIndex, overlaps: &[Overlap], blame: Blame, finding: &Finding) -> Whose {
    match blame {
        Blame::Library => Whose::Library,
        Blame::Service => Whose::Service,
        Blame::ByFaults if run.unreadable().is_some() || run.servers_were_hit(0, finding.time) => {
            Whose::Service
        }
        Blame::ByFaults => Whose::Library,
        Blame::ByHolders => match overlap_among(run, overlaps, finding) {
            Some(overlap) => whose_overlap(run, &overlap),
            None if run.any_fault(0, finding.time) => Whose::NoFence,
            None => Whose::Library,
        },
    }
}

fn whose_overlap(run: &RunIndex, overlap: &Overlap) -> Whose {
    let (a, b) = (&run.holds[overlap.first], &run.holds[overlap.second]);
    match overlap.class {
        Class::GrantedTwice if was_removed(run, a, b) => Whose::Library,
        // A grant is as right as the clock by which it is made: one that was set right before ends no lease
        // of it. What stops or parts servers has consequences that outlast it.
        Class::GrantedTwice if run.servers_were_hit_since(a.invoke_ns, a.granted_after_ns(), b.from_ns) => {
            Whose::Service
        }
        Class::GrantedTwice => Whose::Library,
        Class::CutOff => Whose::NoFence,
        Class::Overstayed if run.any_fault(a.invoke_ns, a.until_ns) => Whose::NoFence,
        Class::Overstayed if was_longer_than_asked(run, a) => Whose::Machine,
        Class::Overstayed => Whose::Library,
    }
}

/// Whether a release by another process says that it removed the lock of the earlier holder, or a lock at
/// all, before the later grant.
fn was_removed(run: &RunIndex, a: &Hold, b: &Hold) -> bool {
    let is_between = |release: &Operation| {
        let done_ns = release.completion.map_or(u64::MAX, |done| done.time);
        release.invoke.index > a.from && done_ns <= b.from_ns
    };
    let mut others = run.operations.iter().filter(|other| other.key == a.key && other.process != a.process);
    others.any(|release| release.says_it_removed(a.process) && is_between(release))
}

/// Beyond this a holder that was asked to hold the lock for some time was late.
const LATE_NS: u64 = 500_000_000;

/// Whether a process believed for longer than it had been asked to hold the lock for; a history that does not
/// say asks for no time.
fn was_longer_than_asked(run: &RunIndex, hold: &Hold) -> bool {
    let asked_ns = run.operations[hold.acquire].asked_to_hold_ns().unwrap_or(0);
    hold.until_ns - hold.from_ns > asked_ns + LATE_NS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_run;
    use crate::literal::events;

    /// Process 2 gets the lock although process 1 got it for 0.5 s no more than 0.4 s ago, after a long wait.
    const GRANTED_TWICE: &str = "
        0    nemesis info lock - {name:\"x\",lease:\"ttl\"}
        0    nemesis info servers - [\"n1\",\"n2\"]
        0    nemesis info nodes - {slots:[\"c1\",\"c2\",\"c3\"]}
        0    1 invoke acquire a {ttl_ms:500}
        HIT
        2010 1 ok     acquire a {validity_ms:490,waited_ms:2008}
        2300 2 invoke acquire a {ttl_ms:500}
        2400 2 ok     acquire a {validity_ms:400,waited_ms:99}
        2500 1 invoke release a
        2510 1 ok     release a {believed:true}";

    #[test]
    fn a_clock_that_was_right_again_excuses_no_library() {
        let whose = |until_ms: u64, description: &str| {
            let hit = format!(
                "100 nemesis invoke x - {{id:1,stage:\"inject\",targets:[\"n1\"]}}
                 200 nemesis ok x - {{id:1,stage:\"inject\",effective:true,description:{{{description}}}}}
                 {until_ms} nemesis ok x - {{id:1,stage:\"heal\"}}"
            );
            let verdict = check_run(&events(&GRANTED_TWICE.replace("HIT", &hit)));
            let exclusion = verdict.verdicts.iter().find(|each| each.checker == "exclusion").unwrap();
            assert_eq!(exclusion.findings[0].class, "granted-twice");
            exclusion.findings[0].whose.unwrap()
        };
        assert_eq!(whose(1500, "moves_clocks:true"), Whose::Library);
        assert_eq!(whose(2000, "moves_clocks:true"), Whose::Service);
        assert_eq!(whose(1500, "takes_down:true"), Whose::Service, "a failover may go on");
    }
}
