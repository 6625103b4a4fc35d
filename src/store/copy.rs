//! Copies of a store's content in the cache of this machine: every command that reads runs reads them.

use super::Bucket;
use super::address::is_address;
use super::marker::{MARKER, Marker};
use super::patience::Patience;
use crate::output::complain;
use crate::runtime::runtime;
use anyhow::{Context, Result};
use fencepost_engine::refuse;
use fencepost_history::run::read_regular;
use fencepost_report::runs;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a copy that is being looked at is renewed.
const PERIOD: Duration = Duration::from_secs(10);

/// A copy of everything that lies whole beneath an address.
pub struct Copied {
    bucket: Bucket,
    address: String,
    /// Names of files: only folders with one of these are brought. Empty: all.
    with: &'static [&'static str],
    pub folder: PathBuf,
}

impl Copied {
    /// The copy of what the path names, for [`Copied::refresh`]; none for local paths.
    pub fn of(path: &Path) -> Result<Option<Copied>> {
        Copied::of_those(path, &[])
    }

    fn of_those(path: &Path, with: &'static [&'static str]) -> Result<Option<Copied>> {
        let Some(address) = path.to_str().filter(|text| is_address(text)) else { return Ok(None) };
        let bucket = Bucket::open(address, Patience::Short)?;
        let hash = Sha256::digest(format!("{} {with:?}", address.trim_end_matches('/')));
        let name: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let folder = fencepost_cluster::cache_folder()?.join("stores").join(name);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        Ok(Some(Copied { bucket, address: address.to_owned(), with, folder }))
    }

    /// Fetches what is new, removes what is gone. Errors: the store refuses, or the copy is unwritable.
    pub async fn refresh(&self) -> Result<()> {
        let lock = File::create(self.folder.with_extension("lock"))?;
        let _alone = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??;
        let there = match self.bucket.own_marker().await? {
            Some(marker) => vec![(String::new(), marker)],
            None => {
                let mut listed = self.bucket.list().await?;
                let holds = |marker: &Marker| self.with.iter().any(|name| marker.files.contains_key(*name));
                listed.retain(|(_, marker)| self.with.is_empty() || holds(marker));
                listed
            }
        };
        let named: Vec<(String, &str, &Marker)> =
            there.iter().map(|(name, marker)| (self.name(name), name.as_str(), marker)).collect();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if !named.iter().any(|(name, ..)| entry.file_name() == name.as_str()) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        for (name, object, marker) in named {
            let known = read_regular(&self.folder.join(&name).join(MARKER)).ok();
            if known.and_then(|json| Marker::parse(json.as_bytes()).ok()).as_ref() != Some(marker) {
                bring(&self.bucket, object, marker, &self.folder, &name).await?;
            }
        }
        Ok(())
    }

    /// Removes a folder from the store. Errors: the store does not answer, or refuses.
    pub async fn remove(&self, name: &str) -> Result<()> {
        self.bucket.remove(name).await
    }

    /// The name that a folder has here: that of the address itself is its last part.
    fn name(&self, object: &str) -> String {
        let last = self.address.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if object.is_empty() { last.to_owned() } else { object.to_owned() }
    }

    /// The folder, or the one result in it where the address names that.
    fn whole(&self) -> Result<PathBuf> {
        let inside = runs::folders(&self.folder)?;
        match &inside[..] {
            [] => refuse!(
                "there is no result in {}, or none that is whole; results are sent there with --results or `fencepost upload`",
                self.address
            ),
            [one] if one.file_name().is_some_and(|name| *name == *self.name("")) => Ok(one.clone()),
            _ => Ok(self.folder.clone()),
        }
    }
}

pub fn local_with(path: &Path, with: &'static [&'static str]) -> Result<PathBuf> {
    match Copied::of_those(path, with)? {
        Some(copied) => {
            runtime()?.block_on(copied.refresh())?;
            copied.whole()
        }
        None => Ok(path.to_owned()),
    }
}

/// The paths themselves, or the copies of those addresses. Errors: there is nothing, or no answer.
pub fn locals(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    locals_with(paths, &[])
}

/// As [`locals`]; of a store only folders that hold a file of one of these names. Errors: as [`locals`].
pub fn locals_with(paths: &[PathBuf], with: &'static [&'static str]) -> Result<Vec<PathBuf>> {
    paths.iter().map(|path| local_with(path, with)).collect()
}

/// Renews a copy until it is dropped. A failure is printed once, until it works again.
pub async fn follow(copied: Copied) {
    let mut said = None;
    loop {
        tokio::time::sleep(PERIOD).await;
        let wrong = copied.refresh().await.err().map(|error| format!("{error:#}"));
        if let Some(error) = wrong.as_ref().filter(|_| said.is_none()) {
            complain!("fencepost: {error}; showing the previous contents");
        }
        said = wrong;
    }
}

/// Fetches a folder into `into`, under a hidden name until it is whole.
pub(super) async fn bring(
    bucket: &Bucket,
    object: &str,
    marker: &Marker,
    into: &Path,
    name: &str,
) -> Result<()> {
    let (partial, whole) = (into.join(format!(".bringing-{name}")), into.join(name));
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial).with_context(|| format!("cannot make the folder {}", partial.display()))?;
    let brought = bucket.fetch(object, marker, &partial).await;
    let brought = brought.and_then(|()| Ok(fs::write(partial.join(MARKER), marker.json())?));
    if brought.is_err() {
        let _ = fs::remove_dir_all(&partial);
        return brought;
    }
    let _ = fs::remove_dir_all(&whole);
    fs::rename(&partial, &whole).with_context(|| format!("cannot rename to {}", whole.display()))
}
