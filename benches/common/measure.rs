//! Measures what takes milliseconds, with least, median and most: means hide other programs' load.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Plays, at least; the first is not counted.
const PLAYS: usize = 10;

const FOR: Duration = Duration::from_secs(1);

/// Plays it, prints a line with its times, and gives the median.
pub fn measure<T>(name: &str, mut play: impl FnMut() -> T) -> Duration {
    black_box(play());
    let begun = Instant::now();
    let mut times = Vec::new();
    while times.len() < PLAYS || begun.elapsed() < FOR {
        let start = Instant::now();
        black_box(play());
        times.push(start.elapsed());
    }
    times.sort();
    let median = times[times.len() / 2];
    let most = times[times.len() - 1];
    println!(
        "{name:<80} {:>10.2?} least {median:>10.2?} median {most:>10.2?} most of {}",
        times[0],
        times.len()
    );
    median
}
