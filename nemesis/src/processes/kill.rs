//! `kill`: ends servers with SIGKILL and starts them again, or ends clients for good; `leader-kill` ends the
//! server that leads. The page cache survives, with what was not fsynced: no loss of power.

use crate::context::FaultContext;
use crate::existing_servers::HookAction;
use crate::fault::{Fault, FaultError, Observation, of_each};
use crate::nemesis::{Draw, Drawing, NemesisDescription, NemesisRow, NemesisSettings, NoParameters};
use crate::plan::aim::{Aim, Moment};
use crate::plan::distributions::{around_ttl, millis, subset};
use crate::plan::roles::Role;
use crate::plan::topology::ServerFaults;
use crate::processes::by_hook::{self, ByHook};
use async_trait::async_trait;
use fencepost_history::prose::{and, was};
use fencepost_history::{FaultDescription, FaultEffect};
use nix::sys::signal::Signal;
use rand::RngExt;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::Instant;

pub(crate) const KILL: NemesisRow<NoParameters> = NemesisRow {
    description: NemesisDescription {
        takes_down: true,
        ends_targets: true,
        ends_clients: true,
        by_hook: true,
        options: &["restart-after"],
        aims: AIMS,
        ..NemesisDescription::new(
            "kill",
            "ends servers with SIGKILL and starts them again, or ends a client for good; the page cache survives",
        )
    },
    draw: |from| {
        let Drawing { topology, random, .. } = from;
        let on = match topology.draw_servers(random) {
            // Where servers cannot be touched, clients are what is left.
            None if topology.server_faults != ServerFaults::All => {
                Some(subset(&topology.clients, 1, random)).filter(|on| !on.is_empty())?
            }
            servers => servers?,
        };
        Some(down_for_a_while(on, from))
    },
    adapt_to_aim: |drawn, _, from| back_soon(drawn, from.settings),
    prepare: |on, NoParameters {}| Ok(Box::new(Killed::new(on, Signal::SIGKILL))),
};

pub(crate) const LEADER_KILL: NemesisRow<NoParameters> = NemesisRow {
    description: of_leader(
        "leader-kill",
        "ends the leader with SIGKILL and starts it again; without a leader (Redlock), one drawn server",
    ),
    draw: |from| {
        let on = from.topology.draw_leader(from.random)?;
        Some(down_for_a_while(on, from))
    },
    ..KILL
};

/// A fault of the server that leads, which comes to a kill for those who use it.
pub(crate) const fn of_leader(name: &'static str, about: &'static str) -> NemesisDescription {
    NemesisDescription {
        kind: Some("kill"),
        takes_down: true,
        options: &["restart-after"],
        servers_only: true,
        aims: const { &[Aim::at(Role::Leader, &[Moment::GrantedForLong, Moment::Collecting]).lasting(DOWN)] },
        ..NemesisDescription::new(name, about)
    }
}

/// Servers that forgot a grant before its holder is done; clients that end as they hold or are granted it.
const AIMS: &[Aim] = &[
    Aim::at(Role::Granting, &[Moment::GrantedForLong, Moment::Collecting]).lasting(DOWN),
    Aim::at(Role::Holder, &[Moment::GrantedForLong]).lasting(DOWN),
    Aim::at(Role::Waiter, &[Moment::AcquirePoint]).lasting(DOWN),
];

pub(crate) const DOWN: (f64, f64) = (0.0, 0.1);

/// What was asked to end (SIGTERM) and has not by then is killed, as engines and supervisors do it.
const GRACE: Duration = Duration::from_secs(5);

/// The drawn length of a fault that takes servers down, unless the command line says how long they stay down.
pub(crate) fn back_soon<P>(drawn: Draw<P>, settings: &NemesisSettings) -> Draw<P> {
    Draw { length: settings.options.restart_after.map_or(drawn.length, |time| time.0), ..drawn }
}

/// These servers are killed, and stay down for a drawn time.
fn down_for_a_while(on: Vec<String>, from: &mut Drawing<'_>) -> Draw<NoParameters> {
    let Drawing { topology, settings, random } = from;
    // Half of them restart at once, as under a supervisor: too soon for a server that forgot its locks.
    let drawn = if random.random_bool(0.5) {
        Duration::from_millis(1)
    } else {
        around_ttl(topology.ttl, 0.05, 0.5, random)
    };
    back_soon(Draw { on, length: drawn, parameters: NoParameters {} }, settings)
}

/// Ends a process and everything that it started. Gives whether it was still there.
pub(crate) async fn kill(context: &FaultContext, target: &str, pid: i32) -> Result<bool, FaultError> {
    let node = context.node(target)?;
    let reached = node.signal_tree(pid, Signal::SIGKILL as i32).await?;
    node.await_exit(pid, Duration::from_secs(5)).await?;
    Ok(reached)
}

pub(crate) async fn end(context: &FaultContext, target: &str, signal: Signal) -> Result<Value, FaultError> {
    let (pid, node) = (context.pid(target)?, context.node(target)?);
    let (reached, took_ms) = match signal {
        Signal::SIGTERM => terminate(context, target, pid).await?,
        _ => (kill(context, target, pid).await?, None),
    };
    let mut seen = json!({"pid": pid, "gone": node.state(pid).await?.is_none()});
    if let Some(took_ms) = took_ms {
        seen["ended_after_ms"] = json!(took_ms);
        seen["killed"] = json!(took_ms > millis(GRACE));
    }
    if !reached {
        // Not by this fault.
        seen["ended_before"] = json!(true);
    }
    Ok(seen)
}

pub(crate) fn ended_by_this(seen: &Value) -> bool {
    seen["gone"] == true && seen["ended_before"].is_null()
}

/// Asks a process to end, else kills it with its descendants. Gives whether it was there, and the time taken.
async fn terminate(
    context: &FaultContext,
    target: &str,
    pid: i32,
) -> Result<(bool, Option<u64>), FaultError> {
    let (node, begun) = (context.node(target)?, Instant::now());
    // Its children are its own to end: a PostgreSQL that loses one takes that for a crash.
    let reached = node.signal(pid, Signal::SIGTERM as i32).await.is_ok();
    if node.await_exit(pid, GRACE).await.is_err() {
        kill(context, target, pid).await?;
    }
    Ok((reached, Some(millis(begun.elapsed()))))
}

/// Which targets did not end in time, as an addition to a sentence.
pub(crate) fn too_slow(observed: &Map<String, Value>) -> String {
    let slow = observed.iter().filter(|(_, seen)| seen["killed"] == true);
    let slow: Vec<String> = slow.map(|(target, _)| target.clone()).collect();
    match slow.is_empty() {
        true => String::new(),
        false => {
            format!("; {} did not end within {} s and {} killed", and(&slow), GRACE.as_secs(), was(&slow))
        }
    }
}

/// Servers that are killed, or asked to end, and started again at the healing; and clients, which are not.
pub(crate) struct Killed {
    on: Vec<String>,
    signal: Signal,
    down: Vec<String>,
    /// The clients among them: what they knew ended with them.
    for_good: Vec<String>,
    by_hook: ByHook,
}

impl Killed {
    pub fn new(on: &[String], signal: Signal) -> Killed {
        Killed {
            on: on.to_vec(),
            signal,
            down: Vec::new(),
            for_good: Vec::new(),
            by_hook: ByHook::new(HookAction::Kill),
        }
    }

    fn healing(&self) -> String {
        let (clients, servers): (Vec<String>, Vec<String>) =
            self.on.iter().cloned().partition(|target| self.for_good.contains(target));
        let again =
            (!servers.is_empty()).then(|| format!("{} {} started again", and(&servers), was(&servers)));
        let gone = (!clients.is_empty())
            .then(|| format!("{} stayed down, since a client is not started again", and(&clients)));
        let parts = again.into_iter().chain(gone);
        parts.collect::<Vec<_>>().join("; ")
    }
}

#[async_trait]
impl Fault for Killed {
    fn describe(&self, observed: &Map<String, Value>) -> FaultDescription {
        let mut effects = vec![FaultEffect::Stops, FaultEffect::Kills];
        let (done, by_signal) = match self.signal {
            Signal::SIGTERM => {
                // Until they have ended they may still answer, and late.
                effects.push(FaultEffect::Delays);
                ("terminated", "asked to end (SIGTERM)")
            }
            _ => ("killed", "killed (SIGKILL)"),
        };
        FaultDescription {
            effects,
            takes_down: true,
            sentence: by_hook::sentence(observed, &self.on, done, by_signal) + &too_slow(observed),
            healing: self.healing(),
            label: format!("{} {done}", self.on.join(" ")),
            summary: format!("servers or clients were {done}"),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let (existing, own) = context.split_existing(&self.on);
        let mut seen = self.by_hook.inject(&existing, context).await?;
        for target in &own {
            context.pid(target)?;
            self.down.push(target.clone());
            if context.server_address(target).is_none() {
                self.for_good.push(target.clone());
            }
        }
        let signal = self.signal;
        seen.observed.extend(of_each(&own, |target| end(context, target, signal)).await?);
        seen.effective |= seen.observed.values().any(ended_by_this);
        Ok(seen)
    }

    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        let for_good = &self.for_good;
        let pids = of_each(&self.down, |target| async move {
            if for_good.contains(target) {
                return Ok(json!({"gone": true}));
            }
            if context.pid(target).is_err() {
                context.restart(target).await?;
            }
            Ok(json!({"pid": context.pid(target)?}))
        });
        Ok(pids.await?.into_iter().chain(self.by_hook.heal(context).await?).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ended::with_a_server_that_has_ended;

    #[test]
    fn only_servers_are_said_to_be_started_again() {
        let healing = |on: &[&str], for_good: &[&str]| {
            let [on, for_good]: [Vec<String>; 2] =
                [on, for_good].map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            Killed { for_good, ..Killed::new(&on, Signal::SIGKILL) }.describe(&Map::new()).healing
        };
        assert_eq!(healing(&["n1"], &[]), "n1 was started again");
        assert_eq!(healing(&["n1", "n2"], &[]), "n1 and n2 were started again");
        assert_eq!(healing(&["c2"], &["c2"]), "c2 stayed down, since a client is not started again");
        let both = "n1 was started again; c2 stayed down, since a client is not started again";
        assert_eq!(healing(&["n1", "c2"], &["c2"]), both);
    }

    /// Between the look at its number and the signal.
    #[tokio::test]
    async fn a_server_that_ends_by_itself_just_before_it_is_killed_is_started_again() {
        let (context, server) = with_a_server_that_has_ended();
        let mut fault = Killed::new(&["n1".to_owned()], Signal::SIGKILL);
        let seen = fault.inject(&context).await.unwrap();
        assert!(!seen.effective, "the fault did not end it");
        assert_eq!(seen.observed["n1"], json!({"pid": 52, "gone": true, "ended_before": true}));
        assert_eq!(fault.heal(&context).await.unwrap(), json!({"n1": {"pid": 53}}));
        assert_eq!(server.starts(), 1);
    }
}
