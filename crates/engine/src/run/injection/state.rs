//! Which faults are in force, and what is left to heal.

use crate::run::recorder::Recorder;
use crate::watch::server_log::ServerLog;
use fencepost_history::Seed;
use fencepost_nemesis::{FaultContext, FaultError, Nemesis, Topology};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How long healing is tried before a fault counts as not healed, and a server may take to serve.
pub(super) const HEALING: Duration = Duration::from_secs(15);

/// How long a server that may serve is waited for before it is recorded as one that does not.
const LAST_LOOK: Duration = Duration::from_secs(1);

pub(super) struct InjectionState {
    pub(super) context: Arc<FaultContext>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) topology: Topology,
    pub(super) seed: Seed,
    pub(super) in_force: Mutex<BTreeMap<u64, InForce>>,
    pub(super) healed: Notify,
    pub(super) log: ServerLog,
    pub(super) unhealed: Mutex<Vec<String>>,
    /// Servers that ended in a fault which was healed while another held them down.
    pub(super) owed: Mutex<BTreeSet<String>>,
}

pub(super) struct InForce {
    pub(super) nemesis: &'static dyn Nemesis,
    pub(super) on: Vec<String>,
    pub(super) healing: bool,
}

impl InForce {
    pub(super) fn takes_down(&self, server: &str) -> bool {
        self.nemesis.description().takes_down && self.on.iter().any(|target| target == server)
    }
}

#[derive(Default)]
pub(super) struct HealingOrder {
    pub(super) all: bool,
    pub(super) ids: BTreeSet<u64>,
}

impl HealingOrder {
    pub(super) fn is_for(&self, id: u64) -> bool {
        self.all || self.ids.contains(&id)
    }
}

/// Counts a fault as one that is not over, however its task ends.
pub(super) struct OpenFault(watch::Sender<usize>);

impl OpenFault {
    pub(super) fn count(open: &watch::Sender<usize>) -> OpenFault {
        open.send_modify(|open| *open += 1);
        OpenFault(open.clone())
    }
}

impl Drop for OpenFault {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

impl InjectionState {
    pub(super) fn others_take_down(&self, id: u64) -> bool {
        self.in_force.lock().iter().any(|(other, one)| *other != id && one.nemesis.description().takes_down)
    }

    /// Whether a server has ended after fault `id`, or runs and does not serve.
    pub(super) async fn stays_away(&self, id: u64, server: &str) -> bool {
        if self.context.pid(server).is_err() {
            return true;
        }
        let served = tokio::time::timeout(LAST_LOOK, self.context.await_serving(server)).await;
        !matches!(served, Ok(Ok(()))) && !self.others_take_down(id)
    }

    /// Waits until the servers that `id` held down serve; while others are held down, until they answer.
    pub(super) async fn await_serving(&self, id: u64, servers: &[String]) -> Result<(), FaultError> {
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

    /// Starts servers that `ran` and died of `id`, or were left to it, unless another fault holds one down.
    pub(super) async fn revive(&self, id: u64, ran: &[String]) -> Result<Vec<String>, FaultError> {
        let dead = ran.iter().cloned().chain(self.owed.lock().clone());
        let dead: BTreeSet<String> = dead.filter(|target| self.context.pid(target).is_err()).collect();
        let mut revived = Vec::new();
        for target in dead {
            let held_down =
                self.in_force.lock().iter().any(|(other, one)| *other != id && one.takes_down(&target));
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
