//! `error-replies`: servers answer writes with an error, as they do by themselves on a bad day: a replica
//! that the client takes for the primary, no memory left, replicas that are gone. The request was looked at
//! and not carried out; a client that takes any answer for a grant, or none for a release, shows it here.

use crate::aim::{Aim, Moment};
use crate::context::FaultContext;
use crate::distributions::{around_ttl, subset};
use crate::fault::{Fault, FaultError, Observation, heal_each};
use crate::nemesis::{Draw, NemesisDescription, NemesisRow};
use crate::roles::Role;
use async_trait::async_trait;
use fencepost_history::prose::and;
use fencepost_history::{FaultDescription, FaultEffect, Refusal};
use futures_util::future::try_join_all;
use rand::RngExt;
use rand::seq::IndexedRandom;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::Duration;

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
        needs: &[],
        servers_only: true,
        refuses_writes: true,
        aims: AIMS,
        ..NemesisDescription::new(
            "error-replies",
            "makes servers answer writes with an error: as a replica, without memory, or without replicas",
        )
    },
    draw: |topology, _, random| {
        let reply = (*topology.error_replies.choose(random)?).to_owned();
        let servers = &topology.servers;
        if servers.is_empty() {
            return None;
        }
        let on = subset(servers, random.random_range(servers.len().div_ceil(2)..=servers.len()), random);
        let length = around_ttl(topology.ttl, AROUND.0, AROUND.1, random);
        Some(Draw { on, length, parameters: ErrorParameters { reply } })
    },
    adapt_to_aim: |drawn, _, _, _, _| drawn,
    prepare: |on, ErrorParameters { reply }| {
        if reply.is_empty() || !reply.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return Err(Refusal::at("reply", "reply is one word in small letters, such as readonly or oom"));
        }
        Ok(Box::new(Refusing { on: on.to_vec(), reply }))
    },
};

struct Refusing {
    on: Vec<String>,
    reply: String,
}

/// How long a server is given to take the order that ends it: another fault may have stopped it.
const TRIES: u32 = 50;
const REST: Duration = Duration::from_millis(200);

impl Refusing {
    async fn end(&self, context: &FaultContext, target: &String) -> Result<Value, FaultError> {
        let replies = context.error_replies()?;
        let mut tries = 0;
        loop {
            // One that has ended starts without the setting.
            if context.running(std::slice::from_ref(target)).is_empty() {
                return Ok(json!({"gone": true}));
            }
            match replies.end(target, &self.reply).await {
                Ok(()) => return Ok(json!({"answers": replies.refusal(target).await?})),
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
impl Fault for Refusing {
    fn describe(&self, _: &Map<String, Value>) -> FaultDescription {
        let (targets, reply) = (and(&self.on), self.reply.to_uppercase());
        FaultDescription {
            effects: vec![FaultEffect::Refuses],
            keeps_memory: true,
            sentence: format!("{targets} answered each write with the error {reply}"),
            healing: format!("{targets} took writes again"),
            label: format!("{} answers {reply}", self.on.join(" ")),
            summary: "servers answered writes with an error".to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let (this, replies) = (&*self, context.error_replies()?);
        let seen = try_join_all(this.on.iter().map(|target| async move {
            replies.begin(target, &this.reply).await?;
            Ok::<_, FaultError>((target.clone(), replies.refusal(target).await?))
        }))
        .await?;
        let is_it = |answer: &Option<String>| {
            answer.as_ref().is_some_and(|answer| answer.to_lowercase().contains(&this.reply))
        };
        let effective = seen.iter().any(|(_, answer)| is_it(answer));
        let observed =
            seen.into_iter().map(|(target, answer)| (target, json!({"answers": answer}))).collect();
        Ok(Observation { observed, effective })
    }

    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        let this = &*self;
        heal_each(&this.on, |target| this.end(context, target)).await.map(Value::Object)
    }
}
