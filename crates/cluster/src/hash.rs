//! Names for content.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

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

/// In pieces: a file may have any length.
pub(crate) fn add_content(hash: &mut Sha256, file: &Path) -> io::Result<()> {
    let (mut file, mut chunk) = (File::open(file)?, vec![0; 256 << 10]);
    while let length @ 1.. = file.read(&mut chunk)? {
        hash.update(&chunk[..length]);
    }
    Ok(())
}

pub(crate) fn content_hash(file: &Path) -> io::Result<Vec<u8>> {
    let mut hash = Sha256::new();
    add_content(&mut hash, file)?;
    Ok(hash.finalize().to_vec())
}
