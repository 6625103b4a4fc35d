//! A comparison as tables of short texts, which terminal, Markdown and page each show in their own way.

use super::confidence::rule;
use super::model::{Cell, CellLossNotice, CellWithoutLeader, Comparison, Outcomes, Row};
use crate::confidence::distance_of;
use crate::words::property;
use fencepost_checker::{
    Figures, Harm, LinearizableFigures, LostAdditionsFigures, LostUpdatesFigures, Outcome, StaleWritesFigures,
};
use fencepost_history::prose::count;
use fencepost_history::{shell_path, shell_word};
use std::collections::BTreeMap;

/// A table; its rows and columns are those of the comparison.
pub struct Table {
    pub title: String,
    pub note: String,
    pub legend: Vec<(Mark, String)>,
    pub rows: Vec<Vec<Mark>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mark {
    pub outcome: Option<Outcome>,
    /// Of a violation, the worst that it means.
    pub harm: Option<Harm>,
    pub text: String,
    /// Whether too little was tested for what held to say much.
    pub weak: bool,
}

impl Mark {
    fn plain(text: impl Into<String>) -> Mark {
        Mark { text: text.into(), ..Mark::default() }
    }

    /// Marks what held in a cell that deserves little confidence: `✓ holds (weak)`.
    fn weakened(self, cell: &Cell) -> Mark {
        let weak = cell.confidence.as_ref().is_some_and(|confidence| !confidence.weak.is_empty());
        match self.outcome == Some(Outcome::Valid) && weak {
            true => Mark { text: format!("{} (weak)", self.text), weak: true, ..self },
            false => self,
        }
    }
}

/// A figure of a cell, if it has one.
type Value = fn(&Cell) -> Option<String>;

/// Marks without a colour, and what each means.
type Legend = [(&'static str, &'static str)];

const NOTHING: &str = "·";

/// What a nearest miss can be but a distance.
const MISSES: &Legend = &[
    ("overlap", "both believed for that long that they held the lock: mutual exclusion was violated"),
    (
        "write in flight",
        "a write that was sent before the grant was answered that long after it. This does not prove that two processes held the \
         lock at once, so mutual exclusion was not violated; the data and stale writes show whether it did harm",
    ),
    (NOTHING, "every grant followed a release"),
];

/// In place of a cell all of whose runs belong to parts that are not there.
const MISSING: &str = "missing";

/// The matrix itself: whether all properties held. Its legend is that of the properties' tables, too.
pub fn matrix(comparison: &Comparison) -> Table {
    let matrix = table(comparison, "All properties", "", |cell| Some(whole(cell).weakened(cell)));
    Table { legend: legend(comparison), ..matrix }
}

fn legend(comparison: &Comparison) -> Vec<(Mark, String)> {
    let cells = || comparison.rows.iter().flat_map(|row| &row.cells);
    let seen = |harm: &Harm| cells().any(|cell| cell.harms.contains_key(harm));
    let of = |harm: Harm| {
        let outcome = Some(Outcome::Violation);
        (Mark { outcome, harm: Some(harm), ..Mark::plain(harm.to_string()) }, harm.meaning().to_owned())
    };
    let others = plain(&[
        ("✗ or △ updates lost", "the effect on the data; the sign is that of the violation behind it"),
        ("✓ holds", "in each run that tested it"),
        ("○ vacuous", "no run tested it"),
        ("? unknown", "it could not be decided"),
        ("weak", rule().as_str()),
        ("1/2", "in one of two runs"),
        (NOTHING, "no run, or no value of this kind"),
    ]);
    Harm::ALL.into_iter().filter(seen).map(of).chain(others).collect()
}

fn plain(legend: &[(&str, &str)]) -> Vec<(Mark, String)> {
    legend.iter().map(|(mark, meaning)| (Mark::plain(*mark), (*meaning).to_owned())).collect()
}

pub fn properties(comparison: &Comparison) -> Vec<Table> {
    let of_checker = |checker: &str| {
        let (name, about) = property(checker);
        table(comparison, name, about, |cell| {
            let judged = cell.properties.iter().find(|property| property.checker == checker);
            let unjudged = || cell.not_judged.iter().any(|unjudged| unjudged.checker == checker);
            judged
                .map(|property| match property.claimed {
                    true => verdict(&property.outcomes, &property.harms, result(checker)),
                    false => unclaimed(&property.outcomes),
                })
                .map(|mark| mark.weakened(cell))
                .or_else(|| unjudged().then(|| Mark::plain("not judged")))
        })
    };
    comparison.checkers().into_iter().map(of_checker).collect()
}

/// How much confidence the verdicts deserve, and what was measured, as far as anything is known of it.
pub fn figures(comparison: &Comparison) -> Vec<Table> {
    let all: [(&str, &str, &Legend, Value); 10] = [
        ("Situations covered", "of those possible, all runs together", &[], |cell| {
            let confidence = cell.confidence.as_ref().filter(|confidence| confidence.possible > 0)?;
            Some(format!("{} of {}", confidence.covered, confidence.possible))
        }),
        (
            "Nearest miss",
            "time from the last act of a holder that had not released to the next grant",
            MISSES,
            |cell| Some(distance_of(cell.confidence.as_ref()?.nearest_miss.as_ref()?)),
        ),
        (
            "Rate of violations that cannot be excluded",
            "upper bound with 95 % confidence, from the number of runs without any",
            &[],
            |cell| {
                let confidence = cell.confidence.as_ref().filter(|_| cell.outcomes.violation == 0)?;
                let bound = confidence.rate_bound.map(|rate| format!("< {:.0} %", (rate * 100.0).ceil()));
                Some(bound.unwrap_or_else(|| "too few runs".to_owned()))
            },
        ),
        ("Updates lost", "of those acknowledged, with the 95 % interval, all runs together", &[], share),
        ("Acquire, median", "how long half of the acquires took at most; median of the runs", &[], |cell| {
            Some(length(cell.costs.as_ref()?.acquire_median_ms?))
        }),
        ("Acquire, p99", "how long 99 of 100 took at most; median of the runs", &[], |cell| {
            Some(length(cell.costs.as_ref()?.acquire_p99_ms?))
        }),
        ("Acquisitions a second", "while the test ran; median of the runs", &[], |cell| {
            Some(format!("{:.1}", cell.costs.as_ref()?.acquisitions_per_s))
        }),
        (
            "Time to recover",
            "longest time from the healing of a fault to the next acquisition, all runs together",
            &[],
            |cell| Some(length(cell.costs.as_ref()?.recovery_ms?)),
        ),
        (
            "Loss noticed after",
            "longest time from the loss of the lock until its holder learned of it, all runs together; and the share of losses that the holder never noticed",
            &[],
            |cell| Some(noticed(cell.loss_notice?)),
        ),
        (
            "Longest time without a leader",
            "while a process campaigned, from the end of a leadership to the next: certainly, and at most; all runs together",
            &[],
            |cell| {
                let CellWithoutLeader { at_least_ms, at_most_ms } = cell.without_leader?;
                Some(format!("{} to {}", length(at_least_ms as f64), length(at_most_ms as f64)))
            },
        ),
    ];
    let tables = all.into_iter().map(|(title, note, legend, value)| {
        let table = table(comparison, title, note, |cell| value(cell).map(Mark::plain));
        Table { legend: plain(legend), ..table }
    });
    let is_absent = |mark: &Mark| [NOTHING, MISSING, "n/a"].contains(&&*mark.text);
    tables.filter(|table| !table.rows.iter().flatten().all(is_absent)).collect()
}

fn table(comparison: &Comparison, title: &str, note: &str, mark: impl Fn(&Cell) -> Option<Mark>) -> Table {
    let row = |row: &Row| row.cells.iter().map(|cell| mark(cell).unwrap_or_else(|| absent(cell))).collect();
    let rows = comparison.rows.iter().map(row).collect();
    Table { title: title.to_owned(), note: note.to_owned(), legend: Vec::new(), rows }
}

fn absent(cell: &Cell) -> Mark {
    Mark::plain(match cell {
        Cell { not_applicable: Some(_), .. } => "n/a",
        Cell { runs, missing, .. } if runs.is_empty() && *missing > 0 => MISSING,
        _ => NOTHING,
    })
}

fn whole(cell: &Cell) -> Mark {
    if cell.not_applicable.is_some() {
        return Mark::plain("n/a");
    }
    match (cell.outcomes.runs(), cell.failures.len(), cell.missing) {
        (0, 0, 0) => Mark::plain(NOTHING),
        (0, 0, _) => Mark::plain(MISSING),
        (0, _, 0) => Mark::plain("failed"),
        (0, _, missing) => Mark::plain(format!("failed, {missing} missing")),
        (_, _, 0) => verdict(&cell.outcomes, &cell.harms, None),
        (_, _, missing) => {
            let mark = verdict(&cell.outcomes, &cell.harms, None);
            Mark { text: format!("{}, {missing} missing", mark.text), ..mark }
        }
    }
}

/// What a violation of a property about the data did. Its table says that, and not how it came about.
fn result(checker: &str) -> Option<&'static str> {
    match checker {
        LostUpdatesFigures::CHECKER => Some("updates lost"),
        LostAdditionsFigures::CHECKER => Some("additions lost"),
        StaleWritesFigures::CHECKER => Some("stale writes"),
        LinearizableFigures::CHECKER => Some("no order fits"),
        _ => None,
    }
}

/// `✗ granted twice 2/3`, `✓ holds`: by the worst harm; with a `result`, its sign: `✗ updates lost 3/3`.
pub fn verdict(outcomes: &Outcomes, harms: &BTreeMap<Harm, usize>, result: Option<&str>) -> Mark {
    let Some(outcome) = outcomes.outcome() else { return Mark::plain(NOTHING) };
    let worst = harms.first_key_value().filter(|_| outcome == Outcome::Violation);
    let (word, count) = match (outcome, worst) {
        (Outcome::Violation, Some((harm, count))) => match result {
            Some(result) => (format!("{} {result}", harm.sign()), outcomes.violation),
            None => (harm.to_string(), *count),
        },
        (Outcome::Violation, None) => ("✗ violated".to_owned(), outcomes.violation),
        (Outcome::Unknown, _) => ("? unknown".to_owned(), outcomes.unknown),
        (Outcome::Valid, _) => ("✓ holds".to_owned(), outcomes.valid),
        (Outcome::Vacuous, _) => ("○ vacuous".to_owned(), outcomes.vacuous),
    };
    let runs = outcomes.runs();
    // That a property was violated in all runs is worth saying; that it held in all is what holding means.
    let counted = outcome == Outcome::Violation || count < runs;
    let text = if counted { format!("{word} {count}/{runs}") } else { word };
    Mark { outcome: Some(outcome), harm: worst.map(|(harm, _)| *harm), text, weak: false }
}

/// The other things that violations of a cell mean, each `△ no fence 5/5`.
pub fn other_harms(cell: &Cell) -> Vec<String> {
    let others = cell.harms.iter().skip(1);
    others.map(|(harm, count)| format!("{harm} {count}/{}", cell.outcomes.runs())).collect()
}

/// `✗ unclaimed 2/3`, `✓ holds`: as [`verdict`], of a property that the lock does not claim.
fn unclaimed(outcomes: &Outcomes) -> Mark {
    let Outcomes { violation, .. } = outcomes;
    match outcomes.outcome() {
        None | Some(Outcome::Valid) => verdict(outcomes, &BTreeMap::new(), None),
        Some(Outcome::Violation) => Mark::plain(format!("✗ unclaimed {violation}/{}", outcomes.runs())),
        Some(other) => Mark::plain(format!("{} unclaimed", other.sign())),
    }
}

/// `1.20 s`, `1.20 s; never 40 %`, `never`.
fn noticed(notice: CellLossNotice) -> String {
    let after = notice.longest_ms.map(length);
    let never = match after {
        None => Some("never".to_owned()),
        Some(_) => (notice.never_percent > 0.0).then(|| format!("never {:.0} %", notice.never_percent)),
    };
    after.into_iter().chain(never).collect::<Vec<_>>().join("; ")
}

/// `3.1 % (1.0–8.8)`.
pub fn share(cell: &Cell) -> Option<String> {
    let share = &cell.lost.as_ref()?.share;
    let [low, high] = share.interval?;
    Some(format!("{:.1} % ({low:.1}–{high:.1})", share.value))
}

/// `1.2 ms`, `340 ms`, `2.10 s`.
pub fn length(ms: f64) -> String {
    match ms {
        _ if ms >= 1000.0 => format!("{:.2} s", ms / 1000.0),
        _ if ms >= 100.0 => format!("{ms:.0} ms"),
        _ => format!("{ms:.1} ms"),
    }
}

/// What a table has no room for, a sentence each: untestable properties, missing runs.
pub fn remarks(comparison: &Comparison) -> Vec<String> {
    let mut remarks: Vec<(String, Vec<&str>)> = Vec::new();
    for row in &comparison.rows {
        for (nemesis, cell) in comparison.nemeses.iter().zip(&row.cells) {
            let because = cell
                .not_applicable
                .iter()
                .map(|why| format!("{} is not applicable: {why}", comparison.label(row)));
            let failed =
                cell.failures.iter().map(|why| format!("{}, a run failed: {why}", comparison.label(row)));
            for remark in because.chain(failed) {
                match remarks.iter_mut().find(|(known, _)| *known == remark) {
                    Some((_, nemeses)) if nemeses.last() == Some(&nemesis.as_str()) => {}
                    Some((_, nemeses)) => nemeses.push(nemesis),
                    None => remarks.push((remark, vec![nemesis])),
                }
            }
        }
    }
    let all = comparison.nemeses.len();
    let sentences = remarks.into_iter().map(|(remark, nemeses)| match nemeses.len() {
        count if count == all && all > 1 => remark,
        _ => format!("under {}: {remark}", nemeses.join(", ")),
    });
    let settings = comparison.common_settings().filter(|settings| !settings.is_empty());
    let settings = settings.map(|settings| format!("all runs with {settings}"));
    let left_out = comparison.left_out.iter().map(|run| format!("left out: {run}"));
    let missing = comparison.missing.iter().cloned();
    missing.chain(settings).chain(sentences).chain(never_judged(comparison)).chain(left_out).collect()
}

/// The properties that no run judged, in a sentence, each with the reason that came first.
fn never_judged(comparison: &Comparison) -> Option<String> {
    let judged = comparison.checkers();
    let mut never: Vec<(&str, &str)> = Vec::new();
    for unjudged in comparison.rows.iter().flat_map(|row| &row.cells).flat_map(|cell| &cell.not_judged) {
        let name = unjudged.checker.as_str();
        if !judged.contains(&name) && !never.iter().any(|(known, _)| *known == name) {
            never.push((name, &unjudged.reason));
        }
    }
    let each: Vec<String> =
        never.iter().map(|(checker, reason)| format!("{} ({reason})", property(checker).0)).collect();
    (!each.is_empty()).then(|| format!("not judged in any run: {}", each.join(", ")))
}

/// What it is all about, in a sentence.
pub fn ending(comparison: &Comparison) -> String {
    let cells = || comparison.rows.iter().flat_map(|row| &row.cells);
    let with = |wanted| cells().filter(|cell| cell.outcomes.outcome() == Some(wanted)).count();
    let runs: usize = cells().map(|cell| cell.outcomes.runs()).sum();
    let tested = cells().filter(|cell| cell.outcomes.runs() > 0).count();
    let (valid, violation) = (with(Outcome::Valid), with(Outcome::Violation));
    let open = tested - valid - violation;
    let open = if open == 0 { String::new() } else { format!(", {open} not decided or not tested") };
    let weak = cells().filter(|cell| !cell.weak().is_empty()).count();
    let weak = match weak {
        0 => String::new(),
        all if all == valid => ", weakly tested".to_owned(),
        some => format!(", {some} of them weakly tested"),
    };
    let missing: usize = cells().map(|cell| cell.missing).sum();
    let incomplete = match missing {
        0 => String::new(),
        1 => " Incomplete: 1 run is missing.".to_owned(),
        several => format!(" Incomplete: {several} runs are missing."),
    };
    let worst = |harm| cells().filter(|cell| cell.harms.keys().next() == Some(&harm)).count();
    let harms = Harm::ALL.map(|harm| (worst(harm), harm)).into_iter().filter(|(count, _)| *count > 0);
    let harms: Vec<String> = harms.map(|(count, harm)| format!("{} in {count}", harm.in_words())).collect();
    let violated = match violation {
        0 => "none was violated".to_owned(),
        _ if harms.is_empty() => format!("some were violated in {violation}"),
        _ => format!("some were violated in {violation} ({})", harms.join(", ")),
    };
    format!(
        "{} in {}: all properties held in {valid}{weak}; {violated}{open}.{incomplete}",
        count(tested, "combination"),
        count(runs, "run")
    )
}

/// The next command: explains the worst violation, or hunts for the first lock without one, if possible.
pub fn next(comparison: &Comparison) -> String {
    let mut cells: Vec<&Cell> = comparison.rows.iter().rev().flat_map(|row| &row.cells).collect();
    cells.sort_by_key(|cell| cell.harms.keys().next().copied().map_or(Harm::ALL.len(), |harm| harm as usize));
    let mut runs = cells.iter().flat_map(|cell| &cell.runs);
    let shown = runs.find(|run| run.outcome == Outcome::Violation && run.path.is_dir());
    match (shown, comparison.rows.iter().find(|row| row.worst().is_none())) {
        (Some(run), _) => format!("fencepost explain {}", shell_path(&run.path)),
        (None, Some(row)) => format!("fencepost hunt --lock {}", shell_word(&row.lock)),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_holders_learned_of_a_loss_is_said_in_a_word_or_two() {
        let said = |longest_ms, never_percent| noticed(CellLossNotice { longest_ms, never_percent });
        assert_eq!(said(Some(1204.0), 0.0), "1.20 s");
        assert_eq!(said(Some(12.5), 40.0), "12.5 ms; never 40 %");
        assert_eq!(said(None, 100.0), "never");
    }
}
