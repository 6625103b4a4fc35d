//! `thread-pause`: one thread of a client or a server stands still while the others go on: an event loop
//! that is blocked, a thread that should renew and waits for a lock, or for its processor. Unlike a pause,
//! the rest of the program works on, and may not notice. Source: Antithesis has a fault of single threads.

use crate::context::FaultContext;
use crate::fault::{Fault, FaultError, Observation};
use crate::nemesis::{Draw, Drawing, NemesisDescription, NemesisRow};
use crate::plan::aim::{Aim, Moment};
use crate::plan::distributions::around_ttl;
use crate::plan::roles::Role;
use crate::processes::pause::PAUSE;
use crate::processes::threads_tool::{ThreadLook, ThreadsCall, Which};
use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::prose::and;
use fencepost_history::{FaultDescription, FaultEffect};
use futures_util::future::try_join_all;
use rand::seq::IndexedRandom;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThreadParameters {
    thread: Which,
}

/// The holder's thread that renews, or its loop; the loop of a server.
const AIMS: &[Aim] = &[
    Aim::at(Role::Holder, &[Moment::GrantedForLong, Moment::BeforeWrite]).lasting(LENGTHS),
    Aim::at(Role::Granting, &[Moment::GrantedForLong, Moment::Collecting]).lasting(LENGTHS),
    Aim::at(Role::Waiter, &[Moment::GrantedForLong]).lasting(LENGTHS),
];

/// Shortest and longest fault, in TTLs.
const LENGTHS: (f64, f64) = (1.3, 2.5);

pub(crate) const THREAD_PAUSE: NemesisRow<ThreadParameters> = NemesisRow {
    description: NemesisDescription {
        needs: &[Capability::Signal, Capability::Ptrace],
        aims: AIMS,
        ..NemesisDescription::new(
            "thread-pause",
            "stops one thread of clients or servers for longer than the TTL, while their other threads go on",
        )
    },
    draw: |from| {
        let Draw { on, .. } = (PAUSE.draw)(from)?;
        let Drawing { topology, random, .. } = from;
        let thread = *[Which::Last, Which::Main, Which::Busiest].choose(random)?;
        let length = around_ttl(topology.ttl, LENGTHS.0, LENGTHS.1, random);
        Some(Draw { on, length, parameters: ThreadParameters { thread } })
    },
    adapt_to_aim: |drawn, _, _| drawn,
    prepare: |on, ThreadParameters { thread }| {
        Ok(Box::new(StoppedThreads { on: on.to_vec(), thread, stopped: Vec::new() }))
    },
};

struct StoppedThreads {
    on: Vec<String>,
    thread: Which,
    stopped: Vec<(String, i32, i32)>,
}

#[async_trait]
impl Fault for StoppedThreads {
    fn describe(&self, observed: &Map<String, Value>) -> FaultDescription {
        let which = match self.thread {
            Which::Main => "main thread",
            Which::Last => "latest thread",
            Which::Busiest => "busiest thread",
        };
        let targets = and(&self.on);
        // Some programs have one thread, which is all that goes on.
        let are_others = observed.is_empty() || observed.values().any(|seen| seen["others"] != 0);
        let others = if are_others { ", while the others went on" } else { ": it has no other" };
        FaultDescription {
            effects: vec![FaultEffect::Delays],
            keeps_memory: true,
            sentence: format!("the {which} of {targets} stood still{others}"),
            healing: format!("the {which} of {targets} went on"),
            label: format!("{} {which} stopped", self.on.join(" ")),
            summary: "single threads stood still".to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let mut seen = Observation::default();
        for target in &self.on {
            let pid = context.pid(target)?;
            let stop = ThreadsCall::Stop { pid, thread: self.thread };
            let look: ThreadLook = context.call(target, "threads", &stop).await?;
            // At once: what fails afterwards must not leave it stopped.
            self.stopped.push((target.clone(), pid, look.tid));
            seen.effective |= look.state == Some('t');
            seen.observed.insert(target.clone(), json!(look));
        }
        Ok(seen)
    }

    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        let freed = try_join_all(self.stopped.iter().map(|(target, pid, tid)| async move {
            let free = ThreadsCall::Free { pid: *pid, tid: *tid };
            let look: ThreadLook = context.call(target, "threads", &free).await?;
            match look.state {
                Some('t') => Err(FaultError::Other(format!("thread {tid} of {target} still stands"))),
                _ => Ok((target.clone(), json!(look))),
            }
        }));
        Ok(Value::Object(freed.await?.into_iter().collect()))
    }
}
