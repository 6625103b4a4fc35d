//! `failover`: the service is asked to let another server lead, as an operator or a rolling upgrade does it.
//!
//! Where no server leads there is no leadership to transfer: then a drawn server is killed and started again,
//! which is what a failover comes to for the clients of such a service.

use crate::aim::{Aim, DrawnAim, Moment};
use crate::context::FaultContext;
use crate::fault::{Fault, FaultError, Observation};
use crate::kill::{DOWN, Killed, back_soon, downtime};
use crate::nemesis::{Draw, NemesisDescription, NoParameters, Settings, TypedNemesis};
use crate::roles::Role;
use crate::topology::Topology;
use async_trait::async_trait;
use fencepost_history::{FaultDescription, FaultEffect, ObservedTarget, Refusal, Stream};
use serde_json::{Map, Value, json};

pub(crate) struct Failover;

impl TypedNemesis for Failover {
    type Parameters = NoParameters;

    fn description(&self) -> NemesisDescription {
        let about = "lets the service move its leadership to another server; without a leader (Redlock), kills one drawn server";
        NemesisDescription {
            kind: Some("kill"),
            takes_down: true,
            options: &["restart-after"],
            servers_only: true,
            aims: const { &[Aim::at(Role::Leader, &[Moment::GrantedForLong, Moment::Collecting]).lasting(DOWN)] },
            ..NemesisDescription::new("failover", about)
        }
    }

    fn draw(
        &self,
        topology: &Topology,
        settings: &Settings,
        random: &mut Stream,
    ) -> Option<Draw<NoParameters>> {
        if topology.has_leader && topology.servers.len() < 2 {
            return None;
        }
        let on = topology.draw_leader(random)?;
        Some(Draw { on, length: downtime(topology, settings, random), parameters: NoParameters {} })
    }

    fn adapt_to_aim(
        &self,
        drawn: Draw<NoParameters>,
        _: &DrawnAim,
        _: &Topology,
        settings: &Settings,
        _: &mut Stream,
    ) -> Draw<NoParameters> {
        back_soon(drawn, settings)
    }

    fn prepare(&self, on: &[String], _: NoParameters) -> Result<Box<dyn Fault>, Refusal> {
        match on {
            [from] => Ok(Box::new(LeadershipTransfer { from: from.clone(), killed: None })),
            _ => Err(Refusal::at("on", "a failover has one server to lead away from: `on` names several")),
        }
    }
}

struct LeadershipTransfer {
    /// The server that is to lead no more.
    from: String,
    /// What was done instead where no server leads.
    killed: Option<Killed>,
}

#[async_trait]
impl Fault for LeadershipTransfer {
    fn describe(&self, observed: &Map<String, Value>) -> FaultDescription {
        if let Some(killed) = &self.killed {
            let summary = "leaders were replaced, or servers killed and started again".to_owned();
            return FaultDescription { summary, ..killed.describe(observed) };
        }
        let from = &self.from;
        let next = observed.get(from).and_then(|seen| ObservedTarget::of(seen).leader);
        // A leader that follows from now on may replace what it knows by what the new one knows: it need not
        // keep its memory.
        FaultDescription {
            effects: vec![FaultEffect::Forgets, FaultEffect::Delays],
            sentence: match next {
                Some(next) => format!("{from} transferred its leadership to {next}"),
                None => format!("{from} was asked to transfer its leadership"),
            },
            healing: "the change of the leader was over".to_owned(),
            label: format!("{from} failover"),
            summary: "leaders were replaced".to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let Some(leadership) = context.leadership() else {
            let killed = self.killed.insert(Killed::new(std::slice::from_ref(&self.from)));
            return killed.inject(context).await;
        };
        let leads = leadership.leader().await?;
        if leads.as_deref() != Some(&self.from) {
            let leader = leads.unwrap_or_else(|| "no server".to_owned());
            return Err(FaultError::Other(format!("{} does not lead, {leader} does", self.from)));
        }
        leadership.transfer_leadership(&self.from).await?;
        let next = context.await_leader(|leader| leader != self.from).await?;
        let observed = Map::from_iter([(self.from.clone(), json!({"led": true, "leader": next}))]);
        Ok(Observation { effective: next.is_some(), observed })
    }

    /// The new leader was chosen rightfully: there is nothing to take back. The observation says which server
    /// leads now.
    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        if let Some(killed) = &mut self.killed {
            return killed.heal(context).await;
        }
        let Some(leadership) = context.leadership() else { return Ok(json!({})) };
        Ok(json!({(self.from.clone()): {"leader": leadership.leader().await?}}))
    }
}
