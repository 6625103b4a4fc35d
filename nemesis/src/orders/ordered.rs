//! Faults that servers inject into themselves when they are ordered to, as their operators order it, too.

use crate::context::FaultContext;
use crate::fault::{Fault, FaultError, Observation, heal_each, of_each};
use crate::nemesis::NemesisDescription;
use crate::plan::distributions::subset;
use crate::plan::topology::Topology;
use async_trait::async_trait;
use fencepost_history::{FaultDescription, Stream};
use rand::RngExt;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How often a server is given the order that ends it, and how far apart: another fault may have stopped it.
const TRIES: u32 = 50;
const REST: Duration = Duration::from_millis(200);

struct Ordered {
    on: Vec<String>,
    order: String,
    description: FaultDescription,
}

/// A nemesis that does nothing but to order servers.
pub(crate) const fn by_order(name: &'static str, about: &'static str) -> NemesisDescription {
    NemesisDescription {
        needs: &[],
        servers_only: true,
        by_order: true,
        ..NemesisDescription::new(name, about)
    }
}

/// At least half of the servers, so that a lock on several is mostly hit; none where there are none.
pub(crate) fn half_or_more(topology: &Topology, random: &mut Stream) -> Option<Vec<String>> {
    let servers = &topology.servers;
    (!servers.is_empty()).then(|| {
        let size = random.random_range(servers.len().div_ceil(2)..=servers.len());
        subset(servers, size, random)
    })
}

pub(crate) fn ordered(on: &[String], order: String, description: FaultDescription) -> Box<dyn Fault> {
    Box::new(Ordered { on: on.to_vec(), order, description })
}

impl Ordered {
    async fn end(&self, context: &FaultContext, target: &String) -> Result<Value, FaultError> {
        let orders = context.orders()?;
        let mut tries = 0;
        loop {
            // One that has ended starts without what was set.
            if context.running(std::slice::from_ref(target)).is_empty() {
                return Ok(json!({"gone": true}));
            }
            match orders.end(target, &self.order).await {
                Ok(seen) => return Ok(seen),
                Err(error) if tries == TRIES => return Err(error.into()),
                Err(_) => {
                    tries += 1;
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }
}

#[async_trait]
impl Fault for Ordered {
    fn describe(&self, _: &Map<String, Value>) -> FaultDescription {
        self.description.clone()
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let (order, orders) = (&self.order, context.orders()?);
        let seen = of_each(&self.on, |target| async move { Ok(orders.begin(target, order).await?) });
        Ok(seen.await?.into_iter().collect())
    }

    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        let this = &*self;
        heal_each(&this.on, |target| this.end(context, target)).await
    }
}
