//! A run's folder: everything that a run leaves, enough to judge and draw it again elsewhere.

use crate::report::Heading;
use crate::spec::{BadUsage, RunSpec};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// `results/<backend>-<workload>-<nemesis>-<time>-<seed>/`.
#[derive(Clone, Debug)]
pub struct RunFolder {
    pub path: PathBuf,
}

/// `run.toml`: the whole spec, what it ran on, and the command that repeats it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunFile {
    /// Version of Fencepost that made the run.
    pub fencepost: String,
    /// Repeats the run.
    pub command: String,
    /// Start of the run, seconds since 1970-01-01 UTC.
    pub started: u64,
    /// The driver that `auto` came to.
    pub driver: String,
    /// Versions of the servers, as they tell them themselves.
    #[serde(default)]
    pub servers: Vec<String>,
    pub spec: RunSpec,
}

impl RunFile {
    /// A run that is about to start.
    pub fn new(spec: &RunSpec) -> RunFile {
        RunFile {
            fencepost: env!("CARGO_PKG_VERSION").to_owned(),
            command: crate::repeat::command(spec),
            started: now(),
            driver: spec.driver.clone(),
            servers: Vec::new(),
            spec: spec.clone(),
        }
    }

    /// What a report says on top.
    pub fn heading(&self) -> Heading {
        let spec = &self.spec;
        let settings = serde_json::to_value(spec).expect("a spec is always JSON");
        let mut flat = Vec::new();
        for (name, value) in settings.as_object().into_iter().flatten() {
            match value {
                Value::Object(options) => {
                    flat.extend(options.iter().map(|(name, value)| (name.clone(), plain(value))))
                }
                value => flat.push((name.clone(), plain(value))),
            }
        }
        Heading {
            backend: spec.backend.clone(),
            workload: spec.workload.clone(),
            nemesis: spec.nemesis_name(),
            driver: self.driver.clone(),
            guard: spec.guard.clone(),
            servers: self.servers.clone(),
            seed: spec.seed.0,
            command: self.command.clone(),
            fencepost: self.fencepost.clone(),
            started: self.started,
            ttl_ms: spec.ttl_ms,
            settings: flat,
        }
    }
}

/// A setting as people write it.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "default".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

impl RunFolder {
    /// Makes the folder of a new run and points `latest` to it.
    pub fn create(results: &Path, spec: &RunSpec) -> Result<RunFolder> {
        let nemesis = spec.nemesis_name();
        let time = timestamp(now());
        let name = format!("{}-{}-{nemesis}-{time}-{}", spec.backend, spec.workload, spec.seed);
        fs::create_dir_all(results)
            .with_context(|| format!("cannot make the results folder {}", results.display()))?;
        let path = results.join(&name);
        fs::create_dir(&path).with_context(|| format!("cannot make the run's folder {}", path.display()))?;
        for part in ["logs", "plots"] {
            fs::create_dir(path.join(part)).with_context(|| format!("cannot write to {}", path.display()))?;
        }
        let folder = RunFolder { path };
        point_latest(results, &name)?;
        Ok(folder)
    }

    /// Opens the folder of a run that exists; `results/latest` is as good as its name.
    pub fn open(path: &Path) -> Result<RunFolder> {
        let path = fs::canonicalize(path)
            .map_err(|error| BadUsage(format!("cannot open the run {}: {error}", path.display())))?;
        if !path.join("history.jsonl").is_file() {
            return Err(BadUsage(format!(
                "{} is not the folder of a run: it holds no history.jsonl (runs lie in results/, the newest is results/latest)",
                path.display()
            ))
            .into());
        }
        Ok(RunFolder { path })
    }

    pub fn history(&self) -> PathBuf {
        self.path.join("history.jsonl")
    }

    pub fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    pub fn report(&self) -> PathBuf {
        self.path.join("report.html")
    }

    /// Writes `run.toml`.
    pub fn write_run(&self, run: &RunFile) -> Result<()> {
        let text = toml::to_string(run).context("cannot put the run's settings into TOML")?;
        self.write("run.toml", text.as_bytes())
    }

    /// Reads `run.toml`.
    pub fn read_run(&self) -> Result<RunFile> {
        let path = self.path.join("run.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not a run's settings", path.display()))
    }

    /// Writes a file whole or not at all: under another name first, then renamed.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        write_whole(&self.path.join(name), content)
    }
}

/// Writes a file whole or not at all.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = fs::File::create(&partial).and_then(|mut file| file.write_all(content));
    let renamed = written.and_then(|()| fs::rename(&partial, path));
    if renamed.is_err() {
        let _ = fs::remove_file(&partial);
    }
    renamed.with_context(|| format!("cannot write {}", path.display()))
}

/// Lets `results/latest` name the newest run. Renamed into place, since another run may do the same right now.
fn point_latest(results: &Path, name: &str) -> Result<()> {
    let link = results.join(format!(".latest-{}", std::process::id()));
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(name, &link)
        .and_then(|()| fs::rename(&link, results.join("latest")))
        .with_context(|| format!("cannot point {} to the new run", results.join("latest").display()))
}

/// Seconds since 1970-01-01 UTC.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// `20260214T093015Z`: UTC, sortable, without characters that a file name may not have.
fn timestamp(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + std::time::Duration::from_secs(seconds))
        .to_string()
        .replace(['-', ':'], "")
}
