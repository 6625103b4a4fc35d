//! Comparisons that are played without servers: whole, interrupted, in parts, and merged.

use super::*;
use crate::lines::ProgressLine;
use crate::parts::{Durations, PART_JSON, PartFile, Sources};
use crate::repeat::Repeat;
use crate::sitting::Sitting;
use crate::testing::{Literal, LiteralPlayer, Printed, context};
use fencepost_checker::Outcome;
use fencepost_engine::{RunOptions, RunSpec};
use fencepost_history::run::read_regular;
use fencepost_history::{Seed, Shard, TimeSpan};
use fencepost_report::comparison::Comparison;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Two locks without faults, twice each; the second is known to be broken.
fn matrix(shard: Option<Shard>) -> Matrix {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let matrix = Matrix {
        seed: Seed(7),
        shard,
        against: None,
        runs: 2,
        locks: names(&["redis-single", "canary-nolock"]),
        guards: names(&["none"]),
        nemeses: names(&["none", "pause"]),
        options: RunOptions::default(),
        files: BTreeMap::new(),
    };
    matrix.checked(|_| false).unwrap()
}

#[test]
fn the_command_that_repeats_a_comparison_says_everything_itself() {
    let mut repeated = Matrix { shard: Shard::new(1, 4).ok(), ..matrix(None) };
    repeated.options.nemesis = vec!["none".to_owned()];
    repeated.options.ttl = TimeSpan::from_secs(3);
    let command = |has_file| repeated.command(&Repeat { program: "fencepost".to_owned(), has_file });
    let bare = "fencepost compare --locks redis-single,canary-nolock --guards none --nemeses none,pause --ttl 3s --runs 2 \
                --seed 7 --shard 1/4";
    assert_eq!(command(false), bare);
    // What the file says is in the command already.
    assert_eq!(command(true), format!("{bare} --config none"));
}

#[test]
fn a_reference_gets_a_row_and_all_rows_have_the_same_seeds() {
    let against = |locks: &[&str], against: &str| {
        let locks = locks.iter().map(|lock| (*lock).to_owned()).collect();
        Matrix { locks, against: Some(against.to_owned()), ..matrix(None) }.checked(|_| false)
    };
    let added = against(&["etcd-lock-api"], "etcd").unwrap();
    assert_eq!(added.locks, ["etcd-lock-api", "etcd"]);
    assert_eq!(against(&["etcd", "etcd-lock-api"], "etcd").unwrap().locks, ["etcd", "etcd-lock-api"]);
    let none = against(&["etcd"], "none").unwrap();
    assert_eq!((none.locks, none.against), (vec!["etcd".to_owned()], None));
    let plan = added.plan(&Durations::default()).unwrap();
    let seeds = |lock: &str| {
        let runs = plan.runs.iter().filter(|planned| planned.run.spec.options.lock == lock);
        runs.map(|planned| planned.run.spec.seed.0).collect::<Vec<_>>()
    };
    assert_eq!((seeds("etcd").len(), seeds("etcd")), (4, seeds("etcd-lock-api")));
    assert_eq!(plan.campaign.layout.against.as_deref(), Some("etcd"));
    let command = added.command(&Repeat { program: "fencepost".to_owned(), has_file: false });
    assert!(command.contains(" --against etcd --runs 2 --seed 7"), "{command}");
    let others = against(&["etcd", "redlock"], "etcd").unwrap_err().to_string();
    assert_eq!(others, "--against etcd: it runs on etcd, and redlock on redis-independent; use redlock");
}

/// The canary breaks in each run.
fn canary_breaks(spec: &RunSpec, _: usize) -> Literal {
    if spec.options.lock == "canary-nolock" { Literal::Breaks } else { Literal::Holds }
}

struct Played {
    sitting: Sitting<ComparePlay>,
    printed: Arc<Printed>,
}

/// Begins a comparison in this folder of results, or goes on with it, and plays `jobs` runs at a time.
async fn play(results: &Path, matrix: Matrix, jobs: usize, player: Arc<LiteralPlayer>) -> Played {
    let (context, printed) = context(results, player);
    let start = CompareStart::new(matrix, None, results).unwrap();
    let mut sitting = start.begin(true, context).unwrap();
    sitting.make_runs(jobs, &ProgressLine::hidden(printed.clone())).await;
    Played { sitting, printed }
}

fn outcomes(comparison: &Comparison) -> Vec<Option<Outcome>> {
    comparison.rows.iter().flat_map(|row| &row.cells).map(|cell| cell.outcomes.outcome()).collect()
}

fn part_file(folder: &Path) -> PartFile {
    serde_json::from_str(&read_regular(&folder.join(PART_JSON)).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_run_is_played_recorded_said_and_summed_up() {
    let results = tempfile::tempdir().unwrap();
    let player = LiteralPlayer::new(canary_breaks);
    let Played { mut sitting, printed } = play(results.path(), matrix(None), 3, player.clone()).await;
    assert_eq!((player.played.lock().len(), player.most.load(Ordering::SeqCst)), (8, 3));
    assert_eq!((sitting.done(), sitting.left().count(), sitting.failed()), (8, 0, 0));
    let said = printed.said();
    assert_eq!(said.len(), 8);
    assert!(said[0].starts_with("   1/8  redis-single under "), "{said:?}");
    assert!(said[0].ends_with(" s left") || said[0].ends_with(" min left"), "{said:?}");
    assert_eq!(
        said.iter().filter(|line| line.contains("canary-nolock") && line.contains("violation")).count(),
        4
    );
    assert!(
        said[7].starts_with("   8/8  canary-nolock under pause, ") && !said[7].contains("left"),
        "{said:?}"
    );
    let comparison = sitting.comparison().unwrap();
    let expected = [Outcome::Valid, Outcome::Valid, Outcome::Violation, Outcome::Violation];
    assert_eq!(outcomes(&comparison), expected.map(Some));
    assert!(
        comparison
            .rows
            .iter()
            .flat_map(|row| &row.cells)
            .all(|cell| cell.runs.len() == 2 && cell.missing == 0)
    );
    assert!(comparison.command.starts_with("fencepost compare --locks redis-single,canary-nolock"));
    let folder = sitting.campaign.folder.clone();
    sitting.end().unwrap();
    let part = part_file(&folder);
    assert!(part.parts[&1].finished && part.parts[&1].assigned == (0..8).collect::<Vec<_>>());
    let durations = Durations::read(&folder.join("durations.json")).unwrap();
    assert_eq!(durations.of_ms("canary-nolock under pause"), Some(1000));
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_comparison_goes_on_where_it_was() {
    let results = tempfile::tempdir().unwrap();
    let interrupted = |spec: &RunSpec, before| match before {
        3 => Literal::Interrupted,
        _ => canary_breaks(spec, before),
    };
    let first = play(results.path(), matrix(None), 1, LiteralPlayer::new(interrupted)).await;
    assert_eq!((first.sitting.done(), first.sitting.left().count()), (3, 5));
    assert_eq!(first.printed.said().len(), 3, "nothing is said of the run that was interrupted");
    let folder = first.sitting.campaign.folder.clone();
    let records = folder.join("records.jsonl");
    drop(first);
    let kept = read_regular(&records).unwrap();
    assert!(!part_file(&folder).parts[&1].finished);
    let player = LiteralPlayer::new(canary_breaks);
    let again = play(results.path(), matrix(None), 1, player.clone()).await;
    assert_eq!(
        (&again.sitting.campaign.folder, player.played.lock().len()),
        (&folder, 5),
        "only what was left is played"
    );
    assert_eq!((again.sitting.done(), again.sitting.failed()), (8, 0));
    let all = read_regular(&records).unwrap();
    assert!(all.starts_with(&kept), "what was recorded before stays, with the times that it took:\n{all}");
    assert_eq!(all.lines().count(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_failed_is_said_kept_as_a_failure_and_tried_again() {
    let results = tempfile::tempdir().unwrap();
    let fails = |_: &RunSpec, before| if before == 0 { Literal::Fails } else { Literal::Holds };
    let mut first = play(results.path(), matrix(None), 1, LiteralPlayer::new(fails)).await;
    assert_eq!((first.sitting.done(), first.sitting.failed()), (7, 1));
    assert!(
        first.printed.said()[0].contains("1 of 2: failed: n1 does not answer"),
        "{:?}",
        first.printed.said()
    );
    let comparison = first.sitting.comparison().unwrap();
    assert_eq!(comparison.rows[0].cells[0].failures, ["n1 does not answer"]);
    let folder = first.sitting.campaign.folder.clone();
    first.sitting.end().unwrap();
    drop(first);
    assert!(!part_file(&folder).parts[&1].finished);
    let sources = Sources::read(&[folder]).unwrap();
    assert_eq!(sources.merged.missing().unfinished, [(1, 1, 8)]);
    let (_, merged) = merge(&sources).unwrap();
    assert_eq!(merged.rows[0].cells[0].failures, ["n1 does not answer"]);
    let player = LiteralPlayer::holding();
    let again = play(results.path(), matrix(None), 1, player.clone()).await;
    assert_eq!((player.played.lock().len(), again.sitting.failed(), again.sitting.done()), (1, 0, 8));
}

#[tokio::test(start_paused = true)]
async fn a_violation_before_a_failure_stays_one() {
    let results = tempfile::tempdir().unwrap();
    let player = LiteralPlayer::new(|_, _| Literal::BreaksAndFails);
    let played = play(results.path(), matrix(None), 4, player).await;
    assert_eq!((played.sitting.done(), played.sitting.failed()), (8, 0));
    let comparison = played.sitting.comparison().unwrap();
    assert_eq!(outcomes(&comparison), [Some(Outcome::Violation); 4]);
}

/// What a comparison says, without where and when its runs were made.
fn said(comparison: &Comparison) -> String {
    let mut comparison = comparison.clone();
    comparison.command.clear();
    for run in comparison.rows.iter_mut().flat_map(|row| &mut row.cells).flat_map(|cell| &mut cell.runs) {
        run.name = run.name.rsplit('-').next().unwrap_or_default().to_owned();
    }
    serde_json::to_string(&comparison).unwrap()
}

#[tokio::test(start_paused = true)]
async fn parts_in_any_order_make_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let whole = play(&at("whole"), matrix(None), 4, LiteralPlayer::new(canary_breaks)).await;
    let whole = whole.sitting.comparison().unwrap();
    let mut seeds = Vec::new();
    for number in 1..=3 {
        let player = LiteralPlayer::new(canary_breaks);
        let shard = Shard::new(number, 3).unwrap();
        let mut part = play(&at(&number.to_string()), matrix(Some(shard)), 2, player.clone()).await;
        let own = part.sitting.comparison().unwrap();
        assert!(own.rows.iter().flat_map(|row| &row.cells).all(|cell| cell.missing == 0));
        part.sitting.end().unwrap();
        seeds.extend(player.played.lock().clone());
    }
    let runs = whole.rows.iter().flat_map(|row| &row.cells).flat_map(|cell| &cell.runs);
    let mut of_whole: Vec<u64> = runs.map(|run| run.seed.0).collect();
    seeds.sort_unstable();
    of_whole.sort_unstable();
    assert_eq!(seeds, of_whole, "each run is played by one part");

    let merged = |parts: &[&str]| {
        let sources = Sources::read(&parts.iter().map(|part| at(part)).collect::<Vec<_>>()).unwrap();
        (merge(&sources).unwrap().1, sources)
    };
    for order in [["1", "2", "3"], ["3", "1", "2"], ["2", "3", "1"], ["2", "1", "3"]] {
        let (comparison, sources) = merged(&order);
        assert!(sources.merged.missing().is_empty(), "{order:?}");
        assert_eq!(said(&comparison), said(&whole), "{order:?}");
    }
    let (half, sources) = merged(&["3", "1"]);
    assert_eq!(half.missing, ["part 2 of 3 is missing: nothing of it was merged"]);
    assert!(half.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.missing > 0));
    std::fs::create_dir(at("half")).unwrap();
    sources.write(&at("half"), |_| None).unwrap();
    let (comparison, _) = merged(&["2", "half", "1"]);
    assert_eq!(said(&comparison), said(&whole), "a merge is merged again, with a part twice");
    let run = &comparison.rows[0].cells[0].runs[0];
    assert!(run.path.join("verdict.json").is_file(), "{}", run.path.display());
}

#[tokio::test(start_paused = true)]
async fn a_part_that_is_at_work_or_was_killed_is_named() {
    let results = tempfile::tempdir().unwrap();
    let shard = Shard::new(1, 2).unwrap();
    let interrupted = |_: &RunSpec, before| if before == 1 { Literal::Interrupted } else { Literal::Holds };
    let part = play(results.path(), matrix(Some(shard)), 1, LiteralPlayer::new(interrupted)).await;
    let start = |number| CompareStart::new(matrix(Shard::new(number, 2).ok()), None, results.path());
    let refused = start(1).err().unwrap().to_string();
    assert!(refused.contains("another `fencepost compare` is at work in"), "{refused}");
    start(2).unwrap();
    let folder = part.sitting.campaign.folder.clone();
    let missing = || Sources::read(std::slice::from_ref(&folder)).unwrap().missing();
    let unfinished = "part 1 of 2 is unfinished: 3 of its 4 runs are missing or failed";
    let said = missing();
    assert_eq!(said[..2], ["part 2 of 2 is missing: nothing of it was merged", unfinished]);
    assert!(said[2].starts_with("part 1 of 2 is still at work in "), "{said:?}");
    // What a kill does: nothing is written, and the lock is gone.
    drop(part.sitting);
    assert_eq!(missing().len(), 2);
}

#[test]
fn a_new_comparison_takes_on_the_folder_and_the_seed_of_one_that_is_unfinished() {
    let results = tempfile::tempdir().unwrap();
    let folder = matrix(None).folder(results.path(), false).unwrap();
    let mut other = Matrix { seed: Seed(8), ..matrix(None) };
    assert_eq!((other.folder(results.path(), false).unwrap(), other.seed), (folder.clone(), Seed(7)));
    let mut given = Matrix { seed: Seed(8), ..matrix(None) };
    let given_folder = given.folder(results.path(), true).unwrap();
    assert_ne!(given_folder, folder, "a seed that was given stays");
    let mut more = Matrix { runs: 3, seed: Seed(9), ..matrix(None) };
    assert_ne!(more.folder(results.path(), false).unwrap(), folder, "it is another comparison");
    std::fs::write(folder.join(COMPARE_JSON), "{}").unwrap();
    std::fs::write(given_folder.join(COMPARE_JSON), "{}").unwrap();
    let mut fresh = Matrix { seed: Seed(10), ..matrix(None) };
    let made = fresh.folder(results.path(), false).unwrap();
    assert!(fresh.seed == Seed(10) && made != folder && made != given_folder, "those are finished");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let refused = |change: &dyn Fn(&mut Matrix)| {
        let mut matrix = matrix(None);
        change(&mut matrix);
        matrix.checked(|_| false).unwrap_err().to_string()
    };
    assert!(
        refused(&|matrix| matrix.locks = vec!["redlok".to_owned()]).contains("did you mean \"redlock\"?")
    );
    assert!(refused(&|matrix| matrix.nemeses = vec!["none".to_owned(); 2]).contains("--nemeses"));
    assert!(refused(&|matrix| matrix.guards = vec!["tokens".to_owned()]).contains("guard"));
    let every = Matrix { locks: vec!["all".to_owned()], ..matrix(None) }.checked(|_| false).unwrap();
    assert!(every.locks.len() > 5 && every.locks.iter().all(|lock| !lock.starts_with("canary")));
}
