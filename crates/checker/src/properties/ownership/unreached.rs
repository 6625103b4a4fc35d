//! Releases that were answered as done while no server could be reached. A library that swallows the error of
//! a release says that the lock is free, and it stays taken until its lease runs out. The ledger knows when
//! every server was down, or parted from a client both ways: a release that began and was answered within
//! such a time removed nothing by then. That is certain only of a lock that its process believed in and whose
//! lease had not run out. A client that passes a lock on among its own processes tells no server, so a
//! release after which one of them was granted it says nothing; nor does one that says that it found nothing.

use crate::run_index::{Hold, HoldEnd, Operation, RunIndex};
use crate::spans::Span;
use fencepost_history::{Lease, Released, f};
use rustc_hash::FxHashMap;

pub(super) struct Unreached<'r, 'a> {
    pub release: &'r Operation<'a>,
    pub hold: &'r Hold<'a>,
    pub outage: Span,
}

pub(super) fn unreached<'r, 'a>(run: &'r RunIndex<'a>) -> Vec<Unreached<'r, 'a>> {
    let released = run.holds.iter().filter(|hold| {
        hold.ends.how == HoldEnd::Released && !hold.granted_by_no_server && hold.claim.is_alone()
    });
    let mut outages = FxHashMap::default();
    released.filter_map(|hold| of_hold(run, hold, &mut outages)).collect()
}

fn of_hold<'r, 'a>(
    run: &'r RunIndex<'a>,
    hold: &'r Hold<'a>,
    outages: &mut FxHashMap<u64, Vec<Span>>,
) -> Option<Unreached<'r, 'a>> {
    let is_its_release = |later: &&Operation| {
        later.process == hold.process && later.key == hold.key && later.f() == f::RELEASE
    };
    let release = run.operations[hold.acquire + 1..].iter().find(is_its_release)?;
    let done = release.ok()?;
    let said = Released::of(&done.value);
    let found_nothing = said.removed == Some(false) || said.removed_owner == Some(None);
    let was_there = match hold.lease_at(done.index) {
        Some(lease) => lease.earliest.ns > done.time,
        None => hold.lease == Lease::None,
    };
    let setting = run.setting();
    let may_be = said.believed != Some(false) && !found_nothing && was_there;
    if !may_be || !setting.any_fault(release.invoke.time, done.time) {
        return None;
    }
    let outages = outages.entry(hold.process);
    let outages = outages.or_insert_with(|| setting.outages(run.nodes.client_of(hold.process)));
    let outage = *outages.iter().find(|span| span.0 <= release.invoke.time && done.time < span.1)?;
    let next = run.holds.iter().find(|next| next.key == hold.key && next.from > release.invoke.index);
    next.is_none_or(|next| next.from_ns >= outage.1).then_some(Unreached { release, hold, outage })
}

#[cfg(test)]
mod tests {
    use super::super::OWNERSHIP;
    use crate::testing::literal::{maybe_verdict, verdict};
    use crate::verdict::Outcome;

    /// The only server is killed from 0.1 to 0.9 s, and process 1 releases its lock meanwhile.
    const SWALLOWED: &str = "
        0   nemesis info lock - {name:\"x\",lease:\"ttl\"}
        0   nemesis info servers - [\"n1\"]
        0   nemesis info nodes - {slots:[\"c1\",\"c2\"]}
        0   0 invoke acquire a {ttl_ms:2000}
        10  0 ok     acquire a
        90  nemesis invoke kill - {id:1,stage:\"inject\",targets:[\"n1\"],description:{effects:[\"stops\",\"kills\"],sentence:\"x\"}}
        100 nemesis ok kill - {id:1,stage:\"inject\",targets:[\"n1\"],effective:true}
        300 0 invoke release a
        310 0 ok     release a {believed:true}
        900 nemesis invoke kill - {id:1,stage:\"heal\",targets:[\"n1\"]}
        950 nemesis ok kill - {id:1,stage:\"heal\",targets:[\"n1\"]}";

    #[test]
    fn rejects_a_release_that_no_server_can_have_carried_out() {
        let verdict = verdict(&OWNERSHIP, SWALLOWED);
        assert_eq!(verdict.outcome, Outcome::Violation);
        assert_eq!(verdict.findings[0].class, "released-by-no-server");
        assert_eq!(
            verdict.findings[0].sentence,
            "the release of the lock a by process 0 (from 0.300 s to 0.310 s) was answered as done, although no server could be \
             reached from its client from 0.100 s to 0.900 s: it removed nothing of the lock that was acquired at 0.010 s"
        );
        // What it says that it removed makes it no truer.
        let removed = SWALLOWED.replace("believed:true", "believed:true,removed:true");
        assert_eq!(maybe_verdict(&OWNERSHIP, &removed).unwrap().outcome, Outcome::Violation);
    }

    #[test]
    fn accepts_a_release_that_may_have_reached_a_server_or_had_none_to_reach() {
        let accepted = |from: &str, to: &str| {
            assert!(SWALLOWED.contains(from));
            maybe_verdict(&OWNERSHIP, &SWALLOWED.replace(from, to))
                .is_none_or(|verdict| verdict.outcome == Outcome::Valid)
        };
        assert!(accepted(
            "310 0 ok     release a {believed:true}",
            "310 0 info release a {believed:true} timeout"
        ));
        assert!(accepted("300 0 invoke", "95 0 invoke"), "it was asked for before the server was gone");
        assert!(accepted("310 0 ok     release a {believed:true}", ""), "it was never answered");
        assert!(accepted("\"stops\",\"kills\"", "\"delays\""), "its packets were late only");
        assert!(accepted(
            "[\"n1\"]\n        0   nemesis info nodes",
            "[\"n1\",\"n2\"]\n        0   nemesis info nodes"
        ));
        assert!(accepted("believed:true", "believed:false"), "it knew that it had lost the lock");
        assert!(accepted("{believed:true}", "{believed:true,removed:false}"), "it found nothing");
        assert!(accepted("ttl_ms:2000", "ttl_ms:200"), "the lease had run out");
        let passed_on = "
        310 0 ok     release a {believed:true}
        320 2 invoke acquire a {ttl_ms:2000}
        330 2 ok     acquire a";
        assert!(
            accepted("\n        310 0 ok     release a {believed:true}", passed_on),
            "the client passed it on by itself"
        );
    }
}
