//! `cpu`: servers or clients get a small share of their processor, as under a low quota or beside a noisy
//! neighbour: each period they run for a while, and stand still for the rest (SIGSTOP, SIGCONT). Source: the
//! kernel's documentation, "CFS Bandwidth Control", with its period of 100 ms.

use crate::context::FaultContext;
use crate::fault::{Fault, FaultError, Observation};
use crate::nemesis::{Draw, Drawing, NemesisDescription, NemesisRow};
use crate::packets::network_parameters::percent;
use crate::plan::aim::{Aim, Moment};
use crate::plan::distributions::{around_ttl, draw_log};
use crate::plan::roles::Role;
use crate::processes::pause::{PAUSE, StoppedTargets};
use crate::processes::strobe::Strobe;
use async_trait::async_trait;
use fencepost_history::prose::and;
use fencepost_history::{FaultDescription, FaultEffect, Refusal};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::Instant;

const PERIOD_MS: u64 = 100;

/// How long the share is measured for, in periods, and how often the process is looked at meanwhile.
const MEASURED: u32 = 3;
const LOOK: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CpuParameters {
    /// Part of the time in which the targets may run, from 0.01 to 0.9.
    share: f64,
}

/// A holder whose renewals, looks and writes are late; servers that answer late; a leader that others drop.
const AIMS: &[Aim] = &[
    Aim::at(Role::Holder, &[Moment::GrantedForLong, Moment::BeforeWrite]).lasting(LENGTHS),
    Aim::at(Role::Granting, &[Moment::GrantedForLong, Moment::Collecting]).lasting(LENGTHS),
    Aim::at(Role::Leader, &[Moment::Collecting]).lasting(LENGTHS),
];

/// Shortest and longest fault, in TTLs.
const LENGTHS: (f64, f64) = (1.0, 2.5);

pub(crate) const CPU: NemesisRow<CpuParameters> = NemesisRow {
    description: NemesisDescription {
        // The stops of a pause would end with the first wake-up.
        kind: Some("pause"),
        aims: AIMS,
        ..NemesisDescription::new(
            "cpu",
            "gives servers or clients a small share of their processor: they run for a part of each 100 ms",
        )
    },
    draw: |from| {
        let Draw { on, .. } = (PAUSE.draw)(from)?;
        let Drawing { topology, random, .. } = from;
        let share = (draw_log(0.02, 0.3, random) * 100.0).round() / 100.0;
        let length = around_ttl(topology.ttl, LENGTHS.0, LENGTHS.1, random);
        Some(Draw { on, length, parameters: CpuParameters { share } })
    },
    adapt_to_aim: |drawn, _, _| drawn,
    prepare: |on, CpuParameters { share }| {
        if !(0.01..=0.9).contains(&share) {
            return Err(Refusal::at("share", "share is a part of the time from 0.01 to 0.9"));
        }
        let run_ms = (PERIOD_MS as f64 * share).round() as u64;
        let strobe = Strobe { stop_ms: PERIOD_MS - run_ms, run_ms };
        Ok(Box::new(SmallShare { on: on.to_vec(), share, stopped: StoppedTargets::new(on, Some(strobe)) }))
    },
};

struct SmallShare {
    on: Vec<String>,
    share: f64,
    stopped: StoppedTargets,
}

/// The part of some periods in which a process was not stopped, as /proc shows it.
async fn measured(context: &FaultContext, target: &str) -> Result<f64, FaultError> {
    let (node, pid) = (context.node(target)?, context.pid(target)?);
    let (begun, mut looks, mut ran) = (Instant::now(), 0u32, 0u32);
    while begun.elapsed() < Duration::from_millis(PERIOD_MS) * MEASURED {
        looks += 1;
        ran += u32::from(node.state(pid).await? != Some('T'));
        tokio::time::sleep(LOOK).await;
    }
    Ok(f64::from(ran) / f64::from(looks))
}

#[async_trait]
impl Fault for SmallShare {
    fn describe(&self, _: &Map<String, Value>) -> FaultDescription {
        let (targets, share) = (and(&self.on), percent(self.share));
        FaultDescription {
            effects: vec![FaultEffect::Delays],
            keeps_memory: true,
            sentence: format!(
                "{targets} got {share} of the processor: {} ms of each {PERIOD_MS} ms",
                (PERIOD_MS as f64 * self.share).round()
            ),
            healing: format!("{targets} got all of the processor again"),
            label: format!("{} cpu {share}", self.on.join(" ")),
            summary: "processes got a small share of the processor".to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let mut seen = self.stopped.inject(context).await?;
        let shares = try_join_all(self.on.iter().map(|target| measured(context, target))).await?;
        // Half of what was taken must be missing: looks fall on a period as they fall.
        let is_small = |share: &f64| *share < f64::midpoint(1.0, self.share);
        seen.effective &= shares.iter().any(is_small);
        for (target, share) in self.on.iter().zip(shares) {
            let share = (share * 1000.0).round() / 1000.0;
            seen.observed.insert(target.clone(), json!({"share": share, "mechanism": "stop and continue"}));
        }
        Ok(seen)
    }

    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        self.stopped.heal(context).await
    }
}
