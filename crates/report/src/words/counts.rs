//! Figures of checkers, and a capital letter.

use fencepost_checker::{Figures, RunVerdict};

/// What a checker counted; all are 0 where it did not judge the run.
pub fn figures<F: Figures>(verdict: &RunVerdict) -> F {
    verdict.figures().unwrap_or_default()
}

/// With a capital letter in front.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
