//! Hunts against a made-up player that say no more than they have seen.

use super::tests::{Habit, hunt, hunt_for, request};
use super::*;
use fencepost_engine::RunOptions;
use fencepost_history::TimeSpan;
use fencepost_report::hunt::{HuntFile, HuntWorth};

fn remarks(file: &HuntFile, words: &str) -> bool {
    file.remarks.iter().any(|remark| remark.contains(words))
}

#[tokio::test]
async fn a_machine_that_cannot_play_lowers_its_jobs_and_has_found_nothing_out() {
    let results = tempfile::tempdir().unwrap();
    let request = HuntRequest { jobs: 6, ..request() };
    let (file, _) = hunt_for(results.path(), request, Habit::SeldomStarts, 20).await;
    assert!(file.failed > file.schedules, "{file:?}");
    assert!(
        remarks(&file, "3 of 6 are played side by side, and clients have 40s to start"),
        "{:?}",
        file.remarks
    );
    let HuntWorth::TooLittle(why) = file.worth() else { panic!("{:?}", file.worth()) };
    assert!(why.contains("schedules failed; fewer than 10 say nothing of a lock"), "{why}");
}

#[tokio::test]
async fn a_race_that_is_quiet_once_with_whole_seconds_is_found_all_the_same() {
    let results = tempfile::tempdir().unwrap();
    let (file, _) = hunt(results.path(), Habit::RacesWithoutFaults, 60).await;
    assert_eq!((file.schedules, file.findings.len()), (0, 1), "{:?}", file.remarks);
    assert_eq!(file.findings[0].name, "granted-twice-in-peace");
    let command = file.findings[0].command.as_deref().unwrap();
    assert!(command.contains(" scenario ") || command.ends_with("--class granted-twice"), "{command}");
    assert!(!remarks(&file, "whole seconds") && file.has_own_violation());
}

#[tokio::test]
async fn what_only_fractions_of_seconds_show_is_said_with_its_numbers() {
    let results = tempfile::tempdir().unwrap();
    let (file, _) = hunt(results.path(), Habit::CountsInSeconds, 40).await;
    let counted = "in each of 5 plays (It was held twice.), and with 1s in none of 5";
    assert!(remarks(&file, counted), "{:?}", file.remarks);
}

#[tokio::test]
async fn no_ttl_explains_what_a_session_lock_shows_without_faults() {
    let results = tempfile::tempdir().unwrap();
    let ttl = TimeSpan::from_millis(2500);
    let options = RunOptions { lock: "postgres-advisory".to_owned(), ttl, ..request().options };
    let request = HuntRequest { options, ..request() };
    let (file, _) = hunt_for(results.path(), request, Habit::CountsInSeconds, 40).await;
    assert_eq!((file.schedules, file.findings.len()), (0, 1), "{:?}", file.remarks);
}

#[tokio::test]
async fn a_hunt_watches_the_lock_without_faults_for_long() {
    let results = tempfile::tempdir().unwrap();
    let (file, _) = hunt(results.path(), Habit::IdlesWithoutFaults, 30).await;
    assert_eq!(file.findings[0].name, "granted-twice-in-peace", "{:?}", file.findings);
    assert!(file.schedules > 0, "it was no part of the first check");
}

#[tokio::test]
async fn a_hunt_that_is_too_short_to_watch_says_so() {
    let results = tempfile::tempdir().unwrap();
    let request = HuntRequest { budget: TimeSpan::from_secs(12), ..request() };
    let (file, _) = hunt_for(results.path(), request, Habit::IdlesWithoutFaults, 30).await;
    assert!(file.findings.is_empty());
    assert!(remarks(&file, "that takes --for 20 s"), "{:?}", file.remarks);
}

#[tokio::test]
async fn a_lock_that_announces_renewals_is_hunted_for_them() {
    let results = tempfile::tempdir().unwrap();
    let (_, path) = hunt(results.path(), Habit::Renews, 20).await;
    assert!(HuntFolder::resume(&path).unwrap().1.request.renews);
    let (_, path) = hunt(results.path(), Habit::BrokenByLongPauses, 20).await;
    assert!(!HuntFolder::resume(&path).unwrap().1.request.renews);
}

#[tokio::test]
async fn a_fault_that_never_takes_effect_is_left_out_and_named() {
    let results = tempfile::tempdir().unwrap();
    let (file, _) = hunt(results.path(), Habit::IsNeverPaused, 60).await;
    assert!(remarks(&file, "left out from here on: pause"), "{:?}", file.remarks);
    assert!(!remarks(&file, "left out from here on: kill"));
    let (other, _) = hunt(results.path(), Habit::Renews, 60).await;
    assert!(!remarks(&other, "left out"), "{:?}", other.remarks);
}
