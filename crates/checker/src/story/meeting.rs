use crate::properties::Overlap;
use crate::run_index::{Hold, RunIndex};
use crate::verdict::Finding;
use fencepost_history::Process;

/// The overlap that a finding is about: for `exclusion` the one that it names, for others the first between
/// the processes whose events it cites. All overlaps are in order of the second acquisition.
pub(crate) fn overlap_among(run: &RunIndex, all: &[Overlap], finding: &Finding) -> Option<Overlap> {
    let cited: Vec<u64> = finding
        .events
        .iter()
        .filter_map(|&index| match run.event(index)?.process {
            Process::Client(process) => Some(process),
            Process::Nemesis => None,
        })
        .collect();
    let second_from = |overlap: &Overlap| run.holds[overlap.second].from;
    if let [first, second, ..] = finding.events[..] {
        let begin = all.partition_point(|overlap| second_from(overlap) < second);
        let mut of_second = all[begin..].iter().take_while(|overlap| second_from(overlap) == second);
        // Of a crowd a checker may cite another one of the earlier holders.
        let is_in = |overlap: &Overlap| {
            let mut earlier = overlap.beside.iter().chain([&overlap.first]);
            earlier.any(|&at| run.holds[at].from == first)
        };
        if let Some(named) = of_second.find(|overlap| is_in(overlap)) {
            return Some(named.clone());
        }
    }
    let (first, last) = (*finding.events.iter().min()?, *finding.events.iter().max()?);
    let first_ns = run.event(first).map_or(0, |event| event.time);
    let near = |overlap: &Overlap| {
        let (a, b) = (&run.holds[overlap.first], &run.holds[overlap.second]);
        let both = cited.contains(&a.process) && cited.contains(&b.process);
        both && b.key == finding.key && a.from <= first && a.ends.let_go_ns.max(b.ends.let_go_ns) >= first_ns
    };
    let begun = all.partition_point(|overlap| second_from(overlap) <= last);
    all[..begun].iter().rev().find(|overlap| near(overlap)).cloned()
}

/// The two holds of a finding whose holders did not certainly believe at the same time: the earliest and the
/// latest of the cited events. None if they are one hold, or failed attempts are cited: these are about none.
pub(super) fn two_holds(run: &RunIndex, finding: &Finding) -> Option<(usize, usize)> {
    let is_cited = |index: u64| finding.events.contains(&index);
    let is_failed = run.acquires().any(|acquire| {
        let cited =
            is_cited(acquire.invoke.index) || acquire.completion.is_some_and(|end| is_cited(end.index));
        cited && acquire.ok().is_none()
    });
    if is_failed {
        return None;
    }
    let mut holds: Vec<usize> =
        finding.events.iter().filter_map(|&index| hold_of(run, index, &finding.key)).collect();
    holds.sort_unstable();
    let (first, second) = (*holds.first()?, *holds.last()?);
    (run.holds[first].process != run.holds[second].process).then_some((first, second))
}

fn hold_of(run: &RunIndex, index: u64, key: &str) -> Option<usize> {
    let Process::Client(process) = run.event(index)?.process else { return None };
    let is_under = |hold: &Hold| hold.process == process && hold.key == key && hold.from <= index;
    run.holds.iter().rposition(is_under)
}
