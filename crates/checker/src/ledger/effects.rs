//! What faults can have done, and until when: each effect ([`FaultEffect`]) of a fault explains only this:
//!
//! | effect | it explains | until |
//! |---|---|---|
//! | stops | what the target does late; sessions that need it | its healing begins |
//! | kills | the same, and what the target knew before | its healing begins |
//! | forgets | what the target knew | it is healed |
//! | moves clocks | leases that were granted before it was healed, and that the clock counts | it is healed |
//! | parts, delays | requests between the nodes that it names, and sessions that need them | it is healed |
//! | sends packets twice | requests that are carried out twice, and no delay | it is healed |
//! | refuses | errors | it is healed |
//!
//! Of several servers one that is stopped, killed or parted may make the others choose a new leader, also for
//! any time after the fault. A grant that came from another server than an earlier one shows it.

use super::interval::{Bound, Interval, Reason};
use crate::run_index::parts::{Fault, Hold, Operation};
use crate::spans::{Span, difference, union};
use crate::stalls::Stalls;
use fencepost_history::{FaultEffect, Lease, RunNodes, ServerEnded, is_storage};

#[derive(Clone, Copy)]
pub(crate) struct Setting<'r, 'a> {
    pub faults: &'r [Fault<'a>],
    pub servers: &'r [&'a str],
    pub servers_ended: &'r [(u64, ServerEnded)],
    pub nodes: &'r RunNodes,
    pub operations: &'r [Operation<'a>],
    pub stalls: &'r Stalls<'a>,
}

/// What can have made a service give a lock that was still held, or forget it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServiceEffect<'r, 'a> {
    Fault(&'r Fault<'a>),
    Ended(u64, &'r ServerEnded),
    /// Of servers one of which leads, another made the later grant than the earlier.
    NewLeader {
        earlier: &'r str,
        later: &'r str,
    },
}

impl Fault<'_> {
    /// Whether it was in force, or may have been, at some moment between these two.
    pub fn in_force(&self, from_ns: u64, until_ns: u64) -> bool {
        self.inject_ns <= until_ns && self.healed_ns.is_none_or(|healed_ns| healed_ns >= from_ns)
    }

    /// Whether it certainly spares all packets between a node and the servers, and does nothing else.
    pub fn spares(&self, node: &str, servers: &[&str]) -> bool {
        !servers.is_empty() && servers.iter().all(|server| self.description.spares_the_way(node, server))
    }

    pub(crate) fn can(&self, effect: FaultEffect) -> bool {
        self.description.can(effect)
    }

    /// Whether it stops its targets, and loses nothing that they had made durable.
    fn only_stops(&self) -> bool {
        self.can(FaultEffect::Stops) && !self.can(FaultEffect::Forgets)
    }

    /// The last moment at which it can affect a target: a stop or a kill ends as the healing begins.
    pub(crate) fn acts_until_ns(&self) -> u64 {
        let healing_ns = self.heal_ns.filter(|_| self.only_stops());
        healing_ns.or(self.healed_ns).unwrap_or(u64::MAX)
    }

    fn acts(&self, from_ns: u64, until_ns: u64) -> bool {
        self.inject_ns <= until_ns && self.acts_until_ns() > from_ns
    }

    /// Whether no server runs from injection to healing. What is asked to end goes on for a while.
    fn stops_all(&self, servers: &[&str]) -> bool {
        let is_down = self.effective && self.only_stops() && !self.can(FaultEffect::Delays);
        is_down && !servers.is_empty() && servers.iter().all(|server| self.targets.contains(server))
    }
}

impl<'r, 'a> Setting<'r, 'a> {
    /// Whether a fault may have worked: it was seen to, or it began and nothing could be seen of it.
    pub fn may_have_worked(&self, fault: &Fault) -> bool {
        let until_ns = fault.injected_ns.unwrap_or(u64::MAX);
        let hides_it = |other: &Fault| {
            other.id != fault.id
                && other.can(FaultEffect::Stops)
                && other.in_force(fault.inject_ns, until_ns)
                && other.targets.iter().any(|target| fault.targets.contains(target))
        };
        fault.effective
            || fault.error.is_some()
            || fault.injected_ns.is_none()
            || self.faults.iter().any(hides_it)
    }

    /// Whether a node is a server. Where the history names none: neither a client nor the storage.
    fn is_server(&self, node: &str) -> bool {
        let is_other = || {
            self.nodes.is_client(node)
                || is_storage(node)
                || self.nodes.storage.iter().any(|name| name == node)
        };
        self.servers.contains(&node) || self.servers.is_empty() && !is_other()
    }

    fn hits_servers(&self, fault: &Fault) -> bool {
        let is_of_packets = !fault.description.between.is_empty();
        let among = || self.servers.iter().any(|server| !fault.spares(server, self.servers));
        fault.targets.iter().any(|target| self.is_server(target)) && (!is_of_packets || among())
    }

    /// The faults on servers, or between them and others, that may have worked, up to a moment.
    pub fn faults_on_servers(&self, until_ns: u64) -> Vec<&'r Fault<'a>> {
        let of_server = |fault: &&Fault| {
            let is_of_packets = !self.servers.is_empty() && !fault.description.between.is_empty();
            let is_of_server =
                |node: &str| self.is_server(node) || is_of_packets && !fault.spares(node, self.servers);
            fault.targets.iter().any(|target| is_of_server(target))
        };
        let begun = self.faults.iter().filter(|fault| fault.inject_ns <= until_ns);
        begun.filter(|fault| self.may_have_worked(fault)).filter(of_server).collect()
    }

    /// What can have made the service lose, between two moments, a lock that it gave at the first: the fault
    /// that began last. `asked_ns` is when that lock was asked for: a new leader may come late.
    pub fn on_service(&self, asked_ns: u64, granted_ns: u64, until_ns: u64) -> Option<ServiceEffect<'r, 'a>> {
        let losing = self.losing(asked_ns, granted_ns, until_ns).into_iter();
        let last = losing.max_by_key(|fault| self.begins(fault).ns).map(ServiceEffect::Fault);
        last.or_else(|| self.ended(granted_ns, until_ns).next())
    }

    /// A later grant of a key from another leader, after some fault on servers, which may have been over.
    pub fn new_leader<'h>(&self, a: &'h Hold, b: &'h Hold) -> Option<ServiceEffect<'h, 'a>>
    where
        'r: 'h,
    {
        let ([earlier], [later]) = (a.granted_by.as_slice(), b.granted_by.as_slice()) else { return None };
        let disturbed = || {
            let faults = self.faults_on_servers(b.granted.latest.ns);
            faults.into_iter().any(|fault| self.hits_servers(fault))
        };
        (self.nodes.leader && earlier != later && disturbed())
            .then_some(ServiceEffect::NewLeader { earlier, later })
    }

    fn ended(
        &self,
        from_ns: u64,
        until_ns: u64,
    ) -> impl Iterator<Item = ServiceEffect<'r, 'a>> + use<'r, 'a> {
        let between = move |(at_ns, _): &&(u64, _)| (from_ns..=until_ns).contains(at_ns);
        self.servers_ended.iter().filter(between).map(|(at_ns, ended)| ServiceEffect::Ended(*at_ns, ended))
    }

    fn losing(&self, asked_ns: u64, granted_ns: u64, until_ns: u64) -> Vec<&'r Fault<'a>> {
        use FaultEffect::{Delays, Duplicates, Forgets, Kills, MovesClocks, Parts, Refuses, Stops};
        let several = self.servers.len() != 1;
        let loses = |fault: &&Fault| {
            let direct = fault.can(Kills) && fault.acts(granted_ns, until_ns)
                || (fault.can(Forgets) || fault.can(MovesClocks)) && fault.in_force(granted_ns, until_ns);
            let disturbing = [Stops, Kills, Forgets, Parts, Delays, Duplicates, Refuses];
            let disturbs = disturbing.into_iter().any(|effect| fault.can(effect));
            // All servers began anew.
            let is_over = fault.stops_all(self.servers) && fault.acts_until_ns() <= granted_ns;
            let changes_leader = several && disturbs && fault.in_force(asked_ns, until_ns) && !is_over;
            (direct || changes_leader) && self.hits_servers(fault) && self.may_have_worked(fault)
        };
        let first_ns = asked_ns.min(granted_ns);
        self.faults.iter().filter(|fault| fault.in_force(first_ns, until_ns)).filter(loses).collect()
    }

    /// All that can have made the service lose a hold until a moment, and when each can have.
    pub fn service_loses(&self, hold: &Hold, until_ns: u64) -> Vec<(ServiceEffect<'r, 'a>, Interval)> {
        let granted = Bound::new(hold.granted.earliest.ns, Reason::Granted);
        let losing = self.losing(hold.invoke_ns, granted.ns, until_ns).into_iter().map(ServiceEffect::Fault);
        let interval = |effect: &ServiceEffect| match effect {
            ServiceEffect::NewLeader { .. } => Interval::new(granted, Bound::new(until_ns, Reason::Answered)),
            ServiceEffect::Ended(at_ns, _) => {
                let at = Bound::new(*at_ns, Reason::ServerEnded).or_later(granted);
                Interval::new(at, at)
            }
            ServiceEffect::Fault(fault) => {
                let over = |healed_ns| Bound::new(healed_ns, Reason::FaultOver { id: fault.id });
                let open = Bound::new(u64::MAX, Reason::Open);
                Interval::new(self.begins(fault).or_later(granted), fault.healed_ns.map_or(open, over))
            }
        };
        let all = losing.chain(self.ended(granted.ns, until_ns));
        all.map(|effect| (effect, interval(&effect))).collect()
    }

    /// From when on a fault can have ended what servers had granted: stopped servers end nothing.
    fn begins(&self, fault: &Fault) -> Bound {
        match fault.stops_all(self.servers) {
            true => Bound::new(fault.acts_until_ns(), Reason::FaultHealing { id: fault.id }),
            false => Bound::new(fault.inject_ns, Reason::FaultBegan { id: fault.id }),
        }
    }

    /// From when on a hold's session or connection may have ended: a fault, a server that ended, or a stall.
    pub fn cut(&self, hold: &Hold) -> Option<Bound> {
        let own = self.nodes.client_of(hold.process);
        let granted_ns = hold.granted.earliest.ns;
        let reaches = |fault: &Fault| {
            self.servers.iter().any(|server| !fault.spares(server, self.servers))
                || own.is_none_or(|own| !fault.spares(own, self.servers))
        };
        let near = |fault: &&Fault| {
            // What stops a node or moves its clock changes nothing between other nodes. Packets are another
            // matter, unless the fault says between which nodes they are.
            let is_local = fault.can(FaultEffect::Stops) || fault.can(FaultEffect::MovesClocks);
            let is_of_others = |target: &str| {
                is_storage(target)
                    || (is_local && own.is_some_and(|own| own != target) && self.nodes.is_client(target))
            };
            fault.acts_until_ns() > granted_ns
                && !fault.targets.iter().all(|target| is_of_others(target))
                && reaches(fault)
        };
        let granted = Bound::new(granted_ns, Reason::Granted);
        let ends = self.servers_ended.iter().map(|(at_ns, _)| *at_ns).filter(|at_ns| *at_ns >= granted_ns);
        let ended = ends.min().map(|at_ns| Bound::new(at_ns, Reason::ServerEnded));
        let mut earliest = ended.into_iter().chain(self.stalled_out(hold)).min_by_key(|bound| bound.ns);
        for fault in self.faults {
            if earliest.is_some_and(|earliest| fault.inject_ns.max(granted_ns) >= earliest.ns) {
                break;
            }
            let begins = self.begins(fault).or_later(granted);
            if near(&fault) && earliest.is_none_or(|earliest| begins.ns < earliest.ns) {
                earliest = Some(begins);
            }
        }
        earliest
    }

    /// When the machine first stalled, after a grant, for more than half of the session's time-out.
    fn stalled_out(&self, hold: &Hold) -> Option<Bound> {
        let ttl_ns = hold.ttl_ns.filter(|_| hold.lease == Lease::Session)?;
        let granted_ns = hold.granted.earliest.ns;
        let is_long = |span: &&Span| span.1 > granted_ns && 2 * (span.1 - span.0) > ttl_ns;
        let long = self.stalls.any.iter().find(is_long)?;
        Some(Bound::new(long.0.max(granted_ns), Reason::MachineStalled))
    }

    /// When no server could grant anything to a client for certain: each was down, or parted from it.
    pub fn outages(&self, client: Option<&str>) -> Vec<Span> {
        let away = |server: &&str| {
            let parted = |fault: &Fault| {
                let own = client.filter(|_| fault.can(FaultEffect::Parts));
                own.is_some_and(|own| !fault.description.spares_the_way(own, server))
            };
            let down = |fault: &Fault| fault.only_stops() && fault.targets.contains(server);
            // A process that is killed while it is stopped is started again as one that runs.
            let replaced_ns = |fault: &Fault| {
                let kills = |other: &&Fault| other.can(FaultEffect::Kills) || other.can(FaultEffect::Forgets);
                let killed = self.faults.iter().filter(kills).filter(|other| other.targets.contains(server));
                killed.map(|other| other.inject_ns).filter(|ns| *ns > fault.inject_ns).min()
            };
            let span = |fault: &Fault| {
                let healed_ns = fault.heal_ns.or(fault.healed_ns).unwrap_or(u64::MAX);
                let until_ns = match parted(fault) {
                    true => healed_ns,
                    false => replaced_ns(fault).filter(|ns| *ns < healed_ns).unwrap_or(healed_ns),
                };
                let away = fault.effective && (parted(fault) || down(fault));
                Some((fault.injected_ns.filter(|from_ns| away && *from_ns < until_ns)?, until_ns))
            };
            union(self.faults.iter().filter_map(span).collect())
        };
        const ALWAYS: Span = (0, u64::MAX);
        let both =
            |one: Vec<Span>, other: Vec<Span>| difference(&one, &difference(&one, &other, ALWAYS), ALWAYS);
        self.servers.iter().map(away).reduce(both).unwrap_or_default()
    }

    /// Whether any fault that may have worked was in force at some moment between two.
    pub fn any_fault(&self, from_ns: u64, until_ns: u64) -> bool {
        self.faults.iter().any(|fault| fault.in_force(from_ns, until_ns) && self.may_have_worked(fault))
    }

    /// Whether a fault of client, servers or storage can have made a process late between two moments.
    pub fn made_late(&self, process: u64, from_ns: u64, until_ns: u64) -> bool {
        let own = self.nodes.client_of(process);
        let concerns = |fault: &Fault| {
            let of_others =
                |target: &&str| self.nodes.is_client(target) && own.is_some_and(|own| own != *target);
            !fault.targets.iter().all(of_others) || fault.targets.is_empty()
        };
        let can_delay = |fault: &Fault| {
            FaultEffect::ALL.into_iter().any(|effect| effect != FaultEffect::Duplicates && fault.can(effect))
        };
        let late = |fault: &Fault| {
            fault.in_force(from_ns, until_ns)
                && can_delay(fault)
                && concerns(fault)
                && self.may_have_worked(fault)
        };
        self.faults.iter().any(late)
            || self.servers_ended.iter().any(|(at_ns, _)| (from_ns..=until_ns).contains(at_ns))
    }
}
