//! Where a command keeps the runs that it makes.

use super::Bucket;
use super::address::is_address;
use super::copy::bring;
use super::patience::Patience;
use crate::exit::FAILED;
use crate::output::{complain, say};
use anyhow::{Result, bail};
use async_trait::async_trait;
use fencepost_campaign::ResultsStore;
use fencepost_engine::{BadUsage, refuse};
use fencepost_history::run::is_running;
use parking_lot::Mutex;
use std::ffi::OsString;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of runs on this machine where results go to a store.
const FOLDER: &str = "results";

/// A folder, from which finished results are sent to a store, if one was named. Usable as a path.
#[derive(Clone, Debug)]
pub struct Results {
    folder: PathBuf,
    store: Option<Outbox>,
}

#[derive(Clone, Debug)]
struct Outbox {
    address: String,
    /// Folders that could not be sent yet.
    unsent: Arc<Mutex<Vec<PathBuf>>>,
}

impl From<OsString> for Results {
    fn from(value: OsString) -> Results {
        match value.to_str().filter(|text| is_address(text)) {
            Some(address) => {
                let store = Outbox { address: address.to_owned(), unsent: Arc::default() };
                Results { folder: FOLDER.into(), store: Some(store) }
            }
            None => Results { folder: value.into(), store: None },
        }
    }
}

impl Deref for Results {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.folder
    }
}

#[async_trait]
impl ResultsStore for Results {
    async fn send(&self, folder: &Path) {
        let Some(store) = &self.store else { return };
        if let Err(error) = store.try_send(folder, Patience::Short).await {
            complain!("fencepost: {error:#}; {} stays here, and is sent again at the end", folder.display());
            store.unsent.lock().push(folder.to_owned());
        }
    }
}

impl Results {
    /// Refuses a store that cannot be written to, before anything begins. Errors: which store, and why not.
    pub async fn check(&self) -> Result<()> {
        match &self.store {
            Some(store) => Bucket::open(&store.address, Patience::Short)?.check_writable().await,
            None => Ok(()),
        }
    }

    /// Fetches the `wanted` results of an earlier attempt, maybe of another machine.
    pub async fn bring(&self, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let bucket = Bucket::open(&store.address, Patience::Long)?;
        for (name, marker) in bucket.list().await? {
            if wanted(&name) && !self.folder.join(&name).exists() {
                bring(&bucket, &name, &marker, &self.folder, &name).await?;
            }
        }
        Ok(())
    }

    /// Sends what could not be sent before. Gives the command's code, unless something stays here alone.
    pub async fn finish(&self, code: i32) -> i32 {
        match self.send_rest().await {
            Ok(()) => code,
            Err(error) => {
                complain!("fencepost: {error:#}");
                if code == 1 { code } else { FAILED }
            }
        }
    }

    async fn send_rest(&self) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let unsent = std::mem::take(&mut *store.unsent.lock());
        for (index, folder) in unsent.iter().enumerate() {
            if let Err(error) = store.try_send(folder, Patience::Long).await {
                let left = unsent[index..].iter().map(|folder| folder.display().to_string());
                let left = left.collect::<Vec<_>>().join(" ");
                bail!("{error:#}; send it later with `fencepost upload {left} {}`", store.address);
            }
        }
        Ok(())
    }
}

impl Outbox {
    async fn try_send(&self, folder: &Path, patience: Patience) -> Result<()> {
        let bucket = Bucket::open(&self.address, patience)?;
        bucket.send(folder, &name_of(folder)?).await.map(drop)
    }
}

/// Sends these folders, or what lies in them. Gives how many failed. Errors: no folder, or no store.
pub async fn upload(folders: &[PathBuf], address: &str) -> Result<usize> {
    let bucket = Bucket::open(address, Patience::Long)?;
    let mut all = Vec::new();
    for folder in folders {
        all.extend(results_in(folder)?);
    }
    bucket.check_writable().await?;
    let mut failed = 0;
    for folder in all {
        let name = name_of(&folder)?;
        if is_running(&folder) {
            say!("{name} is still running; skipped");
            continue;
        }
        match bucket.send(&folder, &name).await {
            Ok(true) => say!("{name} sent"),
            Ok(false) => say!("{name} is there already"),
            Err(error) => {
                complain!("fencepost: {error:#}");
                failed += 1;
            }
        }
    }
    Ok(failed)
}

/// The folder itself, if files lie in it; else the folders in it.
fn results_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let cannot = BadUsage::cannot("open", folder);
    let folder = folder.canonicalize().map_err(&cannot)?;
    let mut entries = Vec::new();
    for entry in fs::read_dir(&folder).map_err(&cannot)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            entries.push((entry.path(), entry.file_type()?));
        }
    }
    if entries.iter().any(|(_, kind)| kind.is_file()) {
        return Ok(vec![folder]);
    }
    let mut inside: Vec<PathBuf> =
        entries.into_iter().filter(|(_, kind)| kind.is_dir()).map(|(path, _)| path).collect();
    inside.sort();
    match inside.is_empty() {
        true => refuse!("there is nothing to send in {}", folder.display()),
        false => Ok(inside),
    }
}

fn name_of(folder: &Path) -> Result<String> {
    let path = folder.canonicalize()?;
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) => Ok(name.to_owned()),
        None => bail!("cannot send {}: its name is not UTF-8", folder.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_runs_in_results_until_they_are_sent() {
        let results = Results::from(OsString::from("s3://bucket/prefix"));
        assert_eq!(&*results, Path::new("results"));
        assert!(results.store.is_some());
        assert!(Results::from(OsString::from("elsewhere")).store.is_none());
    }

    #[test]
    fn a_folder_with_files_is_sent_itself_and_else_the_folders_in_it() {
        let results = tempfile::tempdir().unwrap();
        let at = results.path().canonicalize().unwrap();
        assert!(results_in(&at).is_err(), "it is empty");
        for run in ["one", "two"] {
            fs::create_dir(at.join(run)).unwrap();
            fs::write(at.join(run).join("run.toml"), "").unwrap();
        }
        fs::write(at.join(".compare.lock"), "").unwrap();
        std::os::unix::fs::symlink("two", at.join("latest")).unwrap();
        assert_eq!(results_in(&at).unwrap(), [at.join("one"), at.join("two")]);
        assert_eq!(results_in(&at.join("latest")).unwrap(), [at.join("two")]);
    }
}
