//! The result of a run for a pipeline: an exit code for the expected outcome, JUnit, SARIF, and annotations.

pub mod github;
pub mod junit;
mod sarif;

pub use sarif::encoded;

use crate::confidence::confidence;
use crate::markdown::{code, escaped};
use crate::shown_findings::own_findings;
use crate::words::{UNCLAIMED, observation, with_whose};
use crate::{Heading, heading, property};
use anyhow::Result;
use clap::Args;
use fencepost_checker::{Attribution, Outcome, RunVerdict, Verdict, Whose};
use fencepost_history::run::{RunFolder, write_whole};
use std::path::{Path, PathBuf};

/// What a pipeline wants to know of a run.
#[derive(Debug, Default, Args)]
pub struct PipelineArgs {
    /// Expected outcome: exit code 0 if the run has it, 1 if it has any other.
    #[arg(long, value_enum)]
    pub expect: Option<Expect>,
    /// Which violations give the exit code 1: any, or only those that may be the library's failure (own).
    #[arg(long, value_enum, value_name = "WHICH", default_value = "any", conflicts_with = "expect")]
    pub fail_on: FailOn,
    /// Write the properties as JUnit XML.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the findings as SARIF 2.1.0.
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
}

/// Which violations a run fails for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum FailOn {
    #[default]
    Any,
    Own,
}

impl PipelineArgs {
    /// Whether the requested files can be there: found before a run. Errors: the missing folder.
    pub fn check(&self) -> Result<(), String> {
        for (option, file) in [("--junit", &self.junit), ("--sarif", &self.sarif)] {
            let folder = file.as_deref().and_then(Path::parent).filter(|it| !it.as_os_str().is_empty());
            if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                return Err(format!("{option}: there is no folder {}; make it first", folder.display()));
            }
        }
        Ok(())
    }
}

/// The outcome that somebody expects. Nothing that was not tested or not decided can be expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Expect {
    Violation,
    Valid,
}

impl Expect {
    /// Whether this is what was expected.
    pub fn met(self, outcome: Outcome) -> bool {
        self.outcome() == outcome
    }

    fn outcome(self) -> Outcome {
        match self {
            Expect::Violation => Outcome::Violation,
            Expect::Valid => Outcome::Valid,
        }
    }
}

/// Writes what was asked for. Gives the exit code, by the outcome, what was expected, and the files.
pub fn report(args: &PipelineArgs, folder: &RunFolder, verdict: &RunVerdict) -> (i32, Result<()>) {
    (exit_code(args, verdict), write(args, folder, verdict))
}

fn exit_code(args: &PipelineArgs, verdict: &RunVerdict) -> i32 {
    let is_ignored = args.fail_on == FailOn::Own && !may_be_the_librarys(&verdict.attributions());
    match verdict.outcome {
        Outcome::Violation if is_ignored => 0,
        outcome => code_of(args.expect, outcome),
    }
}

/// Whether a violation is the library's failure, or not known to be another's.
fn may_be_the_librarys(violations: &[Attribution]) -> bool {
    let is_library = |each: &Attribution| {
        each.whose == Whose::Library || each.or.as_ref().is_some_and(|or| or.whose == Whose::Library)
    };
    violations.is_empty() || violations.iter().any(is_library)
}

fn code_of(expect: Option<Expect>, outcome: Outcome) -> i32 {
    match expect {
        None => i32::from(outcome.exit_code()),
        Some(expect) => i32::from(!expect.met(outcome)),
    }
}

fn write(args: &PipelineArgs, folder: &RunFolder, verdict: &RunVerdict) -> Result<()> {
    let heading = heading(&folder.read_run()?);
    if let Some(path) = &args.junit {
        let suites = [suite(&heading, verdict, args.expect)];
        write_whole(path, junit::xml("fencepost test", &suites)?.as_bytes())?;
    }
    if let Some(path) = &args.sarif {
        write_whole(path, sarif::log(&heading, verdict, &folder.history())?.as_bytes())?;
    }
    if github::is_there() {
        github::annotate(&annotations(&heading, verdict, args.expect));
        github::summarise(&summary(&heading, verdict, args.expect))?;
    }
    Ok(())
}

/// `redlock under clock-jump`.
fn title(heading: &Heading) -> String {
    let guard = if heading.guard == "none" { String::new() } else { format!(", guard {}", heading.guard) };
    format!("{} under {}{guard}", heading.lock, heading.nemesis)
}

/// A case for each property, and one for what was expected.
fn suite(heading: &Heading, verdict: &RunVerdict, expect: Option<Expect>) -> junit::JunitSuite {
    let wanted = expect == Some(Expect::Violation);
    let class = format!("fencepost.{}.{}", heading.lock, heading.nemesis);
    let mut cases: Vec<junit::Case> = Vec::new();
    for each in &verdict.verdicts {
        let details: Vec<String> = own_findings(verdict, each)
            .map(|finding| with_whose(&finding.sentence, finding.attribution().as_slice()))
            .collect();
        let end = match each.outcome {
            _ if does_not_count(each) => junit::CaseEnd::Skipped { message: observation(each) },
            Outcome::Violation if wanted => junit::CaseEnd::Passed,
            outcome => junit::CaseEnd::of(outcome, &observation(each), &details.join("\n")),
        };
        cases.push(junit::Case { name: property(&each.checker).0.to_owned(), class: class.clone(), end });
    }
    cases.extend(verdict.not_judged.iter().map(|each| junit::Case {
        name: property(&each.checker).0.to_owned(),
        class: class.clone(),
        end: junit::CaseEnd::Skipped { message: format!("not judged: {}", each.reason) },
    }));
    if let Some(expect) = expect {
        let end = match expect.met(verdict.outcome) {
            true => junit::CaseEnd::Passed,
            false => junit::CaseEnd::Failed {
                message: disappointed(expect, verdict.outcome),
                details: String::new(),
            },
        };
        cases.push(junit::Case { name: format!("expected: {}", expect.outcome()), class, end });
    }
    let (seed, confidence) = (heading.seed.to_string(), confidence(verdict).unwrap_or_default());
    let named = [
        ("confidence", &confidence),
        ("seed", &seed),
        ("repeat", &heading.command),
        ("version", &heading.version),
        ("client", &heading.client),
        ("files", &heading.files),
    ];
    let known = named.into_iter().filter(|(_, value)| !value.is_empty());
    let properties = known.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    junit::JunitSuite { name: title(heading), properties, cases }
}

/// Whether a property was violated or not decided that the lock does not claim.
fn does_not_count(verdict: &Verdict) -> bool {
    !verdict.claimed && verdict.outcome != Outcome::Valid
}

fn disappointed(expect: Expect, outcome: Outcome) -> String {
    format!("the outcome is {outcome}, and {} was expected", expect.outcome())
}

fn annotations(heading: &Heading, verdict: &RunVerdict, expect: Option<Expect>) -> Vec<github::Annotation> {
    use github::{Annotation, Level};
    let title = title(heading);
    let note = |level, text: &str| Annotation { level, title: title.clone(), text: text.to_owned() };
    if expect.is_some_and(|expect| expect.met(verdict.outcome)) {
        return vec![note(Level::Notice, &format!("{}, as expected", verdict.outcome))];
    }
    let mut notes: Vec<Annotation> = Vec::new();
    notes.extend(expect.map(|expect| note(Level::Error, &disappointed(expect, verdict.outcome))));
    // A checker whose findings all repeat another's adds no line of its own.
    let says_nothing_new =
        |each: &Verdict| !each.findings.is_empty() && own_findings(verdict, each).next().is_none();
    for each in verdict.verdicts.iter().filter(|each| !says_nothing_new(each)) {
        let level = match each.outcome {
            Outcome::Valid => continue,
            _ if !each.claimed => Level::Notice,
            Outcome::Violation => Level::Error,
            Outcome::Unknown | Outcome::Vacuous => Level::Warning,
        };
        notes.push(note(level, &format!("{}: {}", property(&each.checker).0, observation(each))));
    }
    if notes.is_empty() {
        notes.push(note(Level::Notice, "every property held"));
    }
    notes
}

fn summary(heading: &Heading, verdict: &RunVerdict, expect: Option<Expect>) -> String {
    let expected = expect.map_or(String::new(), |expect| format!(" (expected: {})", expect.outcome()));
    let mut text = format!("### {}: {}{expected}\n\n", escaped(&title(heading)), verdict.outcome);
    text.push_str("| property | verdict | observation |\n|---|---|---|\n");
    for each in &verdict.verdicts {
        let (name, _) = property(&each.checker);
        let word = if does_not_count(each) { UNCLAIMED } else { each.outcome.word() };
        text.push_str(&format!("| {} | {word} | {} |\n", escaped(name), escaped(&observation(each))));
    }
    for each in &verdict.not_judged {
        let (name, _) = property(&each.checker);
        text.push_str(&format!("| {} | not judged | {} |\n", escaped(name), escaped(&each.reason)));
    }
    let confidence = confidence(verdict)
        .map_or(String::new(), |confidence| format!("\nConfidence: {}.\n", escaped(&confidence)));
    format!("{text}{confidence}\nTo repeat: {}\n", code(&heading.command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Fixture, etcd_pause_token, redis_single_none, redlock_clock_jump};
    use fencepost_checker::{OtherCause, check_run};
    use std::path::Path;

    fn both() -> [(Fixture, RunVerdict); 3] {
        [redlock_clock_jump(), etcd_pause_token(), redis_single_none()]
            .map(|fixture| (check_run(&fixture.events), fixture))
            .map(|(verdict, fixture)| (fixture, verdict))
    }

    #[test]
    fn exit_codes_say_whether_it_came_as_expected() {
        assert_eq!(code_of(None, Outcome::Violation), 1);
        assert_eq!(code_of(None, Outcome::Vacuous), 2);
        assert_eq!(code_of(Some(Expect::Violation), Outcome::Violation), 0);
        assert_eq!(code_of(Some(Expect::Violation), Outcome::Valid), 1);
        assert_eq!(code_of(Some(Expect::Valid), Outcome::Violation), 1);
        for undecided in [Outcome::Unknown, Outcome::Vacuous] {
            assert_eq!(code_of(Some(Expect::Valid), undecided), 1);
            assert_eq!(code_of(Some(Expect::Violation), undecided), 1);
        }
    }

    #[test]
    fn a_run_fails_for_any_violation_or_for_those_that_may_be_the_librarys() {
        let own = PipelineArgs { fail_on: FailOn::Own, ..PipelineArgs::default() };
        for (fixture, verdict) in both() {
            let is_violated = verdict.outcome == Outcome::Violation;
            assert_eq!(exit_code(&PipelineArgs::default(), &verdict), i32::from(is_violated));
            // Those of the fixtures are the service's, or what only a fence prevents.
            assert_eq!(exit_code(&own, &verdict), 0, "{}", fixture.heading.lock);
        }
        let of = |whose, or| Attribution { whose, or };
        let or = OtherCause { whose: Whose::Library, decides: String::new() };
        assert!(may_be_the_librarys(&[of(Whose::NoFence, None), of(Whose::Library, None)]));
        assert!(may_be_the_librarys(&[of(Whose::Service, Some(or))]));
        assert!(!may_be_the_librarys(&[of(Whose::Service, None), of(Whose::Machine, None)]));
        assert!(may_be_the_librarys(&[]), "a violation without an explanation");
    }

    #[test]
    fn a_file_whose_folder_is_missing_is_refused_before_a_run() {
        let with = |file: &str| PipelineArgs { junit: Some(PathBuf::from(file)), ..PipelineArgs::default() };
        assert_eq!(
            with("no/such/a.xml").check().unwrap_err(),
            "--junit: there is no folder no/such; make it first"
        );
        assert!(with("a.xml").check().is_ok() && with("/tmp/a.xml").check().is_ok());
    }

    #[test]
    fn a_run_as_junit() {
        let suites: Vec<_> =
            both().iter().map(|(fixture, verdict)| suite(&fixture.heading, verdict, None)).collect();
        insta::assert_snapshot!(junit::xml("fencepost test", &suites).unwrap());
    }

    #[test]
    fn a_violation_that_was_expected_is_no_failure_and_one_that_was_not_there_is() {
        let suites: Vec<_> = both()
            .iter()
            .map(|(fixture, verdict)| suite(&fixture.heading, verdict, Some(Expect::Violation)))
            .collect();
        let xml = junit::xml("fencepost test", &suites).unwrap();
        assert_eq!(xml.matches("<failure").count(), 1, "{xml}");
        assert!(xml.contains("the outcome is valid, and violation was expected"), "{xml}");
    }

    #[test]
    fn a_run_as_sarif() {
        let [(fixture, verdict), ..] = both();
        let text = sarif::log(&fixture.heading, &verdict, Path::new("/run/history.jsonl")).unwrap();
        insta::assert_snapshot!(text);
    }

    #[test]
    fn texts_of_others_stay_text_in_the_summary_of_a_job() {
        let [(mut fixture, mut verdict), ..] = both();
        let hostile = "<img src=x>\n# title\n::error::a | b `c`";
        fixture.heading.lock = hostile.to_owned();
        fixture.heading.command = hostile.to_owned();
        verdict.verdicts[0].summary = hostile.to_owned();
        let summary = summary(&fixture.heading, &verdict, None);
        let outside_of_code = summary.split("To repeat: ").next().unwrap();
        assert!(
            outside_of_code.contains("&lt;img src=x&gt;") && !outside_of_code.contains("<img"),
            "{summary}"
        );
        let begins = |sign: &str| summary.lines().any(|line| line.starts_with(sign));
        assert!(!begins("# ") && !begins("::"), "{summary}");
    }

    #[test]
    fn a_run_as_github_wants_it() {
        let [(fixture, verdict), .., (quiet, valid)] = both();
        let lines = |notes: Vec<github::Annotation>| {
            notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(
            [
                lines(annotations(&fixture.heading, &verdict, None)),
                lines(annotations(&fixture.heading, &verdict, Some(Expect::Violation))),
                lines(annotations(&quiet.heading, &valid, Some(Expect::Violation))),
                summary(&fixture.heading, &verdict, None),
            ]
            .join("\n\n")
        );
    }
}
