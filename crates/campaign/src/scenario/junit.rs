//! Scenarios that were played, as JUnit.

use super::report::{Ending, Report};
use super::table;
use fencepost_report::pipeline::junit;

/// A case for each time that a scenario was played.
pub fn suite(reports: &[Report]) -> junit::JunitSuite {
    let case = |report: &Report| {
        let (expected, ending) = (&report.expected, report.ending.text());
        let details = report.runs.iter().map(table::observed).collect::<Vec<_>>().join("\n");
        let message = match &report.failed {
            Some(failed) => format!("{ending}: {failed}"),
            None => format!("{ending}: {expected}"),
        };
        let end = match report.ending {
            Ending::Agrees | Ending::Holds => junit::CaseEnd::Passed,
            Ending::Disagrees | Ending::DiffersFromTheSource | Ending::Broken => {
                junit::CaseEnd::Failed { message, details }
            }
            Ending::DidNotHappen => junit::CaseEnd::Undecided { message, kind: "did-not-happen" },
            Ending::Missing => junit::CaseEnd::Undecided { message, kind: "missing" },
        };
        junit::Case { name: report.name.clone(), class: "fencepost.scenario".to_owned(), end }
    };
    let seed = reports.first().map(|report| ("seed".to_owned(), report.seed.to_string()));
    junit::JunitSuite {
        name: "the debate".to_owned(),
        properties: seed.into_iter().collect(),
        cases: reports.iter().map(case).collect(),
    }
}
