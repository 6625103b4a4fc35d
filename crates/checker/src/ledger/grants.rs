//! When each lock was granted: the interval of every grant, in one pass over the holds of a run. A grant was
//! made between the invocation of its acquire and the answer. It came later than the invocation where
//!
//! - the library's own word says when the attempt began that was granted ([`by_validity_ns`]), and nothing
//!   had misled its clock or held its answer back;
//! - another process held the lock meanwhile, and its hold cannot have ended before some moment;
//! - no server could be reached;
//!
//! and earlier than the answer where no server could be reached when that came. A right service gives no lock
//! that is still held, so a grant that this account calls too late belongs to a lock that is broken anyway.

use super::effects::Setting;
use super::interval::{Bound, Reason};
use crate::run_index::parts::{Hold, Operation};
use crate::spans::Span;
use fencepost_history::{FaultEffect, Kind, Lease, Released, f};
use rustc_hash::FxHashMap;

pub(crate) fn date_grants(setting: &Setting, holds: &mut [Hold], latest_answer_ns: Option<u64>) {
    let foreign = foreign_releases(setting, holds);
    let mut outages: FxHashMap<Option<&str>, Vec<Span>> = FxHashMap::default();
    let mut of_key: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for at in 0..holds.len() {
        let (before, rest) = holds.split_at_mut(at);
        let hold = &mut rest[0];
        if let Some((began_ns, doubt_ns)) = by_validity_ns(hold).zip(latest_answer_ns)
            && !is_misled(setting, hold)
        {
            let bound = Bound::new(began_ns.saturating_sub(doubt_ns), Reason::Validity { doubt_ns });
            hold.granted.earliest = hold.granted.earliest.or_later(bound);
            hold.ends.count_from(hold.granted.earliest);
        }
        let releases = foreign.get(hold.key).map_or(&[][..], Vec::as_slice);
        let earlier = of_key.entry(hold.key).or_default();
        let asked = setting.operations[hold.acquire].invoke.index;
        for &earlier in earlier.iter().rev() {
            held_by_another(setting, &before[earlier], hold, releases);
            if before[earlier].from < asked {
                break;
            }
        }
        earlier.push(at);
        if !setting.faults.is_empty() {
            let client = setting.nodes.client_of(hold.process);
            let outages = outages.entry(client).or_insert_with(|| setting.outages(client));
            without_outages(hold, outages);
        }
        if matches!(hold.lease, Lease::Session | Lease::Connection) {
            hold.ends.cut = setting.cut(hold);
        }
        hold.settle_ends();
    }
}

/// How late the answers of this run were: the longest time of a request that waits for no other process,
/// while no fault was in force, or at all where there was none.
pub(crate) fn latest_answer_ns(setting: &Setting) -> Option<u64> {
    let prompt = |calm: bool| {
        let requests = setting.operations.iter().filter(|operation| operation.f() != f::ACQUIRE);
        let spans = requests.filter_map(|request| Some((request.invoke.time, request.completion?.time)));
        let is_calm =
            |span: &Span| !calm || !setting.faults.iter().any(|fault| fault.in_force(span.0, span.1));
        spans.filter(is_calm).map(|(from_ns, until_ns)| until_ns.saturating_sub(from_ns)).max()
    };
    prompt(true).or_else(|| prompt(false))
}

/// The earliest time at which the granted attempt can have begun, by the library's own word: it counts the
/// validity from there. The whole TTL, which no attempt leaves, is a library's word only where it also says
/// when it looked at its clock; from older clients it may be the TTL that was asked for.
fn by_validity_ns(hold: &Hold) -> Option<u64> {
    let (ttl_ns, validity_ms) = (hold.ttl_ns?, hold.validity_ms?);
    let validity_ns = (validity_ms.max(0.0) * 1e6) as u64;
    let is_whole = validity_ns == ttl_ns && hold.waited_ns.is_some();
    let is_said = hold.lease == Lease::Ttl && 0 < validity_ns && (validity_ns < ttl_ns || is_whole);
    // The answer comes some time after the look; a client that says how long it has waited dates that.
    let looked_ns = match hold.waited_ns {
        Some(waited_ns) => hold.invoke_ns.saturating_add(waited_ns).min(hold.from_ns),
        None => hold.from_ns,
    };
    is_said.then(|| looked_ns.saturating_sub(ttl_ns - validity_ns).max(hold.invoke_ns))
}

/// Whether a fault makes what a client says of its clock, or when its answer came, say nothing of the grant.
fn is_misled(setting: &Setting, hold: &Hold) -> bool {
    let own = setting.nodes.client_of(hold.process);
    setting.faults.iter().any(|fault| {
        let of_its_client = || own.is_none_or(|own| fault.targets.contains(&own));
        // A client that says when it looked at its clock is misled by what stops it, and not by late packets.
        let comes_between = fault.in_force(hold.invoke_ns, hold.from_ns)
            && (hold.waited_ns.is_none() || fault.can(FaultEffect::Stops) || own.is_none());
        // A library's copy of a clock stays wrong longer; what begins after the grant changes nothing.
        let moved_before = fault.can(FaultEffect::MovesClocks) && fault.inject_ns <= hold.from_ns;
        (moved_before || comes_between) && of_its_client()
    })
}

/// Of each key the times, in order, of releases that may have removed the lock of another, later holder.
fn foreign_releases<'a>(setting: &Setting<'_, 'a>, holds: &[Hold<'a>]) -> FxHashMap<&'a str, Vec<u64>> {
    let mut foreign: FxHashMap<&str, Vec<u64>> = FxHashMap::default();
    let mut holder: FxHashMap<&str, u64> = FxHashMap::default();
    let mut granted = holds.iter().peekable();
    for release in setting.operations.iter().filter(|operation| operation.f() == f::RELEASE) {
        while let Some(hold) = granted.next_if(|hold| hold.from < release.invoke.index) {
            holder.insert(hold.key, hold.process);
        }
        if holder.get(release.key) != Some(&release.process) && !found_nothing(release) {
            foreign.entry(release.key).or_default().push(release.invoke.time);
        }
    }
    foreign
}

fn found_nothing(release: &Operation) -> bool {
    release.completion.is_some_and(|done| {
        let Released { removed, removed_owner, .. } = Released::of(&done.value);
        done.kind != Kind::Info && (removed == Some(false) || removed_owner == Some(None))
    })
}

fn first_within(moments: &[u64], from_ns: u64, until_ns: u64) -> Option<u64> {
    let first = moments.partition_point(|at_ns| *at_ns < from_ns);
    moments.get(first).copied().filter(|at_ns| *at_ns <= until_ns)
}

/// The grant came after that of another process, whose hold excluded it until it can have ended first.
fn held_by_another(setting: &Setting, before: &Hold, hold: &mut Hold, foreign: &[u64]) {
    if !before.excludes(hold) || before.process == hold.process {
        return;
    }
    let asked_later = setting.operations[hold.acquire].invoke.index > before.from;
    // Or its own grant, had it been the earlier one, cannot have ended by then.
    let outlives = || {
        let calm = !setting.any_fault(hold.invoke_ns, before.from_ns)
            && first_within(foreign, hold.invoke_ns, before.from_ns).is_none();
        let ends_ns = match hold.lease {
            Lease::Ttl => hold.ttl_ns.map(|ttl_ns| hold.invoke_ns.saturating_add(ttl_ns)),
            _ => hold.lease_at(before.from).map(|lease| lease.earliest.ns),
        };
        calm && ends_ns.is_none_or(|ends_ns| ends_ns > before.from_ns)
    };
    if !asked_later && !outlives() {
        return;
    }
    let mut ends_ns = before.ends_by_its_process().earliest.ns;
    let alternatives = [
        before.lease_at(hold.from).map(|lease| lease.earliest.ns),
        before.ends.cut.map(|cut| cut.ns),
        first_within(foreign, before.from_ns, hold.from_ns),
        setting.service_loses(before, hold.from_ns).iter().map(|(_, lost)| lost.earliest.ns).min(),
    ];
    for alternative in alternatives.into_iter().flatten() {
        ends_ns = ends_ns.min(alternative);
    }
    // It was granted all the same: what this says of a right service does not hold here.
    if ends_ns > hold.from_ns {
        return;
    }
    let bound = Bound::new(ends_ns, Reason::HeldBy { process: before.process });
    hold.granted.earliest = hold.granted.earliest.or_later(bound);
    // Of several independent servers the first may have counted from before the last of them was free.
    if setting.servers.len() == 1 && bound.ns > hold.invoke_ns {
        hold.ends.count_from(bound);
    }
}

fn without_outages(hold: &mut Hold, outages: &[Span]) {
    for &(from_ns, until_ns) in outages {
        let covers = |at_ns: u64| (from_ns..until_ns).contains(&at_ns);
        let (first, last) = (hold.granted.earliest, hold.granted.latest);
        hold.granted_by_no_server |= from_ns <= hold.invoke_ns && hold.from_ns < until_ns;
        if covers(first.ns) && !covers(last.ns) {
            hold.granted.earliest = Bound::new(until_ns, Reason::NoServer);
            hold.ends.count_from(hold.granted.earliest);
        } else if covers(last.ns) && first.ns < from_ns {
            hold.granted.latest = Bound::new(from_ns, Reason::NoServer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_some_moments_within_a_span_is_found() {
        let first = |from_ns, until_ns| first_within(&[1, 5, 9], from_ns, until_ns);
        assert_eq!(
            [first(0, 9), first(2, 9), first(5, 5), first(6, 8), first(10, 20)],
            [Some(1), Some(5), Some(5), None, None]
        );
    }
}
