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
