//! One error type for everything that concerns the environment.

use fencepost_history::Refusal;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// One clear sentence: what was wrong, where, and what to do.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[error("{0}")]
pub struct ClusterError(pub String);

impl From<Refusal> for ClusterError {
    fn from(refusal: Refusal) -> ClusterError {
        ClusterError(refusal.sentence)
    }
}

impl From<String> for ClusterError {
    fn from(sentence: String) -> ClusterError {
        ClusterError(sentence)
    }
}

impl ClusterError {
    pub fn new(sentence: impl Into<String>) -> ClusterError {
        ClusterError(sentence.into())
    }
}

/// What is said of a file with which something cannot be done.
pub(crate) fn cannot(what: &str, path: &Path) -> impl Fn(io::Error) -> ClusterError {
    move |error| ClusterError(format!("cannot {what} {}: {error}", path.display()))
}

/// What is to be removed may be gone already.
pub(crate) fn if_there(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
