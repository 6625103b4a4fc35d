/// Nanoseconds as seconds with three decimals, as every sentence shows time: `3.214 s`.
pub fn seconds(ns: u64) -> String {
    let ms = ns / 1_000_000;
    format!("{}.{:03} s", ms / 1000, ms % 1000)
}

/// How often, for a sentence: `once`, `twice`, `3 times`.
pub fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}

/// The verb after a share, as in `1 of 31 updates is lost`.
pub fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// As in `2 of 31 acknowledged updates are lost (6.5 %)`.
pub(crate) fn lost_of(lost: usize, acknowledged: usize, what: &str) -> String {
    let percent = 100.0 * lost as f64 / acknowledged.max(1) as f64;
    format!("{lost} of {acknowledged} acknowledged {what} {} lost ({percent:.1} %)", are(lost))
}

/// Nanoseconds as milliseconds, with a decimal below ten: `84 ms`, `0.4 ms`.
pub fn milliseconds(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    if ms == 0.0 || ms >= 9.95 { format!("{ms:.0} ms") } else { format!("{ms:.1} ms") }
}

/// A key of a lock, for a sentence.
pub fn lock(key: &str) -> &str {
    if key.is_empty() { "the lock" } else { key }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verb_after_a_share_follows_its_number() {
        assert_eq!((are(0), are(1), are(2)), ("are", "is", "are"));
    }
}
