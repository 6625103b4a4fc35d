//! Hunts against a made-up player: what is kept, what ends them, and how they go on.

use super::*;
use crate::player::Player;
use crate::schedule::Schedule;
use crate::search::{DrawnOptions, ScheduleArchive};
use anyhow::{Result, anyhow};
use async_trait::async_trait;
use fencepost_campaign::Played;
use fencepost_campaign::parts::Sources;
use fencepost_checker::{Finding, Outcome, RunVerdict, Verdict};
use fencepost_engine::{NoTimeToStart, RunOptions, Stop};
use fencepost_history::run::RunFolder;
use fencepost_history::{Event, FaultEvent, FaultStage, Kind, Process, Seed, Shard, TimeSpan, Writer};
use fencepost_report::hunt::{Compared, FindingState, HUNT_JSON, HuntFile, HuntFinding};
use run::new_file;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the made-up lock does.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Habit {
    /// Breaks where a pause is longer than 600 ms.
    BrokenByLongPauses,
    /// As this, but for the lock that it is compared with, which always holds.
    BrokenBesideAReference,
    BrokenWithoutFaults,
    /// With a TTL that is no whole number of seconds.
    CountsInSeconds,
    /// A race that breaks it without faults in all plays but these: the second, and two more.
    RacesWithoutFaults,
    /// Without faults, where it is watched for long.
    IdlesWithoutFaults,
    /// Announces that it prolongs what it holds.
    Renews,
    /// A pause has no effect.
    IsNeverPaused,
    NeverGrants,
    NeverStarts,
    /// Its clients have no time to start in the first play, and after the first check but in each sixth.
    SeldomStarts,
}

/// The lock that findings are compared with.
const REFERENCE: &str = "etcd";

struct MadeUp {
    habit: Habit,
    runs: PathBuf,
    plays: AtomicU64,
    /// Pulled after so many plays.
    interrupt: Option<(u64, Arc<Stop>)>,
}

fn event(f: &str, kind: Kind, process: Process, value: Value) -> Event {
    let key = matches!(process, Process::Client(_)).then(|| "k0".into());
    Event { index: 0, time: 0, process, kind, f: f.into(), key, value: value.into(), error: None }
}

#[async_trait]
impl Player for MadeUp {
    async fn play(&self, schedule: &Schedule) -> Result<Played> {
        let number = self.plays.fetch_add(1, Ordering::Relaxed);
        if let Some((after, stop)) = &self.interrupt
            && number >= *after
        {
            stop.interrupt();
        }
        if self.habit == Habit::NeverStarts {
            return Err(anyhow!("n1 does not answer"));
        }
        let starts = (1..3).contains(&number) || number > 0 && number.is_multiple_of(6);
        if self.habit == Habit::SeldomStarts && !starts {
            return Err(NoTimeToStart("client c1 did not answer the hello within 20 s".to_owned()).into());
        }
        let folder = RunFolder::create(&self.runs, &schedule.spec()?.options.settings())?;
        folder.write_run(&schedule.spec()?.options.run_file(String::new()))?;
        let acquired = if self.habit == Habit::NeverGrants { Kind::Fail } else { Kind::Ok };
        let process = Process::Client(0);
        let mut history = vec![
            event("acquire", Kind::Invoke, process, Value::Null),
            event("acquire", acquired, process, json!({})),
        ];
        if self.habit == Habit::Renews {
            history.insert(
                0,
                event("lock", Kind::Info, Process::Nemesis, json!({"name": "x", "can": ["extend"]})),
            );
        }
        let mut rows = Vec::new();
        for fault in &schedule.plan.faults {
            let value = FaultEvent {
                id: 0,
                stage: FaultStage::Inject,
                targets: fault.on.iter().map(String::as_str).collect(),
                requested: &Value::Null,
                observed: &Value::Null,
                effective: self.habit != Habit::IsNeverPaused || fault.fault != "pause",
                description: None,
                aimed: Vec::new(),
            }
            .to_value(true);
            history.push(event(&fault.fault, Kind::Ok, Process::Nemesis, value));
            let phase = if fault.then.is_some() { "held" } else { "free" };
            rows.push(json!({"fault": fault.fault, "role": "holder", "phase": phase, "times": 1}));
        }
        for (index, event) in (0..).zip(&mut history) {
            (event.index, event.time) = (index, index);
        }
        let long = schedule.plan.faults.iter().any(|fault| fault.fault == "pause" && fault.for_ms > 600);
        let broken = match self.habit {
            Habit::BrokenByLongPauses => long,
            Habit::BrokenBesideAReference => long && schedule.options.lock != REFERENCE,
            Habit::BrokenWithoutFaults => true,
            Habit::CountsInSeconds => !schedule.options.ttl.millis().is_multiple_of(1000),
            Habit::RacesWithoutFaults => ![1, 4, 7].contains(&number),
            Habit::IdlesWithoutFaults => {
                schedule.plan.faults.is_empty() && schedule.options.acquisitions.is_none()
            }
            _ => false,
        };
        let outcome = if broken { Outcome::Violation } else { Outcome::Valid };
        let finding = Finding {
            class: "granted-twice".to_owned(),
            time: 100,
            sentence: "It was held twice.".to_owned(),
            ..Finding::default()
        };
        let verdict = Verdict::new("exclusion", outcome, "said").with_findings(vec![finding]);
        let coverage = Some(serde_json::from_value(json!(rows))?);
        let mut writer = Writer::create(&folder.history())?;
        for event in &history {
            writer.append(event)?;
        }
        let folder = folder.path;
        Ok(Played { folder, verdict: RunVerdict { coverage, ..RunVerdict::of(vec![verdict]) }, history })
    }
}

/// Hears nothing.
struct Deaf;

impl HuntObserver for Deaf {
    fn message(&self, _: &str) {}
    fn progress(&self, _: &Status) {}
}

pub(super) fn request() -> HuntRequest {
    let options = RunOptions {
        driver: "local".to_owned(),
        ttl: TimeSpan::from_millis(500),
        acquire_timeout: TimeSpan::from_secs(1),
        ..RunOptions::default()
    };
    HuntRequest {
        options,
        drawn: DrawnOptions::ALL,
        nemeses: vec!["pause".to_owned(), "kill".to_owned()],
        seed: Seed(7),
        jobs: 2,
        budget: TimeSpan::from_secs(3600),
        known: None,
        shard: None,
        corpus: None,
        against: None,
        renews: false,
        command: "fencepost hunt --seed 7".to_owned(),
    }
}

/// Hunts until so many schedules were played, and gives the hunt's file and folder.
pub(super) async fn hunt(results: &Path, habit: Habit, plays: u64) -> (HuntFile, PathBuf) {
    hunt_for(results, request(), habit, plays).await
}

pub(super) async fn hunt_for(
    results: &Path,
    request: HuntRequest,
    habit: Habit,
    plays: u64,
) -> (HuntFile, PathBuf) {
    let folder = HuntFolder::create(results, "redlock", 0, Seed(7)).unwrap();
    let begun = (new_file(&request, "local"), ScheduleArchive::default(), 1);
    hunt_on(request, begun, folder, habit, plays).await
}

async fn hunt_on(
    request: HuntRequest,
    begun: (HuntFile, ScheduleArchive, u64),
    folder: HuntFolder,
    habit: Habit,
    plays: u64,
) -> (HuntFile, PathBuf) {
    let stop = Arc::new(Stop::default());
    let interrupt = Some((plays, stop.clone()));
    let player = MadeUp { habit, runs: folder.runs(), plays: AtomicU64::new(0), interrupt };
    let around = HuntParts {
        player: Arc::new(player),
        program: "fencepost".to_owned(),
        stop,
        observer: Arc::new(Deaf),
    };
    let path = folder.path.clone();
    let mut hunt = Hunt::new(request, begun, folder, around).unwrap();
    let HuntEnd { file, written } = hunt.hunt().await.unwrap();
    written.unwrap();
    (file, path)
}

#[tokio::test(start_paused = true)]
async fn violation_becomes_one_finding_and_everything_else_is_removed() {
    let results = tempfile::tempdir().unwrap();
    let (file, path) = hunt(results.path(), Habit::BrokenByLongPauses, 60).await;
    assert!(!file.findings.is_empty(), "{:?}", file.remarks);
    assert!(file.findings.iter().all(|finding| finding.signature.class == "granted-twice"));
    assert!(file.findings.iter().any(|finding| finding.times > 1), "the same violation is one finding");
    for finding in &file.findings {
        assert!(path.join(finding.run.as_deref().unwrap()).is_dir(), "{:?}", file.remarks);
    }
    assert!(!path.join("runs").exists(), "schedules that taught nothing leave nothing");
    assert!(path.join("hunt.html").is_file() && path.join("hunt.md").is_file());
    assert_eq!(file.ended.as_deref(), Some("it was interrupted"));
    assert!(file.has_violation());
}

/// Hunts on a lock that is compared with another one.
async fn compared(habit: Habit) -> HuntFile {
    let results = tempfile::tempdir().unwrap();
    let options =
        RunOptions { lock: "etcd-lock-api".to_owned(), ttl: TimeSpan::from_secs(2), ..request().options };
    let request = HuntRequest { against: Some(REFERENCE.to_owned()), options, ..request() };
    let folder = HuntFolder::create(results.path(), "etcd-lock-api", 0, Seed(7)).unwrap();
    let begun = (new_file(&request, "local"), ScheduleArchive::default(), 1);
    hunt_on(request, begun, folder, habit, 200).await.0
}

#[tokio::test(start_paused = true)]
async fn what_the_reference_shows_too_is_of_the_servers_and_is_not_made_small() {
    let file = compared(Habit::BrokenByLongPauses).await;
    assert!(!file.findings.is_empty(), "{:?}", file.remarks);
    let of_servers = |finding: &HuntFinding| finding.compared == Some(Compared::OfServers);
    assert!(file.findings.iter().all(of_servers), "{:?}", file.findings);
    assert!(file.findings.iter().all(|finding| finding.state == FindingState::Found));
    assert!(file.has_violation() && !file.has_own_violation());
    let against = file.against.as_ref().unwrap();
    assert!(against.plays > 0 && !against.shown.is_empty(), "{against:?}");
    assert!(against.plays < file.schedules / 2, "what is known is not asked again: {against:?}");
}

#[tokio::test(start_paused = true)]
async fn what_the_reference_does_not_show_is_the_locks_own() {
    let file = compared(Habit::BrokenBesideAReference).await;
    assert!(file.has_own_violation(), "{:?}", file.remarks);
    assert!(
        file.findings.iter().any(|finding| finding.compared == Some(Compared::Own)),
        "{:?}",
        file.findings
    );
    assert_eq!(file.against.unwrap().shown, []);
}

#[tokio::test(start_paused = true)]
async fn violation_is_said_though_the_folder_can_no_longer_be_written() {
    let results = tempfile::tempdir().unwrap();
    let folder = HuntFolder::create(results.path(), "redlock", 0, Seed(7)).unwrap();
    // In the place of a file a folder: not even root can write it.
    std::fs::create_dir_all(folder.path.join("hunt.md/in-the-way")).unwrap();
    let stop = Arc::new(Stop::default());
    let player = MadeUp {
        habit: Habit::BrokenWithoutFaults,
        runs: folder.runs(),
        plays: AtomicU64::new(0),
        interrupt: None,
    };
    let around = HuntParts {
        player: Arc::new(player),
        program: "fencepost".to_owned(),
        stop,
        observer: Arc::new(Deaf),
    };
    let request = request();
    let begun = (new_file(&request, "local"), ScheduleArchive::default(), 1);
    let HuntEnd { file, written } = Hunt::new(request, begun, folder, around).unwrap().hunt().await.unwrap();
    assert!(written.is_err());
    assert!(file.has_violation());
}

#[tokio::test(start_paused = true)]
async fn killed_hunt_goes_on_where_it_was() {
    let results = tempfile::tempdir().unwrap();
    let (file, path) = hunt(results.path(), Habit::BrokenByLongPauses, 30).await;
    let (folder, state, archive) = HuntFolder::resume(&path).unwrap();
    assert_eq!(state.file, file);
    assert!(!archive.kept.is_empty() && archive.cells == state.cells);
    assert!(HuntFolder::resume(&path).is_err_and(|error| error.to_string().contains("still goes on")));
    let begun = (state.file, archive, state.next);
    let (more, _) = hunt_on(state.request, begun, folder, Habit::BrokenByLongPauses, 30).await;
    assert!(more.schedules > file.schedules && more.spent_ms >= file.spent_ms);
    let count = |file: &HuntFile, name: &str| file.situations.get(name).map_or(0, |seen| seen.times);
    assert!(file.situations.keys().all(|name| count(&more, name) >= count(&file, name)));
    let findings =
        |file: &HuntFile| file.findings.iter().map(|finding| finding.name.clone()).collect::<Vec<_>>();
    assert!(findings(&more).starts_with(&findings(&file)), "a finding of before is not found anew");
}

#[tokio::test(start_paused = true)]
async fn lock_that_is_broken_without_faults_is_said_before_any_fault_is_tried() {
    let results = tempfile::tempdir().unwrap();
    let (file, _) = hunt(results.path(), Habit::BrokenWithoutFaults, 60).await;
    assert_eq!((file.schedules, file.findings.len()), (0, 1));
    assert_eq!(file.findings[0].name, "granted-twice-in-peace");
    assert!(file.ended.unwrap().contains("without any fault"));
}

#[tokio::test(start_paused = true)]
async fn lock_that_works_with_whole_seconds_only_is_hunted_with_them() {
    let results = tempfile::tempdir().unwrap();
    let (file, path) = hunt(results.path(), Habit::CountsInSeconds, 40).await;
    assert!(file.schedules > 0 && !file.has_violation(), "{:?}", file.findings);
    assert!(file.remarks.iter().any(|remark| remark.contains("so this hunt uses 1s")), "{:?}", file.remarks);
    let (_, state, _) = HuntFolder::resume(&path).unwrap();
    assert_eq!(state.request.options.ttl, TimeSpan::from_secs(1));
    assert_eq!(state.request.options.acquire_timeout, TimeSpan::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn lock_that_grants_nothing_ends_the_hunt_with_a_sentence() {
    let results = tempfile::tempdir().unwrap();
    let (file, _) = hunt(results.path(), Habit::NeverGrants, 60).await;
    assert_eq!((file.schedules, file.has_violation()), (0, false));
    let ended = file.ended.unwrap();
    assert!(ended.starts_with("nothing was tested: with a TTL of 500ms, nor with a longer one"), "{ended}");
    assert!(ended.contains("the lock redlock granted nothing within 10s"), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn servers_that_do_not_come_back_end_the_hunt_with_what_it_has() {
    let results = tempfile::tempdir().unwrap();
    let request = request();
    let folder = HuntFolder::create(results.path(), "redlock", 0, Seed(7)).unwrap();
    // After the first check, which would say it at once.
    let file = HuntFile { schedules: 5, ..new_file(&request, "local") };
    let (file, path) =
        hunt_on(request, (file, ScheduleArchive::default(), 6), folder, Habit::NeverStarts, 1000).await;
    let ended = file.ended.unwrap();
    assert!(ended.contains("schedules in a row failed, the last with: n1 does not answer"), "{ended}");
    assert_eq!(file.schedules, 5);
    assert!(path.join(HUNT_JSON).is_file());
}

#[test]
fn folder_that_is_no_hunt_is_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let refused = HuntFolder::resume(folder.path()).err().unwrap().to_string();
    assert!(refused.contains("is not the folder of a hunt"), "{refused}");
    std::fs::write(folder.path().join(HUNT_JSON), "{}").unwrap();
    let refused = HuntFolder::resume(folder.path()).err().unwrap().to_string();
    assert!(refused.contains("damaged or of another version"), "{refused}");
}

fn kept_numbers(hunt: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(hunt.join("corpus")).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| path.file_stem().unwrap().to_str().unwrap().parse().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn parts_play_other_schedules_and_a_later_one_begins_with_what_they_kept() {
    let results = tempfile::tempdir().unwrap();
    for number in [1, 2] {
        let shard = Shard::new(number, 2).unwrap();
        let request = HuntRequest { shard: Some(shard), ..request() };
        let folder =
            HuntFolder::create_at(HuntFolder::of_part(results.path(), "redlock", Seed(7), shard)).unwrap();
        let begun = (new_file(&request, "local"), ScheduleArchive::default(), request.numbering().0);
        let (file, path) = hunt_on(request, begun, folder, Habit::BrokenByLongPauses, 25).await;
        assert!(file.schedules > 5);
        let kept = kept_numbers(&path);
        assert!(!kept.is_empty() && kept.iter().all(|kept| kept % 2 == u64::from(number) % 2), "{kept:?}");
    }
    let earlier = kept_in(results.path(), &request()).unwrap();
    assert!(!earlier.kept.is_empty() && earlier.kept.keys().all(|number| *number >= corpus::EARLIER));
    assert!(earlier.cells.values().all(|cell| earlier.kept.contains_key(&cell.elite)));

    let folder = HuntFolder::create(results.path(), "redlock", 0, Seed(8)).unwrap();
    folder.keep_all(&earlier).unwrap();
    let begun = (new_file(&request(), "local"), earlier.clone(), 1);
    let (file, path) = hunt_on(request(), begun, folder, Habit::NeverGrants, 25).await;
    assert_eq!(file.covered(), 0, "what earlier hunts covered is not this one's");
    assert_eq!(kept_numbers(&path).len(), earlier.kept.len());

    let other =
        HuntRequest { options: RunOptions { lock: "etcd".to_owned(), ..request().options }, ..request() };
    let refused = kept_in(results.path(), &other).unwrap_err().to_string();
    assert!(refused.contains("is of hunts on redlock, not on etcd"), "{refused}");
    let refused = kept_in(&results.path().join("nothing"), &request()).unwrap_err().to_string();
    assert!(refused.contains("cannot read the corpus"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn parts_add_up_in_any_order_and_one_that_did_not_end_is_named() {
    let results = tempfile::tempdir().unwrap();
    let mut parts = Vec::new();
    for number in [1, 2] {
        let shard = Shard::new(number, 2).unwrap();
        let request = HuntRequest { shard: Some(shard), ..request() };
        let folder =
            HuntFolder::create_at(HuntFolder::of_part(results.path(), "redlock", Seed(7), shard)).unwrap();
        let part = folder.begin_part(&request).unwrap();
        let begun = (new_file(&request, "local"), ScheduleArchive::default(), request.numbering().0);
        parts.push(hunt_on(request, begun, folder, Habit::BrokenByLongPauses, 30).await);
        part.end(number == 1).unwrap();
    }
    let out = results.path().join("whole");
    std::fs::create_dir(&out).unwrap();
    for order in [[0, 1], [1, 0]] {
        let sources = Sources::read(&order.map(|part: usize| parts[part].1.clone())).unwrap();
        let (whole, taken) = merge(&sources, &out).unwrap();
        taken.into_iter().for_each(Result::unwrap);
        write_merged(&sources, &out).unwrap();
        assert_eq!(whole.schedules, parts[0].0.schedules + parts[1].0.schedules);
        assert_eq!(whole.missing, ["part 2 of 2 is unfinished: 1 of its 1 runs are missing or failed"]);
        assert!(whole.has_violation());
        let run = whole.findings.iter().find_map(|finding| finding.run.as_deref()).unwrap();
        assert!(run.starts_with("parts/") && out.join(run).join("report.html").is_file(), "{run}");
        assert!(out.join("merge.json").is_file());
    }
    let alone =
        merge(&Sources::read(std::slice::from_ref(&out)).unwrap(), &results.path().join("again")).unwrap().0;
    assert_eq!(alone.schedules, parts[0].0.schedules + parts[1].0.schedules, "a merge is merged again");
}
