//! What clock-jump, clock-drift, clock-strobe and clock-freeze have in common: whose clocks are struck, how hard, and
//! a fault that is believed only when the process itself was seen to tell another time.

mod book;
mod mechanism;
mod motion;

pub(crate) use book::Book;
pub use mechanism::{Faked, fake_clocks, moved_clocks, prepare_clock};
pub use motion::{Model, Motion};

use crate::network::draw_log;
use crate::tools::clock::Observed;
use crate::{Aim, Fault, FaultError, Nemesis, Scene, Seen, Settings, Strike, World, around_ttl, subset};
use async_trait::async_trait;
use fencepost_cluster::{Capability, ClockMechanism};
use fencepost_history::prose::and;
use fencepost_history::{FaultDescription, Stream};
use futures_util::future::{join_all, try_join_all};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A clock that moved by less was not seen to move: reading it takes that long.
const LEAST_NS: u64 = 5_000_000;

/// A healed clock stands within this of where it should.
const HEALED_NS: u64 = 50_000_000;

/// How long a drift is given to be seen, and how often one looks.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

/// Which of a process's clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The time of day, by which Redis expires keys.
    #[default]
    Wall,
    /// The time since some beginning, by which etcd counts down leases and clients their time-outs.
    Monotonic,
    Both,
}

/// What a dose does to each clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Motions {
    pub wall: Option<Motion>,
    pub monotonic: Option<Motion>,
}

impl Clock {
    /// The same motion of each of these clocks.
    pub(crate) fn moved(self, motion: Motion) -> Motions {
        let when = |wanted: bool| wanted.then_some(motion);
        Motions { wall: when(self != Clock::Monotonic), monotonic: when(self != Clock::Wall) }
    }
}

/// Whom a clock fault strikes: mostly servers, for it is their clocks that leases are counted by, and mostly a majority
/// of them, without which no lock of several servers is at stake; else clients, which count what they were promised.
pub(crate) fn draw_targets(scene: &Scene, random: &mut Stream) -> Option<Vec<String>> {
    let names = if random.random_bool(0.9) && !scene.servers.is_empty() || scene.clients.is_empty() {
        &scene.servers
    } else {
        &scene.clients
    };
    let least = if random.random_bool(0.7) { names.len() / 2 + 1 } else { 1 };
    (!names.is_empty()).then(|| subset(names, random.random_range(least..=names.len()), random))
}

/// How far clocks go wrong, forward or back, in milliseconds: from half the TTL to hundreds of times, on a logarithmic
/// scale, so that a jump just past the TTL and one of many TTLs are equally worth trying. Forward twice as often:
/// that is what ends leases early.
pub(crate) fn draw_size_ms(scene: &Scene, settings: &Settings, random: &mut Stream) -> i64 {
    let drawn = scene.ttl.mul_f64(draw_log(0.5, 300.0, random));
    let size_ms = crate::plan::millis(settings.clock_amplitude.unwrap_or(drawn)) as i64;
    if random.random_bool(2.0 / 3.0) { size_ms } else { -size_ms }
}

/// A nemesis that makes clocks go wrong for a while.
pub(crate) struct WrongClock {
    pub name: &'static str,
    pub about: &'static str,
    /// Shortest and longest strike, in TTLs.
    pub around: (f64, f64),
    /// Draws a dose.
    pub draw: fn(&Scene, &Settings, &mut Stream) -> Value,
    /// Reads a dose.
    pub motions: fn(&Value) -> Result<Motions, String>,
    pub words: Words,
}

/// How a nemesis of clocks describes its faults.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// What happened, as a clause in the past tense.
    pub sentence: fn(&Moved) -> String,
    /// What follows the targets' names in a picture.
    pub label: fn(&Moved) -> String,
    /// What all faults of this nemesis do.
    pub summary: &'static str,
}

/// What a description of a clock fault is made from.
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

    /// The motion of either clock.
    pub fn motion(&self) -> Option<Motion> {
        self.motions.wall.or(self.motions.monotonic)
    }
}

impl Nemesis for WrongClock {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    /// They add up, and each can be taken out by itself (see [`Book`]).
    fn kind(&self) -> Option<&'static str> {
        None
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::Ptrace]
    }

    fn awaits_holder(&self) -> bool {
        true
    }

    fn motions(&self, dose: &Value) -> Option<Result<Motions, String>> {
        Some((self.motions)(dose))
    }

    fn draw(&self, scene: &Scene, settings: &Settings, random: &mut Stream) -> Option<Aim> {
        let on = draw_targets(scene, random)?;
        let dose = (self.draw)(scene, settings, random);
        Some(Aim { on, length: around_ttl(scene.ttl, self.around.0, self.around.1, random), dose })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        let motions = (self.motions)(&strike.dose)?;
        for motion in [motions.wall, motions.monotonic].into_iter().flatten() {
            motion.check()?;
        }
        static IDS: AtomicU64 = AtomicU64::new(0);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Skewed { id, on: strike.on.clone(), motions, words: self.words }))
    }
}

/// Reads a nemesis's own dose; `takes` tells what it takes.
pub(crate) fn read_dose<'a, D: Deserialize<'a> + Default>(dose: &'a Value, takes: &str) -> Result<D, String> {
    match dose {
        Value::Null => Ok(D::default()),
        dose => D::deserialize(dose)
            .map_err(|error| format!("its dose is not understood: {error} (it takes {takes})")),
    }
}

/// Clocks in motion.
struct Skewed {
    id: u64,
    on: Vec<String>,
    motions: Motions,
    words: Words,
}

/// What the tool says that a process sees, against the true clocks.
#[derive(Deserialize)]
struct Looked {
    before: Observed,
    after: Observed,
    mechanism: ClockMechanism,
}

/// What the tool says at the end of a fault.
#[derive(Deserialize)]
struct Ended {
    before: Observed,
    after: Observed,
    /// Where what is left of other faults puts the clocks.
    due_wall_ns: i64,
    due_monotonic_ns: i64,
}

impl Ended {
    /// How far the wall and the monotonic clock are from where they should stand.
    fn off(&self) -> [i64; 2] {
        [self.after.wall_ns - self.due_wall_ns, self.after.monotonic_ns - self.due_monotonic_ns]
    }

    fn is_right(&self) -> bool {
        self.off().iter().all(|off| off.unsigned_abs() <= HEALED_NS + self.after.error_ns)
    }
}

fn read<T: for<'a> Deserialize<'a>>(target: &str, answer: Value) -> Result<T, FaultError> {
    serde_json::from_value(answer)
        .map_err(|error| FaultError::Other(format!("the clock tool on {target} answered strangely: {error}")))
}

/// How far both clocks moved between two looks, in nanoseconds, and the most by which that may be wrong.
fn moved_ns(before: &Observed, after: &Observed) -> ([i64; 2], u64) {
    let moved = [after.wall_ns - before.wall_ns, after.monotonic_ns - before.monotonic_ns];
    (moved, before.error_ns + after.error_ns)
}

fn ms(ns: i64) -> i64 {
    (ns as f64 / 1e6).round() as i64
}

impl Skewed {
    /// Whether each clock that was to move has, by more than the two looks can be wrong.
    fn seen(&self, before: &Observed, after: &Observed) -> bool {
        let ([wall, monotonic], error_ns) = moved_ns(before, after);
        let far = |moved: i64| moved.unsigned_abs() >= LEAST_NS + error_ns;
        let Motions { wall: of_wall, monotonic: of_monotonic } = self.motions;
        (of_wall.is_some() || of_monotonic.is_some())
            && (of_wall.is_none() || far(wall))
            && (of_monotonic.is_none() || far(monotonic))
    }

    /// Sets the clocks of one target in motion, and looks until they are seen to move.
    async fn begin(&self, world: &World, target: &str) -> Result<(Value, bool), FaultError> {
        let args = json!({"do": "begin", "id": self.id, "motions": self.motions});
        world.clock_reader(target)?;
        let begun = Instant::now();
        let Looked { before, mut after, mechanism } = read(target, world.clock(target, args).await?)?;
        while !self.seen(&before, &after) && begun.elapsed() < PATIENCE {
            tokio::time::sleep(PAUSE).await;
            after = read::<Looked>(target, world.clock(target, json!({"do": "look"})).await?)?.after;
        }
        let ([wall, monotonic], _) = moved_ns(&before, &after);
        let seen = json!({
            "wall_ms": ms(wall), "monotonic_ms": ms(monotonic),
            "after_ms": ms(i64::try_from(begun.elapsed().as_nanos()).unwrap_or(i64::MAX)),
            "mechanism": mechanism,
        });
        Ok((seen, self.seen(&before, &after)))
    }

    /// Takes this fault, and nothing else, out of the clocks of one target.
    async fn end(&self, world: &World, target: &str) -> Result<Value, FaultError> {
        let answer = world.clock(target, json!({"do": "end", "id": self.id})).await?;
        // One that is down starts with a clock that this fault is no part of any more.
        if answer.is_null() {
            return Ok(json!({"gone": true}));
        }
        let mut ended: Ended = read(target, answer)?;
        let before = ended.before;
        let begun = Instant::now();
        // Another fault's motion goes on in steps, and on a busy machine a step can be late.
        while !ended.is_right() && begun.elapsed() < PATIENCE {
            tokio::time::sleep(PAUSE).await;
            ended = read(target, world.clock(target, json!({"do": "look"})).await?)?;
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
impl Fault for Skewed {
    fn describe(&self, observed: &Map<String, Value>) -> FaultDescription {
        let moved = Moved { on: &self.on, motions: self.motions, observed };
        FaultDescription {
            keeps_memory: true,
            moves_clocks: true,
            sentence: (self.words.sentence)(&moved),
            healing: format!("the clock of {} was set right", and(&self.on)),
            label: format!("{} {}", self.on.join(" "), (self.words.label)(&moved)),
            summary: self.words.summary.to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, world: &World) -> Result<Seen, FaultError> {
        let this: &Skewed = self;
        let seen =
            try_join_all(this.on.iter().map(|target| async move {
                Ok::<_, FaultError>((target, this.begin(world, target).await?))
            }))
            .await?;
        let effective = seen.iter().any(|(_, (_, moved))| *moved);
        let observed: Map<String, Value> =
            seen.into_iter().map(|(target, (seen, _))| (target.clone(), seen)).collect();
        Ok(Seen { observed, effective })
    }

    async fn heal(&mut self, world: &World) -> Result<Value, FaultError> {
        let this: &Skewed = self;
        // One that cannot be healed keeps no other from it.
        let healed = join_all(
            this.on.iter().map(|target| async move { Ok((target.clone(), this.end(world, target).await?)) }),
        )
        .await;
        healed.into_iter().collect::<Result<Map<_, _>, FaultError>>().map(Value::Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> Scene {
        crate::testing::scene(2, 1)
    }

    #[test]
    fn sizes_are_drawn_around_the_ttl() {
        let settings = crate::testing::settings(20);
        let mut random = fencepost_history::Seed(1).stream("sizes");
        let sizes: Vec<i64> = (0..2000).map(|_| draw_size_ms(&scene(), &settings, &mut random)).collect();
        assert!(sizes.iter().all(|ms| (999..=600_001).contains(&ms.abs())));
        // As many below ten times the TTL as above it, about; and a third of them back.
        let small = sizes.iter().filter(|ms| ms.abs() < 24_500).count();
        assert!((800..1200).contains(&small), "{small}");
        let back = sizes.iter().filter(|ms| **ms < 0).count();
        assert!((500..800).contains(&back), "{back}");
    }
}
