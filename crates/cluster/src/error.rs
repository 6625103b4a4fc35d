//! One error type for everything that concerns the environment.

use fencepost_history::Refusal;

/// One clear sentence: what was wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
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
