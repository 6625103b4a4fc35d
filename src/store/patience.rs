//! For how long requests are tried again.

use std::time::Duration;

/// For how long a request is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    Short,
    Long,
}

impl Patience {
    /// From the first request to the last.
    pub fn time(self) -> Duration {
        match self {
            Patience::Short => Duration::from_secs(10),
            // Longer, and credentials that go with a request could expire.
            Patience::Long => Duration::from_secs(240),
        }
    }
}
