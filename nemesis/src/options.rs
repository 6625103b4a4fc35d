//! Options of some nemeses: a field here is an option of the command line, `fencepost.toml`, `run.toml` and
//! scenarios. A nemesis names those that it uses in [`crate::NemesisDescription::options`].

use crate::clocks::motion::Clock;
use crate::packets::groups::parse_partition;
use crate::plan::topology::Topology;
use crate::tools::disk::Torn;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, Args, Command};
use fencepost_cluster::ClockMechanism;
use fencepost_history::Refusal;
use fencepost_history::{TimeSpan, changed_fields, fields};
use serde::de::{DeserializeOwned, IntoDeserializer, value::StrDeserializer};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;

/// What is set here has no effect in a run without a nemesis that uses it.
#[derive(Clone, Debug, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct NemesisOptions {
    /// Clocks that faults move: the time of day, the monotonic clock that time-outs use, or both.
    #[arg(long, default_value = "wall", value_parser = one_of::<Clock>(&["wall", "monotonic", "both"]))]
    pub clock: Clock,
    /// Size of clock jumps [default: drawn, from 0.5 to 300 TTLs].
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_amplitude: Option<TimeSpan>,
    /// Rate of drifting clocks, in millionths faster or slower [default: drawn, from 100000 to 50000000].
    #[arg(long, value_name = "PPM", value_parser = drift)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_drift_ppm: Option<NonZeroU32>,
    /// How servers' clocks are moved: vdso patches the program, faketime preloads libfaketime [default: what
    /// suits it].
    #[arg(long, value_parser = one_of::<ClockMechanism>(&["vdso", "faketime"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_mechanism: Option<ClockMechanism>,
    /// Time before a server that was killed or lost power starts again [default: drawn].
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_after: Option<TimeSpan>,
    /// What a power loss leaves of data without fsync: a `prefix` of each file, or some `sectors` [default:
    /// nothing].
    #[arg(long, value_parser = one_of::<Torn>(&["prefix", "sectors"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torn_writes: Option<Torn>,
    /// Time before a power loss in which fsync reports success and keeps nothing [default: fsyncs are
    /// honest].
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lying_fsync: Option<TimeSpan>,
    /// Groups that partitions separate: `c1|n4,n5` both ways, `c1>n4` and `c1<n4` one way [default: drawn].
    #[arg(long, value_name = "GROUPS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Command that injects a fault of your own (the nemesis `command`), with `{node}` and `{address}` in it.
    #[arg(long, value_name = "COMMAND")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault_command: Option<String>,
    /// Command that heals the fault of --fault-command.
    #[arg(long, value_name = "COMMAND")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heal_command: Option<String>,
    /// Command that exits with 0 while the effect of the fault is there, and with another code otherwise.
    #[arg(long, value_name = "COMMAND")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observe_command: Option<String>,
    /// Where the three commands run: on this machine, or as root in the node that is the target.
    #[arg(long, default_value = "controller", value_parser = one_of::<CommandPlace>(&["controller", "node"]))]
    pub command_place: CommandPlace,
}

/// Where the commands of a fault run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommandPlace {
    /// On the machine of the run.
    #[default]
    Controller,
    /// In the node that is the target, as root.
    Node,
}

impl NemesisOptions {
    /// The names of the options that differ from their defaults.
    pub fn changed(&self) -> Vec<String> {
        let changed = changed_fields(self);
        NemesisOptions::names().into_iter().filter(|name| changed.contains_key(name)).collect()
    }

    /// Sets the option of this name to its default.
    pub fn leave_out(&mut self, name: &str) {
        let mut kept = fields(self);
        kept.remove(name);
        *self = serde_json::from_value(kept.into()).expect("every option has a default");
    }

    /// The names of all options, in the order of the help.
    pub fn names() -> Vec<String> {
        let command = NemesisOptions::augment_args(Command::new("options"));
        command.get_arguments().filter_map(Arg::get_long).map(str::to_owned).collect()
    }

    /// Whether it only says how faults are drawn: it has no effect on a written plan.
    pub fn only_draws(name: &str) -> bool {
        name != "clock-mechanism" && NemesisOptions::names().iter().any(|known| known == name)
    }

    /// The lengths among them, and how long they may be.
    pub fn lengths(&self) -> [(&'static str, Option<TimeSpan>, RangeInclusive<TimeSpan>); 3] {
        const DAY: u64 = 24 * 3600;
        let up_to = |days: u64| TimeSpan::default()..=TimeSpan::from_secs(days * DAY);
        [
            ("restart-after", self.restart_after, up_to(7)),
            ("lying-fsync", self.lying_fsync, up_to(1)),
            ("clock-amplitude", self.clock_amplitude, up_to(100 * 365)),
        ]
    }

    /// Refuses what the nodes of a run do not allow. Errors: the option, and why not.
    pub fn check(&self, topology: &Topology) -> Result<(), Refusal> {
        let commands = [&self.fault_command, &self.heal_command, &self.observe_command];
        if commands.iter().any(|command| command.is_some())
            && !commands.iter().all(|command| command.is_some())
        {
            let sentence = "a fault of your own takes --fault-command, --heal-command and --observe-command: one without \
                            an observed effect would not count";
            return Err(Refusal::at("fault-command", sentence));
        }
        let partition = self.partition.as_deref().map(|text| parse_partition(text, topology)).transpose();
        partition.map(drop).map_err(|refusal| Refusal::at("partition", format!("--partition: {refusal}")))
    }
}

/// Reads one of these names as the value of an enum, by the name that it has in files.
fn one_of<T>(names: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| {
        let name: StrDeserializer<serde::de::value::Error> = name.as_str().into_deserializer();
        T::deserialize(name)
    })
}

/// A rate that a clock can have: it must not stop, nor run backwards.
fn drift(text: &str) -> Result<NonZeroU32, String> {
    let ppm = text.parse::<NonZeroU32>().ok().filter(|ppm| ppm.get() <= 99_000_000);
    ppm.ok_or_else(|| format!("invalid drift \"{text}\": expected millionths from 1 to 99000000"))
}
