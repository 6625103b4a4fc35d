//! What the clock nemeses share. A fault counts only when the process itself was seen to read another time.

use crate::clocks::clock_tool::{ClockCall, ClockLook};
use crate::clocks::motion::{Motion, Motions};
use crate::context::FaultContext;
use crate::fault::{Fault, FaultError, Observation, heal_each, of_each};
use crate::nemesis::{Draw, Drawing, NemesisDescription, TypedNemesis};
use crate::plan::aim::{Aim, DrawnAim, Moment};
use crate::plan::distributions::{around_ttl, draw_log, millis, subset};
use crate::plan::roles::Role;
use crate::plan::topology::Topology;
use crate::tools::clock::Observed;
use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::prose::and;
use fencepost_history::{FaultDescription, FaultEffect, Refusal, Stream};
use rand::RngExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that moved by less was not seen to move: reading it takes that long.
const LEAST_NS: u64 = 5_000_000;

/// A healed clock stands within this of where it should.
const HEALED_NS: u64 = 50_000_000;

/// How long a drift is given to be seen, and how often one looks.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

/// Two of three clock faults are on servers, whose clocks count most leases, and mostly on a majority, as a
/// lock of several servers needs. The third is on clients, which count how long their leases are valid.
pub(crate) fn draw_targets(topology: &Topology, random: &mut Stream) -> Option<Vec<String>> {
    let names =
        if random.random_bool(2.0 / 3.0) && !topology.servers.is_empty() || topology.clients.is_empty() {
            &topology.servers
        } else {
            &topology.clients
        };
    let least = if random.random_bool(0.7) { names.len() / 2 + 1 } else { 1 };
    (!names.is_empty()).then(|| subset(names, random.random_range(least..=names.len()), random))
}

/// How far clocks go wrong, in milliseconds: half the TTL to hundreds of times, on a logarithmic scale: just
/// past the TTL is as likely as many TTLs. Forward, which ends leases early, is twice as likely.
pub(crate) fn draw_size_ms(from: &mut Drawing<'_>) -> i64 {
    let Drawing { topology, settings, random } = from;
    let drawn = topology.ttl.mul_f64(draw_log(0.5, 300.0, random));
    let size_ms = millis(settings.options.clock_amplitude.map_or(drawn, |size| size.0)) as i64;
    if random.random_bool(2.0 / 3.0) { size_ms } else { -size_ms }
}

/// The clocks of the servers that granted, by which leases end; the holder's, by which some clients count
/// theirs; and the waiter's, by which some judge whether the holder's is over. One of three is a client's.
const AIMS: &[Aim] = &[
    Aim::at(Role::Granting, &[Moment::GrantedForLong]),
    Aim::at(Role::Holder, &[Moment::GrantedForLong, Moment::Collecting]),
    Aim::at(Role::Granting, &[Moment::GrantedForLong, Moment::BeforeWrite]),
    Aim::at(Role::Granting, &[Moment::GrantedForLong, Moment::Collecting]),
    Aim::at(Role::Waiter, &[Moment::GrantedForLong, Moment::Collecting]),
];

/// How often an aimed fault makes a client trust its lease for longer, mostly the holder's. A waiter's clock
/// is to lose time while it asks for its lock, or to see the holder's lease end early.
const TRUSTS_LONGER: f64 = 0.75;
const WAITER_TRUSTS_LONGER: f64 = 0.5;

pub(crate) fn draw_beyond_ttl_ms(from: &mut Drawing<'_>) -> i64 {
    let Drawing { topology, settings, random } = from;
    let drawn = topology.ttl.mul_f64(draw_log(1.1, 300.0, random));
    millis(settings.options.clock_amplitude.map_or(drawn, |size| size.0)) as i64
}

/// A nemesis that makes clocks go wrong for a while. `P` are its parameters.
pub(crate) struct ClockNemesis<P: 'static> {
    pub name: &'static str,
    pub about: &'static str,
    pub options: &'static [&'static str],
    /// Shortest and longest fault, in TTLs.
    pub around: (f64, f64),
    pub draw: fn(&mut Drawing<'_>) -> P,
    pub make_lease_end_early: fn(P, &mut Drawing<'_>) -> P,
    pub make_lease_seem_longer: fn(P) -> P,
    pub motions: fn(&P) -> Motions,
    pub words: Words,
}

#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub sentence: fn(&Moved) -> String,
    /// What follows the targets' names in a picture.
    pub label: fn(&Moved) -> String,
    pub summary: &'static str,
}

pub(crate) struct Moved<'a> {
    pub on: &'a [String],
    pub motions: Motions,
    /// Per target, what was seen; empty before anything was.
    pub observed: &'a Map<String, Value>,
}

impl Moved<'_> {
    /// "the wall clock of n1 and n2".
    pub fn clock(&self) -> String {
        let clock = match self.motions {
            Motions { wall: Some(_), monotonic: Some(_) } => "clock",
            Motions { monotonic: Some(_), .. } => "monotonic clock",
            _ => "wall clock",
        };
        format!("the {clock} of {}", and(self.on))
    }

    pub fn motion(&self) -> Option<Motion> {
        self.motions.wall.or(self.motions.monotonic)
    }
}

impl<P: Serialize + DeserializeOwned> TypedNemesis for ClockNemesis<P> {
    type Parameters = P;

    fn description(&self) -> NemesisDescription {
        NemesisDescription {
            // They add up, and each can be taken out by itself (see `ClockSchedule`).
            kind: None,
            needs: &[Capability::Ptrace],
            options: self.options,
            awaits_holder: true,
            aims: AIMS,
            ..NemesisDescription::new(self.name, self.about)
        }
    }

    fn draw(&self, from: &mut Drawing<'_>) -> Option<Draw<P>> {
        let on = draw_targets(from.topology, from.random)?;
        let parameters = (self.draw)(from);
        let (shortest, longest) = self.around;
        Some(Draw { on, length: around_ttl(from.topology.ttl, shortest, longest, from.random), parameters })
    }

    fn adapt_to_aim(&self, drawn: Draw<P>, aim: &DrawnAim, from: &mut Drawing<'_>) -> Draw<P> {
        let trusts_longer = match aim.aim.role {
            Role::Holder => TRUSTS_LONGER,
            Role::Waiter => WAITER_TRUSTS_LONGER,
            _ => 0.0,
        };
        let parameters = if trusts_longer > 0.0 && from.random.random_bool(trusts_longer) {
            (self.make_lease_seem_longer)(drawn.parameters)
        } else if aim.aim.role == Role::Holder {
            drawn.parameters
        } else {
            (self.make_lease_end_early)(drawn.parameters, from)
        };
        Draw { parameters, ..drawn }
    }

    fn prepare(&self, on: &[String], parameters: P) -> Result<Box<dyn Fault>, Refusal> {
        let motions = (self.motions)(&parameters);
        for motion in [motions.wall, motions.monotonic].into_iter().flatten() {
            motion.check()?;
        }
        static IDS: AtomicU64 = AtomicU64::new(0);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(SkewedClocks { id, on: on.to_vec(), motions, words: self.words }))
    }
}

struct SkewedClocks {
    id: u64,
    on: Vec<String>,
    motions: Motions,
    words: Words,
}

impl ClockLook {
    /// How far the wall and the monotonic clock are from where they should stand, in nanoseconds.
    fn off(&self) -> [i64; 2] {
        [self.after.wall_ns - self.due_wall_ns, self.after.monotonic_ns - self.due_monotonic_ns]
    }

    fn is_right(&self) -> bool {
        self.off().iter().all(|off| off.unsigned_abs() <= HEALED_NS + self.after.error_ns)
    }
}

async fn call<T: DeserializeOwned>(
    context: &FaultContext,
    target: &str,
    call: ClockCall,
) -> Result<T, FaultError> {
    context.call(target, "clock", &call).await
}

/// How far both clocks moved between two looks, in nanoseconds, and the most by which that may be wrong.
fn moved_ns(before: &Observed, after: &Observed) -> ([i64; 2], u64) {
    let moved = [after.wall_ns - before.wall_ns, after.monotonic_ns - before.monotonic_ns];
    (moved, before.error_ns + after.error_ns)
}

fn ms(ns: i64) -> i64 {
    (ns as f64 / 1e6).round() as i64
}

impl SkewedClocks {
    /// Whether each clock that was to move has, by more than the two looks can be wrong.
    fn is_seen(&self, before: &Observed, after: &Observed) -> bool {
        let ([wall, monotonic], error_ns) = moved_ns(before, after);
        let far = |moved: i64| moved.unsigned_abs() >= LEAST_NS + error_ns;
        let Motions { wall: of_wall, monotonic: of_monotonic } = self.motions;
        (of_wall.is_some() || of_monotonic.is_some())
            && (of_wall.is_none() || far(wall))
            && (of_monotonic.is_none() || far(monotonic))
    }

    /// Sets the clocks of one target in motion, and looks until they are seen to move.
    async fn begin(&self, context: &FaultContext, target: &str) -> Result<(Value, bool), FaultError> {
        let (id, motions, pid) = (self.id, self.motions, context.clock_reader(target)?);
        let begun = tokio::time::Instant::now();
        let begin = ClockCall::Begin { id, pid, motions };
        let ClockLook { before, mut after, mechanism, .. } = call(context, target, begin).await?;
        while !self.is_seen(&before, &after) && begun.elapsed() < PATIENCE {
            tokio::time::sleep(PAUSE).await;
            let look = ClockCall::Look { pid: context.clock_reader(target)? };
            after = call::<ClockLook>(context, target, look).await?.after;
        }
        let ([wall, monotonic], _) = moved_ns(&before, &after);
        let seen = json!({
            "wall_ms": ms(wall), "monotonic_ms": ms(monotonic),
            "after_ms": ms(i64::try_from(begun.elapsed().as_nanos()).unwrap_or(i64::MAX)),
            "mechanism": mechanism,
        });
        Ok((seen, self.is_seen(&before, &after)))
    }

    async fn end(&self, context: &FaultContext, target: &str) -> Result<Value, FaultError> {
        let end = ClockCall::End { id: self.id, pid: context.clock_reader(target).ok() };
        // One that is down starts with a clock that this fault is no part of any more.
        let Some(mut ended) = call::<Option<ClockLook>>(context, target, end).await? else {
            return Ok(json!({"gone": true}));
        };
        let before = ended.before;
        let begun = tokio::time::Instant::now();
        // Another fault's motion goes on in steps, and on a busy machine a step can be late.
        while !ended.is_right() && begun.elapsed() < PATIENCE {
            tokio::time::sleep(PAUSE).await;
            let look = ClockCall::Look { pid: context.clock_reader(target)? };
            ended = call(context, target, look).await?;
        }
        let off = ended.off();
        if !ended.is_right() {
            return Err(FaultError::Other(format!(
                "the clock of {target} is still {} ms (wall) and {} ms (monotonic) off after healing",
                ms(off[0]),
                ms(off[1])
            )));
        }
        Ok(json!({
            "wall_ms": ms(off[0]), "monotonic_ms": ms(off[1]),
            "was": {"wall_ms": ms(before.wall_ns), "monotonic_ms": ms(before.monotonic_ns)},
        }))
    }
}

#[async_trait]
impl Fault for SkewedClocks {
    fn motions(&self) -> Option<Motions> {
        Some(self.motions)
    }

    fn describe(&self, observed: &Map<String, Value>) -> FaultDescription {
        let moved = Moved { on: &self.on, motions: self.motions, observed };
        FaultDescription {
            effects: vec![FaultEffect::MovesClocks],
            keeps_memory: true,
            moves_clocks: true,
            sentence: (self.words.sentence)(&moved),
            healing: format!("the clock of {} was set right", and(&self.on)),
            label: format!("{} {}", self.on.join(" "), (self.words.label)(&moved)),
            summary: self.words.summary.to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let this: &SkewedClocks = self;
        Ok(of_each(&this.on, |target| this.begin(context, target)).await?.into_iter().collect())
    }

    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        let this: &SkewedClocks = self;
        heal_each(&this.on, |target| this.end(context, target)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology() -> Topology {
        crate::testing::topology(2, 1)
    }

    #[test]
    fn sizes_are_drawn_around_the_ttl() {
        let settings = crate::testing::settings(20);
        let mut random = fencepost_history::Seed(1).stream("sizes");
        let (topology, settings) = (&topology(), &settings);
        let mut from = Drawing { topology, settings, random: &mut random };
        let sizes: Vec<i64> = (0..2000).map(|_| draw_size_ms(&mut from)).collect();
        assert!(sizes.iter().all(|ms| (999..=600_001).contains(&ms.abs())));
        // As many below ten times the TTL as above it, about; and a third of them back.
        let small = sizes.iter().filter(|ms| ms.abs() < 24_500).count();
        assert!((800..1200).contains(&small), "{small}");
        let back = sizes.iter().filter(|ms| **ms < 0).count();
        assert!((500..800).contains(&back), "{back}");
    }
}
