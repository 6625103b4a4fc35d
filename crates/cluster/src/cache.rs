//! The folder in which Fencepost keeps what takes long to make.

use crate::ClusterError;
use std::path::PathBuf;

/// The cache: `$FENCEPOST_CACHE`, else `fencepost` in `$XDG_CACHE_HOME` or `~/.cache`. Errors: none is set.
pub fn folder() -> Result<PathBuf, ClusterError> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("FENCEPOST_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|it| it.join("fencepost")))
        .or_else(|| set("HOME").map(|it| it.join(".cache/fencepost")))
        .ok_or_else(|| ClusterError::new("no folder for the cache: set HOME, or FENCEPOST_CACHE to a folder"))
}
