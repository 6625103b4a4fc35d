//! Schedules in which it matters how long a lock is held. A holder keeps its lock for several TTLs, while
//! the connection breaks over which the lock is prolonged, the waiter behind it sleeps beyond its session,
//! or another takes the lock and is gone again; or it got the lock slowly, and uses the last of its validity.
//!
//! Where renewals are broken, no holder looks at the validity. A client that does stops by itself when a
//! renewal did not come, and so hides a renewal that died. A library promises that it prolongs the lock
//! again, or reports it as lost.

use super::space::{Space, is_of_holder};
use super::ttl::{LIMIT_TTLS as USUAL_TTLS, with_ttl};
use crate::AnyNemesis;
use crate::schedule::Schedule;
use fencepost_engine::RunOptions;
use fencepost_history::{Kind, Lease, Stream, TimeSpan, f};
use fencepost_nemesis::{Plan, PlannedFault, PossibleAim, Role, Trigger, WhichAim, aims};
use rand::RngExt;
use rand::seq::SliceRandom;
use serde_json::json;
use std::time::Duration;

const HOLD_TTLS: u32 = 4;
const LIMIT_TTLS: u32 = 8;

/// How long the connection is broken: most libraries prolong a lock every third of its TTL, and try again.
const BROKEN_TTLS: (f64, f64) = (0.5, 1.2);

/// What breaks a connection: the end of its server, silence of the server or of the network, and a reset.
const BREAKERS: [&str; 4] = ["kill", "pause", "partition", "reset"];

/// Longer than a session lasts that nothing keeps alive, with what servers take to notice. A waiter may sleep
/// for longer, until shortly before its turn comes.
const ASLEEP_TTLS: (f64, f64) = (1.5, 2.2);
const WAITER_ASLEEP_TTLS: (f64, f64) = (2.2, 3.0);
/// How long a holder is cut off from all servers: its session ends, and another process takes the lock.
const PARTED_TTLS: f64 = 3.0;
/// How far a waiter's clock jumps ahead, and for how long: whatever it reads of the lease seems to be over.
/// A holder that is robbed learns of it as it prolongs its lock: in between it has to act.
const AHEAD_TTLS: f64 = 5.0;
const ROBBED_HOLD_TTLS: f64 = 0.35;
/// How long a holder holds its lock that sleeps and wakes, or is cut off.
const AWAKE_TTLS: u32 = 6;
/// A waiter waits for as long as it takes.
const PATIENT_TTLS: u32 = 8;

/// How long a holder is stopped, from when on another that gets the lock is killed, for how long, and how
/// long sections last: the lease of the second has run out as the first goes on.
const TAKEN_TTLS: f64 = 3.2;
const TAKEN_FROM_TTLS: f64 = 0.3;
const TAKER_GONE_TTLS: f64 = 3.0;
const TAKEN_HOLD_TTLS: u32 = 5;
/// How long a minority is cut off, each section lasts, and a holder is cut off from one of the others.
const BARE_TTLS: f64 = 5.0;
const HANDED_ON_TTLS: f64 = 3.0;
const CUT_OFF_TTLS: f64 = 3.0;

/// How long the thread that prolongs the lock stands still: the lease that it prolonged last ends meanwhile,
/// and another process takes the lock.
const STANDS_TTLS: (f64, f64) = (1.6, 2.5);

/// How much of a TTL it takes to ask all servers, each in its turn, and how much of a lease is used.
const ASKING_TTLS: f64 = 0.4;
const USED_TTLS: f64 = 0.95;
/// How long that lasts at most, from the first grant on: the next one comes as this hold ends.
const SLOW_TTLS: f64 = 2.5;

/// How long processes rest where a lock that is not held in truth has to be wanted while it is not.
const RESTS_TTLS: f64 = 0.25;

/// A schedule on a lock that is held: what it tries, with which nemesis.
#[derive(Clone, Copy)]
pub(super) struct HeldPlay {
    pub nemesis: AnyNemesis,
    tries: HeldTry,
}

#[derive(Clone, Copy)]
enum HeldTry {
    /// The nemesis breaks the connection over which the lock is prolonged.
    Broken(WhichAim),
    /// A process in this role sleeps until its session is over, and wakes before the lock is released.
    Sleeps(Role),
    /// The thread that prolongs the lock stands still, while the section goes on.
    RenewalStands,
    /// The holder is cut off from the servers for longer than its session lasts, while its section goes on.
    CutOff,
    /// The wall clock of a waiter runs ahead by more than the lease of the holder lasts.
    WaiterAhead,
    /// While the holder is stopped, another takes the lock and is killed.
    TakenAndGone,
    /// The lock is granted by a bare majority, and its holder loses one of these servers.
    BareMajority,
    /// The servers answer slowly as the lock is acquired, and the section uses all of its validity.
    WholeValidity,
}

impl Space {
    /// Those that fit a lock whether or not it prolongs what it holds.
    pub(super) fn held_plays(&self) -> Vec<HeldPlay> {
        let of = |lease: Lease, name: &str, tries| self.play(name, tries).filter(|_| self.lease == lease);
        // The window is a fraction of a TTL, and another process has to meet it.
        let slow = of(Lease::Ttl, "delay", HeldTry::WholeValidity);
        let asleep = |role| of(Lease::Session, "pause", HeldTry::Sleeps(role));
        let cut_off = of(Lease::Session, "partition", HeldTry::CutOff);
        let plays = [slow, slow, asleep(Role::Waiter), asleep(Role::Holder), cut_off, self.waiter_ahead()];
        plays.into_iter().flatten().collect()
    }

    fn waiter_ahead(&self) -> Option<HeldPlay> {
        self.play("clock-jump", HeldTry::WaiterAhead)
    }

    /// Those for a lock that prolongs what it holds. Its holder soon learns that it was robbed.
    pub(super) fn renewing_plays(&self) -> Vec<HeldPlay> {
        let broken = self.breaks_renewals().into_iter();
        let broken = broken.map(|(nemesis, aim)| HeldPlay { nemesis, tries: HeldTry::Broken(aim) });
        let votes = !self.topology.has_leader && self.topology.servers.len() >= 3;
        let bare = self.play("partition", HeldTry::BareMajority).filter(|_| votes);
        let kills = self.named("kill").is_some();
        let taken = self.play("pause", HeldTry::TakenAndGone).filter(|_| kills);
        let stands = self.play("thread-pause", HeldTry::RenewalStands);
        let first = [self.waiter_ahead(), stands, stands].into_iter().flatten();
        first.chain(broken).chain([bare, bare, taken, taken].into_iter().flatten()).collect()
    }

    fn play(&self, name: &str, tries: HeldTry) -> Option<HeldPlay> {
        self.named(name).map(|nemesis| HeldPlay { nemesis, tries })
    }

    fn named(&self, name: &str) -> Option<AnyNemesis> {
        self.nemeses.iter().copied().find(|nemesis| nemesis.name() == name)
    }

    /// A schedule of this kind; none where the options that the user fixed do not allow it.
    pub(super) fn held(&self, play: HeldPlay, random: &mut Stream) -> Option<Schedule> {
        let drawn = self.options(random);
        let drawn = match (play.tries, self.odd_ttl) {
            // What a share of the TTL comes to is then seen beside what any machine takes.
            (HeldTry::TakenAndGone | HeldTry::BareMajority | HeldTry::WholeValidity, Some(ttl)) => {
                with_ttl(drawn, ttl)
            }
            _ => drawn,
        };
        let drawn = RunOptions { keys: if self.drawn.keys { 1 } else { drawn.keys }, ..drawn };
        let (options, faults) = match play.tries {
            HeldTry::Broken(aim) => {
                let options = self.held_for_long(drawn);
                let fault = self.breaking_a_renewal(play.nemesis, aim, &options, random)?;
                (options, vec![fault])
            }
            HeldTry::Sleeps(role) => {
                let mut options = self.held_for_long(drawn);
                if role == Role::Holder {
                    // A TTL and as long as it slept, in which its library can report the loss.
                    options = self.held_for(options.ttl.0 * AWAKE_TTLS, options);
                }
                if role == Role::Waiter {
                    options = self.wanted_by_two(options);
                }
                let patience = TimeSpan(options.ttl.0 * PATIENT_TTLS);
                let options =
                    RunOptions { acquire_timeout: options.acquire_timeout.max(patience), ..options };
                let (shortest, longest) = if role == Role::Waiter { WAITER_ASLEEP_TTLS } else { ASLEEP_TTLS };
                let asleep = self.topology(&options).ttl.mul_f64(random.random_range(shortest..=longest));
                (options, vec![at_a_grant("pause", role, asleep)])
            }
            HeldTry::RenewalStands => {
                let options = self.held_for_long(drawn);
                let (shortest, longest) = STANDS_TTLS;
                let length = options.ttl.0.mul_f64(random.random_range(shortest..=longest));
                // A lock's own thread begins with the grant: it is the latest.
                let fault = at_a_grant("thread-pause", Role::Holder, length).with("thread", json!("last"));
                (options, vec![fault])
            }
            HeldTry::CutOff => {
                // A TTL and more, in which its library can report the loss.
                let options = self.held_for(drawn.ttl.0 * AWAKE_TTLS, self.held_for_long(drawn));
                let topology = self.topology(&options);
                let groups = json!([[Role::Holder.name()], topology.servers]);
                let fault = at_a_grant("partition", Role::Holder, topology.ttl.mul_f64(PARTED_TTLS));
                (options, vec![fault.with("groups", groups)])
            }
            HeldTry::WaiterAhead => {
                let options = self.wanted_soon(self.held_for_long(drawn));
                let options = self.held_for(options.ttl.0.mul_f64(ROBBED_HOLD_TTLS), options);
                let ahead = options.ttl.0.mul_f64(AHEAD_TTLS);
                let fault = at_a_grant("clock-jump", Role::Waiter, ahead);
                (options, vec![fault.with("wall_ms", json!(ahead.as_millis() as u64))])
            }
            HeldTry::TakenAndGone => self.taken_and_gone(drawn)?,
            HeldTry::BareMajority => self.bare_majority(drawn, random),
            HeldTry::WholeValidity => self.whole_validity(drawn)?,
        };
        let mut schedule = Schedule::new(options, Plan { faults, ..Plan::default() });
        self.put_in_order(&mut schedule).then_some(schedule)
    }

    fn taken_and_gone(&self, drawn: RunOptions) -> Option<(RunOptions, Vec<PlannedFault>)> {
        if !(self.drawn.hold && self.drawn.clients && self.drawn.concurrency) {
            return None;
        }
        // With a third process the lock would not be free when the holder goes on.
        let options = self.wanted_by_two(self.held_for_long(drawn));
        let hold = Some(TimeSpan(options.ttl.0 * TAKEN_HOLD_TTLS).into());
        let ttls = |ttls: f64| options.ttl.0.mul_f64(ttls);
        let stopped = at_a_grant("pause", Role::Holder, ttls(TAKEN_TTLS));
        let gone = at_a_grant("kill", Role::Holder, ttls(TAKER_GONE_TTLS));
        let gone = PlannedFault { at_ms: TimeSpan(ttls(TAKEN_FROM_TTLS)).millis(), ..gone };
        Some((RunOptions { hold, ..options }, vec![stopped, gone]))
    }

    /// Each of two processes comes back soon after its section, while the other has its own.
    fn wanted_by_two(&self, options: RunOptions) -> RunOptions {
        if !(self.drawn.clients && self.drawn.concurrency) {
            return options;
        }
        let (clients, concurrency) = (2, 2);
        self.wanted_soon(RunOptions { clients, concurrency, ..options })
    }

    fn wanted_soon(&self, options: RunOptions) -> RunOptions {
        let often = options.concurrency as f64 / options.ttl.0.mul_f64(RESTS_TTLS).as_secs_f64();
        let rate = if options.rate > 0.0 { options.rate } else { often };
        RunOptions { rate, ..options }
    }

    fn bare_majority(&self, drawn: RunOptions, random: &mut Stream) -> (RunOptions, Vec<PlannedFault>) {
        let options = self.held_for(drawn.ttl.0.mul_f64(HANDED_ON_TTLS), self.held_for_long(drawn));
        let topology = self.topology(&options);
        let mut servers: Vec<&str> = topology.servers.iter().map(String::as_str).collect();
        servers.shuffle(random);
        let (granting, others) = servers.split_at(topology.majority());
        // The first grant may come before the partition is in force. The second one comes while it is, late
        // where processes split the votes, and ends after it: then the minority and the server that the
        // holder lost are a majority.
        let ttls = |ttls: f64| topology.ttl.mul_f64(ttls);
        let clients: Vec<&str> = topology.clients.iter().map(String::as_str).collect();
        let apart = |one: &[&str], other: &[&str], length| {
            PlannedFault::new("partition", one, length).with("groups", json!([one, other]))
        };
        let first = apart(others, &clients, ttls(BARE_TTLS));
        let second = apart(&[Role::Holder.name()], &granting[..1], ttls(CUT_OFF_TTLS));
        let second = second.then(Trigger::of(f::ACQUIRE));
        let second = PlannedFault { at_ms: TimeSpan(ttls(BARE_TTLS * 0.4)).millis(), ..second };
        (options, vec![first, second])
    }

    fn whole_validity(&self, drawn: RunOptions) -> Option<(RunOptions, Vec<PlannedFault>)> {
        if !self.drawn.hold || !(drawn.careful || self.drawn.careful) {
            return None;
        }
        let ttl = drawn.ttl.0;
        let time_limit = if self.drawn.time_limit { TimeSpan(ttl * USUAL_TTLS) } else { drawn.time_limit };
        let options = self.wanted_soon(RunOptions { time_limit, ..drawn });
        let topology = self.topology(&options);
        let late = options.ttl.0.mul_f64(ASKING_TTLS / topology.servers.len().max(1) as f64);
        // Of the answers: a server that has granted the lock counts its lease while they are under way. The
        // first grant may come before the fault is in force; the next one is slow, and ends it.
        let servers: Vec<&str> = topology.servers.iter().map(String::as_str).collect();
        let fault = PlannedFault::new("delay", &servers, options.ttl.0.mul_f64(SLOW_TTLS));
        let fault = fault.with("peers", json!(topology.clients)).with("ways", json!("out"));
        let fault = fault.with("delay_ms", json!(TimeSpan(late).millis().max(1)));
        let granted = || Trigger::of(f::ACQUIRE).with_kind(Kind::Ok);
        let fault = fault.then(granted()).until(granted());
        let hold = Some(TimeSpan(options.ttl.0.mul_f64(USED_TTLS)).into());
        Some((RunOptions { careful: true, hold, ..options }, vec![fault]))
    }

    fn breaks_renewals(&self) -> Vec<(AnyNemesis, WhichAim)> {
        let aimed = |nemesis: AnyNemesis| {
            // Those at points of a recipe take no turns.
            let in_turn = aims(nemesis, &self.topology).into_iter().filter(|aim| !is_at_point(aim));
            let place = in_turn.into_iter().position(|aim| breaks(&aim, self.topology.storage.as_deref()))?;
            Some((nemesis, WhichAim::InTurn(place)))
        };
        BREAKERS.iter().filter_map(|name| self.named(name)).filter_map(aimed).collect()
    }

    /// The same options, with a holder that holds for several TTLs whatever becomes of its lock.
    pub(super) fn held_for_long(&self, options: RunOptions) -> RunOptions {
        let ttl = options.ttl.0;
        RunOptions {
            careful: options.careful && !self.drawn.careful,
            hold: if self.drawn.hold { Some(TimeSpan(ttl * HOLD_TTLS).into()) } else { options.hold },
            time_limit: if self.drawn.time_limit { TimeSpan(ttl * LIMIT_TTLS) } else { options.time_limit },
            ..options
        }
    }

    /// The same options, with sections of this length, unless the user fixed it.
    fn held_for(&self, length: Duration, options: RunOptions) -> RunOptions {
        let hold = if self.drawn.hold { Some(TimeSpan(length).into()) } else { options.hold };
        RunOptions { hold, ..options }
    }

    /// A fault of this nemesis that breaks the connection over which the lock is prolonged.
    fn breaking_a_renewal(
        &self,
        nemesis: AnyNemesis,
        aim: WhichAim,
        options: &RunOptions,
        random: &mut Stream,
    ) -> Option<PlannedFault> {
        let mut fault = self.fault(nemesis, Some(aim), options, random)?;
        let (shortest, longest) = BROKEN_TTLS;
        let length = options.ttl.0.mul_f64(random.random_range(shortest..=longest));
        fault.for_ms = TimeSpan(length).millis().max(1);
        // At the first grant, so that most of the hold comes after the lease that was prolonged last.
        (fault.at_ms, fault.then) = (0, Some(Trigger::of(f::ACQUIRE)));
        fault.until = None;
        Some(fault)
    }
}

/// A fault of a node in this role that comes once the lock is granted.
fn at_a_grant(fault: &str, role: Role, length: Duration) -> PlannedFault {
    PlannedFault::new(fault, &[role.name()], length).then(Trigger::of(f::ACQUIRE))
}

fn is_at_point(aim: &PossibleAim) -> bool {
    aim.moments.iter().any(|moment| moment.point.is_some())
}

/// Whether a fault with this aim breaks what a holder has open to its servers, and spares the storage.
fn breaks(aim: &PossibleAim, storage: Option<&str>) -> bool {
    let is_of_servers = |target: &String| {
        [Role::Granting.name(), Role::Leader.name()].iter().any(|role| target.starts_with(role))
    };
    let spares_storage = aim.peers.iter().all(|peer| Some(peer.as_str()) != storage);
    is_of_holder(aim) && !aim.peers.is_empty() && spares_storage || aim.on.iter().all(is_of_servers)
}
