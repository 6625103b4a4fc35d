use super::moments::{KeyState, at_events};
use super::situation::{LockPhase, Situation, TargetRole};
use crate::run_index::{Fault, RunIndex};
use fencepost_history::{FaultEvent, NodeKind, ObservedTarget};
use std::collections::BTreeSet;

pub(super) struct Meeting<'a> {
    pub fault: &'a Fault<'a>,
    /// Each situation once, with the key that it was about.
    pub situations: BTreeSet<(Situation, &'a str)>,
}

/// Of each fault that took effect, or may have, the situations that it met, in order of injection.
pub(super) fn meetings<'a>(run: &'a RunIndex<'a>) -> Vec<Meeting<'a>> {
    let faults: Vec<&Fault> = run.faults.iter().filter(|fault| run.may_have_worked(fault)).collect();
    let indices: Vec<u64> = faults.iter().map(|fault| fault.inject).collect();
    let states = at_events(run, &indices);
    let meeting = |(fault, keys): (&&'a Fault<'a>, Vec<KeyState<'a>>)| {
        let met = fault.targets.iter().flat_map(|target| met(run, fault, target, &keys));
        let situation = |(role, phase, key)| (Situation { fault: fault.name.to_owned(), role, phase }, key);
        Meeting { fault, situations: met.map(situation).collect() }
    };
    faults.iter().zip(states).map(meeting).collect()
}

type Met<'a> = (TargetRole, LockPhase, &'a str);

fn met<'a>(run: &RunIndex<'a>, fault: &Fault, target: &str, keys: &[KeyState<'a>]) -> Vec<Met<'a>> {
    match run.kind_of(target) {
        Some(NodeKind::Client) => client(run, target, keys),
        Some(NodeKind::Server) => {
            let role = |key: &KeyState| server(run, fault, target, key);
            keys.iter().map(|key| (role(key), key.phase, key.key)).collect()
        }
        Some(NodeKind::Storage) => keys.iter().map(|key| (TargetRole::Storage, key.phase, key.key)).collect(),
        None => Vec::new(),
    }
}

/// A client is what it is most for any key: one that holds a key is no waiter.
fn client<'a>(run: &RunIndex, target: &str, keys: &[KeyState<'a>]) -> Vec<Met<'a>> {
    let hosts = |process: u64| run.nodes.client_of(process) == Some(target);
    let held = keys
        .iter()
        .flat_map(|key| key.holders.iter().map(move |(process, phase)| (*process, *phase, key.key)));
    let held: Vec<Met> = held
        .filter(|(process, ..)| hosts(*process))
        .map(|(_, phase, key)| (TargetRole::Holder, phase, key))
        .collect();
    if !held.is_empty() {
        return held;
    }
    let awaited = keys.iter().filter(|key| key.waiting.iter().any(|&process| hosts(process)));
    let awaited: Vec<Met> = awaited.map(|key| (TargetRole::Waiter, key.phase, key.key)).collect();
    if !awaited.is_empty() {
        return awaited;
    }
    keys.iter().map(|key| (TargetRole::Idle, key.phase, key.key)).collect()
}

fn server(run: &RunIndex, fault: &Fault, target: &str, key: &KeyState) -> TargetRole {
    match leads(run, fault, target) {
        Some(true) => TargetRole::Leader,
        Some(false) => TargetRole::Follower,
        // Whatever is granted, the only server grants it.
        None if run.servers.len() == 1 || key.granted_by.iter().any(|server| server == target) => {
            TargetRole::Granting
        }
        None if names_granting(run) => TargetRole::OtherServer,
        None => TargetRole::Server,
    }
}

pub(super) fn names_granting(run: &RunIndex) -> bool {
    run.holds.iter().any(|hold| !hold.granted_by.is_empty())
}

/// Whether a target led the other servers when the fault came: the whole fault was aimed so, or it was seen.
fn leads(run: &RunIndex, fault: &Fault, target: &str) -> Option<bool> {
    let requested = run.event(fault.inject).and_then(FaultEvent::read);
    let aimed: BTreeSet<&str> = requested
        .iter()
        .flat_map(|event| &event.aimed)
        .copied()
        .map(|target| target.split(':').next().unwrap_or(target))
        .collect();
    let mut roles = aimed.into_iter();
    match (roles.next(), roles.next()) {
        (Some("leader"), None) => Some(true),
        (Some("follower"), None) => Some(false),
        _ => ObservedTarget::of(fault.observed.get(target)?).led,
    }
}
