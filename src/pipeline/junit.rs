//! JUnit XML, as build servers read it: a suite for each thing tested, a case for each promise.

use anyhow::{Context, Result};
use fencepost_checker::Outcome;
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

/// What was tested.
pub struct Suite {
    pub name: String,
    pub properties: Vec<(String, String)>,
    pub cases: Vec<Case>,
}

/// One thing that was to hold.
pub struct Case {
    pub name: String,
    pub class: String,
    pub end: End,
}

/// How it ended.
pub enum End {
    Passed,
    Failed {
        message: String,
        details: String,
    },
    /// It could not be decided, or was not tested: no success either.
    Undecided {
        message: String,
        kind: &'static str,
    },
    Skipped {
        message: String,
    },
}

impl End {
    /// Of an outcome, with the sentence that says why, and the proofs.
    pub fn of(outcome: Outcome, summary: &str, details: &str) -> End {
        let message = summary.to_owned();
        match outcome {
            Outcome::Valid => End::Passed,
            Outcome::Violation => End::Failed { message, details: details.to_owned() },
            Outcome::Unknown => End::Undecided { message, kind: "unknown" },
            Outcome::Vacuous => End::Undecided { message, kind: "vacuous" },
        }
    }
}

/// The whole file.
///
/// # Errors
/// None in practice: writing to memory.
pub fn xml(name: &str, suites: &[Suite]) -> Result<String> {
    let mut report = Report::new(name);
    report.add_test_suites(suites.iter().map(suite));
    let text = report.to_string().context("cannot write JUnit XML")?;
    // Jenkins' schema knows this count for a suite, and not for the whole, which comes first.
    let skipped = suites.iter().flat_map(|suite| &suite.cases);
    let skipped = skipped.filter(|case| matches!(case.end, End::Skipped { .. })).count();
    Ok(text.replacen(&format!(" skipped=\"{skipped}\""), "", 1))
}

fn suite(from: &Suite) -> TestSuite {
    let mut suite = TestSuite::new(from.name.as_str());
    for (name, value) in &from.properties {
        suite.add_property(Property::new(name.as_str(), value.as_str()));
    }
    suite.add_test_cases(from.cases.iter().map(case));
    suite
}

fn case(from: &Case) -> TestCase {
    let non_success = |kind, message: &str, type_: &str, details: &str| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_message(message).set_type(type_);
        if !details.is_empty() {
            status.set_description(details);
        }
        status
    };
    let status = match &from.end {
        End::Passed => TestCaseStatus::success(),
        End::Failed { message, details } => {
            non_success(NonSuccessKind::Failure, message, "violation", details)
        }
        End::Undecided { message, kind } => non_success(NonSuccessKind::Error, message, kind, ""),
        End::Skipped { message } => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(message.as_str());
            status
        }
    };
    let mut case = TestCase::new(from.name.as_str(), status);
    case.set_classname(from.class.as_str());
    case
}
