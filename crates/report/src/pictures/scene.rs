//! What the drawing of one violation shows: who held what, what they did, which servers said yes, what was broken.

use super::palette::{self, Colour};
use crate::exhibits::Exhibit;
use fencepost_checker::RunIndex;
use fencepost_checker::run_index::{Fault, Hold, HoldEnd, Operation};
use fencepost_history::f;
use std::collections::BTreeSet;

/// More processes than this make no picture that anybody could follow.
const ACTORS_MAX: usize = palette::ACTORS.len();
/// More writes of others than this are noise.
const BYSTANDERS_MAX: usize = 12;

/// One violation, cut out of its run.
pub struct Scene<'a> {
    pub key: &'a str,
    pub actors: Vec<Actor<'a>>,
    pub from_ns: u64,
    pub to_ns: u64,
    /// From when to when the first two both held, for certain.
    pub both: Option<(u64, u64)>,
    /// Servers and clients that have a part in it, sorted.
    pub nodes: Vec<&'a str>,
    /// Faults that had an effect within the scene.
    pub faults: Vec<&'a Fault<'a>>,
    /// Acknowledged writes of the key, in order of completion.
    pub writes: Vec<&'a Operation<'a>>,
}

/// A process, with one of its holds.
pub struct Actor<'a> {
    pub hold: &'a Hold<'a>,
    pub colour: Colour,
    /// What it did under the hold, its release included.
    pub operations: Vec<&'a Operation<'a>>,
}

impl Actor<'_> {
    /// How long the process had the lock promised: for the TTL, or for what it was told when it got the lock after
    /// a long wait.
    pub fn promised_until(&self) -> Option<u64> {
        let told = self.hold.validity_ms.map(|ms| self.hold.from_ns + (ms.max(0.0) * 1e6) as u64);
        let until = self.hold.expires_ns(u64::MAX).max(told)?;
        Some(until).filter(|until| *until > self.hold.from_ns)
    }

    /// When the promise ended: when it was over, or because the lock was released before.
    pub fn lease_end(&self) -> Option<u64> {
        let promised = self.promised_until();
        let released = (self.hold.end == HoldEnd::Released).then_some(self.hold.end_ns);
        promised.into_iter().chain(released).min()
    }
}

impl<'a> Scene<'a> {
    /// None where there are no holds to draw.
    pub fn of(run: &'a RunIndex, exhibit: &Exhibit) -> Option<Scene<'a>> {
        let holds: Vec<&Hold> = exhibit.holds.iter().take(ACTORS_MAX).map(|&at| &run.holds[at]).collect();
        let actors: Vec<Actor> = holds
            .iter()
            .zip(palette::ACTORS)
            .map(|(hold, colour)| Actor { hold, colour, operations: operations(run, hold) })
            .collect();
        let end = actors.iter().map(last_ns).max()?;
        // How long the first one had waited before is of little interest.
        let first = holds.first()?;
        let begin = first.invoke_ns.max(first.from_ns.saturating_sub((end - first.from_ns) / 3));
        let margin = ((end - begin) / 16).max(2_000_000);
        let (from_ns, to_ns) = (begin.saturating_sub(margin), end + 2 * margin);
        let both = both(&holds);
        let faults: Vec<&Fault> = run
            .faults
            .iter()
            .filter(|fault| fault.effective && fault.inject_ns < to_ns)
            .filter(|fault| fault.healed_ns.is_none_or(|healed| healed > from_ns))
            .collect();
        let granted = holds.iter().flat_map(|hold| &hold.granted_by);
        let nodes: BTreeSet<&str> =
            granted.chain(faults.iter().flat_map(|fault| &fault.targets)).copied().collect();
        let mut nodes: Vec<&str> = nodes.into_iter().collect();
        // n10 after n9.
        nodes.sort_by_key(|name| (name.trim_end_matches(|c: char| c.is_ascii_digit()), name.len(), *name));
        let writes = writes(run, &actors, from_ns, to_ns);
        Some(Scene { key: holds[0].key, actors, from_ns, to_ns, both, nodes, faults, writes })
    }
}

/// What a process did on the key, from its acquire up to the next one.
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

/// The last moment of an actor that matters to the scene. How long its release took does not.
fn last_ns(actor: &Actor) -> u64 {
    let done = |operation: &&Operation| match operation.completion {
        Some(event) if operation.f() != f::RELEASE => event.time,
        _ => operation.invoke.time,
    };
    let acts = actor.operations.iter().map(done).max().unwrap_or(0);
    acts.max(actor.hold.until_ns).max(actor.hold.from_ns)
}

fn both(holds: &[&Hold]) -> Option<(u64, u64)> {
    let [a, b, ..] = holds else { return None };
    (a.until > b.from).then(|| (b.from_ns, a.until_ns.min(b.until_ns).max(b.from_ns)))
}

fn writes<'a>(run: &'a RunIndex, actors: &[Actor], from_ns: u64, to_ns: u64) -> Vec<&'a Operation<'a>> {
    let key = actors.first().map_or("", |actor| actor.hold.key);
    let acts = |operation: &Operation| actors.iter().any(|actor| actor.hold.process == operation.process);
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
