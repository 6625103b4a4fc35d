//! One error type for everything that concerns the environment.

/// One clear sentence: what was wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ClusterError(pub String);

impl ClusterError {
    pub fn new(sentence: impl Into<String>) -> ClusterError {
        ClusterError(sentence.into())
    }
}
