//! The files that an environment is made of: listing, hashing and copying them.

use super::definition::Environment;
use crate::ClusterError;
use crate::error::cannot;
use crate::hash::{add_content, content_hash, short};
use crate::own_task::aside;
use fencepost_history::Refusal;
use nix::sys::statfs::{
    BPF_FS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, FsType, PROC_SUPER_MAGIC,
    SECURITYFS_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC, statfs,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Changes when environments are prepared in another way.
const RECIPE: &str = "1";

/// A client is small. What is larger was most likely not meant: a home, or the root.
const BYTES_MAX: u64 = 1 << 30;
const ENTRIES_MAX: usize = 50_000;

const LEFT_OUT: [&str; 2] = [".git", "__pycache__"];

/// Not copied where commands make them anew: they are large, and hold paths of their place.
const MADE: [&str; 3] = [".venv", "node_modules", "target"];

#[derive(Debug)]
pub(crate) struct FolderContent {
    entries: BTreeMap<PathBuf, FolderEntry>,
    /// Names the content and what is done with it.
    pub(crate) hash: String,
}

#[derive(Debug)]
enum FolderEntry {
    Folder,
    File { from: PathBuf, executable: bool },
    Link { to: PathBuf },
}

/// Refuses what could not be copied into the folder of a lock. Gives its path, with all links followed.
pub fn check_file(path: &Path) -> Result<PathBuf, Refusal> {
    let whole = path.canonicalize().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("{} is not there", path.display()),
        _ => format!("cannot open {}: {error}", path.display()),
    })?;
    let found =
        std::fs::metadata(&whole).map_err(|error| format!("cannot read {}: {error}", whole.display()))?;
    if whole.file_name().is_none() {
        return Err(Refusal::new("this is the root of all files; name those that the lock's programs need"));
    }
    if is_of_the_kernel(&whole) {
        return Err(format!("{} {OF_THE_KERNEL}", whole.display()).into());
    }
    match found.is_file() || found.is_dir() {
        true => Ok(whole),
        false => Err(format!("{} is neither a file nor a folder", whole.display()).into()),
    }
}

const OF_THE_KERNEL: &str = "holds devices or what the kernel shows of itself, which cannot be copied";

/// Whether the kernel makes up what lies there: such files are without an end, or wait for something.
fn is_of_the_kernel(path: &Path) -> bool {
    const KINDS: [FsType; 8] = [
        PROC_SUPER_MAGIC,
        SYSFS_MAGIC,
        CGROUP_SUPER_MAGIC,
        CGROUP2_SUPER_MAGIC,
        DEBUGFS_MAGIC,
        TRACEFS_MAGIC,
        SECURITYFS_MAGIC,
        BPF_FS_MAGIC,
    ];
    let is_device = path.starts_with("/dev") && !path.starts_with("/dev/shm");
    is_device || statfs(path).is_ok_and(|found| KINDS.contains(&found.filesystem_type()))
}

impl Environment {
    /// Names the content of the folder and of the files, the commands and the packages: twelve hexadecimal
    /// digits. Errors: something cannot be read, or is too large to be copied for each change.
    pub fn hash(&self) -> Result<String, ClusterError> {
        Ok(FolderContent::of(self)?.hash)
    }
}

impl FolderContent {
    fn of(environment: &Environment) -> Result<FolderContent, ClusterError> {
        let mut listing = FolderListing {
            root: environment.folder.clone().unwrap_or_default(),
            makes: !environment.build.is_empty() || !environment.setup.is_empty(),
            name: &environment.name,
            bytes: 0,
            entries: BTreeMap::new(),
        };
        let root = listing.root.clone();
        if environment.folder.is_some() {
            if !root.is_dir() {
                let (name, root) = (&environment.name, root.display());
                return Err(format!("the folder of {name}, {root}, is not there").into());
            }
            listing.add_folder(&root, Path::new(""))?;
        }
        for file in &environment.files {
            listing.add_file_from_elsewhere(&root.join(file))?;
        }
        for (name, to) in &environment.links {
            listing.insert(Path::new(name), FolderEntry::Link { to: to.clone() }, 0)?;
        }
        let entries = listing.entries;
        let mut hash = hash(&entries)?;
        for part in [&environment.build, &environment.setup, &environment.packages] {
            hash.update(format!("{part:?}\n"));
        }
        if let Some(suite) = environment.suite {
            hash.update(format!("{suite}\n"));
        }
        if let Some(image) = &environment.image {
            hash.update(format!("image {image}\n"));
        }
        if let Some(dockerfile) = &environment.dockerfile {
            let path = root.join(dockerfile);
            add_content(&mut hash, &path).map_err(cannot("read", &path))?;
        }
        Ok(FolderContent { entries, hash: short(&hash.finalize()) })
    }

    pub(crate) async fn read(environment: &Arc<Environment>) -> Result<FolderContent, ClusterError> {
        let environment = environment.clone();
        aside(move || FolderContent::of(&environment)).await
    }

    /// Copies everything into a new folder. Errors: it cannot be copied, or changed meanwhile.
    pub(super) fn copy(&self, to: &Path) -> Result<(), ClusterError> {
        std::fs::create_dir_all(to).map_err(cannot("make", to))?;
        let mut copied = BTreeMap::new();
        for (place, entry) in &self.entries {
            let target = to.join(place);
            let done = match entry {
                FolderEntry::Folder => std::fs::create_dir(&target),
                FolderEntry::File { from, .. } => std::fs::copy(from, &target).map(drop),
                FolderEntry::Link { to } => std::os::unix::fs::symlink(to, &target),
            };
            done.map_err(cannot("copy to", &target))?;
            copied.insert(place.clone(), entry.at(target));
        }
        if short(&hash(&copied)?.finalize()) == short(&hash(&self.entries)?.finalize()) {
            return Ok(());
        }
        Err(ClusterError::new(format!(
            "files changed while they were copied to {}; run again when they have been written",
            to.display()
        )))
    }
}

impl FolderEntry {
    fn at(&self, place: PathBuf) -> FolderEntry {
        match self {
            FolderEntry::Folder => FolderEntry::Folder,
            FolderEntry::File { executable, .. } => {
                FolderEntry::File { from: place, executable: *executable }
            }
            FolderEntry::Link { to } => FolderEntry::Link { to: to.clone() },
        }
    }
}

struct FolderListing<'a> {
    root: PathBuf,
    makes: bool,
    name: &'a str,
    bytes: u64,
    entries: BTreeMap<PathBuf, FolderEntry>,
}

impl FolderListing<'_> {
    fn add_folder(&mut self, folder: &Path, place: &Path) -> Result<(), ClusterError> {
        let failed = cannot("read", folder);
        for entry in std::fs::read_dir(folder).map_err(&failed)? {
            let entry = entry.map_err(&failed)?;
            if !self.is_left_out(&entry.path()) {
                self.add(&entry.path(), &place.join(entry.file_name()))?;
            }
        }
        Ok(())
    }

    fn is_left_out(&self, path: &Path) -> bool {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
        // Runs of Fencepost itself, which may have been started in the folder.
        let is_results = || name == "results" && path.join("latest").is_symlink();
        LEFT_OUT.contains(&name) || (self.makes && MADE.contains(&name)) || is_results()
    }

    fn add(&mut self, path: &Path, place: &Path) -> Result<(), ClusterError> {
        let found = std::fs::symlink_metadata(path).map_err(cannot("read", path))?;
        if found.is_symlink() && !self.leads_outside(path) {
            let to = std::fs::read_link(path).map_err(cannot("read", path))?;
            return self.insert(place, FolderEntry::Link { to }, 0);
        }
        // A link out of the folder would lead nowhere in the node: what it leads to is taken.
        let found = std::fs::metadata(path).map_err(cannot("read", path))?;
        if found.is_dir() {
            if is_of_the_kernel(path) {
                return Err(format!("{}: {} {OF_THE_KERNEL}", self.name, path.display()).into());
            }
            self.insert(place, FolderEntry::Folder, 0)?;
            self.add_folder(path, place)
        } else if found.is_file() {
            let executable = found.permissions().mode() & 0o111 != 0;
            self.insert(place, FolderEntry::File { from: path.to_owned(), executable }, found.len())
        } else {
            // Sockets and pipes are of programs that run now.
            Ok(())
        }
    }

    fn leads_outside(&self, link: &Path) -> bool {
        let target = link.canonicalize();
        let root = self.root.canonicalize();
        // One that leads nowhere is copied as it is.
        target.is_ok_and(|target| root.is_ok_and(|root| !target.starts_with(root)))
    }

    fn add_file_from_elsewhere(&mut self, path: &Path) -> Result<(), ClusterError> {
        let path =
            check_file(path).map_err(|why| format!("{}, `files` in its lock.toml: {why}", self.name))?;
        let Some(name) = path.file_name().map(PathBuf::from) else { return Ok(()) };
        // In place of one of that name in the folder.
        self.entries.retain(|place, _| !place.starts_with(&name));
        self.add(&path, &name)
    }

    fn insert(&mut self, place: &Path, entry: FolderEntry, bytes: u64) -> Result<(), ClusterError> {
        self.bytes += bytes;
        self.entries.insert(place.to_owned(), entry);
        if self.bytes <= BYTES_MAX && self.entries.len() <= ENTRIES_MAX {
            return Ok(());
        }
        Err(ClusterError::new(format!(
            "the folder of {}, {}, and the `files` of its lock.toml are more than 1 GiB or {ENTRIES_MAX} files; name those alone \
             that the lock's programs need",
            self.name,
            self.root.display()
        )))
    }
}

fn hash(entries: &BTreeMap<PathBuf, FolderEntry>) -> Result<Sha256, ClusterError> {
    let mut hash = Sha256::new_with_prefix(RECIPE);
    for (place, entry) in entries {
        // Lengths lie between the parts: no two lists of files give the same bytes.
        let mut part = |kind: &str, bytes: &[u8]| {
            hash.update(format!("\n{kind} {} ", bytes.len()));
            hash.update(bytes);
        };
        part("at", place.as_os_str().as_bytes());
        match entry {
            FolderEntry::Folder => part("folder", b""),
            FolderEntry::Link { to } => part("link", to.as_os_str().as_bytes()),
            FolderEntry::File { from, executable } => {
                let content = content_hash(from).map_err(cannot("read", from))?;
                part(if *executable { "program" } else { "file" }, &content);
            }
        }
    }
    Ok(hash)
}
