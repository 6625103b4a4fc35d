//! `durations.json`: how long runs took, so that the next campaign can be dealt better.

use fencepost_history::FILE_BYTES_MAX;
use fencepost_history::run::{RunError, read_bounded};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The name of the file in the folder of a part, and of a merge.
pub const DURATIONS: &str = "durations.json";

/// Mean seconds of a run, by what was run (`redlock under clock-jump`, or the name of a scenario).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Durations(BTreeMap<String, f64>);

impl Durations {
    /// Reads what an earlier campaign left, from a file that the user names: a link or a pipe will do.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else: one sentence.
    pub fn read(path: &Path) -> Result<Durations, RunError> {
        let text = read_bounded(path, FILE_BYTES_MAX)
            .map_err(|source| RunError::Read { path: path.to_owned(), source })?;
        let durations: Durations = serde_json::from_str(&text).map_err(|error| RunError::Malformed {
            path: path.to_owned(),
            reason: format!(
                "these are no durations ({error}); give the {DURATIONS} of an earlier part or merge"
            ),
        })?;
        match durations.0.iter().find(|(_, seconds)| !(0.0..=1e6).contains(*seconds)) {
            Some((name, seconds)) => Err(RunError::Malformed {
                path: path.to_owned(),
                reason: format!("{name} cannot take {seconds} seconds"),
            }),
            None => Ok(durations),
        }
    }

    /// Of what was run under these names.
    pub fn of(took: impl Iterator<Item = (String, u64)>) -> Durations {
        let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (name, took_ms) in took {
            let (sum, count) = sums.entry(name).or_default();
            (*sum, *count) = (*sum + took_ms, *count + 1);
        }
        let mean = |(sum, count): (u64, u64)| (sum as f64 / count as f64 / 100.0).round() / 10.0;
        Durations(sums.into_iter().map(|(name, all)| (name, mean(all))).collect())
    }

    /// How long a run of this name took, in milliseconds.
    pub fn of_ms(&self, name: &str) -> Option<u64> {
        self.0.get(name).map(|seconds| (seconds * 1e3) as u64)
    }

    /// The file's text.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DURATIONS);
        let took =
            [("redlock under pause", 8_040), ("redlock under pause", 12_000), ("etcd under none", 900)];
        let durations = Durations::of(took.into_iter().map(|(name, ms)| (name.to_owned(), ms)));
        std::fs::write(&path, durations.text()).unwrap();
        assert_eq!(Durations::read(&path).unwrap(), durations);
        assert_eq!(durations.of_ms("redlock under pause"), Some(10_000));
        assert_eq!((durations.of_ms("etcd under none"), durations.of_ms("etcd")), (Some(900), None));
        for damaged in ["", "[]", "{\"a\": -1.0}", "{\"a\": 1e99}"] {
            std::fs::write(&path, damaged).unwrap();
            assert!(Durations::read(&path).unwrap_err().to_string().contains(DURATIONS), "{damaged}");
        }
        std::fs::File::create(&path).unwrap().set_len(40 << 30).unwrap();
        let endless = Durations::read(&path).unwrap_err();
        let endless = std::error::Error::source(&endless).unwrap().to_string();
        assert!(endless.starts_with("it is longer than 64 MiB"), "{endless}");
    }
}
