//! `reconfigure`: operators change how a service is made up while clients work, and no server ends. The
//! slot of the locks moves to another shard of a Redis Cluster, and back when the fault is healed; Sentinels
//! forget the replicas and each other, and find them again.
//! Sources: the Redis documentation, "Redis cluster specification", section "Live reconfiguration", and "High
//! availability with Redis Sentinel", section "Removing the old master or unreachable replicas".

use crate::nemesis::{Draw, Drawing, NemesisDescription, NemesisRow};
use crate::orders::ordered::{by_order, ordered};
use crate::plan::aim::{Aim, Moment};
use crate::plan::distributions::around_ttl;
use crate::plan::roles::Role;
use fencepost_history::prose::and;
use fencepost_history::{FaultDescription, FaultEffect, Refusal};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReconfigureParameters {
    change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Change {
    Slot,
    Sentinels,
}

/// Shortest and longest time until the slot goes back, in TTLs: it moves under a holder, and under the next.
const AROUND: (f64, f64) = (0.3, 1.5);

pub(crate) const RECONFIGURE: NemesisRow<ReconfigureParameters> = NemesisRow {
    description: NemesisDescription {
        aims: &[Aim::at(Role::Leader, &[Moment::GrantedForLong, Moment::Collecting, Moment::Releasing])],
        ..by_order(
            "reconfigure",
            "moves the locks' slot to another shard of a Redis Cluster, or lets Sentinels forget what they know",
        )
    },
    draw: |Drawing { topology, random, .. }| {
        let (change, on) = match *topology.orders_of("reconfigure").first()? {
            "slot" => (Change::Slot, topology.draw_leader(random)?),
            _ => (Change::Sentinels, topology.servers.clone()),
        };
        let length = around_ttl(topology.ttl, AROUND.0, AROUND.1, random);
        Some(Draw { on, length, parameters: ReconfigureParameters { change } })
    },
    adapt_to_aim: |drawn, _, from| match drawn.parameters.change {
        Change::Slot => drawn,
        // The Sentinels among the servers are hit, and none of them leads.
        Change::Sentinels => Draw { on: from.topology.servers.clone(), ..drawn },
    },
    prepare: |on, ReconfigureParameters { change }| {
        let (order, description) = match change {
            Change::Slot => {
                let [from] = on else {
                    let sentence = "one server gives its slot away: `on` names several";
                    return Err(Refusal::at("on", sentence));
                };
                ("reconfigure:slot", slot_moved(from))
            }
            Change::Sentinels => ("reconfigure:sentinels", sentinels_reset(on)),
        };
        Ok(ordered(on, order.to_owned(), description))
    },
};

fn slot_moved(from: &str) -> FaultDescription {
    FaultDescription {
        // While it moves, a server sends clients on; afterwards, too.
        effects: vec![FaultEffect::Refuses, FaultEffect::Delays],
        keeps_memory: true,
        sentence: format!("the locks' slot moved from {from} to another shard"),
        healing: format!("the locks' slot moved back to {from}"),
        label: format!("{from} slot moved"),
        summary: "the locks' slot moved to another shard".to_owned(),
        ..FaultDescription::default()
    }
}

fn sentinels_reset(on: &[String]) -> FaultDescription {
    FaultDescription {
        // Until they have found each other again, they can agree on no failover.
        effects: vec![FaultEffect::Delays],
        keeps_memory: true,
        sentence: format!("the Sentinels among {} forgot the replicas and each other", and(on)),
        healing: "the Sentinels had found the replicas and each other again".to_owned(),
        label: "Sentinels reset".to_owned(),
        summary: "Sentinels forgot what they knew".to_owned(),
        ..FaultDescription::default()
    }
}

#[cfg(test)]
mod tests {
    use crate::registry::find;
    use serde_json::{Value, json};

    #[test]
    fn one_server_gives_its_slot_away_and_no_change_has_another_name() {
        let reconfigure = find("reconfigure").unwrap();
        let prepared = |on: &[&str], change: Value| {
            let on: Vec<String> = on.iter().map(|name| (*name).to_owned()).collect();
            let parameters = json!({"change": change}).as_object().cloned().unwrap_or_default();
            reconfigure.prepare(&on, &parameters).map(drop).map_err(|refusal| refusal.sentence)
        };
        assert_eq!(prepared(&["n1"], json!("slot")), Ok(()));
        assert!(prepared(&["n1", "n2"], json!("slot")).unwrap_err().contains("one server"));
        assert_eq!(prepared(&["n1", "n4"], json!("sentinels")), Ok(()));
        assert!(prepared(&["n1"], json!("shards")).is_err());
    }
}
