//! The terminal at the end of a hunt: what was found, whose failure it is, how sure that is, and what to do.

use super::args::HuntFailOn;
use fencepost_checker::{Whose, find_class};
use fencepost_report::hunt::{FindingGroup, HuntFile, HuntFinding, HuntWorth};
use fencepost_report::terminal::wrap_indented;
use std::fmt::Write;
use std::path::Path;

/// What stands on the terminal before it is known whether the last files could be written.
pub const SUBJECT: &str = "the outcome";

const INDENT: usize = 12;

/// What a hunt found, for the terminal.
pub fn outcome(file: &HuntFile) -> String {
    let mut text = format!("\n{}.\n", file.summary());
    let ended = file.ended.as_ref().map(|ended| format!("The hunt ended: {ended}."));
    for sentence in [Some(file.coverage()), ended].into_iter().flatten().filter(|it| !it.is_empty()) {
        text += &format!("{}\n", wrap_indented(&sentence, 0));
    }
    for (number, group) in (1..).zip(file.groups()) {
        text += &finding(number, &group, file);
    }
    for line in [file.of_servers(), file.undecided()].into_iter().flatten() {
        let _ = write!(text, "\n{line}\n");
    }
    for undecided in file.undecided_findings() {
        let _ = write!(text, "\n-  {}", undecided.signature);
        text += &lines(undecided, file);
    }
    text += &what_now(file);
    text.trim_end().to_owned()
}

fn finding(number: usize, group: &FindingGroup<'_>, file: &HuntFile) -> String {
    let finding = group.example;
    let mut text = format!("\n{number}. {} ({})", finding.signature, finding.state.words());
    text += &lines(finding, file);
    if let Some(also) = group.also_under() {
        text += &row("also", &also);
    }
    text
}

fn lines(finding: &HuntFinding, file: &HuntFile) -> String {
    let against = file.against.as_ref().map(|against| against.lock.as_str());
    let mut text = row("happened", &finding.sentence);
    let is_undecided = file.undecided_findings().any(|other| other.name == finding.name);
    match (finding.whose, against) {
        (Some(_), Some(lock)) if is_undecided => {
            text += &row(
                "whose",
                &format!("not decided: the service's if {lock} shows it, too, else the library's"),
            );
        }
        (Some(whose), _) => text += &row("whose", &whose_in_words(whose)),
        (None, _) => {}
    }
    text += &row("how sure", &finding.how_sure(against));
    if let Some(class) = find_class(&finding.signature.class) {
        text += &row("what now", class.advice_for(finding.whose.filter(|_| !is_undecided)));
    }
    if let Some(command) = &finding.command {
        // A command stays on one line, so that it can be copied.
        let _ = writeln!(text, "   {:<9}{command}", "repeat");
    }
    text
}

fn row(name: &str, words: &str) -> String {
    let first = if name == "happened" { "\n" } else { "" };
    format!("{first}   {name:<9}{}\n", wrap_indented(words, INDENT))
}

/// Whose failure it is, in a sentence for somebody who reads one for the first time.
fn whose_in_words(whose: Whose) -> String {
    let meaning = match whose {
        Whose::Service => "the servers gave the lock away, or lost it, under these faults",
        Whose::Library => "the lock's client, its library or the way in which it is used",
        Whose::NoFence => {
            "a client overstayed, or its write arrived late; a lock cannot prevent that, but a storage that checks fencing tokens can"
        }
        Whose::Machine => "this machine was too busy: it says nothing of the lock",
    };
    format!("{whose}: {meaning}")
}

fn what_now(file: &HuntFile) -> String {
    let sentence = match file.worth() {
        HuntWorth::Violation => return String::new(),
        HuntWorth::Undecided => "Not decided: play these violations again, or hunt for longer.".to_owned(),
        HuntWorth::TooLittle(why) => {
            let time = file
                .long_enough()
                .map_or("(--for)".to_owned(), |time| format!("(at this pace --for {time})"));
            format!("Not tested: {why}. Give the hunt more time {time}, or a machine with less other work.")
        }
        HuntWorth::NothingFound => "Situations that were not reached remain untested.".to_owned(),
    };
    format!("\n{}\n", wrap_indented(&sentence, 0))
}

pub fn page_row(folder: &Path) -> String {
    format!("\nwritten   {}", folder.join("hunt.html").display())
}

/// 1: a violation was found (the lock's own, where compared); 0: none; 2: too little decided or played.
pub fn exit_code(file: &HuntFile, fail_on: Option<HuntFailOn>) -> i32 {
    match file.worth() {
        _ if fail_on == Some(HuntFailOn::Any) && file.has_violation() => 1,
        HuntWorth::Violation => 1,
        HuntWorth::Undecided | HuntWorth::TooLittle(_) => 2,
        HuntWorth::NothingFound => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_engine::RunOptions;
    use fencepost_history::{Seed, TimeSpan};
    use fencepost_hunt::hunt::{HuntRequest, new_file};
    use fencepost_hunt::search::DrawnOptions;

    fn file(schedules: u64, failed: u64) -> HuntFile {
        let request = HuntRequest {
            options: RunOptions::default(),
            drawn: DrawnOptions::ALL,
            nemeses: Vec::new(),
            seed: Seed(1),
            jobs: 2,
            shard: None,
            corpus: None,
            budget: TimeSpan::from_secs(60),
            known: None,
            against: None,
            renews: false,
            command: String::new(),
        };
        HuntFile { schedules, failed, ..new_file(&request, "local") }
    }

    #[test]
    fn a_hunt_that_could_not_play_ends_with_2_and_says_what_to_do() {
        let few = file(1, 5);
        assert_eq!((exit_code(&few, None), exit_code(&few, Some(HuntFailOn::Any))), (2, 2));
        let text = outcome(&few).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("Not tested: 1 schedule was played, and 5 schedules failed"), "{text}");
        assert!(text.contains("Give the hunt more time (at this pace --for 60s)"), "{text}");
    }
}
