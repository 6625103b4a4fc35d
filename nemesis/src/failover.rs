//! `failover`: the service is told to let another server lead, as an operator or a rolling upgrade does it.
//!
//! Where nothing leads there is nothing to hand over: then a drawn server is killed and started again, which is what a
//! failover comes to for the clients of such a service.

use crate::kill::{Killed, downtime};
use crate::leader::draw_leader;
use crate::{Aim, Fault, FaultError, Nemesis, Scene, Seen, Settings, Strike, World};
use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::{FaultDescription, Stream};
use serde_json::{Map, Value, json};

pub(crate) struct Failover;

impl Nemesis for Failover {
    fn name(&self) -> &'static str {
        "failover"
    }

    fn about(&self) -> &'static str {
        "lets the service move its leadership to another server; without a leader (Redlock), kills one drawn server"
    }

    fn kind(&self) -> Option<&'static str> {
        Some("kill")
    }

    fn takes_down(&self) -> bool {
        true
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::Signal]
    }

    fn draw(&self, scene: &Scene, settings: &Settings, random: &mut Stream) -> Option<Aim> {
        if scene.has_leader && scene.servers.len() < 2 {
            return None;
        }
        let on = draw_leader(scene, random)?;
        Some(Aim { on, length: downtime(scene, settings, random), dose: Value::Null })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        match strike.on.as_slice() {
            [from] => Ok(Box::new(HandedOver { from: from.clone(), killed: None })),
            _ => Err("a failover has one server to lead away from: `on` names several".to_owned()),
        }
    }
}

struct HandedOver {
    /// Who is to lead no more.
    from: String,
    /// What was done instead where nothing leads.
    killed: Option<Killed>,
}

#[async_trait]
impl Fault for HandedOver {
    fn describe(&self, observed: &Map<String, Value>) -> FaultDescription {
        if let Some(killed) = &self.killed {
            let summary = "leaders were replaced, or servers killed and started again".to_owned();
            return FaultDescription { summary, ..killed.describe(observed) };
        }
        let from = &self.from;
        let next = observed.get(from).and_then(|seen| seen.get("leader")?.as_str());
        // A leader that follows from now on may replace what it knows by what the new one knows: it need not keep its
        // memory.
        FaultDescription {
            sentence: match next {
                Some(next) => format!("{from} handed its leadership over to {next}"),
                None => format!("{from} was asked to hand its leadership over"),
            },
            healing: "the change of the leader was over".to_owned(),
            label: format!("{from} failover"),
            summary: "leaders were replaced".to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, world: &World) -> Result<Seen, FaultError> {
        let Some(leadership) = world.leadership() else {
            let killed = self.killed.insert(Killed::new(std::slice::from_ref(&self.from)));
            return killed.inject(world).await;
        };
        let leads = leadership.leader().await?;
        if leads.as_deref() != Some(&self.from) {
            let leader = leads.unwrap_or_else(|| "nobody".to_owned());
            return Err(FaultError::Other(format!("{} does not lead, but {leader}", self.from)));
        }
        leadership.hand_over(&self.from).await?;
        let next = world.await_leader(|leader| leader != self.from).await?;
        let observed = Map::from_iter([(self.from.clone(), json!({"led": true, "leader": next}))]);
        Ok(Seen { effective: next.is_some(), observed })
    }

    /// Whoever leads now was chosen rightfully: there is nothing to take back. What is looked at is that somebody does.
    async fn heal(&mut self, world: &World) -> Result<Value, FaultError> {
        if let Some(killed) = &mut self.killed {
            return killed.heal(world).await;
        }
        let Some(leadership) = world.leadership() else { return Ok(json!({})) };
        Ok(json!({(self.from.clone()): {"leader": leadership.leader().await?}}))
    }
}
