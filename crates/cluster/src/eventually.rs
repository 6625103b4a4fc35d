//! For tests: waiting for what another thread or process does, however slow the machine is.

use std::time::{Duration, Instant};

/// Ends only what hangs.
const DEADLINE: Duration = Duration::from_secs(120);

const LOOK: Duration = Duration::from_millis(2);

/// Blocks until it is so. Panics if it is still not so after two minutes.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < DEADLINE, "still not so: {what}");
        std::thread::sleep(LOOK);
    }
}
