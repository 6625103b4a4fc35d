//! The set: every acknowledged addition is in the final set. In the set workload a process reads a list, and
//! writes it back with one more value, which no other process adds and which stands last. What was
//! acknowledged and is not in the list that is read in the closing phase is lost. An addition of unknown end
//! may be there or not. Source: the set of Jepsen's etcd tests, "Jepsen: etcd 3.4.3" (2020).

use super::checker::{Blame, Checker, FindingClass, NotJudged, not_judged_if};
use crate::figures::figures;
use crate::metrics::Metric;
use crate::prose::{lost_of, seconds};
use crate::run_index::{Operation, RunIndex};
use crate::verdict::{Finding, Outcome, Verdict};
use crate::whose::Harm;
use fencepost_history::{RunPhase, f, is_set};
use rustc_hash::FxHashSet;
use serde_json::Value;
use std::collections::BTreeMap;

figures! {
    /// What became of acknowledged additions.
    LostAdditionsFigures of "lost-additions" {
        acknowledged: u64,
        lost: u64,
    }
}

pub(crate) const LOST: &str = "acknowledged additions lost";

#[derive(Default)]
struct AddedValues<'a> {
    /// The acknowledged writes, with the value that each added.
    acknowledged: Vec<(&'a Operation<'a>, &'a Value)>,
    /// The last list that was read in the closing phase, with the index of the event.
    last: Option<(&'a Value, u64)>,
}

impl<'a> AddedValues<'a> {
    /// The additions that are not in the final list. None: no process read it.
    fn lost(&self) -> Option<Vec<(&'a Operation<'a>, &'a Value)>> {
        // What was never written reads as 0, an empty set.
        let list = self.last?.0.as_array().map_or(&[][..], Vec::as_slice);
        let there: FxHashSet<String> = list.iter().map(Value::to_string).collect();
        let missing = self.acknowledged.iter().filter(|(_, value)| !there.contains(&value.to_string()));
        Some(missing.copied().collect())
    }
}

pub(super) const LOST_ADDITIONS: Checker = Checker {
    classes: &[FindingClass {
        name: "lost-addition",
        meaning: "The storage acknowledged an added value, and yet the value is not in the final set.",
        advice: "Let the storage reject writes of superseded holders.",
    }],
    claim: Some("exclusion"),
    harm: Harm::GrantedTwice,
    blame: Blame::ByHolders,
    ..Checker::of::<LostAdditionsFigures>("the set: every acknowledged addition is in the final set", check)
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let sets = collect(run);
    not_judged_if!(sets.is_empty(), "the workload adds to no set");
    let (lost, acknowledged) = counts(&sets);
    let unread = sets.iter().find(|(_, set)| set.last.is_none());
    let (outcome, summary) = if lost > 0 {
        (Outcome::Violation, lost_of(lost, acknowledged, "additions"))
    } else if let Some((key, _)) = unread {
        (Outcome::Unknown, format!("no process read the final set of {key}"))
    } else {
        (Outcome::Valid, format!("all {acknowledged} acknowledged additions are in the final sets"))
    };
    let findings = sets.iter().flat_map(|(key, set)| findings(key, set)).collect();
    let verdict = Verdict::new(checker.name, outcome, summary);
    Ok(verdict
        .with_figures(&LostAdditionsFigures { acknowledged: acknowledged as u64, lost: lost as u64 })
        .with_findings(findings))
}

/// The share of acknowledged additions that are lost, where there is a set and it was read at the end.
pub(crate) fn metrics(run: &RunIndex) -> Vec<Metric> {
    let sets = collect(run);
    let (lost, acknowledged) = counts(&sets);
    if acknowledged == 0 || sets.values().any(|set| set.last.is_none()) {
        return Vec::new();
    }
    vec![Metric::share(LOST, lost, acknowledged)]
}

fn counts(sets: &BTreeMap<&str, AddedValues>) -> (usize, usize) {
    let lost = sets.values().filter_map(AddedValues::lost).map(|lost| lost.len()).sum();
    (lost, sets.values().map(|set| set.acknowledged.len()).sum())
}

/// The sets of a run by key: there is one where somebody wrote a list.
fn collect<'a>(run: &'a RunIndex<'a>) -> BTreeMap<&'a str, AddedValues<'a>> {
    let closing = run.phase(RunPhase::Closing).map_or(u64::MAX, |phase| phase.from);
    let mut sets: BTreeMap<&str, AddedValues> = BTreeMap::new();
    for operation in run.calls(f::WRITE) {
        let list = operation.invoke.value.as_array().filter(|_| is_set(&operation.invoke.value));
        let Some(added) = list.and_then(|list| list.last()) else { continue };
        let set = sets.entry(operation.key).or_default();
        if operation.ok().is_some() {
            set.acknowledged.push((operation, added));
        }
    }
    for operation in run.calls(f::READ) {
        if let Some(set) = sets.get_mut(operation.key)
            && operation.invoke.index > closing
            && let Some(ok) = operation.ok()
        {
            set.last = Some((&ok.value, ok.index));
        }
    }
    sets
}

fn findings(key: &str, set: &AddedValues) -> Vec<Finding> {
    let Some((_, read)) = set.last else { return Vec::new() };
    let finding = |(write, value): (&Operation, &Value)| {
        let ok = write.ok()?;
        let sentence = format!(
            "process {} got the answer at {} that its addition of {value} was done, but {value} is not in the final set",
            write.process,
            seconds(ok.time),
        );
        Some(Finding::new("lost-addition", key, ok.time, vec![ok.index, read], sentence))
    };
    set.lost().unwrap_or_default().into_iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{events, maybe_verdict, verdict};

    const SET: &str = "
        0 1 invoke write a [1]
        1 1 ok     write a 1
        2 2 invoke write a [1,2]
        3 2 ok     write a 2
        4 3 invoke write a [1,3]
        5 3 info   write a null timeout
        6 nemesis info phase - \"closing\"
        7 9 invoke read a
        8 9 ok     read a [1,2]";

    #[test]
    fn accepts_a_set_with_all_that_was_acknowledged() {
        assert_eq!(verdict(&LOST_ADDITIONS, SET).outcome, Outcome::Valid);
        // The indeterminate one took the place of the second: that one is lost, itself it is not held against
        // anyone.
        let replaced = SET.replace("[1,2]\n        3 2 ok", "[1,2]\n        3 2 fail");
        assert_eq!(verdict(&LOST_ADDITIONS, &replaced).outcome, Outcome::Valid);
    }

    #[test]
    fn rejects_a_set_that_lacks_an_acknowledged_one_and_tells_the_share() {
        let lacking = SET.replace("8 9 ok     read a [1,2]", "8 9 ok read a [1,3]");
        let verdict = verdict(&LOST_ADDITIONS, &lacking);
        assert_eq!(verdict.outcome, Outcome::Violation);
        assert_eq!(verdict.findings[0].events, [3, 8]);
        let events = events(&lacking);
        let metrics = metrics(&RunIndex::new(&events).unwrap());
        assert_eq!(metrics[0].to_string(), "acknowledged additions lost 50.0 % (95 %: 9.5 to 90.5 %)");
    }

    #[test]
    fn does_not_know_without_a_closing_read_and_says_nothing_of_counters() {
        let unread = SET.split("7 9").next().unwrap();
        assert_eq!(verdict(&LOST_ADDITIONS, unread).outcome, Outcome::Unknown);
        assert!(maybe_verdict(&LOST_ADDITIONS, "0 1 invoke write a 1\n1 1 ok write a 1").is_none());
    }
}
