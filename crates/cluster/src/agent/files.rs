//! Files of a node. Their contents travel as base64, since they need not be text.

use crate::ClusterError;
use crate::error::if_there;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::path::Path;

pub(super) fn put(path: &str, content: &str) -> Result<(), ClusterError> {
    let content =
        STANDARD.decode(content).map_err(|error| format!("the content of {path} is no base64: {error}"))?;
    let cannot = |error| ClusterError::new(format!("cannot write {path}: {error}"));
    if let Some(folder) = Path::new(path).parent() {
        std::fs::create_dir_all(folder).map_err(cannot)?;
    }
    std::fs::write(path, content).map_err(cannot)
}

pub(super) fn get(path: &str) -> Result<String, ClusterError> {
    let content = std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    Ok(STANDARD.encode(content))
}

pub(super) fn remove(path: &str) -> Result<(), ClusterError> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    if_there(removed).map_err(|error| format!("cannot remove {path}: {error}").into())
}
