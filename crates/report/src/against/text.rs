//! The comparison with a reference, on the terminal.

use super::{Against, Difference, Standing};
use crate::terminal::rows;
use crate::words::{property, with_whose};
use fencepost_checker::Attribution;
use fencepost_history::prose::count;

/// A line for each difference; one line where there is none.
pub fn text(against: &Against) -> String {
    let reference = &against.reference;
    if let Some(why) = &against.not_compared {
        return rows(&[("against", &format!("{reference}, not compared: {why}"))]);
    }
    let differs = against.differences.iter().any(|difference| difference.standing != Standing::Equal);
    let lines: Vec<(&str, String)> = match against.differences.is_empty() {
        true => vec![("equal", format!("nothing that {reference} does not show: neither violates anything"))],
        false if differs => {
            let line = |difference: &Difference| (difference.standing.word(), differing(against, difference));
            against.differences.iter().map(line).collect()
        }
        false => {
            let each = against
                .differences
                .iter()
                .map(|difference| format!("{} in {}", violation(difference), difference.reference.of_runs()));
            vec![("equal", format!("{reference} shows the same: {}", each.collect::<Vec<_>>().join("; ")))]
        }
    };
    let heading = format!("{reference}, under the same faults: {}", played(against));
    let mut all = vec![("against", heading.as_str())];
    all.extend(lines.iter().map(|(word, line)| (*word, line.as_str())));
    rows(&all)
}

/// `3 runs`, and how many of them say nothing.
fn played(against: &Against) -> String {
    let is_silent = |outcome| !super::is_decided(outcome);
    let silent = against.runs.iter().filter(|run| run.outcome.is_none_or(is_silent)).count();
    let runs = count(against.runs.len(), "run");
    match silent {
        0 => runs,
        some => format!("{runs}, {some} of them without a result"),
    }
}

fn differing(against: &Against, difference: &Difference) -> String {
    let reference = &against.reference;
    match difference.reference.plays {
        0 => format!("{}; no run of {reference} judged that", violation(difference)),
        _ => format!("{}; {reference} in {}", violation(difference), difference.reference.of_runs()),
    }
}

/// `mutual exclusion: granted twice (the library)`.
fn violation(difference: &Difference) -> String {
    let (name, _) = property(&difference.checker);
    let whose: Vec<Attribution> = difference.whose.iter().copied().map(Attribution::from).collect();
    with_whose(&format!("{name}: {}", difference.class.replace('-', " ")), &whose)
}
