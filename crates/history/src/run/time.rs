use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970-01-01 UTC.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// `20260214T093015Z`: UTC, sortable, without characters that a file name may not have.
pub fn timestamp(seconds: u64) -> String {
    rfc3339(seconds).replace(['-', ':'], "")
}

/// `2026-02-14 09:30:15 UTC`.
pub fn date(seconds: u64) -> String {
    rfc3339(seconds).replace('T', " ").replace('Z', " UTC")
}

/// The last second of the year 9999: RFC 3339 has no later one.
const LAST: u64 = 253_402_300_799;

fn rfc3339(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds.min(LAST))).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_has_a_date() {
        assert_eq!(date(1_771_061_415), "2026-02-14 09:30:15 UTC");
        assert_eq!(date(u64::MAX), "9999-12-31 23:59:59 UTC");
        assert_eq!(timestamp(0), "19700101T000000Z");
    }
}
