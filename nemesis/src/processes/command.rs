//! `command`: a fault of one's own. Three commands inject, heal and observe it, on this machine or in the
//! target. What it does is not known, so it may explain all but a server that was certainly away.

use crate::context::FaultContext;
use crate::fault::{Fault, FaultError, Observation, heal_each, of_each};
use crate::nemesis::{Draw, Drawing, NemesisDescription, NemesisRow};
use crate::options::CommandPlace;
use crate::plan::aim::{Aim, Moment};
use crate::plan::distributions::{around_ttl, subset};
use crate::plan::roles::Role;
use async_trait::async_trait;
use fencepost_cluster::{COMMAND_TIME, UserCommand};
use fencepost_history::prose::and;
use fencepost_history::{FaultDescription, FaultEffect, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// How long an effect may take to show after the command that injects it, or to end after the one that heals.
const EFFECT: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(50);

/// How long a command that failed to heal is left alone before it is called again.
const AGAIN: Duration = Duration::from_secs(4);

/// Shortest and longest fault, in TTLs.
const AROUND: (f64, f64) = (0.5, 2.0);

const AIMS: &[Aim] = &[
    Aim::at(Role::Granting, &[Moment::GrantedForLong, Moment::Collecting]),
    Aim::at(Role::Leader, &[Moment::GrantedForLong]),
];

/// Commands, in each of which `{node}` stands for the name of the target, and `{address}` for its address.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandParameters {
    inject: String,
    heal: String,
    /// Ends with 0 where the effect is there, and with another code where it is not.
    observe: String,
    #[serde(default)]
    place: CommandPlace,
}

pub(crate) const COMMAND: NemesisRow<CommandParameters> = NemesisRow {
    description: NemesisDescription {
        needs: &[],
        options: &["fault-command", "heal-command", "observe-command", "command-place"],
        aims: AIMS,
        ..NemesisDescription::new(
            "command",
            "a fault of your own: a command injects it, another heals it, and a third says whether it is in force",
        )
    },
    draw: |Drawing { topology, settings, random }| {
        let options = &settings.options;
        let parameters = CommandParameters {
            inject: options.fault_command.clone()?,
            heal: options.heal_command.clone()?,
            observe: options.observe_command.clone()?,
            place: options.command_place,
        };
        let nodes = if topology.servers.is_empty() { &topology.clients } else { &topology.servers };
        let length = around_ttl(topology.ttl, AROUND.0, AROUND.1, random);
        Some(Draw { on: subset(nodes, 1, random), length, parameters })
    },
    adapt_to_aim: |drawn, _, _| drawn,
    prepare: |on, parameters| {
        let CommandParameters { inject, heal, observe, .. } = &parameters;
        let words = |key: &'static str, command: &str| match shlex::split(command) {
            Some(words) if !words.is_empty() => Ok(words),
            _ => {
                let sentence = format!("`{command}` is no command: a quote is not closed, or it is empty");
                Err(Refusal::at(key, sentence))
            }
        };
        Ok(Box::new(OwnFault {
            on: on.to_vec(),
            inject: words("inject", inject)?,
            heal: words("heal", heal)?,
            observe: words("observe", observe)?,
            place: parameters.place,
        }))
    },
};

struct OwnFault {
    on: Vec<String>,
    inject: Vec<String>,
    heal: Vec<String>,
    observe: Vec<String>,
    place: CommandPlace,
}

impl OwnFault {
    /// Runs a command for this target: whether it ended with 0, and the last that it said.
    async fn run(
        &self,
        words: &[String],
        target: &str,
        context: &FaultContext,
    ) -> Result<(bool, String), FaultError> {
        let node = context.node(target)?;
        let address = node.address().to_string();
        let fill = |word: &String| word.replace("{node}", target).replace("{address}", &address);
        let words: Vec<String> = words.iter().map(fill).collect();
        Ok(match self.place {
            CommandPlace::Controller => {
                let (status, last) = UserCommand { called: "the command", words }.run().await?;
                (status.success(), last)
            }
            CommandPlace::Node => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let output = node.exec(&words, COMMAND_TIME).await?;
                let last = output.stderr.trim().lines().last().unwrap_or("it printed no error").to_owned();
                (output.code == Some(0), last)
            }
        })
    }

    async fn carry_out(
        &self,
        words: &[String],
        target: &str,
        context: &FaultContext,
    ) -> Result<(), FaultError> {
        match self.run(words, target, context).await? {
            (true, _) => Ok(()),
            (false, last) => Err(FaultError::Other(format!(
                "the command `{}` failed on {target}: {last}",
                words.join(" ")
            ))),
        }
    }

    /// Looks until the effect is there, or is not, as `wanted` says. Gives whether it came to that.
    async fn is_seen(&self, wanted: bool, target: &str, context: &FaultContext) -> Result<bool, FaultError> {
        let begun = Instant::now();
        while self.run(&self.observe, target, context).await?.0 != wanted {
            if begun.elapsed() > EFFECT {
                return Ok(false);
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(true)
    }

    async fn begin(&self, target: &str, context: &FaultContext) -> Result<(Value, bool), FaultError> {
        let (before, _) = self.run(&self.observe, target, context).await?;
        self.carry_out(&self.inject, target, context).await?;
        let seen = self.is_seen(true, target, context).await?;
        Ok((json!({"seen_before": before, "seen": seen}), seen && !before))
    }

    async fn end(&self, target: &String, context: &FaultContext) -> Result<Value, FaultError> {
        if let Err(error) = self.carry_out(&self.heal, target, context).await {
            // It is called again; what fails at once would be called a hundred times.
            tokio::time::sleep(AGAIN).await;
            return Err(error);
        }
        match self.is_seen(false, target, context).await? {
            true => Ok(json!({"seen": false})),
            false => {
                let heal = self.heal.join(" ");
                let sentence = format!("the effect of a command is still seen on {target} after `{heal}`");
                Err(FaultError::Other(sentence))
            }
        }
    }
}

#[async_trait]
impl Fault for OwnFault {
    fn describe(&self, _: &Map<String, Value>) -> FaultDescription {
        use FaultEffect::{Delays, Duplicates, Forgets, Kills, MovesClocks, Refuses};
        let (targets, inject) = (and(&self.on), self.inject.join(" "));
        FaultDescription {
            effects: vec![Kills, Forgets, MovesClocks, Delays, Duplicates, Refuses],
            sentence: format!("`{inject}` was carried out for {targets}"),
            healing: format!("`{}` was carried out for {targets}", self.heal.join(" ")),
            label: format!("{} command", self.on.join(" ")),
            summary: "commands were carried out".to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let this = &*self;
        Ok(of_each(&this.on, |target| this.begin(target, context)).await?.into_iter().collect())
    }

    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        let this = &*self;
        heal_each(&this.on, |target| this.end(target, context)).await
    }
}
