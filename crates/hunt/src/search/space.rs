use super::moments::draw_moment;
use super::ttl::with_ttl;
use crate::AnyNemesis;
use crate::schedule::Schedule;
use fencepost_engine::{BadUsage, RunOptions, RunSpec};
use fencepost_history::{Lease, Seed, Stream, TimeSpan};
use fencepost_nemesis::{
    Plan, PlannedFault, PossibleAim, Role, Topology, Trigger, WhichAim, aims, draw_fault, find,
    reaches_points,
};
use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The most faults of one schedule: with more, effects hide each other, and a finding takes longer to shrink.
pub const FAULTS_MAX: usize = 3;

/// Shortest and longest main phase of a schedule.
const LENGTH_TTLS: (u32, u32) = (3, 6);

/// Fewest and most clients: two compete, and others take over from those that a fault stops.
const CLIENTS: (usize, usize) = (3, 5);

/// The share of schedules with more processes than clients: each costs as much as another schedule beside.
const CROWDED: f64 = 0.3;

/// The share of schedules with a TTL of so much more than the hunt's, which whole seconds have to round.
const ODD_TTL: f64 = 0.08;
const ODD_TTL_MORE: Duration = Duration::from_millis(800);

const RENEWING: f64 = 0.2;

/// How many of ten drawn faults are aimed at a role, and wait for a moment at which they matter.
const AIMED_OF_TEN: u32 = 7;

/// Which options each schedule draws for itself; the user fixed the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrawnOptions {
    pub clients: bool,
    pub concurrency: bool,
    pub keys: bool,
    pub time_limit: bool,
    /// Few schedules have another TTL than the hunt's.
    #[serde(default)]
    pub ttl: bool,
    #[serde(default)]
    pub hold: bool,
    /// Whether clients look at the validity of their lock, which few schedules draw.
    #[serde(default)]
    pub careful: bool,
}

impl DrawnOptions {
    pub const ALL: DrawnOptions = DrawnOptions {
        clients: true,
        concurrency: true,
        keys: true,
        time_limit: true,
        ttl: true,
        hold: true,
        careful: true,
    };
}

/// What the schedules of a hunt are drawn from: the options that the user fixed, and the nemeses that fit.
pub struct Space {
    pub base: RunOptions,
    pub drawn: DrawnOptions,
    pub nemeses: Vec<AnyNemesis>,
    /// The lock prolongs what it holds: some schedules are about that.
    pub renews: bool,
    pub(super) topology: Topology,
    /// The TTL of few schedules, where the lock takes one that is no whole number of seconds.
    pub(super) odd_ttl: Option<TimeSpan>,
    pub(super) lease: Lease,
}

impl Space {
    /// The schedules of these options, with faults of these nemeses. The error is one sentence.
    pub fn new(base: RunOptions, drawn: DrawnOptions, nemeses: Vec<AnyNemesis>) -> Result<Space, BadUsage> {
        // The faults of a schedule are those of its plan.
        let base = RunOptions { nemesis: Vec::new(), nemesis_file: None, ..base };
        let spec = RunSpec::with_plan(base.clone(), Plan::default())?;
        let ttl = TimeSpan(base.ttl.0 + ODD_TTL_MORE);
        let takes = spec.lock.recipe.program().is_none_or(|program| program.ttl_step.is_none())
            && spec.lock.check(&base.lock_options, ttl.0).is_ok();
        let lease = spec.lock.capabilities(&base.lock_options).lease;
        let odd_ttl = (drawn.ttl && takes).then_some(ttl);
        Ok(Space { base, drawn, nemeses, renews: false, topology: spec.topology, odd_ttl, lease })
    }

    pub fn ttl(&self) -> Duration {
        self.base.ttl.0
    }

    /// The nodes of a schedule with these options.
    pub fn topology(&self, options: &RunOptions) -> Topology {
        let clients = (1..=options.clients).map(|number| format!("c{number}")).collect();
        // What a lock adds to its TTL stays the same.
        let ttl = self.topology.ttl + options.ttl.0 - self.ttl();
        Topology { clients, ttl, ..self.topology.clone() }
    }

    /// A schedule without faults, with options drawn.
    pub fn options(&self, random: &mut Stream) -> RunOptions {
        let mut options = self.base.clone();
        options.seed = Some(Seed(random.random_range(0..1 << 53)));
        if let Some(ttl) = self.odd_ttl.filter(|_| random.random_bool(ODD_TTL)) {
            options = with_ttl(options, ttl);
        }
        self.draw_clients(&mut options, random);
        self.draw_keys(&mut options, random);
        self.draw_time_limit(&mut options, random);
        if self.renews && random.random_bool(RENEWING) {
            options = self.held_for_long(options);
        }
        options
    }

    pub(super) fn draw_clients(&self, options: &mut RunOptions, random: &mut Stream) {
        if self.drawn.clients {
            options.clients = random.random_range(CLIENTS.0..=CLIENTS.1);
        }
        if self.drawn.concurrency {
            let more = if random.random_bool(CROWDED) { random.random_range(1..=options.clients) } else { 0 };
            options.concurrency = options.clients + more;
        }
    }

    pub(super) fn draw_keys(&self, options: &mut RunOptions, random: &mut Stream) {
        if self.drawn.keys {
            options.keys = if random.random_bool(0.75) { 1 } else { 2 };
        }
    }

    pub(super) fn draw_time_limit(&self, options: &mut RunOptions, random: &mut Stream) {
        if self.drawn.time_limit {
            let (shortest, longest) = LENGTH_TTLS;
            options.time_limit = TimeSpan(options.ttl.0 * random.random_range(shortest..=longest));
        }
    }

    pub(super) fn nemeses_by_chance(&self, random: &mut Stream) -> Vec<AnyNemesis> {
        let mut nemeses = self.nemeses.clone();
        nemeses.shuffle(random);
        nemeses
    }

    /// What a hunt begins with: each nemesis does what breaks most locks, in an order that is partly drawn.
    /// Aims come in this order: at the holder; a waiter that is cut off from some of the servers; between two
    /// steps of the recipe; the waiter whose turn is next; the holder, for those whose first aim is its
    /// servers (its clock, which only a wrong lock minds); the same on a waiter; these at the servers; and
    /// what cannot be aimed here.
    pub(super) fn opening(&self, random: &mut Stream) -> Vec<(AnyNemesis, Option<WhichAim>)> {
        let nemeses = self.nemeses_by_chance(random);
        let aimed: Vec<_> =
            nemeses.into_iter().map(|nemesis| (nemesis, aims(nemesis, &self.topology))).collect();
        let those = |fit: fn(&[PossibleAim]) -> bool, aim| {
            aimed.iter().filter(move |(_, aims)| fit(aims)).map(move |(nemesis, _)| (*nemesis, aim))
        };
        let at_points = aimed.iter().filter(|(nemesis, _)| reaches_points(*nemesis, &self.topology));
        // Where servers know nothing of each other: what a client may take for a majority.
        let votes = aimed.iter().flat_map(|(nemesis, aims)| {
            let places = aims.iter().enumerate().filter(|(_, aim)| parts_votes(aim, &self.topology));
            places.map(move |(place, _)| (*nemesis, Some(WhichAim::InTurn(place))))
        });
        let clocks_of_waiters =
            aimed.iter().filter(|(_, aims)| is_of_clocks(aims)).filter_map(|(nemesis, aims)| {
                let place = aims.iter().position(|aim| aim.on == [Role::Waiter.name()])?;
                Some((*nemesis, Some(WhichAim::InTurn(place))))
            });
        those(is_at_holder, Some(WhichAim::InTurn(0)))
            .chain(votes)
            .chain(at_points.map(|(nemesis, _)| (*nemesis, Some(WhichAim::AtPoint))))
            .chain(those(stops_waiters, Some(WhichAim::InTurn(1))))
            .chain(those(is_of_clocks, Some(WhichAim::InTurn(1))))
            .chain(clocks_of_waiters)
            .chain(those(|aims| !aims.is_empty() && !is_at_holder(aims), Some(WhichAim::InTurn(0))))
            .chain(those(<[_]>::is_empty, None))
            .collect()
    }

    /// A new schedule with a fault of this nemesis (no `aim`: by chance), and others; none without targets.
    pub fn fresh(&self, nemesis: AnyNemesis, aim: Option<WhichAim>, random: &mut Stream) -> Option<Schedule> {
        let mut options = self.options(random);
        if aim.is_some() && self.drawn.time_limit {
            // So that its moment comes, and what follows from it.
            options.time_limit = TimeSpan(options.ttl.0 * LENGTH_TTLS.1);
        }
        let mut plan = Plan { faults: vec![self.fault(nemesis, aim, &options, random)?], ..Plan::default() };
        while plan.faults.len() < FAULTS_MAX && random.random_bool(0.3) {
            let other = self.nemeses.choose(random)?;
            plan.faults.extend(self.fault(*other, None, &options, random));
        }
        let mut schedule = Schedule::new(options, plan);
        while !self.put_in_order(&mut schedule) && schedule.plan.faults.len() > 1 {
            schedule.plan.faults.pop();
        }
        Some(schedule).filter(|schedule| self.is_possible(schedule))
    }

    /// Draws one fault for a schedule: with this aim, or where that is none or cannot be, as it comes.
    pub(super) fn fault(
        &self,
        nemesis: AnyNemesis,
        aim: Option<WhichAim>,
        options: &RunOptions,
        random: &mut Stream,
    ) -> Option<PlannedFault> {
        let topology = self.topology(options);
        let settings = options.nemesis_settings(&topology).ok()?;
        let aim = aim.or_else(|| random.random_ratio(AIMED_OF_TEN, 10).then_some(WhichAim::Any));
        let aimed = aim.and_then(|aim| draw_fault(nemesis, &topology, &settings, Some(aim), random));
        let mut fault = match aimed {
            Some(fault) => fault,
            None => {
                let fault = draw_fault(nemesis, &topology, &settings, None, random)?;
                let waits = fault.then.is_none() && random.random_bool(0.5);
                PlannedFault { then: if waits { Some(draw_moment(random)) } else { fault.then }, ..fault }
            }
        };
        let limit_ms = options.time_limit.millis();
        fault.for_ms = fault.for_ms.clamp(1, limit_ms * 2 / 3);
        // A fault that waits for its moment needs the time after it, and finds it early as well as late.
        let latest_ms = (limit_ms - fault.for_ms) / 2;
        let waits = fault.then.is_some();
        fault.at_ms =
            random.random_range(0..=if waits { latest_ms.min(options.ttl.millis()) } else { latest_ms });
        Some(fault)
    }

    pub(super) fn moments(&self, fault: &PlannedFault, options: &RunOptions) -> Vec<Trigger> {
        let Some(nemesis) = find(&fault.fault) else { return Vec::new() };
        aims(nemesis, &self.topology(options)).into_iter().flat_map(|aim| aim.moments).collect()
    }

    /// Orders a changed schedule: faults by time, each healed in time. Gives whether it is possible now.
    pub(super) fn put_in_order(&self, schedule: &mut Schedule) -> bool {
        let limit_ms = schedule.options.time_limit.millis();
        for fault in &mut schedule.plan.faults {
            fault.for_ms = fault.for_ms.clamp(1, limit_ms);
            fault.at_ms = fault.at_ms.min(limit_ms - fault.for_ms);
        }
        schedule.plan.faults.sort_by_key(|fault| fault.at_ms);
        self.is_possible(schedule)
    }

    /// Whether the engine would carry it out.
    pub fn is_possible(&self, schedule: &Schedule) -> bool {
        let Schedule { options, plan, .. } = schedule;
        (1..=FAULTS_MAX).contains(&plan.faults.len()) && plan.check(&self.topology(options)).is_ok()
    }
}

fn is_at_holder(aims: &[PossibleAim]) -> bool {
    aims.first().is_some_and(is_of_holder)
}

/// Whether these aims are first the servers, then the holder, as those of clock faults are.
fn is_of_clocks(aims: &[PossibleAim]) -> bool {
    !is_at_holder(aims) && aims.get(1).is_some_and(is_of_holder)
}

pub(super) fn is_of_holder(aim: &PossibleAim) -> bool {
    aim.on == [Role::Holder.name()]
}

/// Whether this aim cuts a waiter off from servers that know nothing of each other and vote on the lock.
fn parts_votes(aim: &PossibleAim, topology: &Topology) -> bool {
    aim.cuts_off && aim.on == [Role::Waiter.name()] && !topology.has_leader && topology.servers.len() >= 3
}

/// Whether the first of these aims is the holder, and the second stops the waiter whose turn is next.
fn stops_waiters(aims: &[PossibleAim]) -> bool {
    let waits = |aim: &PossibleAim| aim.on == [Role::Waiter.name()] && aim.peers.is_empty();
    is_at_holder(aims) && aims.get(1).is_some_and(waits)
}
