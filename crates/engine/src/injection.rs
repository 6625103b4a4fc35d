//! Carries out the plan: injects each fault when its time comes, heals it when its time is over, records both.
//!
//! A fault's time runs from the beginning of its injection, as its plan says it, and no fault is healed before it was
//! looked at. A fault that could not be injected whole is healed at once.

use crate::recorder::Recorder;
use anyhow::{Result, anyhow};
use fencepost_history::{FaultEvent, FaultStage, Kind};
use fencepost_nemesis::{Fault, FaultError, LEADER, Nemesis, Plan, Seen, Strike, World};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinSet;

/// How long a strike whose time has come waits for the event that it names.
const THEN: Duration = Duration::from_secs(2);

/// The faults of a run, in force or still to come.
pub struct Injection {
    tasks: JoinSet<()>,
    heal_now: watch::Sender<bool>,
    shared: Arc<InjectionState>,
}

/// A strike made ready.
pub type PreparedFault = (&'static dyn Nemesis, Box<dyn Fault>);

struct InjectionState {
    world: Arc<World>,
    recorder: Arc<Recorder>,
    /// By the number of the strike.
    in_force: Mutex<BTreeMap<u64, InForce>>,
    /// Told whenever a fault has been healed.
    healed: Notify,
    /// Healings that failed, one sentence each.
    unhealed: Mutex<Vec<String>>,
}

struct InForce {
    nemesis: &'static dyn Nemesis,
    on: Vec<String>,
    healing: bool,
}

impl Injection {
    /// Begins to carry out the plan; time 0 is now. `ready` are its strikes, made ready.
    pub fn begin(
        plan: &Plan,
        ready: Vec<PreparedFault>,
        world: Arc<World>,
        recorder: Arc<Recorder>,
    ) -> Injection {
        let (heal_now, healing) = watch::channel(false);
        let shared = Arc::new(InjectionState {
            world,
            recorder,
            in_force: Mutex::default(),
            healed: Notify::new(),
            unhealed: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        for (id, (strike, (nemesis, fault))) in plan.strikes.iter().zip(ready).enumerate() {
            // Listens before anything begins, so that no trigger misses its event.
            let fired = strike.when.clone().map(|trigger| shared.recorder.await_event(trigger));
            let (id, strike) = (id as u64, strike.clone());
            let seen = Seen { observed: Map::new(), effective: false };
            let one = ScheduledFault { id, strike, fired, nemesis, fault, seen, shared: shared.clone() };
            tasks.spawn(one.run(healing.clone()));
        }
        Injection { tasks, heal_now, shared }
    }

    /// The faults in force now, in words: `clock-jump n2,n3`.
    pub fn in_force(&self) -> Vec<String> {
        let in_words = |one: &InForce| format!("{} {}", one.nemesis.name(), one.on.join(","));
        self.shared.in_force().values().map(in_words).collect()
    }

    /// Heals everything that is in force, begins nothing more, and gives what could not be healed.
    pub async fn heal_all(mut self) -> Vec<String> {
        self.heal_now.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                self.shared.is_unhealed(format!("a fault's task broke down: {error}"));
            }
        }
        std::mem::take(&mut *self.shared.unhealed.lock())
    }
}

impl InjectionState {
    fn in_force(&self) -> MutexGuard<'_, BTreeMap<u64, InForce>> {
        self.in_force.lock()
    }

    fn is_unhealed(&self, sentence: String) {
        self.unhealed.lock().push(sentence);
    }

    /// Starts those of the servers that `ran` again that died of fault `id`. Gives whom. Those that another
    /// fault holds down are that one's to start.
    async fn revive(&self, id: u64, ran: &[String]) -> Result<Vec<String>, FaultError> {
        let world = &self.world;
        let mut revived = Vec::new();
        for target in ran.iter().filter(|target| world.pid(target).is_err()) {
            let held_down = self
                .in_force()
                .iter()
                .any(|(other, one)| *other != id && one.nemesis.takes_down() && one.on.contains(target));
            if !held_down {
                world.restart(target).await?;
                revived.push(target.clone());
            }
        }
        Ok(revived)
    }
}

/// A strike with its fault.
struct ScheduledFault {
    id: u64,
    strike: Strike,
    /// Hears when the event has come that the strike waits for.
    fired: Option<oneshot::Receiver<()>>,
    nemesis: &'static dyn Nemesis,
    fault: Box<dyn Fault>,
    /// What was last seen of it.
    seen: Seen,
    shared: Arc<InjectionState>,
}

impl ScheduledFault {
    async fn run(mut self, mut healing: watch::Receiver<bool>) {
        tokio::select! {
            biased;
            _ = healing.wait_for(|now| *now) => return,
            began = self.begins() => if let Err(error) = began {
                self.record(Kind::Invoke, FaultStage::Inject, None);
                self.not_injected(&error);
                return;
            }
        }
        let begun = Instant::now();
        let ran = self.shared.world.running(&self.strike.on);
        if self.inject().await {
            let left = Duration::from_millis(self.strike.for_ms).saturating_sub(begun.elapsed());
            let _ = tokio::time::timeout(left, healing.wait_for(|now| *now)).await;
        }
        self.heal(&ran).await;
    }

    /// Waits until the strike's time has come, finds out whom it is for, and counts it among those in force.
    async fn begins(&mut self) -> Result<(), FaultError> {
        if let Some(fired) = self.fired.take() {
            // The sender goes only with the run.
            let _ = fired.await;
        }
        tokio::time::sleep(Duration::from_millis(self.strike.at_ms)).await;
        if let Some(next) = &self.strike.then {
            let fired = self.shared.recorder.await_event(next.clone());
            let _ = tokio::time::timeout(THEN, fired).await;
        }
        if self.strike.on.iter().any(|target| target == LEADER) {
            self.aim_at_leader().await?;
        }
        loop {
            let healed = self.shared.healed.notified();
            tokio::pin!(healed);
            healed.as_mut().enable();
            if self.claim()? {
                return Ok(());
            }
            healed.await;
        }
    }

    async fn aim_at_leader(&mut self) -> Result<(), FaultError> {
        let leader = self.shared.world.await_leader(|_| true).await?;
        let leader = leader.ok_or_else(|| FaultError::Other("nobody leads the servers".to_owned()))?;
        self.strike.on.retain(|target| *target != leader);
        for target in &mut self.strike.on {
            if target == LEADER {
                target.clone_from(&leader);
            }
        }
        self.fault = self.nemesis.prepare(&self.strike).map_err(FaultError::Other)?;
        Ok(())
    }

    /// Counts the strike among those in force; not yet, while another fault of its kind is being healed on one of its
    /// targets. While one is in force there, this strike must not be: either healing would undo the other.
    fn claim(&self) -> Result<bool, FaultError> {
        let mut in_force = self.shared.in_force();
        let kind = self.nemesis.kind();
        let of_kind = in_force.values().filter(|one| kind.is_some() && one.nemesis.kind() == kind);
        let in_the_way = of_kind.filter(|one| one.on.iter().any(|target| self.strike.on.contains(target)));
        // One in force counts for more than one that is being healed.
        if let Some(other) = in_the_way.min_by_key(|one| one.healing) {
            if other.healing {
                return Ok(false);
            }
            return Err(FaultError::Other(format!(
                "{} is under {} already, and either healing would undo the other",
                other.on.join(", "),
                other.nemesis.name(),
            )));
        }
        let one = InForce { nemesis: self.nemesis, on: self.strike.on.clone(), healing: false };
        in_force.insert(self.id, one);
        Ok(true)
    }

    /// Whether the fault was injected, whole.
    async fn inject(&mut self) -> bool {
        self.record(Kind::Invoke, FaultStage::Inject, None);
        match self.fault.inject(&self.shared.world).await {
            Ok(seen) => {
                self.seen = seen;
                self.record(Kind::Ok, FaultStage::Inject, None);
                true
            }
            Err(error) => {
                self.not_injected(&error);
                false
            }
        }
    }

    fn not_injected(&self, error: &FaultError) {
        tracing::warn!("{}: {error}", self.strike.fault);
        self.record(Kind::Info, FaultStage::Inject, Some(error));
    }

    /// Undoes the fault, and starts those of the servers that `ran` again that died of it.
    async fn heal(&mut self, ran: &[String]) {
        if let Some(one) = self.shared.in_force().get_mut(&self.id) {
            one.healing = true;
        }
        self.record(Kind::Invoke, FaultStage::Heal, None);
        let healed = self.fault.heal(&self.shared.world).await;
        let revived = self.shared.revive(self.id, ran).await;
        match (healed, revived) {
            (Ok(mut observed), Ok(revived)) => {
                for target in revived {
                    observed[target]["restarted"] = json!(true);
                }
                self.seen.observed = observed.as_object().cloned().unwrap_or_default();
                self.record(Kind::Ok, FaultStage::Heal, None);
            }
            (Err(error), _) | (_, Err(error)) => {
                let Strike { fault, on, .. } = &self.strike;
                let sentence = format!("{fault} on {} could not be healed: {error}", on.join(","));
                self.record(Kind::Info, FaultStage::Heal, Some(&error));
                self.shared.is_unhealed(sentence);
            }
        }
        self.shared.in_force().remove(&self.id);
        self.shared.healed.notify_waiters();
    }

    fn record(&self, kind: Kind, stage: FaultStage, error: Option<&FaultError>) {
        let Strike { fault, on, dose, .. } = &self.strike;
        let observed = match (stage, kind) {
            (FaultStage::Inject, _) | (FaultStage::Heal, Kind::Ok) if !self.seen.observed.is_empty() => {
                Value::Object(self.seen.observed.clone())
            }
            _ => Value::Null,
        };
        // A fault is described when its injection begins, and again when it is known what it did.
        let describes = stage == FaultStage::Inject && kind != Kind::Info;
        let event = FaultEvent {
            id: self.id,
            stage,
            targets: on.iter().map(String::as_str).collect(),
            requested: dose,
            observed: &observed,
            effective: self.seen.effective,
            description: describes.then(|| self.fault.describe(&self.seen.observed)),
        };
        let value = event.to_value(kind != Kind::Invoke);
        self.shared.recorder.nemesis(kind, fault, value, error.map(ToString::to_string));
    }
}

/// The faults of a plan, ready to be injected.
///
/// # Errors
/// The plan names a nemesis that is not registered, or parameters that it does not take.
pub fn prepare(plan: &Plan) -> Result<Vec<PreparedFault>> {
    plan.strikes
        .iter()
        .map(|strike| {
            let nemesis = fencepost_nemesis::find(&strike.fault)
                .ok_or_else(|| anyhow!("the plan names an unknown nemesis {}", strike.fault))?;
            let fault = nemesis.prepare(strike).map_err(|sentence| anyhow!(sentence))?;
            Ok((nemesis, fault))
        })
        .collect()
}
