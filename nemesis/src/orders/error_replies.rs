//! `error-replies`: servers answer writes with an error, as they do by themselves on a bad day: a replica
//! that the client takes for the primary, no memory left, replicas that are gone. The request was looked at
//! and not carried out; a client that takes any answer for a grant, or none for a release, shows it here.

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
pub(crate) struct ErrorParameters {
    /// The word that the error begins with, in small letters (`readonly`).
    reply: String,
}

/// Who renews and releases, and who acquires. All that servers have is of them: a majority of them, mostly.
const AIMS: &[Aim] = &[
    Aim::at(Role::Granting, &[Moment::GrantedForLong]),
    Aim::at(Role::Leader, &[Moment::Collecting, Moment::Releasing]),
];

/// Shortest and longest fault, in TTLs: a renewal fails once or twice, and an acquire in the meantime.
const AROUND: (f64, f64) = (0.3, 1.5);

pub(crate) const ERROR_REPLIES: NemesisRow<ErrorParameters> = NemesisRow {
    description: NemesisDescription {
        aims: AIMS,
        ..by_order(
            "error-replies",
            "makes servers answer writes with an error: as a replica, without memory, or without replicas",
        )
    },
    draw: |Drawing { topology, random, .. }| {
        let reply = (*topology.orders_of("error-replies").choose(random)?).to_owned();
        let on = half_or_more(topology, random)?;
        let length = around_ttl(topology.ttl, AROUND.0, AROUND.1, random);
        Some(Draw { on, length, parameters: ErrorParameters { reply } })
    },
    adapt_to_aim: |drawn, _, _| drawn,
    prepare: |on, ErrorParameters { reply }| {
        if reply.is_empty() || !reply.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return Err(Refusal::at("reply", "reply is one word in small letters, such as readonly or oom"));
        }
        let (targets, error) = (and(on), reply.to_uppercase());
        let description = FaultDescription {
            effects: vec![FaultEffect::Refuses],
            keeps_memory: true,
            sentence: format!("{targets} answered each write with the error {error}"),
            healing: format!("{targets} took writes again"),
            label: format!("{} answers {error}", on.join(" ")),
            summary: "servers answered writes with an error".to_owned(),
            ..FaultDescription::default()
        };
        Ok(ordered(on, format!("error-replies:{reply}"), description))
    },
};
