//! What the terminal shows: what is tested, and at the end what came of it.

use crate::confidence::outcome_with_confidence;
use crate::heading::Heading;
use crate::shown_findings::{ShownFinding, shown_findings};
use crate::words::{UNCLAIMED, caveat, observation, property, sentence, whose_and_advice};
use console::{Style, style};
use fencepost_checker::{
    ExclusionFigures, LostUpdatesFigures, Outcome, RunIndex, RunVerdict, StaleWritesFigures, Verdict, seconds,
};
use fencepost_history::{shell_path, shell_word};
use std::fmt::Write;
use std::path::Path;

const ENDING: usize = 12;

const COLUMNS: usize = 100;

/// The top of the output: what is tested, on what, and how to repeat it.
pub fn heading_text(heading: &Heading) -> String {
    plan_text(heading) + &ground_text(heading)
}

/// What is known before anything starts: what is tested, and how to repeat it.
pub fn plan_text(heading: &Heading) -> String {
    let seed = heading.seed.to_string();
    rows(&[
        ("repeat", &heading.command),
        ("seed", &seed),
        ("lock", &heading.lock),
        ("workload", &heading.workload),
        ("nemesis", &heading.nemesis),
        ("guard", &heading.guard),
    ])
}

/// What is known once the servers and the clients run: what exactly is tested, and on what.
pub fn ground_text(heading: &Heading) -> String {
    rows(&[
        ("version", &heading.version),
        ("client", &heading.client),
        ("files", &heading.files),
        ("driver", &heading.driver),
        ("servers", &heading.servers.join(", ")),
    ])
}

/// Names in front, texts beside them; what is empty is left out.
pub fn rows(rows: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        // A command is to be copied: it stays in one line.
        let is_command = matches!(*name, "repeat" | "next");
        let value = if is_command { (*value).to_owned() } else { wrap_indented(value, 10) };
        let _ = writeln!(text, "{}{value}", style(format!("{name:<10}")).dim());
    }
    text
}

/// The end of the output: properties, the story of a violation, figures, the report's place, the verdict.
pub fn text(heading: &Heading, run: &RunIndex, verdict: &RunVerdict, report: &Path) -> String {
    let mut text = String::new();
    if let Some(caveat) = caveat(run) {
        let _ = writeln!(text, "{}\n", wrap_indented(&caveat, 0));
    }
    for each in &verdict.verdicts {
        property_row(&mut text, each);
    }
    for each in &verdict.not_judged {
        let (name, _) = property(&each.checker);
        let row = format!("– not judged {name:<18}{}", wrap_indented(&each.reason, 31));
        let _ = writeln!(text, "{}", style(row).dim());
    }
    let shown = shown_findings(run, verdict);
    if let Some(shown) = shown.first() {
        story(&mut text, run, shown);
    }
    text.push('\n');
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "{}{value}", style(format!("{name:<ENDING$}")).dim());
    };
    row("counts", &wrap_indented(&figures(run, verdict).join(" · "), ENDING));
    for (place, figure) in verdict.metrics.iter().enumerate() {
        row(if place == 0 { "measured" } else { "" }, &wrap_indented(&figure.to_string(), ENDING));
    }
    for (name, value) in whose_and_advice(verdict, shown.first().map(|shown| shown.finding)) {
        row(name, &wrap_indented(&value, ENDING));
    }
    if let Some(confidence) = outcome_with_confidence(verdict) {
        row("confidence", &wrap_indented(&confidence, ENDING));
    }
    // Servers of one's own are for single runs.
    let on_own_servers = heading.settings.iter().any(|(name, _)| name == "servers");
    match verdict.outcome {
        Outcome::Valid if !on_own_servers => {
            row("next", &format!("fencepost hunt --lock {}", shell_word(&heading.lock)));
        }
        Outcome::Violation => {
            row("next", &format!("fencepost explain {}", shell_path(report.parent().unwrap_or(report))));
        }
        _ => {}
    }
    row("report", &report.display().to_string());
    let ending = wrap_indented(&sentence(heading, run, verdict), 0);
    let _ = writeln!(text, "\n{}", colour(verdict.outcome).bold().apply_to(ending));
    text
}

fn property_row(text: &mut String, verdict: &Verdict) {
    let (name, _) = property(&verdict.checker);
    let counts = verdict.claimed || verdict.outcome == Outcome::Valid;
    let (word, style) = if counts {
        (verdict.outcome.word(), colour(verdict.outcome))
    } else {
        (UNCLAIMED, Style::new().dim())
    };
    let state = style.apply_to(format!("{} {word:<11}", verdict.outcome.sign()));
    let _ = writeln!(text, "{state}{name:<18}{}", wrap_indented(&observation(verdict), 31));
}

fn story(text: &mut String, run: &RunIndex, shown: &ShownFinding) {
    let finding = shown.finding;
    let lock = if finding.key.is_empty() { String::new() } else { format!(" of lock {}", finding.key) };
    let title =
        format!("How it happened at {} ({}{lock}):", seconds(finding.time), finding.class.replace('-', " "));
    let _ = writeln!(text, "\n{}", style(title).bold());
    let lines = shown.story(run);
    if lines.is_empty() {
        let _ = writeln!(text, "  {}", wrap_indented(&finding.sentence, 2));
    }
    for line in &lines {
        let time = style(format!("{:>11}", seconds(line.time_ns))).dim();
        let _ = writeln!(text, "{time}  {}", wrap_indented(&line.text, 13));
    }
}

fn figures(run: &RunIndex, verdict: &RunVerdict) -> Vec<String> {
    let holds: ExclusionFigures = verdict.figures().unwrap_or_default();
    let mut figures =
        vec![format!("{} holds", run.holds.len()), format!("granted twice {}", holds.granted_twice)];
    let kinds =
        [(holds.overstayed, "overstayed", run.lock.lease.runs_out()), (holds.cut_off, "cut off", false)];
    for (count, words, always) in kinds {
        figures.extend((always || count > 0).then(|| format!("{words} {count}")));
    }
    if let Some(updates) = verdict.figures::<LostUpdatesFigures>() {
        let (lost, all) = (updates.lost, updates.acknowledged);
        let share = 100.0 * lost as f64 / all.max(1) as f64;
        figures.push(format!("lost updates {lost} of {all} ({share:.1} %)"));
    }
    if let Some(writes) = verdict.figures::<StaleWritesFigures>() {
        figures.push(format!("stale writes {} accepted, {} rejected", writes.accepted, writes.rejected));
    }
    if !run.faults.is_empty() {
        let effective = run.faults.iter().filter(|fault| fault.effective).count();
        let unhealed = run.faults.iter().filter(|fault| fault.effective && fault.healed_ns.is_none()).count();
        let count = run.faults_left_out;
        let left_out = if count == 0 { String::new() } else { format!(", {count} left out") };
        let all = run.faults.len();
        figures.push(format!("faults {effective} of {all} effective, {unhealed} not healed{left_out}"));
    }
    figures
}

/// Applied only where there is a terminal.
pub fn colour(outcome: Outcome) -> Style {
    match outcome {
        Outcome::Valid => Style::new().green(),
        Outcome::Violation => Style::new().red(),
        Outcome::Unknown | Outcome::Vacuous => Style::new().yellow(),
    }
}

/// Wraps a text that begins at column `indent`; what follows is indented as much.
pub fn wrap_indented(text: &str, indent: usize) -> String {
    let lines = textwrap::wrap(text, COLUMNS - indent);
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Fixture, etcd_pause_token, redis_single_none, redlock_clock_jump};
    use fencepost_checker::check_index;

    fn shown(fixture: &Fixture) -> String {
        console::set_colors_enabled(false);
        let run = RunIndex::new(&fixture.events).unwrap();
        let end = text(&fixture.heading, &run, &check_index(&run), Path::new("results/latest/report.html"));
        format!("{}\n{end}", heading_text(&fixture.heading))
    }

    #[test]
    fn tells_of_a_lock_that_was_granted_twice() {
        insta::assert_snapshot!(shown(&redlock_clock_jump()));
    }

    #[test]
    fn where_two_causes_remain_both_are_named_with_what_decides() {
        console::set_colors_enabled(false);
        let fixture = redlock_clock_jump();
        let mut run = RunIndex::new(&fixture.events).unwrap();
        // A lock of one's own is not the reference.
        run.lock.client = vec!["my-client".to_owned()];
        let shown = text(&fixture.heading, &run, &check_index(&run), Path::new("report.html"));
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in [
            "1 granted twice, 0 overstayed (the service or the library)",
            "whose the service or the library: two causes remain, since a fault that was in force may explain this, and so may a \
             mistake of the client's side; the same run without that fault, or the reference (`--against`), decides",
            "whose failure: the service or the library.",
        ] {
            assert!(shown.contains(words), "{words}\n{shown}");
        }
    }

    #[test]
    fn tells_of_a_holder_that_overstayed() {
        insta::assert_snapshot!(shown(&etcd_pause_token()));
    }

    #[test]
    fn tells_of_a_lock_that_held() {
        insta::assert_snapshot!(shown(&redis_single_none()));
    }

    #[test]
    fn stays_within_the_width() {
        for fixture in [redlock_clock_jump(), etcd_pause_token(), redis_single_none()] {
            let text = shown(&fixture);
            let long = text.lines().find(|line| line.chars().count() > COLUMNS);
            assert_eq!(long, None);
        }
    }
}
