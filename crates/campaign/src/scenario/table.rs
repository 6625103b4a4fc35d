//! What the terminal shows of scenarios.

use super::page::sources;
use super::play::{PlayOptions, shown_seed};
use super::repetitions;
use super::report::{Ending, Report, RunReport};
use console::Style;
use fencepost_engine::scenario::Scenario;
use fencepost_history::prose::{and, count};
use fencepost_report::terminal::wrap_indented;
use std::fmt::Write;

/// Every scenario in a line or two, and what the letters of their sources stand for.
pub fn list(scenarios: &[Scenario]) -> String {
    let width = scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for scenario in scenarios {
        let about = format!("{} ({}): {}", scenario.about, scenario.source, scenario.expected);
        let _ = writeln!(text, "{:width$}  {}", scenario.name, wrap_indented(&about, width + 2));
    }
    let _ = writeln!(text, "\n  {}", wrap_indented(sources().trim_end(), 2));
    text
}

pub fn opening(scenario: &Scenario, options: &PlayOptions) -> String {
    let rows = [
        ("scenario", scenario.name.clone()),
        ("source", scenario.source.clone()),
        ("seed", shown_seed(scenario, options).to_string()),
        ("about", scenario.about.clone()),
        ("expected", scenario.expected.clone()),
    ];
    let rows = rows.into_iter().chain(processes_of_clients(scenario).map(|text| ("clients", text)));
    rows.map(|(name, text)| row(name, &text)).collect()
}

fn row(name: &str, text: &str) -> String {
    format!("{}{}\n", dim(&format!("{name:<10}")), wrap_indented(text, 10))
}

/// Narrations call clients by the numbers of the source, and findings name processes.
fn processes_of_clients(scenario: &Scenario) -> Option<String> {
    let script = scenario.runs.iter().find_map(|run| run.script.as_ref())?;
    let is_named = |number: &usize| {
        let name = format!("client {number}");
        script.narration.iter().any(|each| each.sentence.contains(&name))
    };
    let numbers = (1..=script.clients.len()).filter(is_named);
    let names: Vec<String> =
        numbers.map(|number| format!("client {number} is process {}", number - 1)).collect();
    (!names.is_empty()).then(|| and(&names))
}

/// How it ended, in full.
pub fn closing(report: &Report) -> String {
    let mut text = String::new();
    for run in &report.runs {
        if !run.title.is_empty() {
            let _ = writeln!(text, "{}", Style::new().bold().apply_to(&run.title));
        }
        for answer in &run.answers {
            let mark = if answer.met { "✓" } else { "✗" };
            text += &row("expected", &answer.expected);
            text += &row("observed", &format!("{mark} {}", answer.observed));
            text.extend(answer.metrics.iter().map(|metric| row("metric", &metric.to_string())));
        }
        text.extend(run.missing.iter().map(|missing| row("missing", missing)));
        let _ = writeln!(text, "{}{}", dim("run       "), run.folder.display());
    }
    text.extend(report.failed.iter().map(|failed| row("failed", failed)));
    text.extend(report.differs.iter().map(|differs| row("differs", differs)));
    let _ = writeln!(text, "\n{}", ending(report));
    text
}

/// One line for a scenario that was played among others.
pub fn line(report: &Report) -> String {
    format!("{:<34} {:>5.1} s  {}", report.name, report.seconds, ending(report))
}

/// All of them, scenario by scenario: expected beside observed.
pub fn table(reports: &[Report]) -> String {
    let mut text = String::new();
    for plays in repetitions::by_scenario(reports) {
        let outcome = marked(repetitions::worst(plays), &repetitions::outcome(plays));
        let _ = writeln!(text, "{:<34} {outcome}", plays[0].name);
        let _ = writeln!(text, "  {}{}", dim("expected  "), wrap_indented(&plays[0].expected, 12));
        for report in repetitions::telling(plays) {
            if plays.len() > 1 {
                let _ = writeln!(text, "  {}{}, {}", dim("seed      "), report.seed, ending(report));
            }
            for run in &report.runs {
                let _ = writeln!(text, "  {}{}", dim("observed  "), wrap_indented(&observed(run), 12));
            }
            if let Some(failed) = &report.failed {
                let _ = writeln!(text, "  {}{}", dim("failed    "), wrap_indented(failed, 12));
            }
        }
    }
    let _ = writeln!(text, "\n{}", sum(reports));
    text
}

fn sum(reports: &[Report]) -> String {
    let scenarios = repetitions::by_scenario(reports).count();
    let played = match reports.len() {
        plays if plays == scenarios => String::new(),
        1 => ", played once".to_owned(),
        plays => format!(", played {plays} times"),
    };
    let seconds: f64 = reports.iter().map(|report| report.seconds).sum();
    let missing = match repetitions::count(reports, Ending::Missing) {
        0 => String::new(),
        count => format!(", {count} missing"),
    };
    format!(
        "{}{played}: {} agree, {} differ from the source, {} disagree, {} did not happen{missing} ({seconds:.0} s of playing)",
        count(scenarios, "scenario"),
        repetitions::count(reports, Ending::Agrees),
        repetitions::count(reports, Ending::DiffersFromTheSource),
        repetitions::count(reports, Ending::Disagrees),
        repetitions::count(reports, Ending::DidNotHappen),
    )
}

/// A run in a sentence or two.
pub fn observed(run: &RunReport) -> String {
    let answers = run.answers.iter().map(|answer| {
        let metrics: String = answer.metrics.iter().map(|metric| format!("; {metric}")).collect();
        format!("{}{}{metrics}", if answer.met { "" } else { "NOT AS EXPECTED: " }, answer.observed)
    });
    let missing = run.missing.iter().map(|missing| format!("MISSING: {missing}"));
    let sentences: Vec<String> = answers.chain(missing).collect();
    let title = if run.title.is_empty() { String::new() } else { format!("{}: ", run.title) };
    format!("{title}{}", sentences.join(". "))
}

fn ending(report: &Report) -> String {
    marked(report.ending, report.ending.text())
}

fn marked(ending: Ending, text: &str) -> String {
    let (mark, style) = match ending {
        Ending::Agrees | Ending::Holds => ("✓", Style::new().green()),
        Ending::DiffersFromTheSource => ("≠", Style::new().yellow()),
        Ending::Disagrees | Ending::Broken => ("✗", Style::new().red()),
        Ending::DidNotHappen | Ending::Missing => ("?", Style::new().yellow()),
    };
    style.apply_to(format!("{mark} {text}")).to_string()
}

fn dim(text: &str) -> String {
    Style::new().dim().apply_to(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_engine::scenario::ExpectationAnswer;
    use fencepost_history::Seed;

    fn played(name: &'static str, seed: u64, ending: Ending) -> Report {
        let met = ending == Ending::Agrees;
        let observed = if met { "granted twice, 3.9 s early" } else { "no lock was granted twice" };
        let expected = "granted twice".to_owned();
        let answer = ExpectationAnswer { expected, met, observed: observed.to_owned(), metrics: Vec::new() };
        let run = RunReport {
            title: String::new(),
            folder: "results/story".into(),
            narration: Vec::new(),
            answers: vec![answer],
            missing: Vec::new(),
            effective: true,
            servers: Vec::new(),
        };
        Report {
            name: name.to_owned(),
            source: "K".to_owned(),
            about: "a clock jumps".to_owned(),
            expected: "broken: granted twice".to_owned(),
            picture: false,
            ending,
            differs: None,
            runs: vec![run],
            driver: "local".to_owned(),
            seed: Seed(seed),
            seconds: 4.0,
            failed: None,
        }
    }

    #[test]
    fn scenario_played_once_has_its_ending() {
        let reports =
            [played("redis-clock-jump", 7, Ending::Agrees), played("redlock-quiet", 7, Ending::Disagrees)];
        insta::assert_snapshot!(table(&reports));
    }

    #[test]
    fn of_a_scenario_played_often_one_play_is_shown_and_each_that_does_not_agree() {
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
