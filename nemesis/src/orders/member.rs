//! `member`: a member of a cluster is removed, as an operator removes a machine that is to go, and another is
//! added in its place while clients work: at the same address, with nothing on its disk, so that it gets all
//! that it knows from the others.

use crate::context::FaultContext;
use crate::fault::{Fault, FaultError, Observation};
use crate::nemesis::{Draw, Drawing, NemesisDescription, NemesisRow, NoParameters};
use crate::plan::aim::{Aim, Moment};
use crate::plan::distributions::{around_ttl, subset};
use crate::plan::roles::Role;
use crate::processes::kill::kill;
use async_trait::async_trait;
use fencepost_history::{FaultDescription, FaultEffect, Refusal};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// What the service is ordered to do; behind it, at the end, what was seen of the others at the beginning.
const ORDER: &str = "member:";

/// A removed member ends by itself, within a second or two. One that does not is killed.
const GRACE: Duration = Duration::from_secs(4);

/// Shortest and longest time without the member, in TTLs.
const AWAY: (f64, f64) = (0.2, 1.5);

pub(crate) const MEMBER: NemesisRow<NoParameters> = NemesisRow {
    description: NemesisDescription {
        kind: Some("kill"),
        takes_down: true,
        ends_targets: true,
        servers_only: true,
        by_order: true,
        aims: &[
            Aim::at(Role::Leader, &[Moment::GrantedForLong, Moment::Collecting]).lasting(AWAY),
            Aim::at(Role::Follower, &[Moment::GrantedForLong]).lasting(AWAY),
        ],
        ..NemesisDescription::new(
            "member",
            "removes a member from the cluster, and adds a new one in its place, without data",
        )
    },
    draw: |Drawing { topology, random, .. }| {
        topology.orders_of("member").first()?;
        let on = Some(subset(&topology.servers, 1, random)).filter(|on| !on.is_empty())?;
        let length = around_ttl(topology.ttl, AWAY.0, AWAY.1, random);
        Some(Draw { on, length, parameters: NoParameters {} })
    },
    adapt_to_aim: |drawn, _, _| drawn,
    prepare: |on, NoParameters {}| match on {
        [target] => Ok(Box::new(Replaced { target: target.clone(), others: None })),
        _ => Err(Refusal::at("on", "one member is removed at a time: `on` names several servers")),
    },
};

struct Replaced {
    target: String,
    /// What the service said of the other members. Some as soon as the target may have been removed.
    others: Option<Value>,
}

#[async_trait]
impl Fault for Replaced {
    fn describe(&self, _: &Map<String, Value>) -> FaultDescription {
        let target = &self.target;
        FaultDescription {
            effects: vec![
                FaultEffect::Stops,
                FaultEffect::Kills,
                FaultEffect::Forgets,
                // Until it has ended it may still answer, and late.
                FaultEffect::Delays,
            ],
            takes_down: true,
            sentence: format!("{target} was removed from the cluster"),
            healing: format!("a new member, without data, took the place of {target}"),
            label: format!("{target} removed"),
            summary: "members of the cluster were replaced".to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let (target, pid) = (self.target.clone(), context.pid(&self.target)?);
        self.others = Some(Value::Null);
        let (mut seen, effective) = context.orders()?.begin(&target, ORDER).await?;
        self.others = effective.then(|| seen["others"].clone());
        if effective {
            let node = context.node(&target)?;
            // A server of ZooKeeper stays, and votes no longer.
            if seen["stays"] == json!(true) || node.await_exit(pid, GRACE).await.is_err() {
                kill(context, &target, pid).await?;
                seen["killed"] = json!(true);
            }
            seen["gone"] = json!(node.state(pid).await?.is_none());
        }
        Ok(Observation { observed: Map::from_iter([(target, seen)]), effective })
    }

    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        let target = &self.target;
        if let Some(others) = &self.others
            && context.pid(target).is_err()
        {
            let added = context.orders()?.end(target, &format!("{ORDER}{others}")).await?;
            let options = added["start_with"].as_object().cloned().unwrap_or_default();
            context.restart_with(target, &options).await?;
        }
        Ok(json!({(target.clone()): {"pid": context.pid(target)?}}))
    }
}

#[cfg(test)]
mod tests {
    use crate::registry::find;
    use serde_json::Map;

    #[test]
    fn one_member_is_removed_at_a_time() {
        let member = find("member").unwrap();
        let prepared = |on: &[&str]| {
            let on: Vec<String> = on.iter().map(|name| (*name).to_owned()).collect();
            member.prepare(&on, &Map::new()).map(drop).map_err(|refusal| refusal.sentence)
        };
        assert_eq!(prepared(&["n2"]), Ok(()));
        assert!(prepared(&["n1", "n2"]).unwrap_err().contains("one member"));
    }
}
