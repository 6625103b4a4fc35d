//! Scenarios in parts: which plays a part was dealt, and what `fencepost merge` makes of them.

use super::args::ScenarioArgs;
use super::play::{Ending, PlayOptions, Report, expected};
use anyhow::{Context, Result};
use fencepost_engine::BadUsage;
use fencepost_engine::scenario::{Scenario, find};
use fencepost_history::{Seed, Shard, shell_word};
use fencepost_report::parts::{
    CampaignKind, DealtRun, Durations, PartFile, PartFolder, PartWriter, Record, deal, records_before,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// What all parts have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ScenarioCampaign {
    pub scenarios: Vec<ScenarioFacts>,
    /// How often each is played.
    pub times: usize,
    /// The lock that they are played against, where it is not their own.
    pub lock: Option<String>,
    pub driver: String,
}

/// What is shown of a scenario that was not played.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ScenarioFacts {
    pub name: String,
    pub source: String,
    pub about: String,
    pub expected: String,
}

impl ScenarioCampaign {
    /// The name of the scenario of a play.
    pub fn name(&self, play: u64) -> Option<String> {
        Some(self.scenarios.get(play as usize / self.times.max(1))?.name.clone())
    }

    /// How many plays there are in all parts together.
    pub fn plays(&self) -> u64 {
        (self.scenarios.len() * self.times) as u64
    }

    /// The report of a play that is not there, and why.
    pub fn missing(&self, play: u64, seed: Seed, why: &str) -> Option<Report> {
        let facts = self.scenarios.get(play as usize / self.times.max(1))?.clone();
        let ScenarioFacts { name, source, about, expected } = facts;
        Some(Report {
            name,
            source,
            about,
            expected,
            picture: false,
            ending: Ending::Missing,
            differs: None,
            runs: Vec::new(),
            driver: self.driver.clone(),
            seed: turn_seed(seed, play as usize % self.times.max(1)),
            seconds: 0.0,
            failed: Some(why.to_owned()),
        })
    }
}

/// The seed of the play of that number, from 0 on, of each scenario.
pub fn turn_seed(seed: Seed, turn: usize) -> Seed {
    Seed(seed.0.wrapping_add(turn as u64) & ((1 << 53) - 1))
}

/// The plays of this part, and those that an earlier sitting did.
pub struct ScenarioPart {
    pub writer: PartWriter,
    /// Their numbers.
    pub dealt: BTreeSet<u64>,
    pub before: BTreeMap<u64, Report>,
    pub folder: PathBuf,
}

impl ScenarioPart {
    /// Keeps what came of a play.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn note(&self, play: u64, report: &Report) -> Result<()> {
        let took_ms = Some((report.seconds * 1e3) as u64);
        self.writer.add(&Record::new(play, is_done(report), took_ms, report)?)
    }
}

/// Begins a part, or goes on with it.
///
/// # Errors
/// Its folder belongs to another command or is in use, or cannot be written.
pub fn begin(
    args: &ScenarioArgs,
    shard: Shard,
    chosen: &[Arc<Scenario>],
    options: &PlayOptions,
    durations: &Durations,
) -> Result<ScenarioPart> {
    let facts = |scenario: &Arc<Scenario>| ScenarioFacts {
        name: scenario.name.clone(),
        source: scenario.source.clone(),
        about: scenario.about.clone(),
        expected: scenario.expected.clone(),
    };
    let campaign = ScenarioCampaign {
        scenarios: chosen.iter().map(facts).collect(),
        times: args.times,
        lock: args.lock.clone(),
        driver: args.driver.clone(),
    };
    let length = |scenario: &Arc<Scenario>| {
        let known = durations.of_ms(&scenario.name);
        known.unwrap_or_else(|| expected(scenario, options).as_millis() as u64)
    };
    let lengths: Vec<Option<u64>> =
        chosen.iter().flat_map(|scenario| std::iter::repeat_n(Some(length(scenario)), args.times)).collect();
    let deal = deal(&lengths, shard.of());
    let command = command(args, options.seed);
    let campaign_json = serde_json::to_value(&campaign)?;
    let file = PartFile::begun(CampaignKind::Scenario, command, options.seed, shard, &deal, campaign_json);
    let folder = args.results.join(format!("scenario-{}-{}-of-{}", options.seed, shard.number(), shard.of()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let before = goes_on(&folder, &file)?;
    let kept: BTreeMap<u64, Report> = before
        .iter()
        .map(|record| Ok((record.run, serde_json::from_str(record.value.get())?)))
        .collect::<Result<_>>()?;
    let dealt = deal.runs(shard.number());
    let of_run = |run: &u64| {
        let name = campaign.name(*run).unwrap_or_default();
        DealtRun {
            run: *run,
            label: format!("{name}, {} of {}", *run as usize % args.times + 1, args.times),
            name,
        }
    };
    let runs = dealt.iter().map(of_run).collect();
    let writer = PartWriter::begin(&folder, file, runs, before)?;
    Ok(ScenarioPart { writer, dealt: dealt.into_iter().collect(), before: kept, folder })
}

/// What an earlier sitting did in this folder.
fn goes_on(folder: &std::path::Path, file: &PartFile) -> Result<Vec<Record>> {
    let Ok(earlier) = PartFolder::read(folder, 0) else { return Ok(Vec::new()) };
    let refused = |why: &str| BadUsage(format!("{} {why}; use other --results", folder.display()));
    if earlier.is_running {
        return Err(refused("is a part that is still at work").into());
    }
    let known = &earlier.union.file;
    if (&known.campaign, &known.deal, &known.fencepost) != (&file.campaign, &file.deal, &file.fencepost) {
        return Err(refused("is a part of another command").into());
    }
    Ok(records_before(folder).into_values().filter(|record| record.done).collect())
}

/// Plays all of them, undivided.
fn command(args: &ScenarioArgs, seed: Seed) -> String {
    let mut words = vec![format!("{} scenario", crate::commands::repeat::program())];
    words.push(if args.all {
        "--all".to_owned()
    } else {
        args.names.iter().map(|name| shell_word(name)).collect::<Vec<_>>().join(" ")
    });
    words.extend(args.lock.iter().map(|lock| format!("--lock {}", shell_word(lock))));
    words.push(format!("--driver {} --times {} --seed {seed}", args.driver, args.times));
    words.join(" ")
}

/// Reports of parts that were merged, in the order of an undivided play. `record` gives that of a play, with the folder in which
/// the folders of its runs lie; none where it is missing.
///
/// # Errors
/// Those of `record`.
pub fn merged(
    campaign: &ScenarioCampaign,
    seed: Seed,
    record: impl Fn(u64) -> Result<Option<(Report, PathBuf)>>,
) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for play in 0..campaign.plays() {
        match record(play)? {
            Some((mut report, runs_in)) => {
                // What a built-in scenario shows is no part of what came of it.
                report.picture = find(&report.name).is_some_and(|scenario| scenario.picture);
                for run in &mut report.runs {
                    run.folder = run.folder.file_name().map_or_else(PathBuf::new, |name| runs_in.join(name));
                }
                reports.push(report);
            }
            None => reports.extend(campaign.missing(play, seed, "its part is not there, or did not finish")),
        }
    }
    Ok(reports)
}

/// Whether a play need not be done again.
pub fn is_done(report: &Report) -> bool {
    report.failed.is_none() && report.ending != Ending::Missing
}
