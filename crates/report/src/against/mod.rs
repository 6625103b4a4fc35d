//! What a lock does worse than a reference under the same faults, as badly, or better: from their verdicts.
//!
//! Two violations are the same by property and class, and by whether the lock failed or a fence was missing.
//! Late writes that only a fence prevents are one thing, by whatever property they show, which is chance. A
//! machine that was too busy is no difference between two locks.

mod text;

use crate::rate::Rate;
use fencepost_checker::{Finding, Outcome, RunVerdict, Violation, Whose};
use fencepost_history::once;
use fencepost_history::run::{RunError, RunFolder};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
pub use text::text;

/// The name of the file, in the folder of the lock's run.
pub const AGAINST: &str = "against.json";

/// What came of a comparison with a reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Against {
    pub fencepost: String,
    pub lock: String,
    pub reference: String,
    pub runs: Vec<ReferenceRun>,
    /// What the lock does worse, then what both show, then what it does better.
    pub differences: Vec<Difference>,
    /// Why nothing is known, where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_compared: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReferenceRun {
    /// The name of its folder; empty where it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

fencepost_history::worded! {
    /// How a lock stands to the reference, the worst first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Standing {
        Worse = "worse",
        Equal = "equal",
        Better = "better",
    }
    pub fn word;
}

/// A violation that the lock or the reference showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Difference {
    pub standing: Standing,
    pub checker: String,
    pub class: String,
    /// Whose failures it was, of the lock or else the reference, which decides between two causes.
    pub whose: Vec<Whose>,
    /// In how many of the reference's runs in which the property was judged.
    pub reference: Rate,
    /// The exact 95 % interval of the probability that a run of the reference shows it, from 0 to 1.
    pub interval: (f64, f64),
}

pub enum ReferencePlay {
    Judged(String, Box<RunVerdict>),
    Failed(String),
}

impl ReferencePlay {
    fn decided(&self) -> Option<&RunVerdict> {
        match self {
            ReferencePlay::Judged(_, verdict) if is_decided(verdict.outcome) => Some(verdict),
            _ => None,
        }
    }

    fn run(&self) -> ReferenceRun {
        match self {
            ReferencePlay::Judged(name, verdict) => {
                ReferenceRun { name: name.clone(), outcome: Some(verdict.outcome), failed: None }
            }
            ReferencePlay::Failed(why) => {
                ReferenceRun { name: String::new(), outcome: None, failed: Some(why.clone()) }
            }
        }
    }
}

/// As many runs of the reference without a violation decide whose it is.
const PLAYS_THAT_DECIDE: usize = 10;

fn is_decided(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Valid | Outcome::Violation)
}

#[derive(Clone, Debug, PartialEq)]
struct Breach {
    violation: Violation,
    whose: Vec<Whose>,
    /// Whose they are if enough runs of the reference show none: that decides where two causes were left.
    alone: Vec<Whose>,
}

impl Breach {
    fn all(verdict: &RunVerdict) -> Vec<Breach> {
        let mut all: Vec<Breach> = Vec::new();
        for violation in Violation::all(verdict) {
            let findings = verdict.of_checker(&violation.checker).map_or(&[][..], |found| &found.findings);
            let of_class: Vec<&Finding> =
                findings.iter().filter(|each| each.class == violation.class).collect();
            let is_own = |of: Option<Whose>| !matches!(of, Some(Whose::NoFence | Whose::Machine));
            let breach = |wanted: &dyn Fn(Option<Whose>) -> bool| {
                let of: Vec<_> = of_class.iter().filter(|finding| wanted(finding.whose)).collect();
                let other = |finding: &Finding| finding.or.as_ref().map(|or| or.whose);
                let whose = each_once(of.iter().filter_map(|finding| finding.whose));
                let alone = each_once(of.iter().filter_map(|finding| other(finding).or(finding.whose)));
                (!of.is_empty()).then(|| Breach { violation: violation.clone(), whose, alone })
            };
            all.extend(breach(&is_own));
            all.extend(breach(&|of| of == Some(Whose::NoFence)));
        }
        all
    }

    fn is_late(&self) -> bool {
        self.whose == [Whose::NoFence]
    }

    /// Whether who shows this shows the other one, too: a lock that was granted twice was overstayed.
    fn covers(&self, other: &Breach) -> bool {
        let (here, there) = (&self.violation, &other.violation);
        let same_class =
            here.class == there.class || here.class == "granted-twice" && there.class == "overstayed";
        match (self.is_late(), other.is_late()) {
            (true, true) => true,
            (false, false) => here.checker == there.checker && same_class,
            _ => false,
        }
    }
}

fn each_once(whose: impl Iterator<Item = Whose>) -> Vec<Whose> {
    whose.collect::<BTreeSet<_>>().into_iter().collect()
}

fn judges(verdict: &RunVerdict, checker: &str) -> bool {
    verdict.of_checker(checker).is_some_and(|property| property.claimed && is_decided(property.outcome))
}

/// Compares a run with those of a reference. `is_whole`: it was not ended by its first violation.
pub fn compare(
    lock: &str,
    reference: &str,
    own: &RunVerdict,
    plays: &[ReferencePlay],
    is_whole: bool,
) -> Against {
    let runs: Vec<ReferenceRun> = plays.iter().map(ReferencePlay::run).collect();
    let decided: Vec<&RunVerdict> = plays.iter().filter_map(ReferencePlay::decided).collect();
    let not_compared = match decided.is_empty() {
        _ if !is_decided(own.outcome) => Some(own_undecided(own.outcome)),
        true => Some(undecided(reference, &runs)),
        false => None,
    };
    let differences = match not_compared {
        Some(_) => Vec::new(),
        None => differences(own, &decided, is_whole),
    };
    Against { runs, differences, not_compared, ..Against::nothing(lock, reference) }
}

/// Why a lock is not compared whose own run says nothing; none where it does.
pub fn why_not_compared(own: Outcome) -> Option<String> {
    (!is_decided(own)).then(|| own_undecided(own))
}

fn own_undecided(outcome: Outcome) -> String {
    format!("the lock's own run ended {outcome}")
}

fn undecided(reference: &str, runs: &[ReferenceRun]) -> String {
    let whys = runs.iter().map(|run| match (run.outcome, &run.failed) {
        (Some(outcome), _) => format!("ended {outcome}"),
        (None, why) => format!("failed: {}", why.as_deref().unwrap_or("it was not played")),
    });
    match (runs.len(), once(whys).join(", or ")) {
        (0, _) => format!("no run of {reference} was played"),
        (1, why) => format!("the run of {reference} {why}"),
        (_, why) => format!("each run of {reference} {why}"),
    }
}

fn differences(own: &RunVerdict, decided: &[&RunVerdict], is_whole: bool) -> Vec<Difference> {
    let shown = Breach::all(own);
    let difference = |standing: Option<Standing>, breach: &Breach| {
        let Violation { checker, class } = breach.violation.clone();
        let mut rate = Rate::default();
        for verdict in decided {
            let shows = Breach::all(verdict).iter().any(|there| there.covers(breach));
            if shows || judges(verdict, &checker) {
                rate.add(shows);
            }
        }
        let of_both = if rate.violations == 0 { Standing::Worse } else { Standing::Equal };
        let standing = standing.unwrap_or(of_both);
        let is_alone = standing == Standing::Worse && rate.plays >= PLAYS_THAT_DECIDE;
        let whose = if is_alone { breach.alone.clone() } else { breach.whose.clone() };
        Difference { standing, checker, class, whose, reference: rate, interval: rate.interval() }
    };
    let mut all: Vec<Difference> = shown.iter().map(|breach| difference(None, breach)).collect();
    let mut others: Vec<Breach> = Vec::new();
    for breach in decided.iter().flat_map(|verdict| Breach::all(verdict)) {
        let is_known = shown.iter().chain(&others).any(|known| known.covers(&breach));
        // What the lock does not claim, or was not judged, it does no better.
        if is_whole && !is_known && judges(own, &breach.violation.checker) {
            others.push(breach);
        }
    }
    all.extend(others.iter().map(|breach| difference(Some(Standing::Better), breach)));
    all.sort_by_key(|difference| difference.standing);
    all
}

impl Against {
    pub fn not_made(lock: &str, reference: &str, why: String) -> Against {
        Against { not_compared: Some(why), ..Against::nothing(lock, reference) }
    }

    fn nothing(lock: &str, reference: &str) -> Against {
        Against {
            fencepost: env!("CARGO_PKG_VERSION").to_owned(),
            lock: lock.to_owned(),
            reference: reference.to_owned(),
            runs: Vec::new(),
            differences: Vec::new(),
            not_compared: None,
        }
    }

    pub fn write(&self, folder: &RunFolder) -> Result<(), RunError> {
        let text = serde_json::to_string_pretty(self).expect("a comparison is always JSON") + "\n";
        folder.write(AGAINST, text.as_bytes())
    }
}

#[cfg(test)]
mod tests;
