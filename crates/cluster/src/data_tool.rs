//! The tool by which an agent packs the data folder of its node: what was there when a lock broke.

use crate::agent::{Tool, ToolError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tar::Builder;

pub struct DataTool;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataCall {
    pub folder: PathBuf,
}

/// A folder as `tar.gz`.
#[derive(Debug, Serialize, Deserialize)]
pub struct PackedData {
    /// As base64.
    pub archive: String,
    /// Files for which there was no more room.
    pub left_out: usize,
}

/// Packed of a node at most, in bytes: an etcd sets aside 64 MiB a log part, a fresh PostgreSQL has 40 MB.
const PACKED_MAX: u64 = 256 << 20;

/// Nor more than so many bytes after it.
const ARCHIVE_MAX: usize = 32 << 20;

impl Tool for DataTool {
    fn name(&self) -> &'static str {
        "data"
    }

    fn call(&self, args: Value) -> Result<Value, ToolError> {
        let DataCall { folder } =
            serde_json::from_value(args).map_err(|error| format!("the data tool was misused: {error}"))?;
        let packed = pack(&folder).map_err(|error| format!("cannot pack {}: {error}", folder.display()))?;
        Ok(json!(packed))
    }
}

fn pack(folder: &Path) -> io::Result<PackedData> {
    let mut files = Vec::new();
    find(folder, &mut files)?;
    // Small files say most: where there is no room for all, it is a log that is left out.
    files.sort();
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let (mut packed, mut left_out) = (0, 0);
    for (bytes, path) in files {
        packed += bytes;
        if packed > PACKED_MAX || archive.get_ref().get_ref().len() > ARCHIVE_MAX {
            left_out += 1;
            continue;
        }
        let name = path.strip_prefix(folder).unwrap_or(&path);
        // Its server goes on: what is gone, or grows meanwhile, is taken as it is found.
        if let Ok(content) = fs::read(&path) {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o600);
            archive.append_data(&mut header, name, &content[..])?;
        }
    }
    let archive = archive.into_inner()?.finish()?;
    Ok(PackedData { archive: STANDARD.encode(archive), left_out })
}

fn find(folder: &Path, files: &mut Vec<(u64, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() {
            find(&entry.path(), files)?;
        } else if found.is_file() {
            files.push((found.len(), entry.path()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    #[test]
    fn a_folder_is_packed_with_what_is_beneath_it_and_without_what_is_too_large() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("below/log"), "SET lock mine").unwrap();
        fs::File::create(folder.path().join("large")).unwrap().set_len(PACKED_MAX + 1).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
        let packed = DataTool.call(json!({"folder": folder.path()})).unwrap();
        let packed: PackedData = serde_json::from_value(packed).unwrap();
        assert_eq!(packed.left_out, 1);
        let bytes = STANDARD.decode(packed.archive).unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(&bytes[..]));
        let files: Vec<(String, String)> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let name = entry.path().unwrap().display().to_string();
                let mut content = String::new();
                entry.read_to_string(&mut content).unwrap();
                (name, content)
            })
            .collect();
        assert_eq!(files, [("below/log".to_owned(), "SET lock mine".to_owned())]);
    }
}
