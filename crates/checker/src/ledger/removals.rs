//! Which release took another process's lock; one that may have removed its own is not blamed.

use super::effects::Setting;
use crate::run_index::parts::{Hold, Operation};
use fencepost_history::{FaultEffect, Released, f};

/// The first release by another process that certainly removed the lock of a hold, and began before an event.
pub(crate) fn removal<'r, 'a>(
    setting: &Setting<'r, 'a>,
    holds: &[Hold],
    of: &Hold,
    until: u64,
) -> Option<&'r Operation<'a>> {
    let later = &setting.operations[of.acquire + 1..];
    let mut others =
        later.iter().take_while(|operation| operation.invoke.index < until).filter(|operation| {
            operation.f() == f::RELEASE
                && operation.key == of.key
                && operation.process != of.process
                && operation.invoke.index > of.from
        });
    others.find(|release| took(setting, holds, of, release))
}

/// Whether a release by another process, begun after a hold, certainly removed the lock of that hold.
pub(crate) fn took(setting: &Setting, holds: &[Hold], of: &Hold, release: &Operation) -> bool {
    let Some(done) = release.ok() else { return false };
    let Released { removed, removed_owner, .. } = Released::of(&done.value);
    match removed_owner {
        Some(owner) => owner == Some(of.process),
        None => removed == Some(true) && !may_be_its_own(setting, holds, of, release),
    }
}

/// Whether it may have removed its own lock: granted since, or brought back by servers that forgot it.
fn may_be_its_own(setting: &Setting, holds: &[Hold], of: &Hold, release: &Operation) -> bool {
    let is_before = |index: u64| index < release.invoke.index;
    let begun = holds.partition_point(|hold| is_before(hold.from));
    let is_own = |hold: &&Hold| hold.process == release.process && hold.key == release.key;
    let own = holds[..begun].iter().rev().find(is_own);
    // A renewal may have taken the lock again, once the other had let go of it.
    let renewed = |own: &Hold| own.renewals.iter().any(|(index, _)| *index > of.from);
    // Where both may hold at once, the grant of the one says nothing of the other's.
    let may_still = |own: &Hold| !of.excludes(own) || own.from > of.from || !of.came_after(own);
    let is_later = own.is_some_and(|own| may_still(own) || renewed(own));
    let since = own.map_or(of.acquire, |own| own.acquire.min(of.acquire));
    let mut tried = setting.operations[since + 1..].iter().take_while(|later| is_before(later.invoke.index));
    let may_have_acquired = tried.any(|acquire| {
        acquire.process == release.process
            && acquire.key == release.key
            && acquire.f() == f::ACQUIRE
            && acquire.ok().is_none()
            && !acquire.did_not_happen()
    });
    let (from_ns, until_ns) =
        (own.map_or(0, |own| own.from_ns), release.completion.map_or(u64::MAX, |done| done.time));
    let may_be_back = setting.servers.len() > 1
        || setting.faults.iter().any(|fault| {
            let loses = fault.can(FaultEffect::Kills) || fault.can(FaultEffect::Forgets);
            loses && fault.in_force(from_ns, until_ns) && setting.may_have_worked(fault)
        });
    is_later || may_have_acquired || may_be_back
}
