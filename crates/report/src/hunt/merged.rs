//! The parts of a hunt as one: situations are added up, findings of one signature are one finding.

use super::file::{CurvePoint, FindingState, HuntFile, HuntFinding, REMARKS_MAX};
use crate::findings::free_name;
use std::collections::{BTreeMap, BTreeSet};

/// The whole hunt, from its parts by their numbers, which hunted side by side: its time is the longest.
/// `run_of` gives the path from the merge's folder to the run of a part's finding. None without any part.
pub fn merged(
    parts: &BTreeMap<u32, HuntFile>,
    run_of: impl Fn(u32, &HuntFinding) -> Option<String>,
) -> Option<HuntFile> {
    let mut whole = HuntFile { findings: Vec::new(), remarks: Vec::new(), ..parts.values().next()?.clone() };
    let hunts = || parts.values();
    whole.started = hunts().map(|part| part.started).min()?;
    whole.jobs = hunts().map(|part| part.jobs).sum();
    whole.spent_ms = hunts().map(|part| part.spent_ms).max()?;
    whole.schedules = hunts().map(|part| part.schedules).sum();
    whole.failed = hunts().map(|part| part.failed).sum();
    whole.situations.clear();
    for (name, seen) in hunts().flat_map(|part| &part.situations) {
        match whole.situations.get_mut(name) {
            Some(known) => known.add(seen),
            None => drop(whole.situations.insert(name.clone(), seen.clone())),
        }
    }
    let misses = hunts().filter_map(|part| part.nearest_miss.as_ref());
    whole.nearest_miss = misses.min_by(|one, other| one.ms.total_cmp(&other.ms)).cloned();
    whole.curve = curve(&whole, parts);
    whole.findings = findings(parts, run_of);
    let remarks = parts
        .iter()
        .flat_map(|(number, part)| part.remarks.iter().map(move |remark| format!("part {number}: {remark}")));
    whole.remarks = remarks.take(REMARKS_MAX).collect();
    let ends: Option<BTreeSet<&str>> = hunts().map(|part| part.ended.as_deref()).collect();
    whole.ended = ends.map(|ends| ends.into_iter().collect::<Vec<_>>().join("; "));
    Some(whole)
}

/// How coverage grew in all parts together: the first part that covers a situation counts.
fn curve(whole: &HuntFile, parts: &BTreeMap<u32, HuntFile>) -> Vec<CurvePoint> {
    let mut firsts: Vec<u64> = whole.situations.values().filter_map(|seen| seen.first_ms).collect();
    firsts.sort_unstable();
    let schedules = |at_ms: u64| {
        let of_part = |part: &HuntFile| {
            let before = part.curve.iter().take_while(|point| point.at_ms <= at_ms);
            before.last().map_or(0, |point| point.schedules)
        };
        parts.values().map(of_part).sum()
    };
    let times: BTreeSet<u64> = firsts.iter().copied().chain([whole.spent_ms]).collect();
    let point = |at_ms: u64| CurvePoint {
        at_ms,
        schedules: if at_ms >= whole.spent_ms { whole.schedules } else { schedules(at_ms) },
        covered: firsts.partition_point(|first| *first <= at_ms) as u64,
    };
    times.into_iter().map(point).collect()
}

fn findings(
    parts: &BTreeMap<u32, HuntFile>,
    run_of: impl Fn(u32, &HuntFinding) -> Option<String>,
) -> Vec<HuntFinding> {
    let mut findings: Vec<(u32, HuntFinding)> = Vec::new();
    for (&number, part) in parts {
        for found in &part.findings {
            match findings.iter_mut().find(|(_, known)| known.signature == found.signature) {
                None => findings.push((number, found.clone())),
                Some((of, known)) => {
                    let compared = known.compared.max(found.compared);
                    let (times, found_ms) = (known.times + found.times, known.found_ms.min(found.found_ms));
                    if standing(found) < standing(known) {
                        (*of, *known) = (number, found.clone());
                    }
                    (known.times, known.found_ms) = (times, found_ms);
                    known.compared = compared;
                }
            }
        }
    }
    let mut taken = BTreeSet::new();
    let mut named: Vec<HuntFinding> = Vec::new();
    for (number, mut finding) in findings {
        finding.run = run_of(number, &finding);
        finding.name = free_name(finding.name, |name| !taken.contains(name));
        taken.insert(finding.name.clone());
        named.push(finding);
    }
    named.sort_by_key(|finding| finding.found_ms);
    named
}

/// Which of two findings of one signature is shown, the least first: the best known and smallest.
fn standing(finding: &HuntFinding) -> (u8, usize, usize) {
    let state = match finding.state {
        FindingState::Minimised => 0,
        FindingState::Known => 1,
        FindingState::Found => 2,
        FindingState::Rare => 3,
        FindingState::Gone => 4,
    };
    (state, finding.faults, finding.clients)
}
