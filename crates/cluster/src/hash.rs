//! Short names for content.

use sha2::{Digest, Sha256};

/// Twelve hexadecimal digits that name some content.
pub(crate) fn short_hash(content: &[u8]) -> String {
    Sha256::digest(content).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}
