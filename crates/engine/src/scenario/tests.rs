//! The format as a whole: every built-in file, mistakes, and the documentation.

use super::{Scenario, file, keys, registry, step};
use fencepost_history::Seed;
use fencepost_history::mistake::MistakeInFile;

const DOCUMENTATION: &str = include_str!("../../../../docs/scenarios.md");

fn parse(text: &str) -> Result<Scenario, MistakeInFile> {
    file::parse("mine", "mine.toml", text)
}

/// Reads a file and validates its runs.
fn validate(text: &str) -> Result<(), MistakeInFile> {
    let scenario = parse(text)?;
    for run in &scenario.runs {
        run.spec(run.options().clone()).map_err(|mistake| scenario.error(mistake))?;
    }
    Ok(())
}

#[test]
fn every_built_in_scenario_can_start() {
    assert!(registry().len() > 40);
    for scenario in registry() {
        for run in &scenario.runs {
            let mut options = run.options().clone();
            options.seed = Some(Seed(1));
            let spec = run.spec(options).unwrap_or_else(|mistake| panic!("{}", scenario.error(mistake)));
            assert_eq!(spec.plan.faults.len(), run.faults.len(), "{}", scenario.name);
        }
    }
}

/// A file that is right, with one line replaced.
fn with(line: &str, by: &str) -> String {
    let example = example();
    assert!(example.contains(line), "the example has the line {line}");
    example.replace(line, by)
}

/// The example of the documentation.
fn example() -> String {
    let (_, after) = DOCUMENTATION.split_once("```toml\n").expect("an example in TOML");
    after.split_once("```").expect("the end of the example").0.to_owned()
}

#[test]
fn the_example_of_the_documentation_is_a_scenario() {
    assert!(validate(&example()).is_ok());
    let scenario = parse(&example()).unwrap();
    assert_eq!((scenario.runs.len(), scenario.expected.as_str()), (1, "broken: granted twice"));
}

#[test]
fn expectations_that_ask_for_nothing_or_too_much_are_refused() {
    let wanted = "violation = { checker = \"exclusion\", class = \"granted-twice\" }";
    for (instead, words) in [
        ("about = 'x'\ncount = 'c1 acquire'\nabove = 0\ndigits = 70000", "`digits` must be at most 9"),
        (
            "about = 'x'\nrounds = { contests = 9000000000000000000 }\nabove = 3",
            "`contests` must be from 1 to",
        ),
        ("about = 'x'\norder = []", "`order` names no event"),
        ("about = 'x'\ncount = 'c1 acquire'\nabove = nan", "`above` and `below` must be numbers"),
        (
            "about = 'x'\ncount = 'c1 acquire'\nmetric = 'wake-ups a release'\nabove = 1",
            "measures one thing: `metric`, `count`, `time` or `rounds`",
        ),
        ("about = 'x'\nholds = 'all'\nerror = 'taken'", "`error` needs `event`"),
    ] {
        let text = example().replace(wanted, instead);
        assert_ne!(text, example());
        let mistake = validate(&text).unwrap_err().to_string();
        assert!(mistake.contains(words), "{instead}: {mistake}");
    }
}

#[test]
fn mistakes_are_named_with_their_line_and_the_nearest_right_name() {
    let cases = [
        ("lock = \"redlock\"", "lokc = \"redlock\""),
        ("lock = \"redlock\"", "lock = \"redlok\""),
        ("ttl = \"4s\"", "ttl = \"4x\""),
        ("ttl = \"4s\"", "nodes = \"five\""),
        ("ttl = \"4s\"", "driver = \"local\""),
        ("ttl = \"4s\"", "seed = \"seven\""),
        ("ttl = \"4s\"", "guard = \"token\""),
        ("ttl = \"4s\"", "workload = \"incremet\""),
        ("ttl = \"4s\"", "nodes = 2"),
        ("\"acquire\", \"read\", \"wait c2 acquire\"", "\"aquire\""),
        ("\"wait c2 acquire\"", "\"wait c3 acquire\""),
        ("\"wait clock-jump injected\"", "\"wait clok-jump injected\""),
        ("name = \"c2\"", "name = \"c3\""),
        ("name = \"c2\"", "naem = \"c2\""),
        ("fault = \"clock-jump\"", "fault = \"clock-jmp\""),
        ("on = [\"n3\"]", "on = [\"n7\"]"),
        ("on = [\"n3\"]", "no = [\"n3\"]"),
        ("wall = \"30s\"", "wal = \"30s\""),
        ("for = \"2s\"", "for = true"),
        ("when = \"c1 acquire\"", "when = \"c1 acquires\""),
        ("groups = \"c2|n1,n2\"", "groups = \"c2|n9\""),
        ("checker = \"exclusion\"", "checker = \"exclusoin\""),
        ("class = \"granted-twice\"", "clas = \"granted-twice\""),
        ("class = \"granted-twice\"", "class = \"granted-twise\""),
        ("name = \"c2\"", "name = \"c1\""),
        ("[expect]", "[expcet]"),
        ("violation = { checker = \"exclusion\", class = \"granted-twice\" }", "above = 3"),
        (
            "violation = { checker = \"exclusion\", class = \"granted-twice\" }",
            "metric = \"wake-ups per release\"\nabove = 3",
        ),
        ("violation = { checker = \"exclusion\", class = \"granted-twice\" }", "count = \"any acquire\""),
        ("about = \"the clock", "abuot = \"the clock"),
    ];
    let refusals = cases.map(|(line, by)| match validate(&with(line, by)) {
        Err(error) => format!("{by}\n  -> {error}"),
        Ok(()) => panic!("{by} is accepted"),
    });
    insta::assert_snapshot!(refusals.join("\n\n"));
}

/// The first column of the table with this heading, without its marks of code.
fn documented(heading: &str) -> Vec<String> {
    let (_, after) = DOCUMENTATION
        .split_once(&format!("| {heading} | |\n|---|---|\n"))
        .expect("a table with this heading");
    let rows = after.lines().take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('`').nth(1).expect("a key in backticks").to_owned()).collect()
}

/// The keys that serde knows of a type, as it says them when it meets an unknown one.
fn known(file: &str, unknown: &str) -> Vec<String> {
    let error = toml::from_str::<toml::Table>(file).map(|_| parse(file).expect_err(unknown)).expect("TOML");
    error.sentence.rsplit_once("expected one of ").expect(unknown).1.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_documentation_names_every_key() {
    let of = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    assert_eq!(documented("key of the scenario"), of(keys::SCENARIO));
    assert_eq!(documented("key of a run, or at the top for all runs"), of(keys::RUN));
    let far = "an-unknown-key-that-is-near-to-none";
    let client = format!("about = \"x\"\n[[client]]\n{far} = 1");
    assert_eq!(documented("key of a client"), known(&client, "an unknown key of a client"));
    let expect = format!("about = \"x\"\n[expect]\n{far} = 1");
    let (mut listed, mut there) =
        (documented("key of an expectation"), known(&expect, "an unknown key of an expectation"));
    listed.sort_unstable();
    there.sort_unstable();
    assert_eq!(listed, there);
    let forms = documented("step");
    for form in &forms {
        assert!(step::parse(&form.replace("EVENT", "c1 acquire").replace("TIME", "1s")).is_ok(), "{form}");
    }
    assert_eq!(forms.len(), step::STEPS.len() + 2);
}

#[test]
fn the_documentation_names_every_metric() {
    for metric in fencepost_checker::METRICS {
        assert!(DOCUMENTATION.contains(&format!("`{metric}`")), "{metric}");
    }
}

#[test]
fn every_event_of_the_documentation_is_one() {
    for event in documented("event") {
        assert!(super::event::parse(&event).is_ok(), "{event}");
    }
}

#[test]
fn a_run_overrides_options_and_adds_to_the_rest() {
    let text = format!(
        "{}\n[[run]]\ntitle = \"first\"\n\n[[run]]\ntitle = \"second\"\nttl = \"5s\"\n\
         [[run.client]]\nname = \"c2\"\nscript = [\"holds\"]\n[run.expect]\nholds = \"all\"",
        example()
    );
    let scenario = parse(&text).unwrap();
    let [first, second] = &scenario.runs[..] else { panic!("two runs") };
    assert_eq!(
        (first.options().ttl.to_string(), second.options().ttl.to_string()),
        ("4s".into(), "5s".into())
    );
    let steps = |run: &super::ScenarioRun| run.script.as_ref().unwrap().clients[1].steps.len();
    assert_eq!((steps(first), steps(second)), (6, 1));
    assert_eq!((first.expectations.len(), second.expectations.len()), (1, 2));
    assert_eq!(second.faults.len(), 3);
}
