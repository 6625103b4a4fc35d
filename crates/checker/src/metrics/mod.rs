mod costs;
pub(crate) mod herd;
pub(crate) mod loss_notice;

pub use costs::{Costs, costs, quantile};

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a run measured, beside the properties that held or were violated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    pub name: String,
    pub value: f64,
    /// `%`, `ms`; empty for a plain number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Where the true value lies in 95 of 100 cases, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

impl Metric {
    pub fn new(name: &str, value: f64, unit: &str) -> Metric {
        Metric { name: name.to_owned(), value, unit: unit.to_owned(), interval: None }
    }

    /// A share in percent, with its 95 % interval (E. B. Wilson, "Probable inference, the law of succession,
    /// and statistical inference", 1927), which is also right for few cases and for shares near 0 and 1.
    pub fn share(name: &str, hits: usize, all: usize) -> Metric {
        let (low, high) = wilson(hits, all);
        let value = 100.0 * hits as f64 / all.max(1) as f64;
        Metric { interval: Some([low * 100.0, high * 100.0]), ..Metric::new(name, value, "%") }
    }
}

/// The 95 % interval of a share after Wilson.
pub fn wilson(hits: usize, all: usize) -> (f64, f64) {
    const Z: f64 = 1.96;
    let (n, p) = (all.max(1) as f64, hits as f64 / all.max(1) as f64);
    let scale = 1.0 + Z * Z / n;
    let middle = (p + Z * Z / (2.0 * n)) / scale;
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt() / scale;
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

/// The rate of violations that so many runs without any leave possible with 95 % confidence: the rate at
/// which all of them are free of violations in 5 of 100 cases, 1 − 0.05^(1/n), near 3/n. None for n < 3.
pub fn rate_bound(runs: usize) -> Option<f64> {
    (runs >= 3).then(|| 1.0 - 0.05_f64.powf(1.0 / runs as f64))
}

impl fmt::Display for Metric {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        write!(out, "{} {:.1}{unit}", self.name, self.value)?;
        match self.interval {
            Some([low, high]) => write!(out, " (95 %: {low:.1} to {high:.1}{unit})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_that_is_left_is_near_three_in_n_and_exact() {
        let percent = |runs| rate_bound(runs).map(|rate| (rate * 1000.0).round() / 10.0);
        assert_eq!(
            [1, 2, 3, 5, 10, 100].map(percent),
            [None, None, Some(63.2), Some(45.1), Some(25.9), Some(3.0)]
        );
        for runs in 3..200 {
            let rate = rate_bound(runs).unwrap();
            assert!(((1.0 - rate).powi(runs as i32) - 0.05).abs() < 1e-9 && rate <= 3.0 / runs as f64);
        }
    }

    #[test]
    fn intervals_of_shares_are_wilsons() {
        // 18 of 100: textbook values.
        let [low, high] = Metric::share("x", 18, 100).interval.unwrap();
        assert!((low - 11.7).abs() < 0.05 && (high - 26.7).abs() < 0.05, "{low} {high}");
        let [low, high] = Metric::share("x", 0, 10).interval.unwrap();
        assert!(low == 0.0 && (high - 27.8).abs() < 0.05, "{low} {high}");
        assert_eq!(Metric::share("lost", 18, 100).to_string(), "lost 18.0 % (95 %: 11.7 to 26.7 %)");
    }
}
