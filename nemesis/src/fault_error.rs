//! Why a fault could not be injected or healed.

/// Why a fault could not be injected or healed: one sentence that names the target.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    #[error(transparent)]
    Cluster(#[from] fencepost_cluster::ClusterError),
    #[error("{0}")]
    Other(String),
}
