//! A fault that is in force, and its healing.

use super::{HEAL_AGAIN, HEALING, InjectionState, LAST_HEALING, STARTING, ScheduledFault};
use fencepost_history::FaultStage;
use fencepost_history::Kind;
use fencepost_nemesis::{FaultError, PlannedFault};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// A fault that may have taken effect. Healing consumes it.
#[must_use]
pub(super) struct InjectedFault {
    pub(super) fault: ScheduledFault,
    /// Its targets whose processes ran before it.
    pub(super) ran: Vec<String>,
    /// Whether all of it was injected.
    pub(super) is_whole: bool,
}

impl InjectedFault {
    pub(super) async fn heal(mut self) {
        let (id, shared) = (self.fault.id, self.fault.shared.clone());
        if let Some(one) = shared.in_force().get_mut(&id) {
            one.healing = true;
        }
        self.fault.record(Kind::Invoke, FaultStage::Heal, None);
        match self.heal_within([HEALING, STARTING]).await {
            Ok(()) => self.fault.record(Kind::Ok, FaultStage::Heal, None),
            Err(_) => self.final_heal(&shared).await,
        }
        shared.in_force().remove(&id);
        shared.healed.notify_waiters();
    }

    /// Records the servers that do not serve again, and tries a last time. One that cannot read its own data
    /// cannot be healed, and that is no failure of the run.
    async fn final_heal(&mut self, shared: &InjectionState) {
        let mut is_unreadable = false;
        for server in &self.ran {
            if shared.stays_away(self.fault.id, server).await {
                is_unreadable |= shared.log.record_end(server, Some(self.fault.id), None).await;
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

    /// Tries again and again to undo the fault, and to start those of the servers that `ran` again that ended
    /// in it, until all serve, or `limit` has passed; where all run, `starting`.
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
