//! How much confidence a verdict deserves: which situations the faults made, and the nearest miss.

use crate::words::figures;
use fencepost_checker::{
    Coverage, ExclusionFigures, LockPhase, MissKind, NearMiss, Reached, RunVerdict, Situation, TargetRole,
    VacuousFigures, milliseconds,
};
use maud::{Markup, html};

/// What a situation is, for readers who see the word for the first time.
pub const SITUATION: &str = "a fault, its target, and the phase of the lock";

/// In one line: `31 of 54 situations covered · nearest miss 84 ms (…)`. None in older verdicts.
pub fn confidence(verdict: &RunVerdict) -> Option<String> {
    let coverage = verdict.coverage.as_ref()?;
    let covered = match coverage.possible() {
        0 if figures::<VacuousFigures>(verdict).faults == 0 => {
            "no faults, so no situations to cover".to_owned()
        }
        0 => "the history does not name the nodes, so no situations were counted".to_owned(),
        _ => format!("{coverage} (a situation: {SITUATION})"),
    };
    Some(format!("{covered} · {}", nearest(verdict)))
}

/// The same after the outcome: `valid · 31 of 54 situations covered · …`.
pub fn outcome_with_confidence(verdict: &RunVerdict) -> Option<String> {
    Some(format!("{} · {}", verdict.outcome, confidence(verdict)?))
}

fn nearest(verdict: &RunVerdict) -> String {
    let Some(miss) = &verdict.nearest_miss else { return "no grant without a release before it".to_owned() };
    let ExclusionFigures { granted_twice, overstayed, cut_off, .. } = figures(verdict);
    let name = if miss.distance_ns < 0 { "longest" } else { "nearest miss" };
    // The story may be about another.
    let overlaps = granted_twice + overstayed + cut_off;
    let of_all = if overlaps > 1 { format!(" of {overlaps}") } else { String::new() };
    format!("{name} {}{of_all} ({})", distance_of(miss), miss.sentence())
}

/// How near a miss was: `84 ms`; an overlap says what it was: `overlap 9.0 ms`, `write in flight 9.0 ms`.
pub fn distance_of(miss: &NearMiss) -> String {
    let length = milliseconds(miss.distance_ns.unsigned_abs());
    match (miss.distance_ns < 0, miss.kind) {
        (false, _) => length,
        (true, MissKind::Belief) => format!("overlap {length}"),
        (true, MissKind::Write) => format!("write in flight {length}"),
    }
}

/// A table of the situations: a row for each fault and role, a column for each phase.
pub fn situations(coverage: Option<&Coverage>) -> Markup {
    let Some(coverage) = coverage.filter(|coverage| coverage.possible() > 0) else { return html! {} };
    let phases: Vec<LockPhase> =
        LockPhase::ALL.into_iter().filter(|phase| occurs(coverage, *phase)).collect();
    let rows = rows(coverage);
    html! {
        h2 { "The situations" }
        p.note {
            "A situation is a fault, the role of its target, and what was going on with the lock when the fault came; it counts only if the \
             effect of the fault was observed. " (coverage.covered()) " of " (coverage.possible()) " possible situations \
             came about in this run; a dash is a situation that did not. Beneath: how close a grant came to the last act of an \
             earlier holder that had not released; negative is an overlap, or a write in flight."
        }
        div.tablebox { table.situations {
            thead { tr {
                th { "fault" } th { "target" }
                @for phase in &phases { th.n scope="col" { (phase.words()) } }
            } }
            tbody {
                @for (fault, role) in &rows {
                    tr {
                        th scope="row" { (fault) }
                        td { (role.words()) }
                        @for phase in &phases { (cell(coverage, fault, *role, *phase)) }
                    }
                }
            }
        } }
    }
}

fn occurs(coverage: &Coverage, phase: LockPhase) -> bool {
    coverage.situations().any(|(situation, _)| situation.phase == phase)
}

fn rows(coverage: &Coverage) -> Vec<(&str, TargetRole)> {
    let mut rows: Vec<(&str, TargetRole)> =
        coverage.situations().map(|(situation, _)| (situation.fault.as_str(), situation.role)).collect();
    rows.dedup();
    rows
}

fn cell(coverage: &Coverage, fault: &str, role: TargetRole, phase: LockPhase) -> Markup {
    let reached = coverage.reached(&Situation { fault: fault.to_owned(), role, phase });
    html! {
        @match reached {
            None => td.n {},
            Some(Reached { times: 0, .. }) => td.n.missed title="possible, and not covered" { "–" },
            Some(Reached { times, nearest_ns }) => td.n.covered {
                (times) "×"
                @if let Some(distance_ns) = nearest_ns { small { (distance(distance_ns)) } }
            },
        }
    }
}

fn distance(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", milliseconds(ns.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::redlock_clock_jump;
    use fencepost_checker::{MissEvent, Outcome, Verdict, check_run};

    fn verdict(distance_ns: i64, kind: MissKind) -> RunVerdict {
        let event = |index, process| MissEvent { index, time_ns: 0, process };
        let miss =
            NearMiss { kind, key: "k0".to_owned(), distance_ns, earlier: event(1, 3), grant: event(2, 7) };
        let rows = r#"[{"fault":"pause","role":"holder","phase":"held","times":2,"nearest_ns":84000000},
                       {"fault":"pause","role":"holder","phase":"releasing","times":0},
                       {"fault":"pause","role":"idle","phase":"held","times":0}]"#;
        let coverage = serde_json::from_str(rows).unwrap();
        RunVerdict { coverage: Some(coverage), nearest_miss: Some(miss), ..RunVerdict::of(Vec::new()) }
    }

    #[test]
    fn a_line_says_what_a_verdict_is_worth() {
        let line = |ns, kind| confidence(&verdict(ns, kind)).unwrap();
        assert_eq!(
            line(84_000_000, MissKind::Belief),
            "1 of 3 situations covered (a situation: a fault, its target, and the phase of the lock) · nearest miss 84 ms \
             (process 7 was granted k0 84 ms after process 3 last acted as its holder)"
        );
        assert!(line(-9_000_000, MissKind::Belief).contains("· longest overlap 9.0 ms (process 7"));
        assert!(line(-9_000_000, MissKind::Write).contains("· longest write in flight 9.0 ms (process 7"));
        let overlaps = ExclusionFigures { granted_twice: 2, overstayed: 3, ..ExclusionFigures::default() };
        let exclusion = Verdict::new("exclusion", Outcome::Violation, "").with_figures(&overlaps);
        let many = RunVerdict { verdicts: vec![exclusion], ..verdict(-9_000_000, MissKind::Belief) };
        assert!(confidence(&many).unwrap().contains("· longest overlap 9.0 ms of 5 (process 7"));
        let released = RunVerdict { nearest_miss: None, ..verdict(0, MissKind::Belief) };
        assert_eq!(
            outcome_with_confidence(&released).unwrap(),
            "vacuous · 1 of 3 situations covered (a situation: a fault, its target, and the phase of the lock) · no grant \
             without a release before it"
        );
        let without_faults = RunVerdict { coverage: Some(Coverage::default()), ..released };
        assert!(confidence(&without_faults).unwrap().starts_with("no faults, so no situations to cover · "));
        assert_eq!(confidence(&RunVerdict::of(Vec::new())), None);
    }

    #[test]
    fn a_table_shows_what_came_about_and_what_did_not() {
        let table = situations(verdict(0, MissKind::Belief).coverage.as_ref()).into_string();
        assert_eq!(table.matches("<tr>").count(), 3, "{table}");
        assert!(table.contains(r#"<td class="n covered">2×<small>84 ms</small></td>"#), "{table}");
        assert_eq!(table.matches("–").count(), 2, "{table}");
        assert!(!table.contains(">write in flight</th>"), "{table}");
        assert_eq!(situations(None).into_string(), "");
    }

    #[test]
    fn a_run_with_a_violation_says_how_long_two_believed() {
        let verdict = check_run(&redlock_clock_jump().events);
        assert_eq!(verdict.outcome, Outcome::Violation);
        assert!(confidence(&verdict).unwrap().contains("longest overlap"), "{:?}", confidence(&verdict));
    }
}
