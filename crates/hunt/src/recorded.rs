use crate::player::PLAN;
use crate::schedule::Schedule;
use fencepost_engine::scenario::{Scenario, find, read_file};
use fencepost_engine::{BadUsage, DirectedScript, RunOptions, RunSpec, refuse};
use fencepost_history::Refusal;
use fencepost_history::run::{RunFile, RunFolder, read_regular};
use fencepost_nemesis::Plan;
use fencepost_report::findings::SCENARIO;
use std::path::Path;

impl Schedule {
    /// The schedule of the run in this folder: the options in `run.toml`, the faults in `plan.toml`, and the
    /// scripts of its scenario, if any. The error is one sentence: the folder has no such files, another
    /// version of Fencepost made them, or they do not fit together.
    pub fn of_run(folder: &RunFolder) -> Result<Schedule, BadUsage> {
        let file =
            folder.read_run().map_err(|error| BadUsage::new(format!("{:#}", anyhow::Error::from(error))))?;
        let shown = folder.path.display();
        if file.fencepost != env!("CARGO_PKG_VERSION") {
            refuse!(
                "the run {shown} was made by Fencepost {}, and this is {}: replay it with the version that made it",
                file.fencepost,
                env!("CARGO_PKG_VERSION")
            );
        }
        let mut options = options(&file)
            .map_err(|reason| BadUsage::new(format!("the run {shown} cannot be replayed: {reason}")))?;
        let script = match options.scenario.clone() {
            Some(name) => script(&name, &folder.path)?,
            None => None,
        };
        if script.is_none() {
            options.scenario = None;
        }
        options.nemesis.clear();
        options.nemesis_file = None;
        let plan = plan(&options, &folder.path)?;
        Ok(Schedule { options, plan, script })
    }
}

fn options(file: &RunFile) -> Result<RunOptions, Refusal> {
    let table = toml::Table::try_from(&file.spec).map_err(|error| Refusal::new(error.to_string()))?;
    table.try_into().map_err(|error: toml::de::Error| Refusal::new(error.message()))
}

fn plan(options: &RunOptions, folder: &Path) -> Result<Plan, BadUsage> {
    let path = folder.join(PLAN);
    let text = read_regular(&path).map_err(|error| {
        BadUsage::new(format!(
            "cannot read the plan {}: {error}; a run keeps it once its faults are drawn",
            path.display()
        ))
    })?;
    let topology = RunSpec::with_plan(options.clone(), Plan::default())?.topology;
    Plan::parse(&text, &topology).map_err(|reason| {
        BadUsage::new(format!("the plan {} does not fit the run's options: {}", path.display(), reason))
    })
}

/// What the clients did in a run `NAME-NUMBER` of a scenario; none where they followed their workload.
fn script(run: &str, folder: &Path) -> Result<Option<DirectedScript>, BadUsage> {
    let numbered = run.rsplit_once('-').and_then(|(name, number)| Some((name, number.parse().ok()?)));
    let (name, number): (&str, usize) = numbered.unwrap_or((run, 1));
    let kept = folder.join(SCENARIO);
    let scenario: Scenario = match (kept.is_file(), find(name)) {
        (true, _) => read_file(&kept)?,
        (false, Some(built_in)) => built_in,
        (false, None) => {
            refuse!(
                "the run {} followed the scenario {name}, and its folder does not keep the file of it: play that file \
                 again with `fencepost scenario FILE`",
                folder.display()
            );
        }
    };
    match scenario.runs.get(number.saturating_sub(1)) {
        Some(run) => Ok(run.script.clone()),
        None => refuse!(
            "the run {} was run {number} of the scenario {name}, which has {} now",
            folder.display(),
            scenario.runs.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_history::Seed;

    const PLAN_TEXT: &str =
        "[[fault]]\nafter = \"700ms\"\nfault = \"pause\"\non = [\"c1\"]\nfor = \"900ms\"\n";

    /// The folder of a run with this plan, whose settings `edit` changes.
    fn folder(plan: &str, edit: impl FnOnce(&mut RunOptions, &mut String)) -> (tempfile::TempDir, RunFolder) {
        let results = tempfile::tempdir().unwrap();
        let mut options = RunOptions {
            lock: "redis-single".to_owned(),
            seed: Some(Seed(7)),
            nemesis: vec!["pause".to_owned()],
            ..RunOptions::default()
        };
        let mut version = env!("CARGO_PKG_VERSION").to_owned();
        edit(&mut options, &mut version);
        let folder = RunFolder::create(results.path(), &options.settings()).unwrap();
        let file = RunFile { fencepost: version, ..options.run_file(String::new()) };
        folder.write_run(&file).unwrap();
        folder.write(PLAN, plan.as_bytes()).unwrap();
        (results, folder)
    }

    fn refused(plan: &str, edit: impl FnOnce(&mut RunOptions, &mut String)) -> String {
        let (_results, folder) = folder(plan, edit);
        Schedule::of_run(&folder).unwrap_err().sentence
    }

    #[test]
    fn a_pipe_in_place_of_a_plan_is_refused_and_not_waited_for() {
        let (_results, folder) = folder("fault = []\n", |_, _| {});
        let plan = folder.path.join(PLAN);
        std::fs::remove_file(&plan).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&plan).status().unwrap().success());
        let error = Schedule::of_run(&folder).unwrap_err().sentence;
        assert!(error.contains("it is not a regular file"), "{error}");
    }

    #[test]
    fn a_run_gives_the_options_and_the_plan_that_it_had() {
        let (_results, folder) = folder(PLAN_TEXT, |options, _| options.keys = 3);
        let schedule = Schedule::of_run(&folder).unwrap();
        assert_eq!((schedule.options.keys, schedule.options.seed), (3, Some(Seed(7))));
        assert_eq!(schedule.plan.to_toml(), PLAN_TEXT);
        assert!(schedule.script.is_none() && schedule.options.nemesis.is_empty());
        assert_eq!(schedule.spec().unwrap().plan, schedule.plan);
    }

    #[test]
    fn a_run_of_a_built_in_scenario_keeps_its_script() {
        let name = "redis-clock-jump-1".to_owned();
        let (_results, folder) = folder("", |options, _| options.scenario = Some(name.clone()));
        let schedule = Schedule::of_run(&folder).unwrap();
        assert_eq!(schedule.script, find("redis-clock-jump").unwrap().runs[0].script);
        assert_eq!(schedule.options.scenario, Some(name));
    }

    #[test]
    fn a_run_that_cannot_be_replayed_is_refused_with_the_reason() {
        let older = refused(PLAN_TEXT, |_, version| *version = "0.0.1".to_owned());
        assert!(older.contains("was made by Fencepost 0.0.1, and this is "), "{older}");
        let unfit = refused(&PLAN_TEXT.replace("c1", "n4"), |_, _| ());
        assert!(unfit.contains("does not fit the run's options: line 4, fault 1 (pause)"), "{unfit}");
        let unknown = refused(PLAN_TEXT, |options, _| options.scenario = Some("my-own-1".to_owned()));
        assert!(unknown.contains("followed the scenario my-own"), "{unknown}");
        let gone = refused(PLAN_TEXT, |options, _| options.scenario = Some("redis-clock-jump-9".to_owned()));
        assert!(gone.contains("was run 9 of the scenario redis-clock-jump"), "{gone}");
    }
}
