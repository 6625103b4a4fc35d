//! The one place where tests of the program wait for something to become so. No test passes or fails by how
//! long anything took: a limit here only ends what hangs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What takes longer than this hangs.
const HANGS: Duration = Duration::from_secs(300);

/// From one look to the next.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until it is so. Fails what hangs, with `what` is waited for.
pub fn await_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < HANGS, "still not so: {what}");
        sleep(PAUSE);
    }
}

/// As [`await_until`], for tests that ask something else meanwhile.
pub async fn await_until_async(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < HANGS, "still not so: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Looks until there is nothing, and gives what is there nevertheless if that hangs.
pub fn await_nothing(mut look: impl FnMut() -> Vec<String>) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let left = look();
        if left.is_empty() || begun.elapsed() >= HANGS {
            return left;
        }
        sleep(PAUSE);
    }
}

/// Looks for as long as it takes: others may go first, however many they are.
pub fn await_turn(mut is_there: impl FnMut() -> bool) {
    while !is_there() {
        sleep(3 * PAUSE);
    }
}

/// Looks again and again while something else is done. What is to be seen for certain must be looked for at a
/// moment of which the test knows that it is there.
pub fn look_while<T>(mut look: impl FnMut() + Send, act: impl FnOnce() -> T) -> T {
    struct Done<'a>(&'a AtomicBool);
    // Also where the test fails: nothing is looked at for ever.
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                look();
                sleep(PAUSE / 4);
            }
        });
        let _done = Done(&done);
        act()
    })
}
