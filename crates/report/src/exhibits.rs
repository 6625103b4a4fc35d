//! Which findings a report tells in full, and which holds they are about.

use fencepost_checker::{Finding, Outcome, RunIndex, RunVerdict, StoryLine, story};
use fencepost_history::Process;

/// A finding that is told in full.
pub struct Exhibit<'a> {
    pub finding: &'a Finding,
    /// The holds that it is about, by their places in [`RunIndex::holds`], in order.
    pub holds: Vec<usize>,
    pub story: Vec<StoryLine>,
}

/// The classes of findings, those that say most first. Others follow in the order of the verdicts.
const CLASSES: [&str; 6] =
    ["granted-twice", "overstayed", "stale-write", "lost-update", "token-not-greater", "stuck"];

/// One finding of each class of violation, the worst first, and none whose holds another one is about already.
pub fn exhibits<'a>(run: &RunIndex, verdict: &'a RunVerdict) -> Vec<Exhibit<'a>> {
    groups(run, verdict, 1).into_iter().flatten().collect()
}

/// Up to `most` findings of each class of violation, the worst class first and the most telling finding of it first,
/// and none whose holds another one is about already.
pub fn groups<'a>(run: &RunIndex, verdict: &'a RunVerdict, most: usize) -> Vec<Vec<Exhibit<'a>>> {
    let mut told: Vec<Vec<usize>> = Vec::new();
    let mut groups = Vec::new();
    for class in classes(verdict) {
        let first = most_telling(run, verdict, class);
        let others = findings(verdict).filter(|finding| finding.class == class);
        let mut group = Vec::new();
        for finding in first.into_iter().chain(others) {
            let holds = holds_of(run, finding);
            if group.len() == most || (!holds.is_empty() && told.contains(&holds)) {
                continue;
            }
            told.push(holds.clone());
            group.push(Exhibit { finding, holds, story: story(run, finding) });
        }
        groups.extend((!group.is_empty()).then_some(group));
    }
    groups
}

/// All findings that belong to violations.
pub fn findings(verdict: &RunVerdict) -> impl Iterator<Item = &Finding> {
    let broken = verdict.verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Violation);
    broken.flat_map(|verdict| &verdict.findings)
}

fn classes(verdict: &RunVerdict) -> Vec<&str> {
    let mut classes: Vec<&str> = Vec::new();
    for finding in findings(verdict) {
        if !classes.contains(&finding.class.as_str()) {
            classes.push(&finding.class);
        }
    }
    let known = |class: &str| CLASSES.iter().position(|known| *known == class).unwrap_or(CLASSES.len());
    classes.sort_by_key(|class| known(class));
    classes
}

/// The first finding of a class of which an update was lost, or else the first.
fn most_telling<'a>(run: &RunIndex, verdict: &'a RunVerdict, class: &str) -> Option<&'a Finding> {
    let lost: Vec<Vec<usize>> = findings(verdict)
        .filter(|finding| finding.class == "lost-update")
        .map(|finding| holds_of(run, finding))
        .collect();
    let mine = || findings(verdict).filter(|finding| finding.class == class);
    mine().find(|finding| lost.contains(&holds_of(run, finding))).or_else(|| mine().next())
}

/// The holds under which the cited events happened.
pub fn holds_of(run: &RunIndex, finding: &Finding) -> Vec<usize> {
    let mut holds: Vec<usize> = Vec::new();
    for &index in &finding.events {
        let Ok(at) = run.events.binary_search_by_key(&index, |event| event.index) else { continue };
        let Process::Client(process) = run.events[at].process else { continue };
        let begun = run.holds.partition_point(|hold| hold.from <= index);
        let mine =
            run.holds[..begun].iter().rposition(|hold| hold.process == process && hold.key == finding.key);
        holds.extend(mine);
    }
    holds.sort_unstable();
    holds.dedup();
    holds
}
