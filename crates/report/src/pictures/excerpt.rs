//! What the drawing of a violation shows: holds, their operations, the granting servers, and faults.

use super::palette::{self, Colour};
use crate::shown_findings::ShownFinding;
use fencepost_checker::run_index::{Fault, Hold, HoldEnd, Operation};
use fencepost_checker::{Claim, RunIndex};
use fencepost_history::{LockKind, Name, f};
use std::collections::BTreeSet;

/// More processes than this make no picture that anybody could follow.
const PARTICIPANTS_MAX: usize = palette::PARTICIPANTS.len();
/// More writes of others than this are noise.
const BYSTANDERS_MAX: usize = 12;

pub struct Excerpt<'a> {
    pub key: &'a str,
    pub participants: Vec<Participant<'a>>,
    pub from_ns: u64,
    pub to_ns: u64,
    /// From when to when so many held that it is too many, for certain.
    pub both: Option<(u64, u64)>,
    /// What is wrong with that, where the kind of the lock says more than that they are two.
    pub too_many: Option<String>,
    pub kind: LockKind,
    /// Servers and clients that have a part in it, sorted.
    pub nodes: Vec<&'a str>,
    /// Faults that had an effect within the excerpt.
    pub faults: Vec<&'a Fault<'a>>,
    /// Acknowledged writes of the key, in order of completion.
    pub writes: Vec<&'a Operation<'a>>,
}

/// A process, with one of its holds.
pub struct Participant<'a> {
    pub hold: &'a Hold<'a>,
    pub colour: Colour,
    pub operations: Vec<&'a Operation<'a>>,
}

impl Participant<'_> {
    /// How long the lock was promised: for the TTL, or for the validity reported after a long wait.
    pub fn promised_until(&self) -> Option<u64> {
        let reported = self.hold.validity_ms.map(|ms| self.hold.from_ns + (ms.max(0.0) * 1e6) as u64);
        let until = self.hold.ends.lease.map(|lease| lease.earliest.ns).max(reported)?;
        Some(until).filter(|until| *until > self.hold.from_ns)
    }

    /// When the promise ended: when it was over, or because the lock was released before.
    pub fn lease_end(&self) -> Option<u64> {
        let promised = self.promised_until();
        let released = (self.hold.ends.how == HoldEnd::Released).then_some(self.hold.ends.let_go_ns);
        promised.into_iter().chain(released).min()
    }
}

impl<'a> Excerpt<'a> {
    /// None where there are no holds to draw.
    pub fn of(run: &'a RunIndex, shown: &ShownFinding) -> Option<Excerpt<'a>> {
        let holds: Vec<&Hold> = shown.holds.iter().take(PARTICIPANTS_MAX).map(|&at| &run.holds[at]).collect();
        let participants: Vec<Participant> = holds
            .iter()
            .zip(palette::PARTICIPANTS)
            .map(|(hold, colour)| Participant { hold, colour, operations: operations(run, hold) })
            .collect();
        let end = participants.iter().map(last_ns).max()?;
        // How long the first one had waited before is of little interest.
        let first = holds.first()?;
        let begin = first.invoke_ns.max(first.from_ns.saturating_sub((end - first.from_ns) / 3));
        let margin = ((end - begin) / 16).max(2_000_000);
        let (from_ns, to_ns) = (begin.saturating_sub(margin), end.saturating_add(2 * margin));
        let kind = run.lock.kind;
        let both = too_many_at_once(&holds);
        let claims: Vec<Claim> = holds.iter().map(|hold| hold.claim).collect();
        let too_many = Claim::too_many(&claims, kind).filter(|_| !Claim::fit(claims));
        let faults: Vec<&Fault> = run
            .faults
            .iter()
            .filter(|fault| fault.effective && fault.inject_ns < to_ns)
            .filter(|fault| fault.healed_ns.is_none_or(|healed| healed > from_ns))
            .collect();
        let granted = holds.iter().flat_map(|hold| &hold.granted_by).map(Name::as_str);
        let nodes: BTreeSet<&str> =
            granted.chain(faults.iter().flat_map(|fault| fault.targets.iter().copied())).collect();
        let mut nodes: Vec<&str> = nodes.into_iter().collect();
        // n10 after n9.
        nodes.sort_by_key(|name| (name.trim_end_matches(|c: char| c.is_ascii_digit()), name.len(), *name));
        let writes = writes(run, &participants, from_ns, to_ns);
        Some(Excerpt {
            key: holds[0].key,
            participants,
            from_ns,
            to_ns,
            both,
            too_many,
            kind,
            nodes,
            faults,
            writes,
        })
    }
}

fn operations<'a>(run: &'a RunIndex, hold: &Hold) -> Vec<&'a Operation<'a>> {
    let mine = run.operations[hold.acquire + 1..].iter();
    let mine = mine.filter(|operation| operation.process == hold.process && operation.key == hold.key);
    let mut operations = Vec::new();
    for operation in mine.take_while(|operation| operation.f() != f::ACQUIRE) {
        operations.push(operation);
        if operation.f() == f::RELEASE {
            break;
        }
    }
    operations
}

/// The last moment of a participant that matters to the excerpt. How long its release took does not.
fn last_ns(participant: &Participant) -> u64 {
    let done = |operation: &&Operation| match operation.completion {
        Some(event) if operation.f() != f::RELEASE => event.time,
        _ => operation.invoke.time,
    };
    let acts = participant.operations.iter().map(done).max().unwrap_or(0);
    acts.max(participant.hold.until_ns).max(participant.hold.from_ns)
}

/// While all of the first holds lasted that are too many together: two of a mutex.
fn too_many_at_once(holds: &[&Hold]) -> Option<(u64, u64)> {
    let is_too_many = |count: &usize| !Claim::fit(holds[..*count].iter().map(|hold| hold.claim));
    let clashing = &holds[..(2..=holds.len()).find(is_too_many)?];
    let last = clashing.iter().max_by_key(|hold| hold.from)?;
    let until_ns = clashing.iter().map(|hold| hold.until_ns).min()?;
    let all_last = clashing.iter().all(|hold| hold.until > last.from);
    all_last.then_some((last.from_ns, until_ns.max(last.from_ns)))
}

fn writes<'a>(
    run: &'a RunIndex,
    participants: &[Participant],
    from_ns: u64,
    to_ns: u64,
) -> Vec<&'a Operation<'a>> {
    let key = participants.first().map_or("", |participant| participant.hold.key);
    let acts = |operation: &Operation| {
        participants.iter().any(|participant| participant.hold.process == operation.process)
    };
    let mut writes: Vec<&Operation> = run
        .operations
        .iter()
        .filter(|operation| operation.f() == f::WRITE && operation.key == key)
        .filter(|operation| operation.ok().is_some_and(|ok| (from_ns..=to_ns).contains(&ok.time)))
        .collect();
    if writes.iter().filter(|operation| !acts(operation)).count() > BYSTANDERS_MAX {
        writes.retain(|operation| acts(operation));
    }
    writes.sort_by_key(|operation| operation.ok().map(|ok| ok.index));
    writes
}
