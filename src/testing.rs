//! Folders of runs that tests look at.

use fencepost_checker::{Costs, Outcome, RunVerdict, Verdict};
use fencepost_engine::RunOptions;
use fencepost_history::Seed;
use fencepost_history::run::RunFile;
use std::fs;
use std::path::{Path, PathBuf};

/// The options of a run with defaults, and a seed.
pub fn options() -> RunOptions {
    RunOptions { seed: Some(Seed(0)), ..RunOptions::default() }
}

/// The folder of a run, with a verdict of that outcome if any; `edit` sets what it is a run of.
pub fn run(results: &Path, name: &str, outcome: Option<Outcome>, edit: impl FnOnce(&mut RunFile)) -> PathBuf {
    let path = results.join(name);
    fs::create_dir_all(path.join("logs")).unwrap();
    let mut file = options().run_file(String::new());
    edit(&mut file);
    fs::write(path.join("run.toml"), toml::to_string(&file).unwrap()).unwrap();
    fs::write(path.join("logs/n1.log"), "ready\n").unwrap();
    fs::write(path.join("history.jsonl"), "").unwrap();
    if let Some(outcome) = outcome {
        let exclusion = Verdict::new("exclusion", outcome, format!("seen in {name}"));
        let costs = Costs {
            acquisitions: 9,
            acquisitions_per_s: 3.0,
            acquire_median_ms: Some(1.5),
            acquire_p99_ms: Some(4.0),
            recovery_ms: None,
        };
        let verdict = RunVerdict { costs: Some(costs), ..RunVerdict::of(vec![exclusion]) };
        fs::write(path.join("verdict.json"), serde_json::to_string(&verdict).unwrap()).unwrap();
    }
    path
}
