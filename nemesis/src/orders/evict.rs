//! `evict`: keys of others fill a server that may evict, until it drops keys of the lock. Servers are often
//! shared with a cache, and configured like one. Source: the Redis documentation, "Key eviction".

use crate::nemesis::{Draw, Drawing, NemesisDescription, NemesisRow};
use crate::orders::ordered::{by_order, half_or_more, ordered};
use crate::plan::aim::{Aim, Moment};
use crate::plan::distributions::around_ttl;
use crate::plan::roles::Role;
use fencepost_history::prose::and;
use fencepost_history::{FaultDescription, FaultEffect, Refusal};
use rand::seq::IndexedRandom;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EvictParameters {
    /// Which keys the server drops first (`allkeys-lru`), as its setting `maxmemory-policy` calls it.
    policy: String,
}

const AIMS: &[Aim] = &[Aim::at(Role::Granting, &[Moment::GrantedForLong])];

/// Shortest and longest fault, in TTLs: memory stays full for so long.
const AROUND: (f64, f64) = (0.1, 0.5);

pub(crate) const EVICT: NemesisRow<EvictParameters> = NemesisRow {
    description: NemesisDescription {
        awaits_holder: true,
        aims: AIMS,
        ..by_order(
            "evict",
            "fills the memory of servers with keys of others, so that keys of the lock are evicted",
        )
    },
    draw: |Drawing { topology, random, .. }| {
        let policy = (*topology.orders_of("evict").choose(random)?).to_owned();
        let on = half_or_more(topology, random)?;
        let length = around_ttl(topology.ttl, AROUND.0, AROUND.1, random);
        Some(Draw { on, length, parameters: EvictParameters { policy } })
    },
    adapt_to_aim: |drawn, _, _| drawn,
    prepare: |on, EvictParameters { policy }| {
        let (range, rule) = policy.split_once('-').unwrap_or_default();
        if !["allkeys", "volatile"].contains(&range) || !["lru", "lfu", "random", "ttl"].contains(&rule) {
            let sentence =
                "policy is a `maxmemory-policy` of Redis that evicts, such as allkeys-lru or volatile-ttl";
            return Err(Refusal::at("policy", sentence));
        }
        let targets = and(on);
        let description = FaultDescription {
            // Where it has nothing to evict, it refuses.
            effects: vec![FaultEffect::Forgets, FaultEffect::Refuses],
            sentence: format!(
                "the memory of {targets} was filled with keys of others, and keys of the lock were evicted ({policy})"
            ),
            healing: format!("{targets} had room again"),
            label: format!("{} evicts", on.join(" ")),
            summary: "servers evicted keys".to_owned(),
            ..FaultDescription::default()
        };
        Ok(ordered(on, format!("evict:{policy}"), description))
    },
};
