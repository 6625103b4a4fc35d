//! The times that one scenario was played.

use super::report::{Ending, Report};

const ENDINGS: [Ending; 7] = [
    Ending::Agrees,
    Ending::DiffersFromTheSource,
    Ending::Disagrees,
    Ending::Holds,
    Ending::Broken,
    Ending::DidNotHappen,
    Ending::Missing,
];

/// Reports scenario by scenario; those of one stand one after the other.
pub fn by_scenario(reports: &[Report]) -> impl Iterator<Item = &[Report]> {
    reports.chunk_by(|one, next| one.name == next.name)
}

/// How many ended so.
pub fn count(reports: &[Report], ending: Ending) -> usize {
    reports.iter().filter(|report| report.ending == ending).count()
}

/// "agrees"; of several plays "agrees 19 of 20, does not agree 1 of 20".
pub fn outcome(plays: &[Report]) -> String {
    let found = ENDINGS.iter().map(|&ending| (ending, count(plays, ending))).filter(|(_, times)| *times > 0);
    let found = found.map(|(ending, times)| match plays.len() {
        1 => ending.text().to_owned(),
        all => format!("{} {times} of {all}", ending.text()),
    });
    found.collect::<Vec<_>>().join(", ")
}

pub fn worst(plays: &[Report]) -> Ending {
    let mut worst = [
        Ending::Broken,
        Ending::Disagrees,
        Ending::DiffersFromTheSource,
        Ending::DidNotHappen,
        Ending::Missing,
        Ending::Holds,
    ]
    .into_iter();
    worst.find(|&ending| count(plays, ending) > 0).unwrap_or(Ending::Agrees)
}

/// Those worth telling: the first that agrees, for all of them, and each that does not.
pub fn telling(plays: &[Report]) -> impl Iterator<Item = &Report> {
    let agrees = |report: &&Report| matches!(report.ending, Ending::Agrees | Ending::Holds);
    plays.iter().find(agrees).into_iter().chain(plays.iter().filter(move |report| !agrees(report)))
}

/// The one to show where there is room for one: one that does not agree, if there is any.
pub fn shown(plays: &[Report]) -> &Report {
    telling(plays).last().unwrap_or(&plays[0])
}

/// Exit code: 0 all agree, 1 one does not, 2 one did not happen or is missing; 255 none could be played.
pub fn exit_code(reports: &[Report]) -> i32 {
    let failed = |report: &Report| report.failed.is_some() && report.ending == Ending::DidNotHappen;
    match worst(reports) {
        Ending::DidNotHappen if reports.iter().all(failed) => 255,
        Ending::Disagrees | Ending::DiffersFromTheSource | Ending::Broken => 1,
        Ending::DidNotHappen | Ending::Missing => 2,
        Ending::Agrees | Ending::Holds => 0,
    }
}
