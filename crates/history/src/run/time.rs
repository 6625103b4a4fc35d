//! Dates of runs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970-01-01 UTC.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// `20260214T093015Z`: UTC, sortable, without characters that a file name may not have.
pub fn timestamp(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds))
        .to_string()
        .replace(['-', ':'], "")
}

/// `2026-02-14 09:30:15 UTC`.
pub(super) fn date(seconds: u64) -> String {
    let text = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string();
    text.replace('T', " ").replace('Z', " UTC")
}
