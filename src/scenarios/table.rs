//! What the terminal shows of scenarios.

use super::perform::{ActReport, Ending, Manner, Report};
use super::{Scenario, plays};
use console::Style;
use fencepost_report::terminal::hang;
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

/// All of them, story by story: expected beside observed.
pub fn table(reports: &[Report]) -> String {
    let mut text = String::new();
    for plays in plays::by_story(reports) {
        let outcome = marked(plays::worst(plays), &plays::outcome(plays));
        let _ = writeln!(text, "{:<34} {outcome}", plays[0].name);
        let _ = writeln!(text, "  {}{}", dim("expected  "), hang(plays[0].expected, 12));
        for report in plays::telling(plays) {
            if plays.len() > 1 {
                let _ = writeln!(text, "  {}{}, {}", dim("seed      "), report.seed, ending(report));
            }
            for act in &report.acts {
                let _ = writeln!(text, "  {}{}", dim("observed  "), hang(&observed(act), 12));
            }
            if let Some(failed) = &report.failed {
                let _ = writeln!(text, "  {}{}", dim("failed    "), hang(failed, 12));
            }
        }
    }
    let _ = writeln!(text, "\n{}", sum(reports));
    text
}

fn sum(reports: &[Report]) -> String {
    let stories = plays::by_story(reports).count();
    let played = match reports.len() {
        plays if plays == stories => String::new(),
        plays => format!(", played {plays} times"),
    };
    let seconds: f64 = reports.iter().map(|report| report.seconds).sum();
    format!(
        "{stories} scenarios{played}: {} agree, {} differ from the source, {} disagree, {} did not happen ({seconds:.0} s of playing)",
        plays::count(reports, Ending::Agrees),
        plays::count(reports, Ending::DiffersFromTheSource),
        plays::count(reports, Ending::Disagrees),
        plays::count(reports, Ending::DidNotHappen),
    )
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

fn ending(report: &Report) -> String {
    marked(report.ending, report.ending.text())
}

/// With the sign and the colour of an ending.
fn marked(ending: Ending, text: &str) -> String {
    let (mark, style) = match ending {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::expect::Answer;
    use fencepost_history::Seed;

    fn played(name: &'static str, seed: u64, ending: Ending) -> Report {
        let met = ending == Ending::Agrees;
        let observed = if met { "granted twice, 3.9 s early" } else { "nobody got it twice" };
        let expected = "granted twice".to_owned();
        let answer = Answer { expected, met, observed: observed.to_owned(), figures: Vec::new() };
        let act = ActReport {
            title: "",
            folder: "results/story".into(),
            told: Vec::new(),
            answers: vec![answer],
            missing: Vec::new(),
            servers: Vec::new(),
        };
        Report {
            name,
            source: "K",
            about: "a clock jumps",
            expected: "broken: granted twice",
            ending,
            differs: None,
            acts: vec![act],
            driver: "local".to_owned(),
            seed: Seed(seed),
            seconds: 4.0,
            failed: None,
        }
    }

    #[test]
    fn a_story_played_once_has_its_ending() {
        let reports =
            [played("redis-clock-jump", 7, Ending::Agrees), played("redlock-quiet", 7, Ending::Disagrees)];
        insta::assert_snapshot!(table(&reports));
    }

    #[test]
    fn of_a_story_played_often_one_is_told_and_each_that_does_not_agree() {
        let times = |name, wrong: Option<u64>| {
            (1..=20).map(move |seed| {
                let ending = if wrong == Some(seed) { Ending::Disagrees } else { Ending::Agrees };
                played(name, seed, ending)
            })
        };
        let reports: Vec<_> =
            times("redis-clock-jump", None).chain(times("redlock-quiet", Some(4))).collect();
        insta::assert_snapshot!(table(&reports));
    }
}
