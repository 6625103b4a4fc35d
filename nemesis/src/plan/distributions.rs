//! How lengths, sizes and subsets are drawn.

use fencepost_history::Stream;
use rand::RngExt;
use std::time::Duration;

/// A number between the two, all magnitudes alike; rounded to three digits after the point.
pub(crate) fn draw_log(low: f64, high: f64, random: &mut Stream) -> f64 {
    let drawn = low * (high / low).powf(random.random_range(0.0..=1.0));
    (drawn * 1e3).round() / 1e3
}

pub(crate) fn around_ttl(ttl: Duration, low: f64, high: f64, random: &mut Stream) -> Duration {
    ttl.mul_f64(random.random_range(low..=high))
}

pub(crate) fn subset(names: &[String], size: usize, random: &mut Stream) -> Vec<String> {
    let mut chosen = rand::seq::index::sample(random, names.len(), size.min(names.len())).into_vec();
    chosen.sort_unstable();
    chosen.into_iter().map(|index| names[index].clone()).collect()
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
