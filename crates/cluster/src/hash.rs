//! Names for content.

use sha2::{Digest, Sha256};

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Twelve hexadecimal digits that name some content.
pub(crate) fn short_hash(content: &[u8]) -> String {
    short(&Sha256::digest(content))
}

pub(crate) fn short(hash: &[u8]) -> String {
    hex(&hash[..6])
}
