//! `durations.json`: how long runs took, so that the next campaign can be assigned better.

use fencepost_engine::BadUsage;
use fencepost_history::mistake::json_sentence;
use fencepost_history::run::read_bounded;
use fencepost_history::{FILE_BYTES_MAX, printable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

/// The name of the file in the folder of a part, and of a merge.
pub const DURATIONS: &str = "durations.json";

const SECONDS: RangeInclusive<f64> = 0.0..=1e6;

/// Mean seconds of a run, by what was run (`redlock under clock-jump`, or the name of a scenario).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Durations(BTreeMap<String, f64>);

impl Durations {
    /// Reads a file of an earlier campaign; follows links. Errors: unreadable, or malformed at a line.
    pub fn read(path: &Path) -> Result<Durations, BadUsage> {
        const USE: &str = "give the durations.json of an earlier part or merge";
        let text = read_bounded(path, FILE_BYTES_MAX).map_err(|error| {
            BadUsage::new(format!("cannot read the durations {}: {error}; {USE}", path.display()))
        })?;
        let refused = |line: usize, why: String| {
            BadUsage::new(format!("{}, line {line}: these are no durations ({why}); {USE}", path.display()))
        };
        let durations: Durations = serde_json::from_str(&text)
            .map_err(|error| refused(error.line().max(1), printable(&json_sentence(&error)).into_owned()))?;
        match durations.0.iter().find(|(_, seconds)| !SECONDS.contains(*seconds)) {
            Some((name, seconds)) => {
                let line = 1 + text.lines().position(|line| line.contains(name.as_str())).unwrap_or(0);
                Err(refused(line, format!("{} cannot take {seconds} seconds", printable(name))))
            }
            None => Ok(durations),
        }
    }

    /// As [`Durations::read`]; without a file nothing is known. Errors: as there.
    pub fn read_if_named(path: Option<&Path>) -> Result<Durations, BadUsage> {
        Ok(path.map(Durations::read).transpose()?.unwrap_or_default())
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
        for (damaged, line, why) in [
            ("{\n\"a\": 1.0,\n\"b\": \"x\"}", 3, "invalid type"),
            ("{\n\"a\": -1.0}", 2, "a cannot take -1 seconds"),
        ] {
            std::fs::write(&path, damaged).unwrap();
            let error = Durations::read(&path).unwrap_err().to_string();
            let beginning = format!("{}, line {line}: these are no durations ({why}", path.display());
            assert!(error.starts_with(&beginning) && error.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn a_link_to_durations_is_followed_and_what_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link] = [DURATIONS, "link"].map(|name| folder.path().join(name));
        std::fs::write(&path, "{\"a\": 1.0}").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(Durations::read(&link).unwrap().of_ms("a"), Some(1000));
        let endless = folder.path().join("endless");
        std::fs::File::create(&endless).unwrap().set_len(40 << 30).unwrap();
        assert!(Durations::read(&endless).unwrap_err().to_string().contains("it is longer than 64 MiB"));
        let missing = folder.path().join("missing");
        for wrong in [folder.path(), &missing] {
            let error = Durations::read(wrong).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("cannot read the durations {}: ", wrong.display())),
                "{error}"
            );
        }
    }
}
