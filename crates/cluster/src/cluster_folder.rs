//! Folders that last as long as something of this process: a cluster, or logs that are then removed.

use crate::ClusterError;
use crate::driver::ClusterSpec;
use crate::network::subnet::Subnet;
use crate::register::{RunEntry, RunRegister};
use std::path::{Path, PathBuf};

const SUBNET: &str = "subnet";

/// The folder of a cluster that runs. Dropping it removes it.
#[derive(Debug)]
pub struct ClusterFolder {
    entry: RunEntry,
    pub(crate) subnet: Subnet,
}

impl ClusterFolder {
    /// Makes it, with a subnet that no other run has and that `is_free` agrees to.
    pub fn create(run: &str, is_free: impl Fn(Subnet) -> bool) -> Result<ClusterFolder, ClusterError> {
        let register = RunRegister::lock()?;
        let others: Vec<Subnet> = register
            .entries()
            .iter()
            .filter(|entry| entry.alive)
            .filter_map(|entry| entry.text(SUBNET)?.parse().ok())
            .collect();
        let subnet =
            Subnet::all().find(|subnet| !others.contains(subnet) && is_free(*subnet)).ok_or_else(|| {
                ClusterError::new("no subnet of 198.18.0.0/15 is free; remove networks that use it")
            })?;
        let entry = register.add(run, Some((SUBNET, &subnet.to_string())))?;
        Ok(ClusterFolder { entry, subnet })
    }

    pub(crate) fn path(&self) -> &Path {
        self.entry.folder()
    }

    pub(crate) fn add_group(&self, group: &Path) -> std::io::Result<()> {
        self.entry.add_group(group)
    }

    pub(crate) fn lock_file(&self) -> PathBuf {
        self.entry.lock_file()
    }
}

/// A folder with a name that no other user can know. Dropping it removes it, or else the next run does.
#[derive(Debug)]
pub struct PrivateFolder(RunEntry);

impl PrivateFolder {
    /// Makes one; its name tells what it is for.
    pub fn create(purpose: &str) -> Result<PrivateFolder, ClusterError> {
        RunRegister::lock()?.add(&ClusterSpec::own_name(purpose), None).map(PrivateFolder)
    }

    pub fn path(&self) -> &Path {
        self.0.folder()
    }
}

/// What other processes of this user may know of this one, in a private file; removed on drop.
#[derive(Debug)]
pub struct Announcement(RunEntry);

const ANNOUNCED: &str = "announced";

impl Announcement {
    /// Errors: one of this name is made already, by a process that lives.
    pub fn make(name: &str, text: &str) -> Result<Announcement, ClusterError> {
        RunRegister::lock()?.add(name, Some((ANNOUNCED, text))).map(Announcement)
    }

    pub fn file(&self) -> PathBuf {
        self.0.file(ANNOUNCED)
    }

    /// The name and the text of each whose process lives.
    pub fn all() -> Result<Vec<(String, String)>, ClusterError> {
        let living = RunRegister::lock()?.entries().into_iter().filter(|entry| entry.alive);
        Ok(living.filter_map(|entry| Some((entry.name.clone(), entry.text(ANNOUNCED)?))).collect())
    }
}
