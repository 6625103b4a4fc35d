//! `iptables`, `tc` and `ip` for nodes of a user's image: Debian's, with libraries, for any root.

use crate::ClusterError;
use crate::environment::PLACE;
use crate::error::cannot;
use crate::program::listed_libraries;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Under [`PLACE`], in which such a node has nothing else.
const FOLDER: &str = "network";
const LOADER: &str = "ld.so";
const LIBRARIES: &str = "lib";
const EXTENSIONS: &str = "xtables";

/// Each by what commands call it, and its file in Debian.
const PROGRAMS: [(&str, &str); 3] =
    [("iptables", "usr/sbin/xtables-nft-multi"), ("tc", "usr/sbin/tc"), ("ip", "usr/bin/ip")];

pub(crate) fn variable() -> String {
    format!("XTABLES_LIBDIR={PLACE}/{FOLDER}/{EXTENSIONS}")
}

/// A command as a node can run it: where it has these programs from Fencepost, they are those.
pub fn network_command(argv: Vec<String>) -> Vec<String> {
    let folder = Path::new(PLACE).join(FOLDER);
    let known = argv.first().is_some_and(|name| PROGRAMS.iter().any(|(known, _)| known == name));
    if !known || !folder.join(LOADER).exists() {
        return argv;
    }
    let place = |name: &str| folder.join(name).display().to_string();
    let start = [
        place(LOADER),
        "--argv0".to_owned(),
        argv[0].clone(),
        "--library-path".to_owned(),
        place(LIBRARIES),
        place(&argv[0]),
    ];
    start.into_iter().chain(argv.into_iter().skip(1)).collect()
}

/// Copies the programs of a Debian root into a node's [`PLACE`]. Errors: one is missing, or copying fails.
pub(crate) fn copy(root: &Path, place: &Path) -> Result<(), ClusterError> {
    let to = place.join(FOLDER);
    let copy = |from: &Path, name: &str| {
        let target = to.join(name);
        let cannot = |error| {
            ClusterError::new(format!("cannot copy {} to {}: {error}", from.display(), target.display()))
        };
        std::fs::create_dir_all(target.parent().unwrap_or(&to)).map_err(cannot)?;
        std::fs::copy(from, &target).map(drop).map_err(cannot)
    };
    let loader = loader(root)?;
    copy(&loader, LOADER)?;
    for (name, file) in PROGRAMS {
        let program = root.join(file);
        copy(&program, name)?;
        for library in libraries(root, &loader, &program)? {
            copy(&library, &format!("{LIBRARIES}/{}", file_name(&library)))?;
        }
    }
    for extension in files_in(&library_folder(root)?.join("xtables"))? {
        copy(&extension, &format!("{EXTENSIONS}/{}", file_name(&extension)))?;
    }
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>, ClusterError> {
    let entries = std::fs::read_dir(folder).map_err(cannot("read", folder))?;
    Ok(entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect())
}

fn library_folder(root: &Path) -> Result<PathBuf, ClusterError> {
    let folder = root.join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    match folder.is_dir() {
        true => Ok(folder),
        false => Err(ClusterError::new(format!("{} has no libraries", root.display()))),
    }
}

fn loader(root: &Path) -> Result<PathBuf, ClusterError> {
    let is_loader = |path: &PathBuf| file_name(path).starts_with("ld-linux-");
    let mut found = files_in(&library_folder(root)?)?.into_iter().filter(is_loader);
    found.next().ok_or_else(|| ClusterError::new(format!("{} has no dynamic loader", root.display())))
}

/// The libraries that a program needs, as the loader of its own root finds them.
fn libraries(root: &Path, loader: &Path, program: &Path) -> Result<Vec<PathBuf>, ClusterError> {
    let mut command = Command::new(loader);
    command.arg("--library-path").arg(library_folder(root)?).arg("--list").arg(program);
    let listed = command.output().map_err(cannot("list the libraries of", program))?;
    let text = String::from_utf8_lossy(&listed.stdout);
    // The loader lists itself by its path.
    let found = listed_libraries(&text).filter(|(name, _)| !name.starts_with('/'));
    let found: Vec<PathBuf> = found.map(|(_, place)| place).collect();
    match found.is_empty() {
        true => Err(ClusterError::new(format!("the libraries of {} are not known", program.display()))),
        false => Ok(found),
    }
}
