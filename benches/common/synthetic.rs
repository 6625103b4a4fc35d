//! Many runs for measurements: copies of one real run that differ in their locks and times.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

pub const LOCKS: [&str; 4] = ["redlock", "etcd", "redis-single", "zookeeper-sequential"];

pub struct Original {
    /// `run.toml`.
    pub run: String,
    /// `verdict.json`.
    pub verdict: String,
}

impl Original {
    /// Makes a real run, as root.
    pub fn make() -> Original {
        let one = tempfile::tempdir().expect("a temporary folder");
        let options = "test --config none --driver local --nemesis clock-jump --time-limit 5s --results";
        let status = Command::new(crate::PROGRAM)
            .args(options.split_whitespace())
            .arg(one.path())
            .stdout(Stdio::null())
            .status()
            .expect("the program starts");
        assert!(status.code().is_some_and(|code| code <= 2), "the run to be copied failed");
        let read =
            |name: &str| fs::read_to_string(one.path().join("latest").join(name)).expect("the run left it");
        let original = Original { run: read("run.toml"), verdict: read("verdict.json") };
        println!(
            "each run: run.toml {} bytes, verdict.json {} bytes",
            original.run.len(),
            original.verdict.len()
        );
        original
    }

    /// Folders of runs as the real one left its own.
    pub fn fill(&self, results: &Path, runs: usize) {
        for number in 0..runs {
            let folder = results.join(format!("run-{number}"));
            fs::create_dir_all(folder.join("logs")).expect("a folder");
            let lock = format!("lock = \"{}\"", LOCKS[number % LOCKS.len()]);
            let started = self.run.lines().map(|line| match line.strip_prefix("started = ") {
                Some(_) => format!("started = {}\n", 1_700_000_000 + number * 600),
                None => format!("{line}\n"),
            });
            let text = started.collect::<String>().replace("lock = \"redlock\"", &lock);
            fs::write(folder.join("run.toml"), text).expect("a file");
            fs::write(folder.join("verdict.json"), &self.verdict).expect("a file");
            fs::write(folder.join("history.jsonl"), "").expect("a file");
        }
    }
}
