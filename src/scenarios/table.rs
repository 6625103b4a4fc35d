//! What the terminal shows of scenarios.

use super::Scenario;
use super::perform::{ActReport, Ending, Manner, Report};
use crate::summary::hang;
use console::Style;
use std::fmt::Write;

/// Every scenario in a line or two.
pub fn list(scenarios: &[&Scenario]) -> String {
    let width = scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for scenario in scenarios {
        let about = format!("{} ({}): {}", scenario.about, scenario.source, scenario.expected);
        let _ = writeln!(text, "{:width$}  {}", scenario.name, hang(&about, width + 2));
    }
    text
}

/// What is about to be played.
pub fn opening(scenario: &Scenario, manner: &Manner) -> String {
    let rows = [
        ("scenario", scenario.name.to_owned()),
        ("source", scenario.source.to_owned()),
        ("seed", manner.seed.to_string()),
        ("story", scenario.about.to_owned()),
        ("expected", scenario.expected.to_owned()),
    ];
    let rows = rows.map(|(name, text)| format!("{}{}\n", dim(&format!("{name:<10}")), hang(&text, 10)));
    rows.concat()
}

/// How it ended, in full.
pub fn closing(report: &Report) -> String {
    let mut text = String::new();
    for act in &report.acts {
        if !act.title.is_empty() {
            let _ = writeln!(text, "{}", Style::new().bold().apply_to(act.title));
        }
        for answer in &act.answers {
            let _ = writeln!(text, "{}{}", dim("expected  "), hang(&answer.expected, 10));
            let mark = if answer.met { "✓ " } else { "✗ " };
            let observed = format!("{mark}{}", answer.observed);
            let _ = writeln!(text, "{}{}", dim("observed  "), hang(&observed, 10));
            for figure in &answer.figures {
                let _ = writeln!(text, "{}{}", dim("figure    "), hang(&figure.to_string(), 10));
            }
        }
        for missing in &act.missing {
            let _ = writeln!(text, "{}{}", dim("missing   "), hang(missing, 10));
        }
        let _ = writeln!(text, "{}{}", dim("run       "), act.folder.display());
    }
    if let Some(failed) = &report.failed {
        let _ = writeln!(text, "{}{}", dim("failed    "), hang(failed, 10));
    }
    if let Some(differs) = report.differs {
        let _ = writeln!(text, "{}{}", dim("differs   "), hang(differs, 10));
    }
    let _ = writeln!(text, "\n{}", ending(report));
    text
}

/// One line for a scenario that was played among others.
pub fn line(report: &Report) -> String {
    format!("{:<34} {:>5.1} s  {}", report.name, report.seconds, ending(report))
}

/// All of them: expected beside observed.
pub fn table(reports: &[Report]) -> String {
    let mut text = String::new();
    for report in reports {
        let _ = writeln!(text, "{:<34} {}", report.name, ending(report));
        let _ = writeln!(text, "  {}{}", dim("expected  "), hang(report.expected, 12));
        for act in &report.acts {
            let _ = writeln!(text, "  {}{}", dim("observed  "), hang(&observed(act), 12));
        }
        if let Some(failed) = &report.failed {
            let _ = writeln!(text, "  {}{}", dim("failed    "), hang(failed, 12));
        }
    }
    let count = |wanted| reports.iter().filter(|report| report.ending == wanted).count();
    let seconds: f64 = reports.iter().map(|report| report.seconds).sum();
    let _ = writeln!(
        text,
        "\n{} scenarios: {} agree, {} differ from the source, {} disagree, {} did not happen ({seconds:.0} s of playing)",
        reports.len(),
        count(Ending::Agrees),
        count(Ending::DiffersFromTheSource),
        count(Ending::Disagrees),
        count(Ending::DidNotHappen),
    );
    text
}

/// An act in a sentence or two.
pub fn observed(act: &ActReport) -> String {
    let answers = act.answers.iter().map(|answer| {
        let figures: String = answer.figures.iter().map(|figure| format!("; {figure}")).collect();
        format!("{}{}{figures}", if answer.met { "" } else { "NOT AS EXPECTED: " }, answer.observed)
    });
    let missing = act.missing.iter().map(|missing| format!("MISSING: {missing}"));
    let sentences: Vec<String> = answers.chain(missing).collect();
    let title = if act.title.is_empty() { String::new() } else { format!("{}: ", act.title) };
    format!("{title}{}", sentences.join(". "))
}

/// The ending in a word or a few.
pub fn ending_text(ending: Ending) -> &'static str {
    match ending {
        Ending::Agrees => "agrees",
        Ending::DiffersFromTheSource => "differs from the source",
        Ending::Disagrees => "does not agree",
        Ending::DidNotHappen => "did not happen",
    }
}

fn ending(report: &Report) -> String {
    let text = ending_text(report.ending);
    let (mark, style) = match report.ending {
        Ending::Agrees => ("✓", Style::new().green()),
        Ending::DiffersFromTheSource => ("≠", Style::new().yellow()),
        Ending::Disagrees => ("✗", Style::new().red()),
        Ending::DidNotHappen => ("?", Style::new().yellow()),
    };
    style.apply_to(format!("{mark} {text}")).to_string()
}

fn dim(text: &str) -> String {
    Style::new().dim().apply_to(text).to_string()
}
