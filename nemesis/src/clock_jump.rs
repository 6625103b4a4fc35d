//! `clock-jump`: the clocks of servers jump, forward or back, and jump back at the healing.
//!
//! Both clocks of the process jump: its wall clock, by which Redis expires keys, and its monotonic one, by which etcd
//! counts down leases. The jump is made by patching the vDSO of the running process (see [`crate::tools::clock`]).

use crate::plan::millis;
use crate::tools::clock::Skew;
use crate::{Aim, Fault, FaultError, Nemesis, Scene, Seen, Settings, Strike, World, subset};
use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::Stream;
use futures_util::future::{join_all, try_join_all};
use rand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A clock that moved by less is one that did not jump: reading it takes that long.
const LEAST_JUMP_MS: i64 = 5;

/// A healed clock stands within this of the true one.
const HEALED_MS: i64 = 50;

pub(crate) struct ClockJump;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dose {
    #[serde(default)]
    wall_ms: i64,
    #[serde(default)]
    monotonic_ms: i64,
}

impl Nemesis for ClockJump {
    fn name(&self) -> &'static str {
        "clock-jump"
    }

    fn about(&self) -> &'static str {
        "the wall and monotonic clocks of some servers jump forward or back, and return at the healing"
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::Ptrace]
    }

    fn draw(&self, scene: &Scene, settings: &Settings, random: &mut Stream) -> Option<Aim> {
        if scene.servers.is_empty() {
            return None;
        }
        let on = subset(&scene.servers, random.random_range(1..=scene.servers.len()), random);
        // On a logarithmic scale: a jump just past the TTL and one of many TTLs are equally worth trying.
        let factor = random.random_range(2.0_f64.ln()..=30.0_f64.ln()).exp();
        let drawn = scene.ttl.mul_f64(factor);
        let size_ms = millis(settings.clock_amplitude.unwrap_or(drawn)) as i64;
        let jump_ms = if random.random_bool(2.0 / 3.0) { size_ms } else { -size_ms };
        let length = Duration::from_millis(random.random_range(500..=2000));
        Some(Aim { on, length, dose: json!(Dose { wall_ms: jump_ms, monotonic_ms: jump_ms }) })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        let dose = serde_json::from_value(strike.dose.clone()).map_err(|error| {
            format!("clock-jump takes wall_ms and monotonic_ms, in milliseconds: {error}")
        })?;
        Ok(Box::new(Jumped { on: strike.on.clone(), dose }))
    }
}

struct Jumped {
    on: Vec<String>,
    dose: Dose,
}

/// What the tool says that the process sees: its clocks against the true ones.
#[derive(Deserialize)]
struct Clocks {
    wall_ns: i64,
    monotonic_ns: i64,
    /// The most by which either may be wrong: a busy machine reads clocks slowly.
    error_ns: i64,
}

#[derive(Deserialize)]
struct Moved {
    before: Clocks,
    after: Clocks,
}

impl Moved {
    fn wall_ms(&self) -> i64 {
        (self.after.wall_ns - self.before.wall_ns) / 1_000_000
    }

    fn monotonic_ms(&self) -> i64 {
        (self.after.monotonic_ns - self.before.monotonic_ns) / 1_000_000
    }

    /// What neither of the two readings can explain.
    fn certain_ms(&self) -> i64 {
        let error_ms = (self.before.error_ns + self.after.error_ns) / 1_000_000;
        self.wall_ms().abs().max(self.monotonic_ms().abs()) - error_ms
    }
}

async fn set(world: &World, target: &str, skew: Option<Skew>) -> Result<Moved, FaultError> {
    let seen = world.set_clock(target, skew).await?;
    serde_json::from_value(seen)
        .map_err(|error| FaultError::Other(format!("the clock tool on {target} answered strangely: {error}")))
}

#[async_trait]
impl Fault for Jumped {
    async fn inject(&mut self, world: &World) -> Result<Seen, FaultError> {
        let skew = Skew {
            wall_ns: self.dose.wall_ms * 1_000_000,
            monotonic_ns: self.dose.monotonic_ms * 1_000_000,
            ..Skew::default()
        };
        let moved = try_join_all(self.on.iter().map(|target| async move {
            Ok::<_, FaultError>((target, set(world, target, Some(skew)).await?))
        }))
        .await?;
        let jumped = |moved: &Moved| moved.certain_ms() >= LEAST_JUMP_MS;
        let effective = moved.iter().any(|(_, moved)| jumped(moved));
        let observed = moved
            .iter()
            .map(|(target, moved)| {
                let seen = json!({"wall_ms": moved.wall_ms(), "monotonic_ms": moved.monotonic_ms()});
                ((*target).clone(), seen)
            })
            .collect::<Map<_, _>>();
        Ok(Seen { observed, effective })
    }

    async fn heal(&mut self, world: &World) -> Result<Value, FaultError> {
        let healed = join_all(self.on.iter().map(|target| async move {
            // A server that is down now restarts with a true clock: its skew was withdrawn with this call.
            if world.pid(target).is_err() {
                let _ = world.set_clock(target, None).await;
                return Ok((target.clone(), json!({"gone": true})));
            }
            let after = set(world, target, None).await?.after;
            let (wall_ms, monotonic_ms) = (after.wall_ns / 1_000_000, after.monotonic_ns / 1_000_000);
            if wall_ms.abs().max(monotonic_ms.abs()) - after.error_ns / 1_000_000 > HEALED_MS {
                return Err(FaultError::Other(format!(
                    "the clock of {target} is still {wall_ms} ms (wall) and {monotonic_ms} ms (monotonic) off after healing"
                )));
            }
            Ok((target.clone(), json!({"wall_ms": wall_ms, "monotonic_ms": monotonic_ms})))
        }))
        .await;
        healed.into_iter().collect::<Result<Map<_, _>, _>>().map(Value::Object)
    }
}
