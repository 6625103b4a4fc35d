//! Why a fault could not be injected or healed.

use fencepost_history::Refusal;

/// Why a fault could not be injected or healed: one sentence that names the target.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    #[error(transparent)]
    Cluster(#[from] fencepost_cluster::ClusterError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("{0}")]
    Other(String),
}
