//! A run's history, read once: operations paired, holds, faults and phases.

pub(crate) mod parts;
mod reader;

pub use crate::tracker::HoldEnd;
pub use parts::{Fault, Hold, Operation, Phase, RunIndex};
pub use reader::Malformed;

use crate::ledger::effects::Setting;
use crate::ledger::grants::{date_grants, latest_answer_ns};
use crate::prose::seconds;
use fencepost_history::{Event, FaultEffect, NodeKind, Process, RunPhase, ServerEnded, f, is_storage};
use reader::{Reader, malformed, ttl_ns};

impl<'a> RunIndex<'a> {
    /// Reads a history. Errors: indices that do not grow, a completion without invocation, two open at once.
    pub fn new(events: &'a [Event]) -> Result<RunIndex<'a>, Malformed> {
        let mut reader = Reader::default();
        reader.run.events = events;
        let mut last = None;
        for event in events {
            if last.is_some_and(|last| last >= event.index) {
                return Err(malformed(event, "its index is not greater than the one before"));
            }
            last = Some(event.index);
            match event.process {
                Process::Nemesis => reader.nemesis(event),
                Process::Client(process) => reader.client(process, event)?,
            }
        }
        let Reader { mut run, tracker, .. } = reader;
        run.end_ns = events.last().map_or(0, |event| event.time);
        for hold in run.holds.iter_mut().filter(|hold| hold.ends.how == HoldEnd::Open) {
            hold.ends.let_go_ns = run.end_ns;
        }
        for hold in tracker.lost() {
            run.holds[hold].ends.given_back_ns = run.end_ns;
        }
        run.stalls.settle();
        let mut holds = std::mem::take(&mut run.holds);
        run.latest_answer_ns = latest_answer_ns(&run.setting());
        date_grants(&run.setting(), &mut holds, run.latest_answer_ns);
        run.holds = holds;
        Ok(run)
    }

    /// The time at which a phase began, with the index of its event.
    pub fn phase(&self, phase: RunPhase) -> Option<&Phase<'a>> {
        self.phases.iter().find(|begun| begun.name == phase.name())
    }

    /// The first server that did not serve again after a fault was healed.
    pub fn not_back(&self) -> Option<&ServerEnded> {
        self.stayed_away().next()
    }

    /// The first server that did not serve again after a fault because it cannot read its own data.
    pub fn unreadable(&self) -> Option<&ServerEnded> {
        self.stayed_away().find(|ended| ended.unreadable.is_some())
    }

    /// The servers that did not serve again after a fault, but for those that did at the last try to heal it.
    fn stayed_away(&self) -> impl Iterator<Item = &ServerEnded> {
        let healed_since = |id: u64, time_ns: u64| {
            let mut faults = self.faults.iter().filter(|fault| fault.id == id);
            faults.any(|fault| fault.healed_ns.is_some_and(|healed_ns| healed_ns >= time_ns))
        };
        let stayed = move |(time_ns, ended): &&(u64, ServerEnded)| {
            ended.after_fault.is_some_and(|id| !healed_since(id, *time_ns))
        };
        self.servers_ended.iter().filter(stayed).map(|(_, ended)| ended)
    }

    /// The first server that ended without a fault in force that explains it.
    pub fn ended_unexplained(&self) -> Option<&(u64, ServerEnded)> {
        let explains = |fault: &Fault, time_ns: u64, ended: &ServerEnded| {
            let can = match ended.was_killed() {
                true => fault.can(FaultEffect::Stops) && fault.in_force(time_ns, time_ns),
                false => fault.inject_ns <= time_ns,
            };
            can && fault.targets.contains(&ended.node.as_str()) && self.may_have_worked(fault)
        };
        let unexplained = |(time_ns, ended): &&(u64, ServerEnded)| {
            ended.after_fault.is_none() && !self.faults.iter().any(|fault| explains(fault, *time_ns, ended))
        };
        self.servers_ended.iter().find(unexplained)
    }

    /// Why what this run's locks owe by some time cannot be judged: a server ended unexplained, or a cut-off.
    pub fn why_its_end_says_nothing(&self) -> Option<String> {
        if let Some((time_ns, ended)) = self.ended_unexplained() {
            let how = ended.how_it_ended();
            return Some(format!("at {}, and by no fault of this run, the server {how}", seconds(*time_ns)));
        }
        self.cut_off.map(|(time_ns, why)| format!("the run was cut off at {}: {why}", seconds(time_ns)))
    }

    pub fn excluding_holds(&self) -> impl Iterator<Item = (usize, &Hold<'a>)> {
        self.holds.iter().enumerate().filter(|(_, hold)| hold.claim.excludes_any())
    }

    /// All attempts to acquire a lock, in order of invocation.
    pub fn acquires(&self) -> impl Iterator<Item = &Operation<'a>> {
        self.calls(f::ACQUIRE)
    }

    /// The operations of a name, in order of invocation.
    pub fn calls(&self, name: &'static str) -> impl Iterator<Item = &Operation<'a>> {
        self.operations.iter().filter(move |operation| operation.f() == name)
    }

    /// The longest time for which a grant lasts and its lock then stays taken; 0 where time does not end it.
    pub fn longest_ttl_ns(&self) -> u64 {
        let ttl_ns = self.acquires().filter_map(|acquire| self.ttl_ns(acquire)).max().unwrap_or(0);
        let delay =
            self.lock.lock_delay.map_or(0, |delay| u64::try_from(delay.0.as_nanos()).unwrap_or(u64::MAX));
        ttl_ns.saturating_add(delay)
    }

    /// How long the grant of an acquire lasts by itself; none where its end is no matter of time.
    pub fn ttl_ns(&self, acquire: &Operation) -> Option<u64> {
        ttl_ns(&self.lock, acquire.invoke)
    }

    pub fn kind_of(&self, node: &str) -> Option<NodeKind> {
        match node {
            _ if self.servers.contains(&node) => Some(NodeKind::Server),
            _ if self.nodes.is_client(node) => Some(NodeKind::Client),
            _ if self.nodes.storage.iter().any(|storage| storage == node) || is_storage(node) => {
                Some(NodeKind::Storage)
            }
            _ => None,
        }
    }

    /// Whether a fault may have worked: it was seen to, or it began and nothing could be seen of it.
    pub fn may_have_worked(&self, fault: &Fault) -> bool {
        self.setting().may_have_worked(fault)
    }

    pub(crate) fn setting(&self) -> Setting<'_, 'a> {
        Setting {
            faults: &self.faults,
            servers: &self.servers,
            servers_ended: &self.servers_ended,
            nodes: &self.nodes,
            operations: &self.operations,
            stalls: &self.stalls,
        }
    }

    /// Whether no fault was injected, and none was to be.
    pub fn is_in_peace(&self) -> bool {
        self.faults.is_empty() && self.nemeses.is_empty() && self.faults_left_out == 0
    }

    /// The longest time that the workload gave an acquire; those that close the run do not count.
    pub fn longest_timeout_ns(&self) -> u64 {
        let closing = [RunPhase::Heal, RunPhase::Closing].into_iter().find_map(|phase| self.phase(phase));
        let closing_ns = closing.map_or(u64::MAX, |phase| phase.from_ns);
        let of_workload = self.acquires().filter(|acquire| acquire.invoke.time < closing_ns);
        of_workload.filter_map(Operation::timeout_ns).max().unwrap_or(0)
    }

    pub fn event(&self, index: u64) -> Option<&'a Event> {
        let at = self.events.binary_search_by_key(&index, |event| event.index).ok()?;
        Some(&self.events[at])
    }
}
