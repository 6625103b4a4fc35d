//! Where environments' folders are, noted in the cache: what was made of a gone folder can be removed.

use super::definition::Environment;
use crate::error::cannot;
use crate::hash::short_hash;
use crate::{ClusterError, cache};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

pub(crate) fn environments() -> Result<PathBuf, ClusterError> {
    Ok(cache::folder()?.join("environments"))
}

/// Names the environment and its folder: two folders can have the same last name.
pub(crate) fn source_name(environment: &Environment) -> String {
    let allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let name: String = environment.name.to_ascii_lowercase();
    let name: String = name.chars().map(|it| if allowed(it) { it } else { '-' }).collect();
    format!("{}-{}", name.trim_matches('-'), short_hash(whole_path(environment).as_os_str().as_bytes()))
}

pub(crate) fn note_source(environment: &Environment) -> Result<(), ClusterError> {
    let at = environments()?.join(format!("{}.source", source_name(environment)));
    std::fs::write(&at, whole_path(environment).as_os_str().as_bytes()).map_err(cannot("write", &at))
}

pub(crate) fn source_is_gone(source_name: &str) -> bool {
    let Ok(environments) = environments() else { return false };
    let noted = std::fs::read(environments.join(format!("{source_name}.source"))).map(OsString::from_vec);
    noted.is_ok_and(|folder| !folder.is_empty() && !Path::new(&folder).is_dir())
}

/// The folder's path, by whatever way it was named; empty where there is none.
fn whole_path(environment: &Environment) -> PathBuf {
    let folder = environment.folder.clone().unwrap_or_default();
    folder.canonicalize().unwrap_or(folder)
}
