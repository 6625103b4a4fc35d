//! JUnit XML, as build servers read it: a suite for each thing tested, a case for each property.

use anyhow::{Context, Result};
use fencepost_checker::Outcome;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use std::borrow::Cow;
use std::io;

pub struct JunitSuite {
    pub name: String,
    pub properties: Vec<(String, String)>,
    pub cases: Vec<Case>,
}

/// One thing that was to hold.
pub struct Case {
    pub name: String,
    pub class: String,
    pub end: CaseEnd,
}

pub enum CaseEnd {
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

impl CaseEnd {
    /// Of an outcome, with the sentence that says why, and the proofs.
    pub fn of(outcome: Outcome, summary: &str, details: &str) -> CaseEnd {
        let message = summary.to_owned();
        match outcome {
            Outcome::Valid => CaseEnd::Passed,
            Outcome::Violation => CaseEnd::Failed { message, details: details.to_owned() },
            Outcome::Unknown => CaseEnd::Undecided { message, kind: "unknown" },
            Outcome::Vacuous => CaseEnd::Undecided { message, kind: "vacuous" },
        }
    }
}

/// The whole file. Totals are where Jenkins' schema has them: skipped cases only in a suite.
pub fn xml(name: &str, suites: &[JunitSuite]) -> Result<String> {
    let mut out = Writer::new_with_indent(Vec::new(), b' ', 4);
    out.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let [tests, _, errors, failures] = counts(suites.iter().flat_map(|suite| &suite.cases));
    let totals = [("tests", &tests), ("failures", &failures), ("errors", &errors)];
    out.create_element("testsuites")
        .with_attributes([("name", &*clean(name))])
        .with_attributes(totals.map(|(name, total)| (name, total.as_str())))
        .write_inner_content(|out| suites.iter().try_for_each(|from| suite(out, from)))?;
    let text = String::from_utf8(out.into_inner()).context("JUnit XML is not UTF-8")?;
    Ok(text + "\n")
}

/// How many cases there are, and how many were skipped, could not be decided, and failed.
fn counts<'a>(cases: impl Iterator<Item = &'a Case>) -> [String; 4] {
    let mut counts = [0; 4];
    for case in cases {
        counts[0] += 1;
        match case.end {
            CaseEnd::Passed => {}
            CaseEnd::Skipped { .. } => counts[1] += 1,
            CaseEnd::Undecided { .. } => counts[2] += 1,
            CaseEnd::Failed { .. } => counts[3] += 1,
        }
    }
    counts.map(|count| count.to_string())
}

fn suite(out: &mut Writer<Vec<u8>>, from: &JunitSuite) -> io::Result<()> {
    let [tests, skipped, errors, failures] = counts(from.cases.iter());
    let totals = [("tests", &tests), ("skipped", &skipped), ("errors", &errors), ("failures", &failures)];
    out.create_element("testsuite")
        .with_attributes([("name", &*clean(&from.name))])
        .with_attributes(totals.map(|(name, total)| (name, total.as_str())))
        .write_inner_content(|out| {
            if !from.properties.is_empty() {
                out.create_element("properties").write_inner_content(|out| {
                    from.properties.iter().try_for_each(|(name, value)| {
                        let property = [("name", &*clean(name)), ("value", &*clean(value))];
                        out.create_element("property").with_attributes(property).write_empty().map(drop)
                    })
                })?;
            }
            from.cases.iter().try_for_each(|from| case(out, from))
        })
        .map(drop)
}

fn case(out: &mut Writer<Vec<u8>>, from: &Case) -> io::Result<()> {
    let named = [("name", &*clean(&from.name)), ("classname", &*clean(&from.class))];
    let case = out.create_element("testcase").with_attributes(named);
    let (element, message, kind, details) = match &from.end {
        CaseEnd::Passed => return case.write_empty().map(drop),
        CaseEnd::Failed { message, details } => ("failure", message, Some("violation"), details.as_str()),
        CaseEnd::Undecided { message, kind } => ("error", message, Some(*kind), ""),
        CaseEnd::Skipped { message } => ("skipped", message, None, ""),
    };
    case.write_inner_content(|out| {
        let why = out
            .create_element(element)
            .with_attributes([("message", &*clean(message))])
            .with_attributes(kind.map(|kind| ("type", kind)));
        match details {
            "" => why.write_empty().map(drop),
            details => why.write_text_content(BytesText::new(&clean(details))).map(drop),
        }
    })
    .map(drop)
}

/// XML has no way to write most control characters.
fn clean(text: &str) -> Cow<'_, str> {
    let strange = |c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\r');
    if text.contains(strange) { text.replace(strange, "\u{fffd}").into() } else { text.into() }
}
