//! The findings that a report describes in full, and which holds they are about.

use fencepost_checker::{Evidence, Finding, Outcome, RunIndex, RunVerdict, StoryLine, Verdict, story};
use fencepost_history::Process;

/// A finding that a report describes in full, with its story.
pub struct Exhibit<'a> {
    pub finding: &'a Finding,
    /// The holds that it is about, by their places in [`RunIndex::holds`], in order.
    pub holds: Vec<usize>,
    pub story: Vec<StoryLine>,
}

/// One finding of each class of violation, the worst first, and none whose holds another one is about already.
pub fn exhibits<'a>(run: &RunIndex, verdict: &'a RunVerdict) -> Vec<Exhibit<'a>> {
    groups(run, verdict, 1).into_iter().flatten().collect()
}

/// Up to `most` findings of each class of violation, the worst class first and the most telling finding of it first,
/// and none whose holds another one is about already.
pub fn groups<'a>(run: &RunIndex, verdict: &'a RunVerdict, most: usize) -> Vec<Vec<Exhibit<'a>>> {
    let mut described: Vec<Vec<usize>> = Vec::new();
    let mut groups = Vec::new();
    for class in classes(verdict) {
        let first = most_telling(run, verdict, class);
        let others = findings(verdict).filter(|finding| finding.class == class);
        let mut group = Vec::new();
        for finding in first.into_iter().chain(others) {
            let holds = holds_of(run, finding);
            if group.len() == most || (!holds.is_empty() && described.contains(&holds)) {
                continue;
            }
            described.push(holds.clone());
            group.push(Exhibit { finding, holds, story: story(run, finding) });
        }
        groups.extend((!group.is_empty()).then_some(group));
    }
    groups
}

/// All findings that belong to violations, each said once: without those that repeat another checker's.
pub fn findings(verdict: &RunVerdict) -> impl Iterator<Item = &Finding> {
    violated(verdict).flat_map(|each| own_findings(verdict, each))
}

/// The findings of one checker, without those that another checker, which found a violation too, says already.
pub fn own_findings<'a>(verdict: &'a RunVerdict, of: &'a Verdict) -> impl Iterator<Item = &'a Finding> {
    let is_said = |by: &String| violated(verdict).any(|other| other.checker == *by);
    of.findings.iter().filter(move |finding| !finding.repeats.as_ref().is_some_and(is_said))
}

/// The first operations without an order of each checker whose findings only repeat those of others: its name, the name of the
/// checker that says the same, and the picture's data.
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

/// Classes of findings, those that say most first; classes of other versions follow in the order of the verdicts.
fn classes(verdict: &RunVerdict) -> Vec<&str> {
    let mut classes: Vec<&str> = Vec::new();
    for finding in findings(verdict) {
        if !classes.contains(&finding.class.as_str()) {
            classes.push(&finding.class);
        }
    }
    let known: Vec<&str> = fencepost_checker::classes().map(|class| class.name).collect();
    classes.sort_by_key(|class| known.iter().position(|known| known == class).unwrap_or(known.len()));
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
