//! The program in the nodes: Fencepost itself, with its libraries, in a folder that works in any root.

use crate::error::cannot;
use crate::file_lock::{self, FileLock};
use crate::hash::short_hash;
use crate::own_task::aside;
use crate::{ClusterError, cache};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Stands for this very program in the commands of a node.
pub(crate) const NAME: &str = "fencepost";

const LOADER: &str = "/fencepost/ld.so";
const PROGRAM: &str = "/fencepost/fencepost";
const LIBRARIES: &str = "/fencepost/lib";

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) folder: PathBuf,
    /// Changes whenever the executable does.
    pub(crate) hash: String,
    dynamic: bool,
    /// Keeps the folder from being removed by a run of a newer executable.
    _lock: FileLock,
}

impl Program {
    /// Makes the folder in the cache, unless it is there, and removes unused ones of former builds.
    pub(crate) fn prepare(executable: &Path) -> Result<Program, ClusterError> {
        let cannot = cannot("read the program", executable);
        let executable = executable.canonicalize().map_err(&cannot)?;
        let hash = hash(&executable).map_err(&cannot)?;
        let path_hash = hash.split('-').next().unwrap_or_default();
        let programs = cache::folder()?.join("programs");
        let folder = programs.join(&hash);
        let _lock = file_lock::lock(&programs.join("lock"))?;
        if !folder.exists() {
            let unfinished = programs.join(format!(".{hash}"));
            let _ = std::fs::remove_dir_all(&unfinished);
            fill(&executable, &unfinished)?;
            std::fs::rename(&unfinished, &folder).map_err(cannot)?;
        }
        remove_others(&programs, path_hash, &hash);
        let lock = file_lock::share(&programs.join(format!("{hash}.lock")))?;
        Ok(Program { dynamic: folder.join("ld.so").exists(), folder, hash, _lock: lock })
    }

    /// The same from asynchronous code: copying a program takes a moment.
    pub(crate) async fn prepare_aside(executable: &Path) -> Result<Program, ClusterError> {
        let executable = executable.to_owned();
        aside(move || Program::prepare(&executable)).await
    }

    /// Whether that hash is of a former build of the same executable, which is no longer in use.
    pub(crate) fn is_former(&self, hash: &str) -> bool {
        let same = self
            .hash
            .split_once('-')
            .is_some_and(|(path, _)| hash.split_once('-').is_some_and(|it| it.0 == path));
        let lock = self.folder.with_file_name(format!("{hash}.lock"));
        same && hash != self.hash && !file_lock::is_held(&lock)
    }

    pub(crate) fn argv(&self, args: &[&str]) -> Vec<String> {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        invocation(self.dynamic, args)
    }
}

/// Names an executable by its path and what changes whenever the file does; reading it all takes too long.
pub(crate) fn hash(executable: &Path) -> std::io::Result<String> {
    let found = executable.metadata()?;
    let build = format!("{} {}.{} {}", found.ino(), found.mtime(), found.mtime_nsec(), found.len());
    let path = executable.as_os_str().as_encoded_bytes();
    Ok(format!("{}-{}", short_hash(path), short_hash(build.as_bytes())))
}

/// Inside a node: puts this very program in the place of the name `fencepost`.
pub(crate) fn resolve(argv: Vec<String>) -> Vec<String> {
    match argv.split_first() {
        Some((name, args)) if name == NAME => invocation(Path::new(LOADER).exists(), args.to_vec()),
        _ => argv,
    }
}

fn invocation(dynamic: bool, args: Vec<String>) -> Vec<String> {
    let start: &[&str] = if dynamic {
        &[LOADER, "--argv0", "fencepost", "--library-path", LIBRARIES, PROGRAM]
    } else {
        &[PROGRAM]
    };
    start.iter().map(|part| (*part).to_owned()).chain(args).collect()
}

fn fill(executable: &Path, folder: &Path) -> Result<(), ClusterError> {
    let cannot = |what: &Path, error: std::io::Error| {
        ClusterError::new(format!("cannot copy {} to {}: {error}", what.display(), folder.display()))
    };
    let copy = |from: &Path, to: &str| {
        std::fs::copy(from, folder.join(to)).map(drop).map_err(|error| cannot(from, error))
    };
    std::fs::create_dir_all(folder.join("lib")).map_err(|error| cannot(folder, error))?;
    copy(executable, "fencepost")?;
    let Some(loader) = loader(executable)? else { return Ok(()) };
    copy(&loader, "ld.so")?;
    for (name, path) in libraries(executable)? {
        copy(&path, &format!("lib/{name}"))?;
    }
    Ok(())
}

/// The dynamic loader that the executable names; none for one that is linked statically.
fn loader(executable: &Path) -> Result<Option<PathBuf>, ClusterError> {
    let bytes = std::fs::read(executable).map_err(cannot("read", executable))?;
    Ok(interpreter(&bytes).map(PathBuf::from))
}

/// The program interpreter of a 64-bit ELF file: the segment of type 3.
fn interpreter(file: &[u8]) -> Option<String> {
    let number = |at: usize, length: usize| -> Option<usize> {
        let bytes = file.get(at..at + length)?;
        usize::try_from(bytes.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))).ok()
    };
    let (table, entry_size, entries) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let entry = (0..entries).map(|index| table + index * entry_size).find(|at| number(*at, 4) == Some(3))?;
    let (start, length) = (number(entry + 8, 8)?, number(entry + 32, 8)?);
    let name = file.get(start..start + length)?.split(|byte| *byte == 0).next()?;
    String::from_utf8(name.to_vec()).ok()
}

/// Names and places of the libraries it needs, as the loader itself finds them.
fn libraries(executable: &Path) -> Result<HashMap<String, PathBuf>, ClusterError> {
    let listed = Command::new(executable)
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .output()
        .map_err(cannot("list the libraries of", executable))?;
    let text = String::from_utf8_lossy(&listed.stdout);
    if let Some(missing) = text.lines().find(|line| line.contains("not found")) {
        return Err(ClusterError::new(format!(
            "{} needs a library that this machine does not have: {}",
            executable.display(),
            missing.trim()
        )));
    }
    Ok(listed_libraries(&text).collect())
}

/// Names and places in what a loader lists: `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)`.
pub(crate) fn listed_libraries(text: &str) -> impl Iterator<Item = (String, PathBuf)> {
    text.lines()
        .filter_map(|line| line.trim().split_once(" => "))
        .filter_map(|(name, rest)| Some((name.to_owned(), PathBuf::from(rest.split_whitespace().next()?))))
}

fn remove_others(programs: &Path, path_hash: &str, hash: &str) {
    let Ok(entries) = std::fs::read_dir(programs) else { return };
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let old = name.starts_with(path_hash) && !name.starts_with(hash) && !name.ends_with(".lock");
        let lock = programs.join(format!("{name}.lock"));
        if old && programs.join(&name).is_dir() && !file_lock::is_held(&lock) {
            let _ = std::fs::remove_dir_all(programs.join(&name));
            let _ = std::fs::remove_file(lock);
        }
    }
}

pub(crate) fn remove_unused() -> Result<(), ClusterError> {
    let programs = cache::folder()?.join("programs");
    let _lock = file_lock::lock(&programs.join("lock"))?;
    remove_others(&programs, "", "none");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_loader_of_a_program() {
        let this = std::env::current_exe().unwrap();
        if let Some(loader) = loader(&this).unwrap() {
            assert!(loader.exists(), "{loader:?}");
            assert!(libraries(&this).unwrap().contains_key("libc.so.6"));
        }
        assert_eq!(interpreter(b"#!/bin/sh"), None);
    }

    #[test]
    fn names_each_build_of_an_executable() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        std::fs::write(&one, "first").unwrap();
        std::fs::write(&two, "first").unwrap();
        let first = hash(&one).unwrap();
        assert_eq!(first, hash(&one).unwrap());
        assert_ne!(first.split_once('-').unwrap().0, hash(&two).unwrap().split_once('-').unwrap().0);
        std::fs::write(&one, "a second build").unwrap();
        let second = hash(&one).unwrap();
        assert_eq!(first.split_once('-').unwrap().0, second.split_once('-').unwrap().0);
        assert_ne!(first, second);
    }
}
