//! Carries out the plan: injects each fault when its time comes, heals it when its time is over, records both.

use crate::recorder::Recorder;
use fencepost_history::Kind;
use fencepost_nemesis::{Fault, FaultError, Plan, Strike, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The faults of a run, in force or still to come.
pub struct Strikes {
    tasks: JoinSet<()>,
    heal_now: watch::Sender<bool>,
    shared: Arc<Shared>,
}

struct Shared {
    world: Arc<World>,
    recorder: Arc<Recorder>,
    /// What is in force, for the progress line.
    in_force: Mutex<BTreeMap<u64, String>>,
    /// Healings that failed, one sentence each.
    unhealed: Mutex<Vec<String>>,
}

impl Strikes {
    /// Begins to carry out the plan; time 0 is now. `prepared` are its strikes, made ready.
    pub fn begin(
        plan: &Plan,
        prepared: Vec<Box<dyn Fault>>,
        world: Arc<World>,
        recorder: Arc<Recorder>,
    ) -> Strikes {
        let (heal_now, healing) = watch::channel(false);
        let shared =
            Arc::new(Shared { world, recorder, in_force: Mutex::default(), unhealed: Mutex::default() });
        let mut tasks = JoinSet::new();
        for (id, (strike, fault)) in plan.strikes.iter().zip(prepared).enumerate() {
            let one = One { id: id as u64, strike: strike.clone(), fault, shared: shared.clone() };
            tasks.spawn(one.run(healing.clone()));
        }
        Strikes { tasks, heal_now, shared }
    }

    /// The faults in force now, in words: `clock-jump n2,n3`.
    pub fn in_force(&self) -> Vec<String> {
        self.shared.in_force.lock().expect("never poisoned").values().cloned().collect()
    }

    /// Heals everything that is in force, begins nothing more, and gives what could not be healed.
    pub async fn heal_all(mut self) -> Vec<String> {
        self.heal_now.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                let sentence = format!("a fault's task broke down: {error}");
                self.shared.unhealed.lock().expect("never poisoned").push(sentence);
            }
        }
        std::mem::take(&mut *self.shared.unhealed.lock().expect("never poisoned"))
    }
}

/// One strike with its fault.
struct One {
    id: u64,
    strike: Strike,
    fault: Box<dyn Fault>,
    shared: Arc<Shared>,
}

impl One {
    async fn run(mut self, mut healing: watch::Receiver<bool>) {
        if let Some(trigger) = &self.strike.when {
            let fired = self.shared.recorder.await_event(trigger.clone());
            tokio::select! {
                _ = fired => {}
                _ = healing.wait_for(|now| *now) => return,
            }
        }
        if heals_before(&mut healing, Duration::from_millis(self.strike.at_ms)).await {
            return;
        }
        self.inject().await;
        heals_before(&mut healing, Duration::from_millis(self.strike.for_ms)).await;
        self.heal().await;
    }

    async fn inject(&mut self) {
        let Strike { fault: name, on, .. } = &self.strike;
        self.shared
            .in_force
            .lock()
            .expect("never poisoned")
            .insert(self.id, format!("{name} {}", on.join(",")));
        self.record(Kind::Invoke, "inject", [], None);
        match self.fault.inject(&self.shared.world).await {
            Ok(seen) => {
                let fields =
                    [("observed", Value::Object(seen.observed)), ("effective", json!(seen.effective))];
                self.record(Kind::Ok, "inject", fields, None);
            }
            Err(error) => {
                tracing::warn!("{}: {error}", self.strike.fault);
                self.record(Kind::Info, "inject", [("effective", json!(false))], Some(&error));
            }
        }
    }

    async fn heal(&mut self) {
        self.record(Kind::Invoke, "heal", [], None);
        match self.fault.heal(&self.shared.world).await {
            Ok(observed) => self.record(Kind::Ok, "heal", [("observed", observed)], None),
            Err(error) => {
                let Strike { fault, on, .. } = &self.strike;
                let sentence = format!("{fault} on {} could not be healed: {error}", on.join(","));
                self.record(Kind::Info, "heal", [], Some(&error));
                self.shared.unhealed.lock().expect("never poisoned").push(sentence);
            }
        }
        self.shared.in_force.lock().expect("never poisoned").remove(&self.id);
    }

    fn record<const N: usize>(
        &self,
        kind: Kind,
        stage: &str,
        fields: [(&str, Value); N],
        error: Option<&FaultError>,
    ) {
        let Strike { fault, on, dose, .. } = &self.strike;
        let mut value = json!({"id": self.id, "stage": stage, "targets": on, "asked": dose});
        for (name, field) in fields {
            value[name] = field;
        }
        self.shared.recorder.nemesis(kind, fault, value, error.map(ToString::to_string));
    }
}

/// Waits for `time`; true if the order to heal came first.
async fn heals_before(healing: &mut watch::Receiver<bool>, time: Duration) -> bool {
    tokio::time::timeout(time, healing.wait_for(|now| *now)).await.is_ok()
}
