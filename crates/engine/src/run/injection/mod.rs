//! Carries out the plan: injects each fault at its time, heals it when that is over, records both. Its time
//! runs from its injection, and it is healed only once observed; one that was injected in part, at once.

mod by_hand;
mod report;
mod state;
#[cfg(test)]
mod tests;

pub use by_hand::FaultsByHand;
pub use report::{FaultReport, FaultState};

use crate::run::aiming::Aiming;
use crate::run::other_clients::event_of_other_client;
use crate::run::prepared_fault::PreparedFault;
use crate::run::recorder::TriggerEvent;
use crate::settings::validation::RunSpec;
use crate::watch::server_log::ServerLog;
use fencepost_history::fault::FAULT_LEFT_OUT;
use fencepost_history::{FaultDescription, FaultEvent, FaultStage, Kind, Seed};
use fencepost_nemesis::{
    Fault, FaultContext, FaultError, Nemesis, Observation, PlannedFault, Resolution, Topology,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use state::{HEALING, HealingOrder, InForce, InjectionState, OpenFault};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long a fault waits for its event, and then for a node to play its role.
const EVENT_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for an event that few sections have: one in six is long enough, and not all come to a point.
const RARE_EVENT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long healing is tried beyond [`HEALING`] where a server runs, and does not serve yet, which may take a
/// minute on a busy machine; how long once more after that; and the rest between two tries.
const STARTING: Duration = Duration::from_secs(60);
const LAST_HEALING: Duration = Duration::from_secs(5);
const HEAL_AGAIN: Duration = Duration::from_millis(200);

pub struct Injection {
    tasks: JoinSet<()>,
    next_id: u64,
    heal_now: watch::Sender<HealingOrder>,
    open: watch::Sender<usize>,
    shared: Arc<InjectionState>,
}

impl Injection {
    pub fn begin(
        spec: &RunSpec,
        ready: Vec<PreparedFault>,
        context: Arc<FaultContext>,
        log: ServerLog,
    ) -> Injection {
        let mut injection = Injection::new(spec.topology.clone(), spec.seed, context, log);
        for (planned, prepared) in spec.plan.faults.iter().zip(ready) {
            injection.add(planned.clone(), prepared);
        }
        injection
    }

    fn new(topology: Topology, seed: Seed, context: Arc<FaultContext>, log: ServerLog) -> Injection {
        let shared = Arc::new(InjectionState {
            context,
            recorder: log.recorder.clone(),
            topology,
            seed,
            in_force: Mutex::default(),
            healed: Notify::new(),
            log,
            unhealed: Mutex::default(),
            owed: Mutex::default(),
        });
        let (heal_now, open) = (watch::Sender::default(), watch::Sender::default());
        Injection { tasks: JoinSet::new(), next_id: 0, heal_now, open, shared }
    }

    /// Injects one more fault at its time, counted from now. Gives how far it is.
    fn add(
        &mut self,
        planned: PlannedFault,
        (nemesis, fault): PreparedFault,
    ) -> watch::Receiver<FaultReport> {
        let id = self.next_id;
        self.next_id += 1;
        let (report, reported) = watch::channel(FaultReport::of(id, &planned));
        // Listens before anything begins, so that no trigger misses its event.
        let fired = planned.when.clone().map(|trigger| self.shared.recorder.await_event(trigger));
        let one = ScheduledFault {
            id,
            target: planned.clone(),
            aimed: planned.roles().into_iter().map(|(text, _)| text).collect(),
            planned,
            resolution: Resolution::default(),
            fired,
            nemesis,
            fault,
            observation: Observation::default(),
            report,
            shared: self.shared.clone(),
        };
        let (healing, open) = (self.heal_now.subscribe(), OpenFault::count(&self.open));
        self.tasks.spawn(async move {
            one.run(healing).await;
            drop(open);
        });
        reported
    }

    /// The faults in force now, in words: `clock-jump n2,n3`.
    pub fn in_force(&self) -> Vec<String> {
        let in_words = |one: &InForce| format!("{} {}", one.nemesis.name(), one.on.join(","));
        self.shared.in_force.lock().values().map(in_words).collect()
    }

    pub async fn all_over(&self) {
        // The sender lives as long as this does.
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }

    /// Whether a fault in force, or one that is being healed, holds this server down.
    pub fn takes_down(&self, server: &str) -> bool {
        self.shared.in_force.lock().values().any(|one| one.takes_down(server))
    }

    /// Heals everything that is in force, and begins nothing more. Gives a sentence for each failure.
    pub async fn heal_all(mut self) -> Vec<String> {
        self.heal_now.send_modify(|order| order.all = true);
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                self.shared.unhealed.lock().push(format!("a fault's task broke down: {error}"));
            }
        }
        std::mem::take(&mut *self.shared.unhealed.lock())
    }
}

enum Admission {
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
    aimed: Vec<String>,
    resolution: Resolution,
    fired: Option<oneshot::Receiver<TriggerEvent>>,
    nemesis: &'static dyn Nemesis,
    fault: Box<dyn Fault>,
    observation: Observation,
    report: watch::Sender<FaultReport>,
    shared: Arc<InjectionState>,
}

impl ScheduledFault {
    async fn run(mut self, mut healing: watch::Receiver<HealingOrder>) {
        let id = self.id;
        tokio::select! {
            biased;
            _ = healing.wait_for(|order| order.is_for(id)) => return,
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
                _ = healing.wait_for(|order| order.is_for(id)) => {}
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

    /// Counts the fault among those in force, unless one of its kind is on a target: healing would undo both.
    fn admit(&self) -> Admission {
        let mut in_force = self.shared.in_force.lock();
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
        self.report.send_modify(|report| report.state = FaultState::LeftOut);
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
        self.report.send_modify(|report| {
            report.on.clone_from(on);
            if describes {
                report.describe(self.describe().sentence, &self.observation);
            }
            report.advance(stage, kind, error);
        });
    }
}

/// A fault that may have taken effect. Healing consumes it.
#[must_use]
struct InjectedFault {
    fault: ScheduledFault,
    ran: Vec<String>,
    is_whole: bool,
}

impl InjectedFault {
    async fn heal(mut self) {
        let (id, shared) = (self.fault.id, self.fault.shared.clone());
        if let Some(one) = shared.in_force.lock().get_mut(&id) {
            one.healing = true;
        }
        self.fault.record(Kind::Invoke, FaultStage::Heal, None);
        match self.heal_within([HEALING, STARTING]).await {
            Ok(()) => self.fault.record(Kind::Ok, FaultStage::Heal, None),
            Err(_) => self.final_heal(&shared).await,
        }
        shared.in_force.lock().remove(&id);
        shared.healed.notify_waiters();
    }

    /// Records servers that do not serve, and tries once more. Unreadable data are not the run's failure.
    async fn final_heal(&mut self, shared: &InjectionState) {
        let mut is_unreadable = false;
        let after = (Some(self.fault.id), self.fault.describe().damages);
        for server in &self.ran {
            if shared.stays_away(self.fault.id, server).await {
                is_unreadable |= shared.log.record_end(server, after, None).await;
            }
        }
        match self.heal_within([LAST_HEALING; 2]).await {
            Ok(()) => self.fault.record(Kind::Ok, FaultStage::Heal, None),
            Err(error) => {
                let PlannedFault { fault, on, .. } = &self.fault.target;
                let sentence = format!("{fault} on {} could not be healed: {error}", on.join(","));
                self.fault.record(Kind::Info, FaultStage::Heal, Some(&error));
                if !is_unreadable {
                    shared.unhealed.lock().push(sentence);
                }
            }
        }
    }

    /// Tries to undo the fault and to restart servers that `ran`, until all serve or `limit` passed.
    async fn heal_within(&mut self, limits: [Duration; 2]) -> Result<(), FaultError> {
        let ([limit, starting], begun) = (limits, Instant::now());
        loop {
            let healed = self.try_to_heal().await;
            let all_run = self.ran.iter().all(|server| self.fault.shared.context.pid(server).is_ok());
            if healed.is_ok() || begun.elapsed() >= if all_run { starting } else { limit } {
                return healed;
            }
            tokio::time::sleep(HEAL_AGAIN).await;
        }
    }

    async fn try_to_heal(&mut self) -> Result<(), FaultError> {
        let InjectedFault { fault: one, ran, .. } = self;
        let mut observed = one.fault.heal(&one.shared.context).await?;
        let revived = one.shared.revive(one.id, ran).await?;
        if one.nemesis.description().takes_down || !revived.is_empty() {
            one.shared.await_serving(one.id, ran).await?;
        }
        for server in revived {
            observed[server]["restarted"] = json!(true);
        }
        one.observation.observed = observed.as_object().cloned().unwrap_or_default();
        Ok(())
    }
}
