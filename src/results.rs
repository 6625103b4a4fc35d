//! A run's folder: everything that a run leaves, enough to judge and draw it again elsewhere.

use crate::report::Heading;
use anyhow::{Context, Result, anyhow};
use fencepost_engine::{BadUsage, RunSpec};
use fencepost_history::{compressed_name, find_history};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// `results/<backend>-<workload>-<nemesis>-<time>-<seed>/`.
#[derive(Clone, Debug)]
pub struct RunFolder {
    pub path: PathBuf,
    /// Of a run that is being made here: the folder, locked for as long as that goes on; see [`is_going`].
    _going: Option<Arc<fs::File>>,
}

/// A history that is larger than this is compressed when its run has ended. A smaller one stays a text that `grep` and
/// `jq` read: this many bytes are half a million events, more than most runs have.
pub const COMPRESS_ABOVE_BYTES: u64 = 64 << 20;

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
        let name = match &spec.scenario {
            Some(act) => format!("{act}-{time}-{}", spec.seed),
            None => format!("{}-{}-{nemesis}-{time}-{}", spec.backend, spec.workload, spec.seed),
        };
        fs::create_dir_all(results)
            .with_context(|| format!("cannot make the results folder {}", results.display()))?;
        let name = free(results, name);
        let path = results.join(&name);
        fs::create_dir(&path).with_context(|| format!("cannot make the run's folder {}", path.display()))?;
        for part in ["logs", "plots"] {
            fs::create_dir(path.join(part)).with_context(|| format!("cannot write to {}", path.display()))?;
        }
        // Where the file system knows no locks, nobody can tell that this run goes on; it does all the same.
        let going = fs::File::open(&path).ok().filter(|folder| folder.lock().is_ok()).map(Arc::new);
        point_latest(results, &name)?;
        Ok(RunFolder { path, _going: going })
    }

    /// Opens the folder of a run that exists; `results/latest` is as good as its name.
    pub fn open(path: &Path) -> Result<RunFolder> {
        let path = fs::canonicalize(path)
            .map_err(|error| BadUsage(format!("cannot open the run {}: {error}", path.display())))?;
        if find_history(&path.join("history.jsonl")).is_none() {
            return Err(BadUsage(format!(
                "{} is not the folder of a run: it holds no history.jsonl (runs lie in results/, the newest is results/latest)",
                path.display()
            ))
            .into());
        }
        Ok(RunFolder { path, _going: None })
    }

    /// The history, by its plain name: it may lie compressed beside it ([`find_history`]).
    pub fn history(&self) -> PathBuf {
        self.path.join("history.jsonl")
    }

    /// What clocks showed over time; only where some went wrong.
    pub fn clocks(&self) -> PathBuf {
        self.path.join("clocks.jsonl")
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
        // Its other words are of several lines.
        toml::from_str(&text).map_err(|error| {
            anyhow!("{} does not hold the settings of a run: {}", path.display(), error.message())
        })
    }

    /// Writes a file whole or not at all: under another name first, then renamed.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        write_whole(&self.path.join(name), content)
    }
}

/// Writes a file whole or not at all.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    write_whole_by(path, |mut file| Ok(file.write_all(content)?))
}

/// Writes a file whole or not at all, bit by bit: under another name first, then renamed.
pub fn write_whole_by(path: &Path, write: impl FnOnce(&fs::File) -> Result<()>) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = fs::File::create(&partial).map_err(Into::into).and_then(|file| write(&file));
    let renamed = written.and_then(|()| Ok(fs::rename(&partial, path)?));
    if renamed.is_err() {
        let _ = fs::remove_file(&partial);
    }
    renamed.with_context(|| format!("cannot write {}", path.display()))
}

/// Compresses the history of a run that has ended if it is larger than that, and says whether it did. The plain file
/// goes only when the compressed one is whole and on the disk.
pub fn compress_history(history: &Path, above_bytes: u64) -> Result<bool> {
    let mut plain = fs::File::open(history).with_context(|| format!("cannot read {}", history.display()))?;
    if plain.metadata()?.len() <= above_bytes {
        return Ok(false);
    }
    let target = compressed_name(history);
    write_whole_by(&target, |file| {
        fencepost_history::compress(&mut plain, BufWriter::new(file))?;
        Ok(file.sync_all()?)
    })?;
    // The rename has to be on the disk, too, before the only other copy goes.
    fs::File::open(history.parent().unwrap_or(Path::new(".")))?.sync_all()?;
    fs::remove_file(history).with_context(|| format!("cannot remove {}", history.display()))?;
    Ok(true)
}

/// Whether somebody is making the run in this folder: who does holds a lock on the folder, which ends with the process,
/// however that ends. Where locks do not work, the answer is yes, since a run that goes on must not be touched.
pub fn is_going(folder: &Path) -> bool {
    let folder = match fs::File::open(folder) {
        Ok(folder) => folder,
        Err(_) => return false,
    };
    folder.try_lock_shared().is_err()
}

/// The name, with a number behind it where a run of the same seed began in the same second and was ended.
fn free(results: &Path, name: String) -> String {
    if !results.join(&name).exists() {
        return name;
    }
    (2_u64..)
        .map(|number| format!("{name}-{number}"))
        .find(|name| !results.join(name).exists())
        .expect("numbers do not end")
}

/// Lets `results/latest` name the newest run. Renamed into place, since another run may do the same right now.
pub fn point_latest(results: &Path, name: &str) -> Result<()> {
    let link = results.join(format!(".latest-{}", std::process::id()));
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(name, &link)
        .and_then(|()| fs::rename(&link, results.join("latest")))
        .with_context(|| format!("cannot point {} to the new run", results.join("latest").display()))
}

/// Seconds since 1970-01-01 UTC.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// `20260214T093015Z`: UTC, sortable, without characters that a file name may not have.
pub fn timestamp(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + std::time::Duration::from_secs(seconds))
        .to_string()
        .replace(['-', ':'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_history_is_compressed_and_a_small_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let history = folder.path().join("history.jsonl");
        let text = "{\"index\":0}\n".repeat(10_000);
        fs::write(&history, &text).unwrap();
        assert!(!compress_history(&history, text.len() as u64).unwrap());
        assert!(history.is_file() && !compressed_name(&history).exists());
        assert!(compress_history(&history, text.len() as u64 - 1).unwrap());
        assert!(!history.exists());
        let compressed = fs::File::open(compressed_name(&history)).unwrap();
        let mut read = String::new();
        fencepost_history::decompressed(compressed).unwrap().read_to_string(&mut read).unwrap();
        assert_eq!(read, text);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_under_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        let failed = write_whole_by(&path, |mut file| {
            file.write_all(b"half")?;
            anyhow::bail!("no space left")
        });
        let sentence = format!("{:#}", failed.unwrap_err());
        assert!(sentence.contains("out.csv: no space left"), "{sentence}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_run_goes_on_until_its_folder_is_let_go() {
        let results = tempfile::tempdir().unwrap();
        let spec = crate::repeat::default_spec();
        let folder = RunFolder::create(results.path(), &spec).unwrap();
        let path = folder.path.clone();
        assert!(is_going(&path));
        drop(folder);
        assert!(!is_going(&path));
    }

    #[test]
    fn two_runs_of_one_seed_in_one_second_have_folders_of_their_own() {
        let results = tempfile::tempdir().unwrap();
        let spec = crate::repeat::default_spec();
        let folders: Vec<RunFolder> =
            (0..3).map(|_| RunFolder::create(results.path(), &spec).unwrap()).collect();
        assert!(folders[0].path != folders[1].path && folders[1].path != folders[2].path);
        let run = free(results.path(), "new".to_owned());
        assert_eq!(run, "new");
    }
}
