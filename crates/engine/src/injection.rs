//! Carries out the plan: injects each fault at its time, heals it when that is over, records both. A fault's
//! time runs from the beginning of its injection, and no fault is healed before it was looked at. A fault
//! that could not be injected whole is healed at once.

mod injected;
#[cfg(test)]
mod tests;

use crate::aiming::Aiming;
use crate::other_clients::event_of_other_client;
use crate::prepared_fault::PreparedFault;
use crate::recorder::{Recorder, TriggerEvent};
use crate::server_log::ServerLog;
use crate::validation::RunSpec;
use fencepost_history::fault::FAULT_LEFT_OUT;
use fencepost_history::{FaultDescription, FaultEvent, FaultStage, Kind, Seed};
use fencepost_nemesis::{
    Fault, FaultContext, FaultError, Nemesis, Observation, PlannedFault, Resolution, Topology,
};
use injected::InjectedFault;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long a fault waits for its event, and then for a node to play its role.
const EVENT_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for an event that few sections have: one in six is long enough, and not all come to a point.
const RARE_EVENT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long healing is tried, and once more after that, before a fault counts as not healed; and the rest
/// between two tries. A server that runs, and does not serve yet, may take a minute on a busy machine.
const HEALING: Duration = Duration::from_secs(15);
const STARTING: Duration = Duration::from_secs(60);
const LAST_HEALING: Duration = Duration::from_secs(5);
const HEAL_AGAIN: Duration = Duration::from_millis(200);
/// How long a server that may serve is waited for before it is recorded as one that does not.
const LAST_LOOK: Duration = Duration::from_secs(1);

pub struct Injection {
    tasks: JoinSet<()>,
    heal_now: watch::Sender<bool>,
    /// Closed once each fault of the plan is over.
    all_over: watch::Receiver<()>,
    shared: Arc<InjectionState>,
}

struct InjectionState {
    context: Arc<FaultContext>,
    recorder: Arc<Recorder>,
    topology: Topology,
    seed: Seed,
    in_force: Mutex<BTreeMap<u64, InForce>>,
    healed: Notify,
    log: ServerLog,
    unhealed: Mutex<Vec<String>>,
    /// Servers that ended in a fault which was healed while another held them down.
    owed: Mutex<BTreeSet<String>>,
}

struct InForce {
    nemesis: &'static dyn Nemesis,
    on: Vec<String>,
    healing: bool,
}

impl InForce {
    fn takes_down(&self, server: &str) -> bool {
        self.nemesis.description().takes_down && self.on.iter().any(|target| target == server)
    }
}

impl Injection {
    pub fn begin(
        spec: &RunSpec,
        ready: Vec<PreparedFault>,
        context: Arc<FaultContext>,
        log: ServerLog,
    ) -> Injection {
        let (heal_now, healing) = watch::channel(false);
        let shared = Arc::new(InjectionState {
            context,
            recorder: log.recorder.clone(),
            topology: spec.topology.clone(),
            seed: spec.seed,
            log,
            in_force: Mutex::default(),
            healed: Notify::new(),
            unhealed: Mutex::default(),
            owed: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        let (not_over, all_over) = watch::channel(());
        for (id, (planned, (nemesis, fault))) in spec.plan.faults.iter().zip(ready).enumerate() {
            // Listens before anything begins, so that no trigger misses its event.
            let fired = planned.when.clone().map(|trigger| shared.recorder.await_event(trigger));
            let one = ScheduledFault {
                id: id as u64,
                planned: planned.clone(),
                target: planned.clone(),
                aimed: planned.roles().into_iter().map(|(text, _)| text).collect(),
                resolution: Resolution::default(),
                fired,
                nemesis,
                fault,
                observation: Observation::default(),
                shared: shared.clone(),
            };
            let (healing, not_over) = (healing.clone(), not_over.clone());
            tasks.spawn(async move {
                one.run(healing).await;
                drop(not_over);
            });
        }
        Injection { tasks, heal_now, all_over, shared }
    }

    /// The faults in force now, in words: `clock-jump n2,n3`.
    pub fn in_force(&self) -> Vec<String> {
        let in_words = |one: &InForce| format!("{} {}", one.nemesis.name(), one.on.join(","));
        self.shared.in_force().values().map(in_words).collect()
    }

    pub async fn all_over(&self) {
        let mut all_over = self.all_over.clone();
        while all_over.changed().await.is_ok() {}
    }

    /// Whether a fault in force, or one that is being healed, holds this server down.
    pub fn takes_down(&self, server: &str) -> bool {
        self.shared.in_force().values().any(|one| one.takes_down(server))
    }

    /// Heals everything that is in force, and begins nothing more. Gives a sentence for each failure.
    pub async fn heal_all(mut self) -> Vec<String> {
        self.heal_now.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                self.shared.unhealed.lock().push(format!("a fault's task broke down: {error}"));
            }
        }
        std::mem::take(&mut *self.shared.unhealed.lock())
    }
}

impl InjectionState {
    fn in_force(&self) -> MutexGuard<'_, BTreeMap<u64, InForce>> {
        self.in_force.lock()
    }

    /// Whether a fault other than this one holds servers down.
    fn others_take_down(&self, id: u64) -> bool {
        self.in_force().iter().any(|(other, one)| *other != id && one.nemesis.description().takes_down)
    }

    /// Whether a server has ended after fault `id`, or runs and does not serve.
    async fn stays_away(&self, id: u64, server: &str) -> bool {
        if self.context.pid(server).is_err() {
            return true;
        }
        let served = tokio::time::timeout(LAST_LOOK, self.context.await_serving(server)).await;
        !matches!(served, Ok(Ok(()))) && !self.others_take_down(id)
    }

    /// Waits until these servers, which fault `id` held down or ended, serve again. While another fault holds
    /// servers down, a service may be unable to serve, and that a server answers has to do.
    async fn await_serving(&self, id: u64, servers: &[String]) -> Result<(), FaultError> {
        if self.others_take_down(id) {
            return Ok(());
        }
        for server in servers {
            let served = tokio::time::timeout(HEALING, self.context.await_serving(server)).await;
            let late = || FaultError::Other(format!("{server} runs, and does not serve"));
            served.map_err(|_| late())??;
        }
        Ok(())
    }

    /// Starts servers that `ran` and died of fault `id`, and those that earlier faults left to this one.
    /// While another fault holds one down, it is left to that. Gives names.
    async fn revive(&self, id: u64, ran: &[String]) -> Result<Vec<String>, FaultError> {
        let dead = ran.iter().cloned().chain(self.owed.lock().clone());
        let dead: BTreeSet<String> = dead.filter(|target| self.context.pid(target).is_err()).collect();
        let mut revived = Vec::new();
        for target in dead {
            let held_down =
                self.in_force().iter().any(|(other, one)| *other != id && one.takes_down(&target));
            if held_down {
                self.owed.lock().insert(target);
            } else {
                self.context.restart(&target).await?;
                self.owed.lock().remove(&target);
                revived.push(target);
            }
        }
        Ok(revived)
    }
}

enum Admission {
    /// It counts as in force now.
    InForce,
    /// Not before the healing of another fault of its kind, on one of its targets, is done.
    Later,
    /// Another fault of its kind is in force on one of its targets.
    LeftOut,
}

struct ScheduledFault {
    id: u64,
    planned: PlannedFault,
    /// The same with nodes in place of roles, once these are known.
    target: PlannedFault,
    /// The roles that it is aimed at, as they were written.
    aimed: Vec<String>,
    resolution: Resolution,
    fired: Option<oneshot::Receiver<TriggerEvent>>,
    nemesis: &'static dyn Nemesis,
    fault: Box<dyn Fault>,
    observation: Observation,
    shared: Arc<InjectionState>,
}

impl ScheduledFault {
    async fn run(mut self, mut healing: watch::Receiver<bool>) {
        tokio::select! {
            biased;
            _ = healing.wait_for(|now| *now) => return,
            admitted = self.wait_and_admit() => match admitted {
                Ok(true) => {}
                Ok(false) => return self.left_out(),
                Err(error) => {
                    self.record(Kind::Invoke, FaultStage::Inject, None);
                    return self.not_injected(&error);
                }
            }
        }
        let begun = Instant::now();
        let (until, on) = (self.planned.until.clone(), self.target.on.clone());
        let ended = event_of_other_client(&self.shared.recorder, until, on);
        let time = Duration::from_millis(self.planned.for_ms);
        let injected = self.inject().await;
        if injected.is_whole {
            tokio::select! {
                _ = healing.wait_for(|now| *now) => {}
                () = tokio::time::sleep(time.saturating_sub(begun.elapsed())) => {}
                () = ended => {}
            }
        }
        injected.heal().await;
    }

    /// Waits for the fault's time, finds its targets, and counts it as in force. Gives whether it fits.
    async fn wait_and_admit(&mut self) -> Result<bool, FaultError> {
        let mut came = None;
        if let Some(fired) = self.fired.take() {
            // The sender goes only with the run.
            came = fired.await.ok();
        }
        if self.planned.at_ms > 0 {
            tokio::time::sleep(Duration::from_millis(self.planned.at_ms)).await;
            came = None;
        }
        loop {
            if let Some(next) = &self.planned.then {
                let fired = self.shared.recorder.await_event(next.clone());
                let patience = if next.is_rare() { RARE_EVENT_TIMEOUT } else { EVENT_TIMEOUT };
                came = tokio::time::timeout(patience, fired).await.ok().and_then(Result::ok);
            }
            if !self.aimed.is_empty() && !self.aim(came.take()).await? {
                return Ok(false);
            }
            let healed = self.shared.healed.notified();
            tokio::pin!(healed);
            healed.as_mut().enable();
            match self.admit() {
                Admission::InForce => return Ok(true),
                Admission::LeftOut => return Ok(false),
                // After that it aims anew: its moment has passed.
                Admission::Later => healed.await,
            }
        }
    }

    /// Puts nodes in place of the roles that it is aimed at. Gives whether each role had one in time.
    async fn aim(&mut self, fired: Option<TriggerEvent>) -> Result<bool, FaultError> {
        let InjectionState { context, recorder, topology, seed, .. } = &*self.shared;
        let random = seed.stream(&format!("roles-{}", self.id));
        let mut aiming = Aiming { context, recorder, topology, fired, random };
        let Some(resolution) = aiming.resolve(&self.planned, EVENT_TIMEOUT).await? else { return Ok(false) };
        let resolved = self.planned.resolved(&resolution);
        self.fault = self.nemesis.prepare(&resolved.on, &resolved.parameters)?;
        self.target = resolved;
        self.resolution = resolution;
        Ok(true)
    }

    /// Counts the fault among those in force, if no other fault of its kind is in force on one of its
    /// targets: either healing would undo the other.
    fn admit(&self) -> Admission {
        let mut in_force = self.shared.in_force();
        let kind = self.nemesis.description().kind;
        let of_kind =
            in_force.values().filter(|one| kind.is_some() && one.nemesis.description().kind == kind);
        let mut in_the_way =
            of_kind.filter(|one| one.on.iter().any(|target| self.target.on.contains(target))).peekable();
        if in_the_way.peek().is_some() {
            return if in_the_way.all(|one| one.healing) { Admission::Later } else { Admission::LeftOut };
        }
        drop(in_the_way);
        let one = InForce { nemesis: self.nemesis, on: self.target.on.clone(), healing: false };
        in_force.insert(self.id, one);
        Admission::InForce
    }

    fn left_out(&self) {
        let mut value = json!({"id": self.id, "fault": self.target.fault, "targets": self.target.on});
        if !self.aimed.is_empty() {
            value["aimed"] = json!(self.aimed);
        }
        self.shared.recorder.nemesis(Kind::Info, FAULT_LEFT_OUT, value, None);
    }

    async fn inject(mut self) -> InjectedFault {
        let ran = self.shared.context.running(&self.target.on);
        self.record(Kind::Invoke, FaultStage::Inject, None);
        let injected = self.fault.inject(&self.shared.context).await;
        let is_whole = injected.is_ok();
        match injected {
            Ok(observation) => {
                self.observation = observation;
                self.record(Kind::Ok, FaultStage::Inject, None);
            }
            Err(error) => self.not_injected(&error),
        }
        InjectedFault { fault: self, ran, is_whole }
    }

    fn not_injected(&self, error: &FaultError) {
        let PlannedFault { fault, on, .. } = &self.target;
        log::warn!("{fault} on {} failed: {error}; the run goes on and is judged", on.join(","));
        self.record(Kind::Info, FaultStage::Inject, Some(error));
    }

    /// What the fault says about itself, with the roles of its targets.
    fn describe(&self) -> FaultDescription {
        let description = self.fault.describe(&self.observation.observed);
        FaultDescription { sentence: self.resolution.name_roles(&description.sentence), ..description }
    }

    fn record(&self, kind: Kind, stage: FaultStage, error: Option<&FaultError>) {
        let PlannedFault { fault, on, parameters, .. } = &self.target;
        let requested = match parameters.is_empty() {
            true => Value::Null,
            false => Value::Object(parameters.clone()),
        };
        let observed = match (stage, kind) {
            (FaultStage::Inject, _) | (FaultStage::Heal, Kind::Ok)
                if !self.observation.observed.is_empty() =>
            {
                Value::Object(self.observation.observed.clone())
            }
            _ => Value::Null,
        };
        // A fault is described when its injection begins, and again when it is known what it did.
        let describes = stage == FaultStage::Inject && kind != Kind::Info;
        let event = FaultEvent {
            id: self.id,
            stage,
            targets: on.iter().map(String::as_str).collect(),
            aimed: self.aimed.iter().map(String::as_str).collect(),
            requested: &requested,
            observed: &observed,
            effective: self.observation.effective,
            description: describes.then(|| self.describe()),
        };
        let value = event.to_value(kind != Kind::Invoke);
        self.shared.recorder.nemesis(kind, fault, value, error.map(ToString::to_string));
    }
}
