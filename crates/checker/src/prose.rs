//! Numbers as sentences say them.

/// Nanoseconds as seconds with three decimals, as every sentence shows time: `3.214 s`.
pub fn seconds(ns: u64) -> String {
    let ms = ns / 1_000_000;
    format!("{}.{:03} s", ms / 1000, ms % 1000)
}

/// How often, in a word or two, as sentences say it: `once`, `twice`, `3 times`.
pub fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}

/// Nanoseconds as milliseconds, with a decimal below ten: `84 ms`, `0.4 ms`.
pub fn milliseconds(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    if ms == 0.0 || ms >= 9.95 { format!("{ms:.0} ms") } else { format!("{ms:.1} ms") }
}
