//! Files that are written whole or not at all.

use super::RunError;
use crate::{compress, compressed_name};
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A history that is larger than this is compressed when its run has ended. A smaller one stays a text that `grep` and
/// `jq` read: this many bytes are half a million events, more than most runs have.
pub const COMPRESS_ABOVE_BYTES: u64 = 64 << 20;

/// Writes a file whole or not at all.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<(), RunError> {
    write_whole_by(path, |mut file| file.write_all(content))
}

/// Writes a file whole or not at all, in pieces: under another name first, then renamed.
pub fn write_whole_by<E>(path: &Path, write: impl FnOnce(&File) -> Result<(), E>) -> Result<(), RunError>
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written =
        File::create(&partial).map_err(Into::into).and_then(|file| write(&file).map_err(Into::into));
    let renamed = written.and_then(|()| Ok(fs::rename(&partial, path)?));
    renamed.map_err(|source| {
        let _ = fs::remove_file(&partial);
        RunError::Write { path: path.to_owned(), source }
    })
}

/// Compresses the history of a run that has ended if it is larger than `above_bytes`, and says whether it did. The plain
/// file is removed only when the compressed one is whole and on the disk.
pub fn compress_history(history: &Path, above_bytes: u64) -> Result<bool, RunError> {
    let unreadable = |source| RunError::Read { path: history.to_owned(), source };
    let mut plain = File::open(history).map_err(unreadable)?;
    if plain.metadata().map_err(unreadable)?.len() <= above_bytes {
        return Ok(false);
    }
    write_whole_by(&compressed_name(history), |file| {
        compress(&mut plain, BufWriter::new(file))?;
        file.sync_all()
    })?;
    // The rename has to be on the disk, too, before the only other copy is removed.
    let folder = history.parent().unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .and_then(|()| fs::remove_file(history))
        .map_err(|source| RunError::Write { path: history.to_owned(), source: source.into() })?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Read};

    #[test]
    fn a_large_history_is_compressed_and_a_small_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let history = folder.path().join("history.jsonl");
        let text = "{\"index\":0}\n".repeat(10_000);
        fs::write(&history, &text).unwrap();
        assert!(!compress_history(&history, text.len() as u64).unwrap());
        assert!(history.is_file() && !compressed_name(&history).exists());
        assert!(compress_history(&history, text.len() as u64 - 1).unwrap());
        assert!(!history.exists());
        let compressed = File::open(compressed_name(&history)).unwrap();
        let mut read = String::new();
        crate::decompressed(compressed).unwrap().read_to_string(&mut read).unwrap();
        assert_eq!(read, text);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no other file is left");
    }

    #[test]
    fn a_failed_write_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.csv");
        let failed = write_whole_by(&path, |mut file| {
            file.write_all(b"half")?;
            Err(io::Error::other("no space left"))
        });
        let error = failed.unwrap_err();
        assert!(error.to_string().ends_with("out.csv"), "{error}");
        assert_eq!(error.source().unwrap().to_string(), "no space left");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
