use super::interval::{Bound, Interval, Reason};
use super::judgement::{Class, clause, renewal_beside, whose};
use crate::prose::seconds;
use crate::run_index::{Hold, RunIndex};
use fencepost_history::Lease;

/// Which release, expiry or loss ended the earlier grant, in words after "granted twice: " or "overstayed: ".
pub(crate) fn reason(run: &RunIndex, class: Class, a: &Hold, b: &Hold) -> String {
    let (_, because) = whose(run, class, a, b);
    let mut text = match a.lease_at(b.from).zip(a.ttl_ns) {
        Some((end, ttl_ns)) => reason_of_lease(a, b, (end, ttl_ns)),
        None => reason_without_ttl(a, b),
    };
    if let Some(clause) = clause(run, &because) {
        text += &format!("; {clause}");
    }
    text
}

fn reason_of_lease(a: &Hold, b: &Hold, (end, ttl): (Interval, u64)) -> String {
    let (first, second) = (a.process, b.process);
    let got = format!("process {second} got the lock");
    match end.earliest.ns.checked_sub(b.granted.latest.ns) {
        None | Some(0) if let Some((asked_ns, _)) = renewal_beside(a, b) => format!(
            "the TTL of process {first} ({}) may have run out when {got}, and a renewal that \
             process {first} asked for at {}, while process {second} held it, succeeded all the same",
            seconds(ttl),
            seconds(asked_ns)
        ),
        Some(left) if left > 0 => format!(
            "{got} while the TTL of process {first} ({}) still had {} to run{}",
            seconds(ttl),
            seconds(left),
            counted_from(a, b)
        ),
        _ if b.from_ns < end.latest.ns => format!(
            "the TTL of process {first} ({}) may have run out when {got}, {} after {first} \
             had asked for it, so the lock service is given the benefit of the doubt; process {first} went on",
            seconds(ttl),
            seconds(b.from_ns.saturating_sub(a.ends.counted.map_or(a.invoke_ns, |counted| counted.ns)))
        ),
        _ => format!(
            "the TTL of process {first} ({}) had run out {} before {got}, and process \
             {first} went on as if it held it",
            seconds(ttl),
            seconds(b.from_ns.saturating_sub(end.latest.ns))
        ),
    }
}

/// What says that a lease began later than its acquire, where it runs for that reason alone.
fn counted_from(a: &Hold, b: &Hold) -> String {
    let ttl_ns = a.ttl_ns.unwrap_or_default();
    if !a.renewals.is_empty() || a.invoke_ns.saturating_add(ttl_ns) > b.granted.latest.ns {
        return String::new();
    }
    let from = seconds(a.ends.counted.map_or(a.invoke_ns, |counted| counted.ns));
    match a.granted.earliest.why {
        Reason::Validity { .. } => " by the validity that its library reported".to_owned(),
        Reason::HeldBy { process } => format!(", counted from {from}: until then process {process} held it"),
        Reason::NoServer => format!(", counted from {from}: until then no server could be reached"),
        _ => String::new(),
    }
}

/// The same, where the end of the earlier hold is no matter of time.
fn reason_without_ttl(a: &Hold, b: &Hold) -> String {
    let (first, second) = (a.process, b.process);
    let kept_by = match a.lease {
        Lease::Session => "session",
        Lease::Connection => "connection",
        Lease::Ttl | Lease::None => {
            return format!(
                "process {second} got the lock while process {first} held it, and nothing had ended that"
            );
        }
    };
    match a.ends.cut.filter(|cut| cut.ns <= b.granted.latest.ns) {
        Some(Bound { ns, why: Reason::MachineStalled }) => format!(
            "the machine gave nodes hardly any time from {} on, which may have ended the {kept_by} of process {first}, and with it the \
             lock, before process {second} got it; process {first} went on as if it held it",
            seconds(ns)
        ),
        Some(Bound { ns: cut_ns, .. }) => format!(
            "a fault {} may have ended the {kept_by} of process {first}, and with it the lock, before process \
             {second} got it; process {first} went on as if it held it",
            // Cut at the invocation, the fault was there before.
            match cut_ns > a.granted.earliest.ns {
                true => format!("at {}", seconds(cut_ns)),
                false => "that was in force".to_owned(),
            }
        ),
        None => format!(
            "process {second} got the lock while process {first} held it, and no fault had come that could have ended \
             the {kept_by} of process {first}"
        ),
    }
}
