//! What a play of scenarios consists of: its plays, by their numbers, and which part plays which.

use super::play::{OnNarration, PlayOptions, check, expected, play, specs};
use super::report::{Ending, Report};
use super::table;
use crate::context::CampaignContext;
use crate::lines::ProgressLine;
use crate::parts::{CampaignKind, Durations, PartFile, PartFolder, PartWriter, RunKey, Sources, assign};
use crate::repeat::Repeat;
use crate::sitting::{Campaign, Count, PlannedRun, Sitting};
use anyhow::{Context, Error, Result};
use fencepost_engine::RunSpec;
use fencepost_engine::scenario::{Scenario, find};
use fencepost_history::mistake::MistakeInFile;
use fencepost_history::{Seed, Shard, shell_word};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What all parts have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ScenarioCampaign {
    pub scenarios: Vec<ScenarioFacts>,
    pub times: usize,
    /// The lock that they are played against, where it is not their own.
    pub lock: Option<String>,
    pub driver: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ScenarioFacts {
    pub name: String,
    pub source: String,
    pub about: String,
    pub expected: String,
}

impl ScenarioCampaign {
    pub fn name(&self, play: u64) -> Option<String> {
        Some(self.scenarios.get(play as usize / self.times.max(1))?.name.clone())
    }

    /// How many plays there are in all parts together.
    pub fn plays(&self) -> u64 {
        (self.scenarios.len() * self.times) as u64
    }

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

#[derive(Clone, Debug)]
pub struct ScenarioRequest {
    pub scenarios: Vec<Arc<Scenario>>,
    pub names: String,
    pub times: usize,
    /// The part of the plays that is made here. None: all of them.
    pub shard: Option<Shard>,
    pub options: PlayOptions,
}

#[derive(Clone, Debug)]
pub struct ScenarioTurn {
    scenario: Arc<Scenario>,
    options: PlayOptions,
}

impl ScenarioRequest {
    /// Checks every run of every scenario, before the first begins. Errors: the first mistake, with its line.
    pub fn check(&self) -> Result<(), MistakeInFile> {
        self.scenarios.iter().try_for_each(|scenario| check(scenario, &self.options))
    }

    /// How many plays there are in all parts together.
    pub fn plays(&self) -> usize {
        self.scenarios.len() * self.times
    }

    fn campaign(&self) -> ScenarioCampaign {
        let facts = |scenario: &Arc<Scenario>| ScenarioFacts {
            name: scenario.name.clone(),
            source: scenario.source.clone(),
            about: scenario.about.clone(),
            expected: scenario.expected.clone(),
        };
        ScenarioCampaign {
            scenarios: self.scenarios.iter().map(facts).collect(),
            times: self.times,
            lock: self.options.lock.clone(),
            driver: self.options.driver.clone(),
        }
    }

    fn run(&self, number: u64) -> PlannedRun<ScenarioTurn> {
        let (place, turn) = (number as usize / self.times, number as usize % self.times);
        let scenario = self.scenarios[place].clone();
        let name = scenario.name.clone();
        PlannedRun {
            key: RunKey { number, label: format!("{name}, {} of {}", turn + 1, self.times), name },
            // A script ends long before the time that its run may take.
            expected: None,
            undisturbed: scenario.runs.iter().any(|run| run.undisturbed),
            run: ScenarioTurn {
                scenario,
                options: PlayOptions { seed: turn_seed(self.options.seed, turn), ..self.options.clone() },
            },
        }
    }

    fn command(&self, repeat: &Repeat) -> String {
        let PlayOptions { lock, driver, seed, .. } = &self.options;
        let mut words = vec![format!("{} scenario {}", repeat.program, self.names)];
        words.extend(lock.iter().map(|lock| format!("--lock {}", shell_word(lock))));
        words.push(format!("--driver {driver} --times {} --seed {seed}", self.times));
        words.join(" ")
    }

    /// Begins or resumes a play of them all, or of a part; `durations` names a file with the lengths of
    /// earlier runs. Gives the folder, if any. Errors: the folder is another command's, or in use.
    pub fn begin(
        &self,
        durations: Option<&Path>,
        context: CampaignContext,
        shown: Shown,
    ) -> Result<(Sitting<ScenarioPlay>, Option<PathBuf>)> {
        let Some(shard) = self.shard else {
            let runs = (0..self.plays() as u64).map(|number| self.run(number)).collect();
            return Ok((Sitting::new(ScenarioPlay { context, shown }, runs, BTreeMap::new(), None), None));
        };
        let durations = Durations::read_if_named(durations)?;
        let length = |scenario: &Arc<Scenario>| {
            let known = durations.of_ms(&scenario.name);
            Some(known.unwrap_or_else(|| expected(scenario, &self.options).as_millis() as u64))
        };
        let lengths =
            self.scenarios.iter().flat_map(|scenario| std::iter::repeat_n(length(scenario), self.times));
        let assignment = assign(&lengths.collect::<Vec<_>>(), shard.of());
        let seed = self.options.seed;
        let common = serde_json::to_value(self.campaign())?;
        let command = self.command(&context.repeat);
        let file = PartFile::begun(CampaignKind::Scenario, command, seed, shard, &assignment, common);
        let folder = context.results.join(format!("scenario-{seed}-{}", shard.in_file_names()));
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let mut before = PartFolder::records_of_same(&folder, &file)?;
        before.retain(|record| record.done);
        let outcomes =
            before.iter().map(|record| Ok((record.run, serde_json::from_str(record.value.get())?)));
        let outcomes: BTreeMap<u64, Report> = outcomes.collect::<Result<_>>()?;
        let runs = assignment.runs(shard.number()).into_iter().map(|number| self.run(number));
        let runs: Vec<PlannedRun<ScenarioTurn>> = runs.collect();
        let part = PartWriter::begin(&folder, file, runs.iter().map(|run| &run.key), before)?;
        let sitting = Sitting::new(ScenarioPlay { context, shown }, runs, outcomes, Some(part));
        Ok((sitting, Some(folder)))
    }
}

/// What is shown of scenarios while they are played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Nothing,
    /// A line for each that has ended.
    Endings,
    /// Of the only one what happens, as it happens.
    Narration,
}

pub struct ScenarioPlay {
    context: CampaignContext,
    shown: Shown,
}

impl Campaign for ScenarioPlay {
    type Run = ScenarioTurn;
    type Outcome = Report;

    /// A failure, and so an interruption, is part of the report.
    async fn play(&self, planned: &PlannedRun<ScenarioTurn>) -> Option<Report> {
        let ScenarioTurn { scenario, options } = &planned.run;
        let lines = self.context.lines.clone();
        let on_event: OnNarration = match self.shown {
            Shown::Narration => {
                lines.say(&table::opening(scenario, options));
                Arc::new(move |line: &str| lines.say(line))
            }
            Shown::Nothing | Shown::Endings => Arc::new(|_: &str| ()),
        };
        Some(play(scenario, options, &self.context, &on_event).await)
    }

    fn is_done(report: &Report) -> bool {
        report.is_done()
    }

    fn line(&self, _: &RunKey, report: &Report, _: &Count) -> Option<String> {
        (self.shown == Shown::Endings).then(|| table::line(report))
    }
}

impl Sitting<ScenarioPlay> {
    /// Plays what is left. Gives why outcomes could not be recorded.
    pub async fn play_scenarios(&mut self, jobs: usize, progress: &ProgressLine) -> Vec<Error> {
        let context = self.campaign.context.clone();
        // One for each scenario: no image is made while others are played.
        let mut scenarios: BTreeMap<&str, &ScenarioTurn> = BTreeMap::new();
        for planned in self.left() {
            scenarios.insert(&planned.key.name, &planned.run);
        }
        if self.runs.len() > 1 {
            let all = scenarios.values().flat_map(|turn| specs(&turn.scenario, &turn.options));
            let all: Vec<RunSpec> = all.filter_map(Result::ok).collect();
            context.player.prepare(&all.iter().collect::<Vec<_>>(), &context.stop).await;
        }
        let unrecorded = self.play(jobs, &context, progress).await;
        unrecorded.into_iter().map(|(_, error)| error).collect()
    }
}

/// The reports of all plays, from their parts, in the order of an undivided play. Errors: unreadable parts.
pub fn merge(sources: &Sources) -> Result<(ScenarioCampaign, Vec<Report>)> {
    let campaign: ScenarioCampaign = sources.campaign()?;
    let mut reports = Vec::new();
    for play in 0..campaign.plays() {
        let Some(mut report) = sources.outcome::<Report>(play)? else {
            let why = "its part is not there, or did not finish";
            reports.extend(campaign.missing(play, sources.merged.file.seed, why));
            continue;
        };
        // What a built-in scenario shows is no part of what came of it.
        report.picture = find(&report.name).is_some_and(|scenario| scenario.picture);
        let runs_in = sources.runs_in(play);
        for run in &mut report.runs {
            run.folder = run.folder.file_name().map_or_else(PathBuf::new, |name| runs_in.join(name));
        }
        reports.push(report);
    }
    Ok((campaign, reports))
}
