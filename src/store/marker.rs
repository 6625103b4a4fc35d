//! The marker of a folder in a store: an object that names all its files, written last and removed first.

use anyhow::{Context, Result, bail};
use fencepost_history::run::open_regular;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Component, Path};

pub const MARKER: &str = "uploaded.json";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Marker {
    /// By their paths in the folder, parts separated by `/`.
    pub files: BTreeMap<String, FileFacts>,
}

/// By which a file is known again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileFacts {
    pub bytes: u64,
    pub sha256: String,
}

impl Marker {
    /// Reads every file of a folder, without links. Errors: a file cannot be read, or its name is no UTF-8.
    pub fn of(folder: &Path) -> Result<Marker> {
        let mut marker = Marker::default();
        marker.add(folder, "")?;
        Ok(marker)
    }

    fn add(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                bail!("cannot send {}: its name is not UTF-8", path.display());
            };
            let (kind, name) = (entry.file_type()?, format!("{prefix}{name}"));
            if kind.is_dir() {
                self.add(&path, &format!("{name}/"))?;
            } else if kind.is_file() && name != MARKER {
                self.files.insert(name, FileFacts::of(&path)?);
            }
        }
        Ok(())
    }

    /// Reads a marker. Errors: it is none, or names a file outside of its folder.
    pub fn parse(json: &[u8]) -> Result<Marker> {
        let marker: Marker = serde_json::from_slice(json).context("this is no marker of Fencepost")?;
        let is_inside = |name: &&String| {
            !name.is_empty() && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)))
        };
        match marker.files.keys().find(|name| !is_inside(name)) {
            Some(outside) => bail!("the marker names a file outside of its folder: {outside:?}"),
            None => Ok(marker),
        }
    }

    pub fn json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("names and numbers are always JSON")
    }
}

impl FileFacts {
    /// Reads a file. Errors: it cannot be read.
    pub fn of(path: &Path) -> Result<FileFacts> {
        let cannot = || format!("cannot read {}", path.display());
        let mut file = BufReader::with_capacity(1 << 16, open_regular(path).with_context(cannot)?);
        let (mut hash, mut bytes) = (Sha256::new(), 0);
        loop {
            let chunk = file.fill_buf().with_context(cannot)?;
            let length = chunk.len();
            if length == 0 {
                break;
            }
            hash.update(chunk);
            bytes += length as u64;
            file.consume(length);
        }
        let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(FileFacts { bytes, sha256 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_names_every_file_and_no_link() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("logs")).unwrap();
        fs::write(folder.path().join("logs/n1.log"), "abc").unwrap();
        fs::write(folder.path().join(MARKER), "of another upload").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("latest")).unwrap();
        let marker = Marker::of(folder.path()).unwrap();
        assert_eq!(marker.files.keys().collect::<Vec<_>>(), ["logs/n1.log"]);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(marker.files["logs/n1.log"], FileFacts { bytes: 3, sha256: abc.to_owned() });
        assert_eq!(Marker::parse(&marker.json()).unwrap(), marker);
    }

    #[test]
    fn a_marker_cannot_lead_out_of_its_folder() {
        for name in ["../run.toml", "/etc/passwd", "a/../../b", ""] {
            let json = format!("{{\"files\":{{{name:?}:{{\"bytes\":1,\"sha256\":\"\"}}}}}}");
            let error = Marker::parse(json.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("outside of its folder"), "{error}");
        }
        assert!(Marker::parse(b"{}").is_err());
    }
}
