//! `power-loss`: servers lose their power, and everything that they had not fsynced. Unlike after SIGKILL,
//! the page cache goes, too: data lie on Fencepost's own disk ([`crate::tools::disk`]).

use crate::context::FaultContext;
use crate::disks::disk_fault::break_disks;
use crate::disks::disk_tool::DiskCall;
use crate::fault::{Fault, FaultError, Observation};
use crate::nemesis::{Draw, Drawing, NemesisDescription, NemesisRow};
use crate::plan::aim::{Aim, Moment};
use crate::plan::distributions::{around_ttl, millis};
use crate::plan::roles::Role;
use crate::processes::kill::{DOWN, back_soon, kill};
use crate::processes::supervisor;
use crate::tools::disk::Torn;
use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::prose::{and, count, was};
use fencepost_history::{FaultDescription, FaultEffect, Refusal};
use futures_util::future::{join_all, try_join_all};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PowerLossParameters {
    /// How much of what was not fsynced survives by chance; nothing, if not said.
    torn: Option<Torn>,
    seed: Option<u32>,
    /// The power comes back, fails again this long after a server begins to write, then is back for good.
    flicker_ms: Option<u32>,
    /// How often it does so; once, if not said.
    flickers: Option<u32>,
    /// A supervisor in the node starts the server again once the node's wall clock says that so many
    /// milliseconds have passed (the fault's own length then only says when it may begin to).
    supervised_ms: Option<u32>,
    /// For so many milliseconds before the first cut each fsync says yes and keeps nothing.
    lying_ms: Option<u32>,
    /// At the first cut so many bits of what one of the servers has stored are turned.
    flipped_bits: Option<NonZeroU32>,
    /// Only in files whose path contains this.
    flipped_in: Option<String>,
}

/// How long the power stays once a server writes again, in ms: a lock is given out, hardly fsynced.
const FLICKER_MS: RangeInclusive<u32> = 2..=50;

/// The power stays no longer than this, whether a server writes or not.
const WRITES_WITHIN: Duration = Duration::from_millis(500);

/// How often a plan may let it flicker: the healing lasts until the last time.
const FLICKERS: RangeInclusive<u32> = 1..=100;

/// Each turned bit is a place that is recorded.
const FLIPPED_MAX: u32 = 1000;

/// How often the power flickers. Each cut is only a chance: a holder may be done before the server is back.
const TIMES: RangeInclusive<u32> = 2..=4;

pub(crate) const POWER_LOSS: NemesisRow<PowerLossParameters> = NemesisRow {
    description: NemesisDescription {
        takes_down: true,
        needs: &[Capability::Signal, Capability::Fuse],
        prepares_disks: true,
        options: &["restart-after", "torn-writes", "lying-fsync"],
        servers_only: true,
        // Servers that granted lose power, and are back without the lock before its holder is done.
        aims: const { &[Aim::at(Role::Granting, &[Moment::GrantedForLong]).lasting(DOWN)] },
        ..NemesisDescription::new(
            "power-loss",
            "servers lose their power and everything that they had not fsynced, and start again",
        )
    },
    draw: |Drawing { topology, settings, random }| {
        let on = topology.draw_servers(random)?;
        // Back at once: each holder still believes in its lock. Back after the TTL: every lock has ended.
        let drawn = match random.random_range(0..8) {
            0 => Duration::ZERO,
            1 => around_ttl(topology.ttl, 0.05, 0.9, random),
            _ => around_ttl(topology.ttl, 1.05, 1.5, random),
        };
        let length = settings.options.restart_after.map_or(drawn, |time| time.0);
        // Outages come in bursts, and the second cut finds the most to take: a server that has just given out
        // its first locks, and that remembers none from before. It ends well before the next fault begins.
        let flicker_ms = random.random_range(FLICKER_MS).min(millis(settings.interval) as u32 / 4);
        let flickers = random.random_bool(0.5) && length > topology.ttl;
        let times = random.random_range(TIMES);
        let seed = random.random();
        let parameters = PowerLossParameters {
            torn: settings.options.torn_writes,
            seed: settings.options.torn_writes.map(|_| seed),
            flicker_ms: flickers.then_some(flicker_ms),
            flickers: flickers.then_some(times),
            supervised_ms: None,
            lying_ms: settings.options.lying_fsync.map(|time| millis(time.0) as u32),
            flipped_bits: None,
            flipped_in: None,
        };
        Some(Draw { on, length, parameters })
    },
    // The first cut counts: servers that granted a lock are back at once, and without it.
    adapt_to_aim: |drawn, _, from| {
        let Draw { on, length, parameters } = back_soon(drawn, from.settings);
        let parameters = PowerLossParameters { flicker_ms: None, flickers: None, ..parameters };
        Draw { on, length, parameters }
    },
    prepare: |on, parameters| {
        if let Some(flickers) = parameters.flickers.filter(|flickers| !FLICKERS.contains(flickers)) {
            let (least, most) = (FLICKERS.start(), FLICKERS.end());
            return Err(Refusal::at(
                "flickers",
                format!("`flickers` is from {least} to {most}, not {flickers}"),
            ));
        }
        if parameters.flipped_bits.is_some_and(|bits| bits.get() > FLIPPED_MAX) {
            return Err(Refusal::at("flipped_bits", format!("`flipped_bits` is at most {FLIPPED_MAX}")));
        }
        if parameters.flipped_in.is_some() && parameters.flipped_bits.is_none() {
            return Err(Refusal::at("flipped_in", "`flipped_in` says where, and needs `flipped_bits`"));
        }
        Ok(Box::new(PowerLost { on: on.to_vec(), parameters, down: Vec::new() }))
    },
};

struct PowerLost {
    on: Vec<String>,
    parameters: PowerLossParameters,
    down: Vec<String>,
}

#[async_trait]
impl Fault for PowerLost {
    fn describe(&self, _: &Map<String, Value>) -> FaultDescription {
        let (targets, was) = (and(&self.on), was(&self.on));
        let lying = match self.parameters.lying_ms {
            Some(ms) => format!("; for {ms} ms before, each fsync had said yes and kept nothing"),
            None => String::new(),
        };
        let flipped =
            self.parameters.flipped_bits.zip(self.on.first()).map_or_else(String::new, |(bits, on)| {
                format!("; {} of what {on} had stored turned", count(bits.get() as usize, "bit"))
            });
        let sentence = format!(
            "{targets} lost power: the process was killed, and what its disk had not fsynced dropped{lying}{flipped}"
        );
        // A supervisor may start it earlier, and its power may fail again while it is healed.
        FaultDescription {
            effects: vec![FaultEffect::Stops, FaultEffect::Forgets],
            takes_down: true,
            sentence,
            healing: format!("{targets} {was} started again"),
            label: format!("{} lost power", self.on.join(" ")),
            summary: "servers lost their power, and what they had not fsynced".to_owned(),
            damages: self.parameters.flipped_bits.is_some(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        if let Some(ms) = self.parameters.lying_ms {
            self.lie(context, true).await?;
            tokio::time::sleep(Duration::from_millis(ms.into())).await;
        }
        let mut observed = self.cut(context).await?;
        let mut has_shown =
            self.parameters.lying_ms.is_none() || observed.values().any(|lost| !lost["lied"].is_null());
        if let Some((bits, target)) = self.parameters.flipped_bits.zip(self.down.first()) {
            let (path, seed) = (self.parameters.flipped_in.clone().unwrap_or_default(), self.seed());
            let flip = DiskCall::Flip { bits: bits.get(), path, seed };
            let flipped: Vec<String> = context.call(target, "disk", &flip).await?;
            has_shown &= !flipped.is_empty();
            observed[target]["flipped"] = json!(flipped);
        }
        if let Some(down_ms) = self.parameters.supervised_ms {
            try_join_all(self.down.iter().map(|target| supervisor::begin(context, target, down_ms))).await?;
        }
        // Both were seen: the process is gone, and the disk says what it had and what it dropped. That this
        // may be nothing is what a server that fsyncs before it answers is for.
        Ok(Observation { effective: !self.down.is_empty() && has_shown, observed })
    }

    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        if self.parameters.lying_ms.is_some() {
            self.lie(context, false).await?;
        }
        if let Some(down_ms) = self.parameters.supervised_ms {
            try_join_all(self.down.iter().map(|target| supervisor::wait(context, target, down_ms))).await?;
        }
        let mut lost_again: Map<String, Value> = Map::new();
        let flicker_ms = self.parameters.flicker_ms.into_iter();
        for flicker_ms in flicker_ms.cycle().take(self.parameters.flickers.unwrap_or(1) as usize) {
            self.restart(context).await?;
            // Nothing written within that time: then the power fails without it.
            let _ = tokio::time::timeout(WRITES_WITHIN, self.await_writes(context)).await;
            tokio::time::sleep(Duration::from_millis(flicker_ms.into())).await;
            for (target, lost) in self.cut(context).await? {
                add(lost_again.entry(target).or_insert_with(|| json!({})), &lost);
            }
        }
        self.restart(context).await?;
        let healed = self.down.iter().map(|target| {
            let mut seen = json!({"pid": context.pid(target)?});
            if let Some(lost) = lost_again.remove(target) {
                seen["lost_again"] = lost;
            }
            Ok((target.clone(), seen))
        });
        Ok(Value::Object(healed.collect::<Result<_, FaultError>>()?))
    }
}

impl PowerLost {
    async fn lie(&self, context: &FaultContext, lies: bool) -> Result<(), FaultError> {
        break_disks::<Value>(context, &self.on, &DiskCall::Lie { lies }).await.map(drop)
    }

    fn seed(&self) -> u64 {
        self.parameters.seed.unwrap_or(0).into()
    }

    /// Waits until one of the servers has written to its disk since the last cut.
    async fn await_writes(&self, context: &FaultContext) -> Result<(), FaultError> {
        loop {
            let disks = break_disks::<u64>(context, &self.on, &DiskCall::Look).await?;
            if disks.iter().any(|(_, written)| *written > 0) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Kills the servers and crashes their disks. Gives what each one lost.
    async fn cut(&mut self, context: &FaultContext) -> Result<Map<String, Value>, FaultError> {
        // One that another fault holds down has no process to lose. It is that fault's to start again.
        let running: Vec<(&String, i32)> =
            self.on.iter().filter_map(|target| Some((target, context.pid(target).ok()?))).collect();
        for (target, _) in &running {
            if !self.down.contains(target) {
                self.down.push((*target).clone());
            }
        }
        try_join_all(running.iter().map(|(target, pid)| kill(context, target, *pid))).await?;
        // Only now, when no process can write any more.
        let crash = DiskCall::Crash { torn: self.parameters.torn, seed: self.seed() };
        Ok(break_disks(context, &self.on, &crash).await?.into_iter().collect())
    }

    /// Starts what is down, and waits until it answers. One that fails keeps no other from being started.
    async fn restart(&self, context: &FaultContext) -> Result<(), FaultError> {
        let down = self.down.iter().filter(|target| context.pid(target).is_err());
        join_all(down.map(|target| context.restart(target))).await.into_iter().collect()
    }
}

/// Sums up what was lost, number by number; of everything else the latest counts.
fn add(sum: &mut Value, lost: &Value) {
    for (name, field) in lost.as_object().into_iter().flatten() {
        sum[name] = match (sum[name].as_u64(), field.as_u64()) {
            (Some(before), Some(now)) => json!(before + now),
            _ => field.clone(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ended::{SUPERVISED, with_a_server_that_has_ended};

    /// Between the look at its number and the signal, at the first cut and at those of the healing.
    #[tokio::test]
    async fn a_server_that_ends_by_itself_just_before_its_power_fails_is_healed() {
        let (context, server) = with_a_server_that_has_ended();
        let parameters =
            PowerLossParameters { flicker_ms: Some(1), flickers: Some(2), ..PowerLossParameters::default() };
        let mut fault = PowerLost { on: vec!["n1".to_owned()], parameters, down: Vec::new() };
        fault.inject(&context).await.unwrap();
        let healed = fault.heal(&context).await.unwrap();
        assert_eq!(healed["n1"]["pid"], 55);
        assert_eq!(server.starts(), 3, "after each of two flickers, and for good");
    }

    #[tokio::test(start_paused = true)]
    async fn a_supervised_server_stays_down_until_its_supervisor_has_ended() {
        let (context, server) = with_a_server_that_has_ended();
        let parameters =
            PowerLossParameters { supervised_ms: Some(12_000), ..PowerLossParameters::default() };
        let mut fault = PowerLost { on: vec!["n1".to_owned()], parameters, down: Vec::new() };
        fault.inject(&context).await.unwrap();
        let begun = tokio::time::Instant::now();
        fault.heal(&context).await.unwrap();
        assert_eq!((begun.elapsed(), server.starts()), (SUPERVISED, 1));
    }
}
