use super::meetings::names_granting;
use super::situation::{LockPhase, Situation, TargetRole};
use crate::run_index::RunIndex;
use fencepost_history::{NodeKind, f};

/// Every situation that this run could have met.
///
/// - **Faults**: the nemeses of the run. What each can hit is what the history says, or else what it did hit.
/// - **Roles**: those of the nodes that there are. Another client needs a second client. Servers differ by
///   which granted where the lock names them, else by who leads where one of them does.
/// - **Phases**: writes only where the workload writes, renewals only where the history shows any, and only
///   phases in which the role can occur (no holder of a free lock).
pub(super) fn possible(run: &RunIndex) -> Vec<Situation> {
    let phases: Vec<LockPhase> = LockPhase::ALL.into_iter().filter(|phase| occurs(run, *phase)).collect();
    let mut possible = Vec::new();
    for fault in run.nemeses.iter().copied() {
        let kinds = kinds(run, fault);
        let roles =
            TargetRole::ALL.into_iter().filter(|role| kind(*role).is_some_and(|kind| kinds.contains(&kind)));
        for role in roles.filter(|role| is_there(run, *role)) {
            let phases = phases.iter().copied().filter(|phase| fits(run, role, *phase));
            possible.extend(phases.map(|phase| Situation { fault: fault.to_owned(), role, phase }));
        }
    }
    possible
}

fn occurs(run: &RunIndex, phase: LockPhase) -> bool {
    match phase {
        LockPhase::Writing => run.operations.iter().any(|operation| operation.f() == f::WRITE),
        LockPhase::Renewing => run.holds.iter().any(|hold| !hold.renewals.is_empty()),
        _ => true,
    }
}

fn kinds(run: &RunIndex, nemesis: &str) -> Vec<NodeKind> {
    if let Some(known) = run.nodes.hit_by.get(nemesis) {
        return known.clone();
    }
    let hit = run.faults.iter().filter(|fault| fault.name == nemesis).flat_map(|fault| &fault.targets);
    hit.filter_map(|target| run.kind_of(target)).collect()
}

/// What plays this role; none for a role of the unknown, which nothing can be aimed at.
fn kind(role: TargetRole) -> Option<NodeKind> {
    match role {
        TargetRole::Holder | TargetRole::Waiter | TargetRole::Idle => Some(NodeKind::Client),
        TargetRole::Granting | TargetRole::OtherServer | TargetRole::Leader | TargetRole::Follower => {
            Some(NodeKind::Server)
        }
        TargetRole::Server => None,
        TargetRole::Storage => Some(NodeKind::Storage),
    }
}

fn is_there(run: &RunIndex, role: TargetRole) -> bool {
    let servers = run.servers.len();
    let tells_servers_apart = names_granting(run);
    match role {
        TargetRole::Granting => servers == 1 || tells_servers_apart,
        TargetRole::OtherServer => servers > 1 && tells_servers_apart,
        TargetRole::Leader => run.nodes.leader && servers > 0,
        TargetRole::Follower => run.nodes.leader && servers > 1,
        TargetRole::Storage => !run.nodes.storage.is_empty() || run.storage.is_some(),
        _ => true,
    }
}

fn fits(run: &RunIndex, role: TargetRole, phase: LockPhase) -> bool {
    let several_clients = run.nodes.clients() > 1;
    match (role, phase) {
        (TargetRole::Holder, LockPhase::Free | LockPhase::Acquiring) => false,
        (TargetRole::Waiter, LockPhase::Free) => false,
        // While a client acquires or holds the lock, another one waits or is idle.
        (TargetRole::Waiter, LockPhase::Acquiring) | (TargetRole::Idle, LockPhase::Free) => true,
        (TargetRole::Waiter | TargetRole::Idle, _) => several_clients,
        (TargetRole::Granting, LockPhase::Free) => run.servers.len() == 1,
        _ => true,
    }
}
