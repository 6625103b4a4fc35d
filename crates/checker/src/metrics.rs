//! Metrics: what a run measured, beside the properties that held or were violated.

mod costs;
pub(crate) mod herd;

pub use costs::{Costs, costs, quantile};

use serde::{Deserialize, Serialize};
use std::fmt;

/// One measured figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// What was measured, in words (`acknowledged additions lost`).
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

    /// A share in percent, with its 95 % interval (E. B. Wilson, "Probable inference, the law of succession, and
    /// statistical inference", 1927), which is also right for few cases and for shares near 0 and 1.
    pub fn share(name: &str, hits: usize, all: usize) -> Metric {
        const Z: f64 = 1.96;
        let (n, p) = (all.max(1) as f64, hits as f64 / all.max(1) as f64);
        let scale = 1.0 + Z * Z / n;
        let middle = (p + Z * Z / (2.0 * n)) / scale;
        let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt() / scale;
        let interval = Some([(middle - half).max(0.0) * 100.0, (middle + half).min(1.0) * 100.0]);
        Metric { interval, ..Metric::new(name, p * 100.0, "%") }
    }
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
    fn intervals_of_shares_are_wilsons() {
        // 18 of 100: textbook values.
        let [low, high] = Metric::share("x", 18, 100).interval.unwrap();
        assert!((low - 11.7).abs() < 0.05 && (high - 26.7).abs() < 0.05, "{low} {high}");
        let [low, high] = Metric::share("x", 0, 10).interval.unwrap();
        assert!(low == 0.0 && (high - 27.8).abs() < 0.05, "{low} {high}");
        assert_eq!(Metric::share("lost", 18, 100).to_string(), "lost 18.0 % (95 %: 11.7 to 26.7 %)");
    }
}
