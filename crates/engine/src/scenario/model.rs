//! A scenario and its runs, as they were read from a file.

use super::expect::Expectation;
use super::run_options::PlacedOptions;
use crate::run::script_player::DirectedScript;
use crate::settings::names::{BadUsage, unknown};
use crate::settings::options::RunOptions;
use crate::settings::shaping::Faults;
use crate::settings::validation::RunSpec;
use fencepost_history::mistake::{Mistake, MistakeInFile};
use fencepost_nemesis::{FaultEntry, Plan, Refusal, Topology, Trigger};
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    /// Where the file lies; a built-in scenario's, in the repository.
    pub file: String,
    pub about: String,
    /// Who claims it, and where; may be empty.
    pub source: String,
    pub expected: String,
    /// Why reality differs from the source, where it does: the runs then expect reality.
    pub differs: Option<String>,
    /// Whether a page about it shows the timeline of its violation.
    pub picture: bool,
    /// One after the other. A scenario that compares has several: without a guard and with one, for instance.
    pub runs: Vec<ScenarioRun>,
    pub(super) text: String,
}

impl Scenario {
    /// The file itself.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn error(&self, mistake: Mistake) -> MistakeInFile {
        mistake.in_file(&self.file, &self.text)
    }
}

#[derive(Clone, Debug)]
pub struct ScenarioRun {
    /// What is special about this run: `without a guard`. Empty where the scenario has one run only.
    pub title: String,
    /// What the clients do; none: they follow the workload by themselves.
    pub script: Option<DirectedScript>,
    pub expectations: Vec<Expectation>,
    /// No other scenario is played meanwhile.
    pub undisturbed: bool,
    pub(super) options: PlacedOptions,
    pub(super) faults: Vec<FaultEntry>,
    pub(super) events: Vec<Spanned<Trigger>>,
    pub(super) clients: Vec<Spanned<String>>,
}

impl ScenarioRun {
    pub fn options(&self) -> &RunOptions {
        &self.options.options
    }

    /// Validates the run with these options, those of the file but for driver, seed and lock. Errors: the
    /// first mistake: options that conflict, or a client, a server or a parameter that this run lacks.
    pub fn spec(&self, options: RunOptions) -> Result<RunSpec, Mistake> {
        let refused = |refused: BadUsage| self.options.mistake(refused);
        let spec = RunSpec::with_plan(options, Plan::default()).map_err(refused)?;
        let plan = self.plan(&spec.topology)?;
        spec.options.check_shaping(&plan.nemeses(), Faults::Written).map_err(refused)?;
        RunSpec::with_plan(spec.options, plan).map_err(refused)
    }

    fn plan(&self, topology: &Topology) -> Result<Plan, Mistake> {
        for name in &self.clients {
            known_client(name.get_ref(), topology).map_err(|refusal| at(name.span(), refusal))?;
        }
        for event in &self.events {
            if let Some(client) = &event.get_ref().client {
                known_client(client, topology).map_err(|refusal| at(event.span(), refusal))?;
            }
            event.get_ref().check(topology).map_err(|refusal| at(event.span(), refusal))?;
        }
        for event in self.expectations.iter().flat_map(Expectation::events) {
            event.check(topology).map_err(|refusal| at(0..0, refusal))?;
        }
        let faults: Result<_, Mistake> = self.faults.iter().map(|fault| fault.resolve(topology)).collect();
        Ok(Plan { faults: faults?, ..Plan::default() })
    }
}

pub(super) fn at(span: Range<usize>, refusal: Refusal) -> Mistake {
    Mistake::new(span, refusal.sentence)
}

fn known_client(name: &str, topology: &Topology) -> Result<(), Refusal> {
    let known: Vec<&str> = topology.clients.iter().map(String::as_str).collect();
    if known.contains(&name) { Ok(()) } else { Err(Refusal::new(unknown("client", name, &known))) }
}

/// The name of a scenario in this file: that of the file, or of a finding's folder.
pub(super) fn name_of(path: &Path) -> String {
    let of_finding = path.file_name().is_some_and(|name| name == "scenario.toml");
    let folder = path.parent().and_then(Path::file_name).filter(|_| of_finding);
    folder.or(path.file_stem()).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
