//! From the ledger to verdicts: what two holds that overlap are, and whose failure that is.
//!
//! | how the earlier grant can have ended before the later one | class | whose |
//! |---|---|---|
//! | not at all, and nothing had touched the service | granted twice | the library |
//! | only by an effect on the service: a moved clock, a lost memory, a new leader | granted twice | the service |
//! | a release of a process that did not hold it removed it | granted twice | the library |
//! | the later grant came from no server | granted twice | the library |
//! | its lease ran out, its session ended, and its process was hindered | overstayed, cut off | no fence |
//! | the same, and its library had promised to know, and said that it held | overstayed, cut off | the library |
//! | the same, and its library had promised to report it, and never did | overstayed, cut off | the library |
//! | the same, and it was answered after the later grant that it had prolonged the lock | overstayed | the library |
//! | the same, and its lock does not renew, and the run asked its process to hold it for longer | overstayed | no fence |
//! | the same, or it still ran and an effect on the service ended it, and nothing had hindered its process | overstayed | the service |
//! | the same, and nothing had hindered its process but the machine, with the answer or after it | overstayed, cut off | the machine |

use super::effects::ServiceEffect;
use super::interval::Reason;
use super::removals::removal;
use crate::prose::seconds;
use crate::run_index::{Hold, Operation, RunIndex};
use crate::whose::Whose;
use fencepost_history::{FaultEffect, Lease, f};

fencepost_history::worded! {
    /// What an overlap of two holds is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Class {
        /// The lock was granted while the earlier grant cannot have ended.
        GrantedTwice = "granted-twice",
        /// The earlier holder went on after its TTL.
        Overstayed = "overstayed",
        /// The earlier holder went on after a fault that may have ended its session or its connection.
        CutOff = "cut-off",
    }
    /// As it stands in findings.
    pub fn name;
}

impl Class {
    /// As sentences say it.
    pub fn in_words(self) -> String {
        self.name().replace('-', " ")
    }
}

/// A library gets so long at least to say what it promises: threads wake late on a busy machine.
const LATE_NS: u64 = 1_000_000_000;

pub(crate) enum Because<'r, 'a> {
    /// A release of a process that did not hold the lock removed it.
    Removed(&'r Operation<'a>),
    /// No server can have made the grant of this process.
    NoServer(u64),
    /// Something had happened to the service that can have done it.
    Service(ServiceEffect<'r, 'a>),
    /// Nothing that was in force can have done it.
    NothingElse,
    Hindered,
    /// Its library had promised to report the loss.
    PromisedToKnow {
        over_ns: u64,
    },
    /// The same, and nothing had hindered it for long.
    NeverSaid {
        clear_ns: u64,
    },
    /// The run asked the holder to hold the lock for longer than its TTL.
    AskedToOutlast {
        asked_ns: u64,
    },
    /// The machine was late; for so long it certainly gave the holder's client hardly any time.
    Machine {
        stalled_ns: u64,
    },
}

pub(crate) fn class(run: &RunIndex, a: &Hold, b: &Hold) -> Class {
    let until_ns = b.granted.latest.ns;
    if a.granted_by_no_server || b.granted_by_no_server || was_prolonged_beside(run, a, b) {
        return Class::GrantedTwice;
    }
    match (a.lease_at(b.from), a.ends.cut) {
        (Some(lease), _) if lease.earliest.ns <= until_ns => Class::Overstayed,
        (None, Some(cut)) if cut.ns <= until_ns => Class::CutOff,
        _ => Class::GrantedTwice,
    }
}

pub(crate) fn whose<'r, 'a>(
    run: &'r RunIndex<'a>,
    class: Class,
    a: &'r Hold<'a>,
    b: &'r Hold<'a>,
) -> (Whose, Because<'r, 'a>) {
    let setting = run.setting();
    match class {
        Class::GrantedTwice => {
            if let Some(unreached) = [b, a].into_iter().find(|hold| hold.granted_by_no_server) {
                return (Whose::Library, Because::NoServer(unreached.process));
            }
            if let Some(release) = removal(&setting, &run.holds, a, b.from) {
                return (Whose::Library, Because::Removed(release));
            }
            match lost_by_service(run, a, b) {
                Some(effect) => (Whose::Service, Because::Service(effect)),
                None => (Whose::Library, Because::NothingElse),
            }
        }
        Class::Overstayed | Class::CutOff => {
            if let Some(over_ns) = promised_to_know(run, a) {
                return (Whose::Library, Because::PromisedToKnow { over_ns });
            }
            if let Some(clear_ns) = never_said(run, a, b) {
                return (Whose::Library, Because::NeverSaid { clear_ns });
            }
            if was_confirmed_after(run, a, b) && lost_by_service(run, a, b).is_none() {
                return (Whose::Library, Because::NothingElse);
            }
            let hindered = setting.made_late(a.process, a.invoke_ns, a.until_ns);
            let asked_ns = asked_to_outlast(run, a).unwrap_or_default();
            match class {
                Class::CutOff if a.ends.cut.is_some_and(|cut| cut.why == Reason::MachineStalled) => {
                    (Whose::Machine, Because::Machine { stalled_ns: stalled_ns(run, a) })
                }
                Class::CutOff => (Whose::NoFence, Because::Hindered),
                _ if hindered => (Whose::NoFence, Because::Hindered),
                _ if asked_ns > 0 => (Whose::NoFence, Because::AskedToOutlast { asked_ns }),
                _ if would_have_been_over(run, a, b) => {
                    (Whose::Machine, Because::Machine { stalled_ns: stalled_ns(run, a) })
                }
                // Its lease may still have run: then it was no overstaying, and the service may have lost it.
                _ => match lost_by_service(run, a, b).filter(|_| may_have_run(a, b)) {
                    Some(effect) => (Whose::Service, Because::Service(effect)),
                    None => (Whose::Library, Because::NothingElse),
                },
            }
        }
    }
}

fn lost_by_service<'r, 'a>(
    run: &'r RunIndex<'a>,
    a: &'r Hold<'a>,
    b: &'r Hold<'a>,
) -> Option<ServiceEffect<'r, 'a>> {
    let setting = run.setting();
    let effect = setting.on_service(a.invoke_ns, a.granted.earliest.ns, b.granted.latest.ns);
    effect.or_else(|| setting.new_leader(a, b))
}

/// Whether the lease of the earlier holder may have gone on when the later one was granted the lock.
fn may_have_run(a: &Hold, b: &Hold) -> bool {
    a.lease_at(b.from).is_some_and(|lease| lease.latest.ns > b.granted.earliest.ns)
}

/// When the earlier holder asked for its first successful renewal beside the later one, and its notice.
pub(crate) fn renewal_beside(a: &Hold, b: &Hold) -> Option<(u64, u64)> {
    let is_beside = |&&(index, asked_ns): &&(u64, u64)| asked_ns > b.from_ns && index < b.until;
    let first = a.renewals.iter().filter(|_| a.lease == Lease::Ttl).find(is_beside);
    first.map(|&(index, asked_ns)| (asked_ns, index))
}

/// Whether the earlier holder prolonged its lock after the later grant, and was confirmed.
fn was_confirmed_after(run: &RunIndex, a: &Hold, b: &Hold) -> bool {
    let is_prolong =
        |index| run.event(index).is_some_and(|event| [f::PROLONG, f::REENTER].contains(&&*event.f));
    let is_later = |&(index, asked_ns): &(u64, u64)| asked_ns > b.from_ns && is_prolong(index);
    a.lease == Lease::Ttl && a.renewals.iter().any(is_later)
}

fn was_prolonged_beside(run: &RunIndex, a: &Hold, b: &Hold) -> bool {
    renewal_beside(a, b).is_some_and(|(_, index)| {
        let runs = |done_ns| b.lease_at(index).is_none_or(|lease| lease.earliest.ns > done_ns);
        run.event(index).is_some_and(|notice| runs(notice.time))
    })
}

/// Whether the earlier holder would have let go in time, had it held the lock for as long as it was asked to
/// (a history that does not say asks for no time) from the answer on, with no late answer and no stall.
fn would_have_been_over(run: &RunIndex, a: &Hold, b: &Hold) -> bool {
    let asked_ns = run.operations[a.acquire].asked_to_hold_ns().unwrap_or(0);
    // What a program does for the first time may take any time: a virtual machine warms up.
    let slot = |process| run.nodes.slot_of(process);
    let is_first =
        || run.operations[..a.acquire].iter().all(|earlier| slot(earlier.process) != slot(a.process));
    let late_ns = if is_first() { u64::MAX } else { run.latest_answer_ns.unwrap_or(0) };
    let from_ns = a.from_ns.saturating_sub(late_ns).max(a.granted.earliest.ns);
    from_ns.saturating_add(asked_ns) <= b.granted.latest.ns.saturating_add(stalled_ns(run, a))
}

fn stalled_ns(run: &RunIndex, hold: &Hold) -> u64 {
    let own = run.nodes.client_of(hold.process);
    own.map_or(0, |own| run.stalls.of(own, (hold.from_ns, hold.until_ns)))
}

/// For how long the run asked a process to hold a lock that nothing prolongs, if beyond its TTL.
fn asked_to_outlast(run: &RunIndex, hold: &Hold) -> Option<u64> {
    let is_prolonged = run.lock.can("extend") || !hold.renewals.is_empty();
    let ttl_ns = hold.ttl_ns.filter(|_| hold.lease == Lease::Ttl && !is_prolonged)?;
    run.operations[hold.acquire].asked_to_hold_ns().filter(|asked_ns| *asked_ns > ttl_ns)
}

/// When the lease of a hold was over at the latest, though its library promised to report a loss: its client
/// ran by a true clock, and reached no server for longer than the lease.
fn promised_to_know(run: &RunIndex, hold: &Hold) -> Option<u64> {
    let setting = run.setting();
    let own = run.nodes.client_of(hold.process)?;
    let ttl_ns = hold.ttl_ns.filter(|_| run.lock.can("lost"))?;
    let of_hold = run.operations[hold.acquire..].iter().take_while(|said| said.invoke.index <= hold.until);
    let said = of_hold.filter(|said| {
        let is_own = said.process == hold.process && said.key == hold.key;
        let holds = said.ok().and_then(|answer| answer.value.as_bool()) == Some(true);
        let is_last = said.invoke.index == hold.until;
        is_own && (said.f() == f::HOLDS && (holds || is_last) || said.f() == f::RELEASE && is_last)
    });
    let hindered = |effect| {
        // Late packets hinder no clock of its own. A process that stands still in part may look at it late.
        let of_node = |fault: &crate::run_index::Fault| fault.description.between.is_empty();
        let of_own = |fault: &&crate::run_index::Fault| {
            fault.targets.contains(&own) && of_node(fault) && fault.can(effect)
        };
        run.faults.iter().filter(of_own).any(|fault| fault.in_force(hold.from_ns, hold.until_ns))
    };
    let outages = setting.outages(Some(own));
    let over = said.filter_map(|said| {
        let away = outages.iter().find(|(from_ns, until_ns)| {
            *from_ns > hold.from_ns && (*from_ns..=*until_ns).contains(&said.invoke.time)
        })?;
        let over_ns = away.0.saturating_add(ttl_ns);
        (over_ns <= said.invoke.time).then_some(over_ns)
    });
    use FaultEffect::{Delays, Kills, MovesClocks, Stops};
    let moved = [Stops, Kills, MovesClocks, Delays].into_iter().any(hindered);
    over.min().filter(|_| !moved)
}

/// From when on the library of the earlier holder, which had promised to report a loss, could do so and did
/// not: another process had the lock, every fault was healed, and its holder went on for a TTL more, and for
/// as long as a fault had lasted, after which a library may rest before it connects again.
fn never_said(run: &RunIndex, a: &Hold, b: &Hold) -> Option<u64> {
    let ttl_ns = a.ttl_ns.filter(|_| run.lock.can("lost"))?;
    let met = || run.faults.iter().filter(|fault| fault.in_force(a.invoke_ns, a.until_ns));
    let healed_ns =
        met().map(|fault| fault.healed_ns).try_fold(0, |latest, healed| Some(healed?.max(latest)))?;
    let lasted_ns = met().filter_map(|fault| Some(fault.healed_ns? - fault.inject_ns)).max().unwrap_or(0);
    let clear_ns = healed_ns.max(b.granted.latest.ns);
    let patience_ns = ttl_ns.max(lasted_ns).max(LATE_NS).saturating_add(stalled_ns(run, a));
    (a.until_ns > clear_ns.saturating_add(patience_ns)).then_some(clear_ns)
}

/// Why an overlap is whose it is, as a clause that follows "; "; none where the class says it all.
pub(crate) fn clause(run: &RunIndex, because: &Because) -> Option<String> {
    match because {
        Because::Removed(release) => Some(format!(
            "the release of process {0} at {1} had removed it, although process {0} did not hold the lock then",
            release.process,
            seconds(release.invoke.time)
        )),
        Because::NoServer(process) => Some(format!(
            "while process {process} acquired, no server could be reached from its client, so none can have granted it"
        )),
        Because::Service(ServiceEffect::Fault(fault)) => Some(format!(
            "possible cause: {} at {}{}",
            fault.description.sentence,
            seconds(fault.inject_ns),
            // A lock that is built in is the reference.
            match run.lock.client.is_empty() {
                true => "",
                false => " (the same run without that fault, or the reference with `--against`, decides)",
            }
        )),
        Because::Service(ServiceEffect::Ended(at_ns, ended)) => {
            Some(format!("possible cause: at {}, {}", seconds(*at_ns), ended.how_it_ended()))
        }
        Because::Service(ServiceEffect::NewLeader { earlier, later }) => {
            Some(format!("{earlier} had granted it to the one, and {later}, a new leader, to the other"))
        }
        // Of a session or a connection the class says it.
        Because::NothingElse if run.lock.lease == Lease::Ttl && !run.is_in_peace() => {
            Some("no fault that was in force in between can have done that to the servers".to_owned())
        }
        Because::PromisedToKnow { over_ns } => Some(format!(
            "its client ran and could reach no server, and its library, which promises to report a loss, had not done so, \
             although the lease was over at {} at the latest",
            seconds(*over_ns)
        )),
        Because::NeverSaid { clear_ns } => Some(format!(
            "its library, which promises to report a loss, had not done so, although another process held the lock and no fault \
             was in force from {} on",
            seconds(*clear_ns)
        )),
        Because::AskedToOutlast { asked_ns } => Some(format!(
            "the run asked it to hold the lock for {}, and nothing renews it",
            seconds(*asked_ns)
        )),
        Because::Machine { stalled_ns } if *stalled_ns > 0 => {
            Some(format!("for {} of that the machine gave its client hardly any time", seconds(*stalled_ns)))
        }
        Because::NothingElse | Because::Hindered | Because::Machine { .. } => None,
    }
}
