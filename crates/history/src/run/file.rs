use super::time::{date, timestamp};
use crate::{LockFacts, Seed, TimeSpan};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// `run.toml`: the settings of a run, what it ran on, and the command that repeats it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunFile {
    pub fencepost: String,
    pub command: String,
    /// Other options than lock, guard, nemesis, seed, driver and length, as on the command line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub settings: String,
    /// Seconds since 1970-01-01 UTC.
    pub started: u64,
    /// The driver that ran: `docker` or `local`.
    pub driver: String,
    /// The driver's engine, as it names itself (`Podman 5.4.2, rootless`); empty where there was none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub engine: String,
    #[serde(default)]
    pub servers: Vec<String>,
    /// None in runs of before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<LockFacts>,
    pub spec: RunSettings,
}

/// The whole specification of a run. Reports need a few typed fields; all others are kept as they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunSettings {
    /// The scenario and the number of its run, where it is one: `redis-clock-jump-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    pub lock: String,
    pub workload: String,
    #[serde(default)]
    pub nemesis: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nemesis_file: Option<PathBuf>,
    /// As requested: `auto`, `docker` or `local`.
    pub driver: String,
    pub guard: String,
    pub seed: Seed,
    pub ttl: TimeSpan,
    #[serde(flatten)]
    pub rest: toml::Table,
}

/// The part of `run.toml` that a list of runs shows; it is read much sooner than the whole.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RunHead {
    pub started: u64,
    pub spec: SettingsHead,
}

/// The settings that a list of runs shows.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SettingsHead {
    #[serde(default)]
    scenario: Option<String>,
    pub lock: String,
    pub workload: String,
    #[serde(default)]
    nemesis: Vec<String>,
    #[serde(default)]
    nemesis_file: Option<PathBuf>,
    pub guard: String,
}

impl SettingsHead {
    pub fn nemesis_name(&self) -> String {
        nemesis_name(self.scenario.is_some(), self.nemesis_file.is_some(), &self.nemesis)
    }
}

fn nemesis_name(is_scenario: bool, from_file: bool, nemeses: &[String]) -> String {
    match nemeses {
        _ if is_scenario => "scenario".to_owned(),
        _ if from_file => "plan".to_owned(),
        [] => "none".to_owned(),
        names => names.join("+"),
    }
}

impl RunFile {
    /// When the run started: `2026-02-14 09:30:15 UTC`.
    pub fn date(&self) -> String {
        date(self.started)
    }
}

impl RunSettings {
    /// The settings of a run from any type with these fields. An error where one is missing or mistyped.
    pub fn of(spec: &impl Serialize) -> Result<RunSettings, toml::de::Error> {
        let table = toml::Table::try_from(spec).map_err(serde::de::Error::custom)?;
        table.try_into()
    }

    /// The nemeses in one word: `none`, `clock-jump+pause`, `plan`, `scenario`.
    pub fn nemesis_name(&self) -> String {
        nemesis_name(self.scenario.is_some(), self.nemesis_file.is_some(), &self.nemesis)
    }

    /// The lock's name, or the last part of its path: `redis-py@with-statement`.
    fn short_lock(&self) -> String {
        let name = Path::new(&self.lock).file_name().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| "lock".to_owned())
    }

    /// `<lock>-<workload>-<nemesis>-<time>-<seed>` for a run that starts at `started` (seconds since 1970).
    pub(super) fn folder_name(&self, started: u64) -> String {
        let (time, seed) = (timestamp(started), self.seed);
        match &self.scenario {
            Some(scenario) => format!("{scenario}-{time}-{seed}"),
            None => {
                let lock = self.short_lock();
                format!("{lock}-{}-{}-{time}-{seed}", self.workload, self.nemesis_name())
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const RUN: &str = r#"
fencepost = "0.1.0"
command = "fencepost test --seed 12"
settings = "--ttl 3s"
started = 1795302050
driver = "local"
servers = ["redis-server 7.0.15 on n1"]

[spec]
lock = "redlock"
workload = "increment"
nemesis = ["clock-jump", "pause"]
driver = "auto"
guard = "none"
seed = 12
ttl = "3s"
rate = 0.0
clients = 5
acquire = "set-nx-px"
"#;

    pub(in super::super) fn run_file() -> RunFile {
        toml::from_str(RUN).unwrap()
    }

    #[test]
    fn settings_that_no_report_knows_are_kept() {
        let run = run_file();
        assert_eq!(run.spec.nemesis_name(), "clock-jump+pause");
        assert_eq!(run.spec.rest["acquire"].as_str(), Some("set-nx-px"));
        let again: RunFile = toml::from_str(&toml::to_string(&run).unwrap()).unwrap();
        assert_eq!(again, run);
        assert_eq!(RunSettings::of(&run.spec).unwrap(), run.spec);
    }

    #[test]
    fn the_head_of_a_file_says_the_same_as_the_whole() {
        for (other, nemesis) in
            [("guard = \"none\"", "clock-jump+pause"), ("guard = \"none\"\nscenario = \"a-1\"", "scenario")]
        {
            let text = RUN.replace("guard = \"none\"", other);
            let (whole, head): (RunFile, RunHead) =
                (toml::from_str(&text).unwrap(), toml::from_str(&text).unwrap());
            let of = &whole.spec;
            assert_eq!((head.started, &head.spec.lock), (whole.started, &of.lock));
            assert_eq!((&head.spec.workload, &head.spec.guard), (&of.workload, &of.guard));
            assert_eq!(
                (head.spec.nemesis_name(), of.nemesis_name()),
                (nemesis.to_owned(), nemesis.to_owned())
            );
        }
    }

    #[test]
    fn a_folder_is_named_by_what_ran_or_by_its_scenario() {
        let mut settings = run_file().spec;
        assert_eq!(
            settings.folder_name(1_771_061_415),
            "redlock-increment-clock-jump+pause-20260214T093015Z-12"
        );
        settings.lock = "adapters/redis-py@with".to_owned();
        assert!(settings.folder_name(0).starts_with("redis-py@with-increment-"));
        settings.scenario = Some("redis-clock-jump-1".to_owned());
        assert_eq!(settings.folder_name(1_771_061_415), "redis-clock-jump-1-20260214T093015Z-12");
        assert_eq!(settings.nemesis_name(), "scenario");
    }
}
