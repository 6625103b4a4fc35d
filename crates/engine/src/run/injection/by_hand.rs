//! Faults that a user injects by hand, one after the other, while servers stand, as those of a plan.

use super::{FaultReport, FaultState, Injection};
use crate::run::prepared_fault::PreparedFault;
use crate::settings::names::BadUsage;
use crate::watch::server_log::ServerLog;
use fencepost_cluster::Capability;
use fencepost_history::{Seed, Stream};
use fencepost_nemesis::{
    FAULT_KEYS, FaultContext, Motions, Nemesis, NemesisSettings, PlannedFault, Role, Topology, fault_of_json,
};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::sync::watch;

/// Faults that are over and are still reported.
const REPORTED_MAX: usize = 100;

/// The faults of servers that stand, and what can be injected into them.
pub struct FaultsByHand {
    injection: Mutex<Injection>,
    reports: Mutex<Vec<watch::Receiver<FaultReport>>>,
    topology: Topology,
    offered: Vec<Capability>,
    random: Mutex<Stream>,
}

impl FaultsByHand {
    /// `offered` is what the driver offers. The clients of the topology stand for programs elsewhere.
    pub(crate) fn new(
        topology: Topology,
        offered: Vec<Capability>,
        seed: Seed,
        context: Arc<FaultContext>,
        log: ServerLog,
    ) -> FaultsByHand {
        let mut injection = Injection::new(topology.clone(), seed, context, log);
        injection.next_id = 1;
        FaultsByHand {
            injection: Mutex::new(injection),
            reports: Mutex::default(),
            topology,
            offered,
            random: Mutex::new(seed.stream("by-hand")),
        }
    }

    /// Injects a fault, whose keys are those of a `[[fault]]` of a plan, and returns once it was observed.
    /// Parameters that are all left out are drawn. Errors: bad keys, or why it cannot be injected.
    pub async fn inject(&self, keys: &Map<String, Value>) -> Result<FaultReport, BadUsage> {
        let (planned, prepared) = self.prepare(keys)?;
        let mut reported = self.injection.lock().add(planned, prepared);
        self.keep(reported.clone());
        // The task goes without a word only where everything is being healed.
        let begun = reported.wait_for(|report| report.state != FaultState::Waiting).await;
        let report = begun.map(|report| report.clone());
        Ok(report.unwrap_or_else(|_| reported.borrow().clone()))
    }

    /// Heals one fault, and returns once that is done. Errors: there is no such fault.
    pub async fn heal(&self, id: u64) -> Result<FaultReport, BadUsage> {
        let known = self.reports.lock().iter().find(|report| report.borrow().id == id).cloned();
        let known = known.ok_or_else(|| BadUsage::new(format!("there is no fault {id}")))?;
        Ok(self.heal_these(vec![known]).await.remove(0))
    }

    pub async fn heal_all(&self) -> Vec<FaultReport> {
        let open = self.reports.lock().iter().filter(|report| !report.borrow().is_over()).cloned().collect();
        self.heal_these(open).await
    }

    async fn heal_these(&self, mut faults: Vec<watch::Receiver<FaultReport>>) -> Vec<FaultReport> {
        let ids: Vec<u64> = faults.iter().map(|fault| fault.borrow().id).collect();
        self.injection.lock().heal_now.send_modify(|order| order.ids.extend(ids));
        for fault in &mut faults {
            // The sender goes with the fault's task, which is over then.
            while fault.changed().await.is_ok() {}
        }
        faults.iter().map(|fault| fault.borrow().clone()).collect()
    }

    /// What is in force, and the last faults that are over.
    pub fn reports(&self) -> Vec<FaultReport> {
        self.reports.lock().iter().map(|report| report.borrow().clone()).collect()
    }

    /// Heals everything, and lets nothing more begin. Gives a sentence for each failure.
    pub(crate) async fn end(&self) -> Vec<String> {
        self.injection.lock().heal_now.send_modify(|order| order.all = true);
        self.heal_all().await;
        std::mem::take(&mut *self.injection.lock().shared.unhealed.lock())
    }

    fn keep(&self, report: watch::Receiver<FaultReport>) {
        let mut reports = self.reports.lock();
        reports.push(report);
        while reports.len() > REPORTED_MAX
            && let Some(over) = reports.iter().position(|report| report.borrow().is_over())
        {
            reports.remove(over);
        }
    }

    fn prepare(&self, keys: &Map<String, Value>) -> Result<(PlannedFault, PreparedFault), BadUsage> {
        let refused = |sentence: String| Err(BadUsage::new(sentence));
        if let Some(key) = ["when", "then", "until"].into_iter().find(|key| keys.contains_key(*key)) {
            return refused(format!(
                "`{key}` waits for an event of a run's client, and here is no run; inject the fault when its time has come"
            ));
        }
        let keys = self.with_parameters(self.with_groups(keys.clone()));
        let planned =
            fault_of_json(&keys, &self.topology).map_err(|refusal| BadUsage::new(refusal.sentence))?;
        let nemesis = fencepost_nemesis::find(&planned.fault)
            .ok_or_else(|| BadUsage::new(format!("there is no nemesis {}", planned.fault)))?;
        let (about, name) = (nemesis.description(), nemesis.name());
        if let Some(unmet) = about.unmet(&self.offered) {
            return refused(format!(
                "the nemesis {name} needs {unmet}, which this machine does not offer; `fencepost doctor` says why"
            ));
        }
        let is_of_clients = |role: Role| role.is_of_clients() || role == Role::Granting;
        if let Some((role, _)) = planned.roles().iter().find(|(_, target)| is_of_clients(target.role)) {
            return refused(format!(
                "no node is the {role}: that is known of the clients of a run, and here are none; name a server ({})",
                self.topology.servers.join(", ")
            ));
        }
        if let Some(client) = planned.on.iter().find(|name| self.topology.clients.contains(*name))
            && !about.on_packets
            && !about.by_name
        {
            return refused(format!(
                "{name} cannot be injected into {client}, which stands for your own programs: only faults of packets \
                 reach it; `fencepost clock` moves the clock of a program"
            ));
        }
        let ready = nemesis.prepare(&planned.on, &planned.parameters);
        let fault = ready.map_err(|refusal| BadUsage::new(refusal.sentence))?;
        Ok((planned, (nemesis, fault)))
    }

    /// A partition whose groups are not named parts its nodes from all others.
    fn with_groups(&self, mut keys: Map<String, Value>) -> Map<String, Value> {
        let parts_groups = nemesis_of(&keys).is_some_and(|nemesis| nemesis.description().parts_groups);
        if !parts_groups || ["groups", "flow", "deaf"].into_iter().any(|key| keys.contains_key(key)) {
            return keys;
        }
        let alone: Vec<String> = names(&keys);
        let all = self.topology.servers.iter().chain(&self.topology.clients);
        let others: Vec<&str> = all.filter(|name| !alone.contains(name)).map(String::as_str).collect();
        if !alone.is_empty() {
            keys.insert("groups".to_owned(), json!(format!("{}|{}", alone.join(","), others.join(","))));
        }
        keys
    }

    /// Parameters without which the fault would be none are drawn, if none is given.
    fn with_parameters(&self, mut keys: Map<String, Value>) -> Map<String, Value> {
        let Some(nemesis) = nemesis_of(&keys) else { return keys };
        let moves_nothing = |motions: Motions| motions.wall.or(motions.monotonic).is_none();
        let without = nemesis.prepare(&names(&keys), &Map::new());
        let is_none = without.as_ref().map_or(true, |fault| fault.motions().is_some_and(moves_nothing));
        if is_none
            && keys.keys().all(|key| FAULT_KEYS.contains(&key.as_str()))
            && !keys.contains_key("groups")
        {
            let settings = NemesisSettings::default();
            let drawn = nemesis.draw(&self.topology, &settings, &mut self.random.lock());
            // Whom it is between is not left to chance.
            let is_own = |(key, _): &(String, Value)| key != "peers" && key != "ways";
            keys.extend(drawn.map(|drawn| drawn.parameters).unwrap_or_default().into_iter().filter(is_own));
        }
        keys
    }
}

fn nemesis_of(keys: &Map<String, Value>) -> Option<&'static dyn Nemesis> {
    fencepost_nemesis::find(keys.get("fault")?.as_str()?)
}

fn names(keys: &Map<String, Value>) -> Vec<String> {
    let on = keys.get("on").and_then(Value::as_array).into_iter().flatten();
    on.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}
