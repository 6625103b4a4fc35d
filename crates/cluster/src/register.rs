//! The register of runs that go on: a small folder for each, where only this user can write.
//!
//! A controller holds a lock on a file of its entry, which the kernel lets go of however the controller dies:
//! if the lock can be taken, the run is over. The entry also names the run's private folder: that is large,
//! so it is in the temporary folder of this machine, under a name that cannot be known before.

use crate::ClusterError;
use crate::cache;
use crate::confinement::control_groups;
use crate::file_lock::{FileLock, is_held, lock};
use nix::unistd::{AccessFlags, access};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";
const FOLDER: &str = "folder";
const GROUPS: &str = "control-groups";

/// Letters of a private folder's name that are drawn at random.
const RANDOM_LETTERS: usize = 12;

/// The register, while no other process changes it. A thread that holds it must not drop an [`RunEntry`].
pub(crate) struct RunRegister {
    /// Where new entries are made; then other places where runs of this user may have made theirs.
    places: Vec<PathBuf>,
    _locks: Vec<FileLock>,
}

/// The entry of a run of this process. Dropping it removes it, and the run's private folder.
#[derive(Debug)]
pub(crate) struct RunEntry {
    path: PathBuf,
    folder: PathBuf,
    _lock: FileLock,
}

pub(crate) struct FoundRun {
    pub(crate) name: String,
    pub(crate) alive: bool,
    /// The run's private folder, where the entry names one that is this user's.
    pub(crate) folder: Option<PathBuf>,
    path: PathBuf,
}

impl RunRegister {
    /// Waits until no other process changes it.
    pub(crate) fn lock() -> Result<RunRegister, ClusterError> {
        let places = places()?;
        let locks = places.iter().map(|place| lock(&place.join(".lock"))).collect::<Result<_, _>>()?;
        Ok(RunRegister { places, _locks: locks })
    }

    pub(crate) fn add(&self, name: &str, file: Option<(&str, &str)>) -> Result<RunEntry, ClusterError> {
        if self.entries().iter().any(|entry| entry.alive && entry.name == name) {
            return Err(format!("a run named {name} is going on already; give this one another name").into());
        }
        let path = self.places[0].join(name);
        self.fill(name, &path, file).inspect_err(|_| {
            let _ = std::fs::remove_dir_all(&path);
        })
    }

    fn fill(&self, name: &str, path: &Path, file: Option<(&str, &str)>) -> Result<RunEntry, ClusterError> {
        let cannot = |error: io::Error| {
            ClusterError::new(format!("cannot make the folder of the run, {}: {error}", path.display()))
        };
        for dead in self.entries().iter().filter(|entry| entry.path == *path) {
            dead.remove().map_err(cannot)?;
        }
        make_private(path).map_err(cannot)?;
        let lock = lock(&path.join(LOCK))?;
        if let Some((name, text)) = file {
            write_private(&path.join(name), text).map_err(cannot)?;
        }
        Ok(RunEntry { path: path.to_owned(), folder: private_folder(name, path)?, _lock: lock })
    }

    pub(crate) fn entries(&self) -> Vec<FoundRun> {
        let all = self.places.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten().flatten();
        let folders = all.map(|entry| entry.path()).filter(|path| path.is_dir());
        folders.map(FoundRun::read).collect()
    }
}

impl RunEntry {
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the run's controller has locked, for as long as it lives.
    pub(crate) fn lock_file(&self) -> PathBuf {
        self.path.join(LOCK)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes down a control group that goes with the entry.
    pub(crate) fn add_group(&self, group: &Path) -> io::Result<()> {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(self.path.join(GROUPS))?;
        writeln!(file, "{}", group.display())
    }
}

fn remove_groups(entry: &Path) {
    control_groups::remove(&std::fs::read_to_string(entry.join(GROUPS)).unwrap_or_default());
}

impl Drop for RunEntry {
    fn drop(&mut self) {
        remove_groups(&self.path);
        let _ = std::fs::remove_dir_all(&self.folder);
        // Alone: a search must not find half an entry, and take its run for a killed one.
        let _register = RunRegister::lock();
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl FoundRun {
    fn read(path: PathBuf) -> FoundRun {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let folder = std::fs::read_to_string(path.join(FOLDER)).ok().map(PathBuf::from);
        FoundRun {
            alive: is_held(&path.join(LOCK)),
            folder: folder.filter(|folder| is_ours(folder)),
            name,
            path,
        }
    }

    pub(crate) fn text(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.path.join(file)).ok()
    }

    /// Removes the private folder, and then the entry: one that names a folder that stays must stay, too.
    pub(crate) fn remove(&self) -> io::Result<()> {
        remove_groups(&self.path);
        if let Some(folder) = &self.folder {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::remove_dir_all(&self.path)
    }
}

/// Makes a private folder. The entry has its path before it is there: it is found, however this process ends.
fn private_folder(name: &str, entry: &Path) -> Result<PathBuf, ClusterError> {
    let all = place_of_private_folders();
    let prefix = format!("fencepost-{name}-");
    let made = tempfile::Builder::new().prefix(&prefix).rand_bytes(RANDOM_LETTERS).make_in(&all, |path| {
        std::fs::write(entry.join(FOLDER), path.as_os_str().as_encoded_bytes())?;
        // Fails where anything of that name is there, also a link.
        make_private(path)
    });
    let made = made.and_then(|made| made.into_temp_path().keep().map_err(|error| error.error));
    made.map_err(|error| {
        ClusterError::new(format!(
            "cannot make a folder in {}: {error}; set TMPDIR to another place",
            all.display()
        ))
    })
}

/// Where private folders and nodes' data lie: on a disk, as `/tmp` is in memory on many systems.
pub fn place_of_private_folders() -> PathBuf {
    let disk = Path::new("/var/tmp");
    let may_write = || access(disk, AccessFlags::W_OK | AccessFlags::X_OK).is_ok();
    match std::env::var_os("TMPDIR") {
        None if may_write() => disk.to_owned(),
        _ => std::env::temp_dir(),
    }
}

fn make_private(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

/// Whether it is a folder, and no link to one, that belongs to this user and that no other user may enter.
fn is_ours(path: &Path) -> bool {
    let user = nix::unistd::geteuid().as_raw();
    std::fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
}

/// Where entries are: the first is the place of new ones. Root's are in /run, other users' in their runtime
/// folder, or else in the cache. The cache can differ from run to run, so it comes last.
fn places() -> Result<Vec<PathBuf>, ClusterError> {
    let user = nix::unistd::geteuid();
    let (mut places, mut refusals) = (Vec::new(), Vec::new());
    let runtime = match user.is_root() {
        true => vec![PathBuf::from("/run")],
        false => {
            let set = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
            let usual = PathBuf::from(format!("/run/user/{user}"));
            set.into_iter().chain([usual]).filter(|folder| is_ours(folder)).collect()
        }
    };
    let mut candidates: Vec<PathBuf> = runtime.into_iter().map(|folder| folder.join("fencepost")).collect();
    candidates.dedup();
    candidates.extend(cache::folder().ok().map(|cache| cache.join("runs")));
    for candidate in candidates {
        // One place is enough for new entries; of the others those count that are there.
        if places.is_empty()
            && let Some(parent) = candidate.parent()
            && let Err(error) = std::fs::create_dir_all(parent).and_then(|()| made_private(&candidate))
        {
            refusals.push(format!("{}: {error}", candidate.display()));
        }
        if is_ours(&candidate) {
            places.push(candidate);
        }
    }
    match places.is_empty() {
        true => Err(ClusterError::new(format!(
            "no place for the register of runs ({}); set XDG_RUNTIME_DIR or FENCEPOST_CACHE to a folder of yours that no other \
             user may enter",
            refusals.join("; ")
        ))),
        false => Ok(places),
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

fn made_private(path: &Path) -> io::Result<()> {
    match make_private(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ if is_ours(path) => Ok(()),
        _ => Err(io::Error::other("it is another user's, or other users may enter it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn name(test: &str) -> String {
        format!("register-{test}-{}-0", std::process::id())
    }

    #[test]
    fn private_folders_have_names_that_cannot_be_known_and_are_closed_to_others() {
        let register = RunRegister::lock().unwrap();
        let [one, two] =
            ["one", "two"].map(|test| register.add(&name(test), Some(("subnet", "text"))).unwrap());
        for entry in [&one, &two] {
            let mode = std::fs::metadata(entry.folder()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{:?}", entry.folder());
            let file = entry.folder().file_name().unwrap().to_str().unwrap();
            let random = file.rsplit('-').next().unwrap();
            assert_eq!(random.len(), RANDOM_LETTERS, "{file}");
        }
        let random =
            |entry: &RunEntry| entry.folder().to_str().unwrap().rsplit('-').next().unwrap().to_owned();
        assert_ne!(random(&one), random(&two));
        let found = register.entries().into_iter().find(|found| found.name == name("one")).unwrap();
        assert!(found.alive);
        assert_eq!(found.folder.as_deref(), Some(one.folder()));
        assert_eq!(found.text("subnet").as_deref(), Some("text"));
        drop(register);
        let folders = [one.folder().to_owned(), two.folder().to_owned()];
        drop((one, two));
        assert!(folders.iter().all(|folder| !folder.exists()));
    }

    #[test]
    fn a_link_in_place_of_a_private_folder_is_not_followed() {
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("precious"), "").unwrap();
        let register = RunRegister::lock().unwrap();
        let entry = register.add(&name("link"), None).unwrap();
        std::fs::remove_dir(entry.folder()).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), entry.folder()).unwrap();
        let found = register.entries().into_iter().find(|found| found.name == name("link")).unwrap();
        assert_eq!(found.folder, None);
        drop(register);
        let link = entry.folder().to_owned();
        drop(entry);
        assert!(elsewhere.path().join("precious").exists());
        let _ = std::fs::remove_file(link);
    }
}
