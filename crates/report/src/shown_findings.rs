//! The findings that a report describes in full, and which holds they are about.

use fencepost_checker::{Evidence, Finding, Outcome, RunIndex, RunVerdict, StoryLine, Verdict, story};
use fencepost_history::{Kind, Process, f, sorted_once};
use std::collections::HashSet;

pub struct ShownFinding<'a> {
    pub finding: &'a Finding,
    /// The holds that it is about, by their places in [`RunIndex::holds`], in order.
    pub holds: Vec<usize>,
}

impl ShownFinding<'_> {
    /// How it came about; empty for findings in which no two holds meet.
    pub fn story(&self, run: &RunIndex) -> Vec<StoryLine> {
        story(run, self.finding)
    }
}

/// One finding of each class of violation, the worst first, without holds that another one is about.
pub fn shown_findings<'a>(run: &RunIndex, verdict: &'a RunVerdict) -> Vec<ShownFinding<'a>> {
    groups(run, verdict, 1).into_iter().flatten().collect()
}

pub fn pictured<'a>(run: &RunIndex, verdict: &'a RunVerdict) -> Option<&'a Finding> {
    shown_findings(run, verdict).into_iter().find(|shown| !shown.holds.is_empty()).map(|shown| shown.finding)
}

/// Up to `most` findings of each class, the worst and most telling first, without repeated holds.
pub fn groups<'a>(run: &RunIndex, verdict: &'a RunVerdict, most: usize) -> Vec<Vec<ShownFinding<'a>>> {
    let lost: HashSet<Vec<usize>> = findings(verdict)
        .filter(|finding| finding.is_of_class("lost-update"))
        .map(|finding| holds_of(run, finding))
        .collect();
    let mut described: HashSet<Vec<usize>> = HashSet::new();
    let mut groups = Vec::new();
    for class in classes(verdict) {
        let mut group = Vec::new();
        for finding in most_telling_first(run, verdict, class, &lost) {
            let holds = holds_of(run, finding);
            if !holds.is_empty() && !described.insert(holds.clone()) {
                continue;
            }
            group.push(ShownFinding { finding, holds });
            if group.len() == most {
                break;
            }
        }
        groups.extend((!group.is_empty()).then_some(group));
    }
    groups
}

/// All findings that belong to violations, each said once: without those that repeat another checker's.
pub fn findings(verdict: &RunVerdict) -> impl Iterator<Item = &Finding> {
    violated(verdict).flat_map(|each| own_findings(verdict, each))
}

/// The findings of one checker, without those that another checker with a violation has.
pub fn own_findings<'a>(verdict: &'a RunVerdict, of: &'a Verdict) -> impl Iterator<Item = &'a Finding> {
    let is_said = |by: &String| violated(verdict).any(|other| other.checker == *by);
    of.findings.iter().filter(move |finding| !finding.repeats.as_ref().is_some_and(is_said))
}

/// First operations without an order of checkers that repeat others: names, and the picture's data.
pub fn repetitions(verdict: &RunVerdict) -> impl Iterator<Item = (&str, &str, &Evidence)> {
    let silent = violated(verdict).filter(|each| own_findings(verdict, each).next().is_none());
    silent.filter_map(|each| {
        let finding = each.findings.iter().find(|finding| finding.evidence.is_some())?;
        Some((each.checker.as_str(), finding.repeats.as_deref()?, finding.evidence.as_deref()?))
    })
}

fn violated(verdict: &RunVerdict) -> impl Iterator<Item = &Verdict> {
    verdict.verdicts.iter().filter(|each| each.outcome == Outcome::Violation)
}

/// Classes of findings, the most telling first, unclaimed properties last; then classes of other versions.
fn classes(verdict: &RunVerdict) -> Vec<&str> {
    let mut classes: Vec<(bool, &str)> = Vec::new();
    for each in violated(verdict) {
        for finding in own_findings(verdict, each) {
            if !classes.iter().any(|(_, class)| *class == finding.class) {
                classes.push((!each.claimed, &finding.class));
            }
        }
    }
    let known: Vec<&str> = fencepost_checker::classes().map(|class| class.name).collect();
    let place = |class: &str| known.iter().position(|known| *known == class).unwrap_or(known.len());
    classes.sort_by_key(|(unclaimed, class)| (*unclaimed, place(class)));
    classes.into_iter().map(|(_, class)| class).collect()
}

/// The findings of a class, but the first one by which an update was lost leads. `lost`: holds of these.
fn most_telling_first<'a>(
    run: &RunIndex,
    verdict: &'a RunVerdict,
    class: &str,
    lost: &HashSet<Vec<usize>>,
) -> Vec<&'a Finding> {
    let mut mine: Vec<&Finding> = findings(verdict).filter(|finding| finding.class == class).collect();
    let telling = match lost.is_empty() {
        true => None,
        false => mine.iter().position(|finding| lost.contains(&holds_of(run, finding))),
    };
    if let Some(at) = telling {
        mine[..=at].rotate_right(1);
    }
    mine
}

/// The holds under which the cited events happened.
pub fn holds_of(run: &RunIndex, finding: &Finding) -> Vec<usize> {
    let mut holds: Vec<usize> = Vec::new();
    for &index in &finding.events {
        let Some(event) = run.event(index) else { continue };
        let Process::Client(process) = event.process else { continue };
        // What was refused happened under no hold.
        if event.f == f::ACQUIRE && event.kind == Kind::Fail {
            continue;
        }
        let begun = run.holds.partition_point(|hold| hold.from <= index);
        let mine =
            run.holds[..begun].iter().rposition(|hold| hold.process == process && hold.key == finding.key);
        holds.extend(mine);
    }
    sorted_once(holds)
}
