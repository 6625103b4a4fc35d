//! `failover`: the service is asked to let another server lead, as an operator or a rolling upgrade does it.
//! Where no server leads, a drawn server is killed and started again, which is the same for clients.

use crate::context::FaultContext;
use crate::fault::{Fault, FaultError, Observation};
use crate::nemesis::{NemesisRow, NoParameters};
use crate::processes::kill::{Killed, LEADER_KILL, of_leader};
use async_trait::async_trait;
use fencepost_history::{FaultDescription, FaultEffect, ObservedTarget, Refusal};
use nix::sys::signal::Signal;
use serde_json::{Map, Value, json};

pub(crate) const FAILOVER: NemesisRow<NoParameters> = NemesisRow {
    description: of_leader(
        "failover",
        "lets the service move its leadership to another server; without a leader (Redlock), kills one drawn server",
    ),
    draw: |from| match from.topology.has_leader && from.topology.servers.len() < 2 {
        true => None,
        false => (LEADER_KILL.draw)(from),
    },
    prepare: |on, NoParameters {}| match on {
        [from] => Ok(Box::new(LeadershipTransfer { from: from.clone(), killed: None })),
        _ => Err(Refusal::at("on", "a failover has one server to lead away from: `on` names several")),
    },
    ..LEADER_KILL
};

struct LeadershipTransfer {
    from: String,
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
        // A new follower may replace what it knows by the new leader's state: it need not keep its memory.
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
            let killed = self.killed.insert(Killed::new(std::slice::from_ref(&self.from), Signal::SIGKILL));
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

    /// A new leader is nothing to take back. The observation says which server leads now.
    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        if let Some(killed) = &mut self.killed {
            return killed.heal(context).await;
        }
        let Some(leadership) = context.leadership() else { return Ok(json!({})) };
        Ok(json!({(self.from.clone()): {"leader": leadership.leader().await?}}))
    }
}
