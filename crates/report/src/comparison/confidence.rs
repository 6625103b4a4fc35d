//! How much confidence a cell's verdict deserves: situations covered, nearest miss, possible rate.

use crate::runs::Judgement;
use fencepost_checker::{Coverage, NearMiss, Outcome, rate_bound};
use serde::{Deserialize, Serialize};

/// With fewer runs that tested something, a cell in which all properties held is weak.
pub const RUNS_MIN: usize = 5;
/// With less than one situation covered in so many, too.
pub const SHARE_MIN: usize = 3;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellConfidence {
    pub covered: usize,
    /// How many were possible; 0 without faults.
    pub possible: usize,
    /// The nearest miss of all runs. None where every grant followed a release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest_miss: Option<NearMiss>,
    /// The rate of violations still possible at 95 % confidence; none with a violation, or under three runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bound: Option<f64>,
    /// Why it says little that a property held in these runs, as clauses; empty where it says enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weak: Vec<String>,
}

/// Of all runs of a cell together.
pub fn confidence(judgements: &[&Judgement]) -> CellConfidence {
    let mut whole = Coverage::default();
    judgements.iter().filter_map(|judgement| judgement.coverage.as_ref()).for_each(|one| whole.merge(one));
    let misses = judgements.iter().filter_map(|judgement| judgement.nearest_miss.as_ref());
    let with = |outcome| judgements.iter().filter(|judgement| judgement.outcome == outcome).count();
    let (valid, violation) = (with(Outcome::Valid), with(Outcome::Violation));
    let (covered, possible) = (whole.covered(), whole.possible());
    CellConfidence {
        covered,
        possible,
        nearest_miss: misses.min_by_key(|miss| miss.rank()).cloned(),
        rate_bound: rate_bound(valid).filter(|_| violation == 0),
        weak: weak(judgements, valid + violation, covered, possible),
    }
}

fn weak(judgements: &[&Judgement], tested: usize, covered: usize, possible: usize) -> Vec<String> {
    let few = (tested < RUNS_MIN).then(|| match tested {
        0 => "no run that was decided".to_owned(),
        1 => "one run".to_owned(),
        several => format!("{several} runs"),
    });
    let uncounted = judgements.iter().all(|judgement| judgement.coverage.is_none());
    let narrow = match uncounted {
        true => Some("situations were not counted".to_owned()),
        false => (covered * SHARE_MIN < possible).then(|| format!("{covered} of {possible} situations")),
    };
    few.into_iter().chain(narrow).collect()
}

/// What weak is, for a legend.
pub fn rule() -> String {
    format!("held in fewer than {RUNS_MIN} runs, or in less than a third of the possible situations")
}
