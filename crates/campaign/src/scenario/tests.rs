//! Scenarios that are played without servers: once, in parts, and merged.

use super::*;
use crate::lines::ProgressLine;
use crate::parts::{PartFolder, Sources};
use crate::sitting::Sitting;
use crate::testing::{Literal, LiteralPlayer, Printed, context};
use fencepost_engine::RunSpec;
use fencepost_engine::scenario::read_file;
use fencepost_history::{Seed, Shard};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Two clients, one after the other.
const TEXT: &str = r#"about = "one client after the other"
source = "an example"
expected = "the lock holds"
lock = "redis-single"
ttl = "500ms"

[[client]]
name = "c1"
script = ["acquire", "release"]

[[client]]
name = "c2"
script = ["wait c1 release", "acquire", "release"]

[[expect]]
holds = "exclusion"
"#;

/// Each of two scenarios twice; nothing runs beside the second.
fn request(folder: &Path, shard: Option<Shard>) -> ScenarioRequest {
    let scenario = |(name, text): (&str, String)| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        Arc::new(read_file(&path).unwrap())
    };
    let undisturbed = format!("undisturbed = true\n{TEXT}");
    let scenarios = [("calm.toml", TEXT.to_owned()), ("alone.toml", undisturbed)].map(scenario).to_vec();
    let options = PlayOptions { lock: None, driver: "local".to_owned(), seed: Seed(7), seed_given: true };
    ScenarioRequest { scenarios, names: "calm.toml alone.toml".to_owned(), times: 2, shard, options }
}

struct Played {
    sitting: Sitting<ScenarioPlay>,
    printed: Arc<Printed>,
    part: Option<PathBuf>,
}

async fn play(request: &ScenarioRequest, results: &Path, player: Arc<LiteralPlayer>) -> Played {
    let (context, printed) = context(results, player);
    request.check().unwrap();
    let (mut sitting, part) = request.begin(None, context, Shown::Endings).unwrap();
    let unrecorded = sitting.play_scenarios(2, &ProgressLine::hidden(printed.clone())).await;
    assert!(unrecorded.is_empty(), "{unrecorded:?}");
    Played { sitting, printed, part }
}

fn endings<'a>(reports: impl IntoIterator<Item = &'a Report>) -> Vec<(&'a str, u64, Ending)> {
    reports.into_iter().map(|report| (report.name.as_str(), report.seed.0, report.ending)).collect()
}

#[tokio::test(start_paused = true)]
async fn each_play_has_its_seed_its_line_and_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let second_breaks =
        |spec: &RunSpec, _| if spec.seed == Seed(8) { Literal::Breaks } else { Literal::Holds };
    let player = LiteralPlayer::new(second_breaks);
    let Played { mut sitting, printed, part } =
        play(&request(folder.path(), None), folder.path(), player.clone()).await;
    assert!(part.is_none());
    sitting.end().unwrap();
    let reports = &sitting.outcomes;
    let agrees = [("calm", 7, Ending::Agrees), ("calm", 8, Ending::Disagrees)];
    let alone = [("alone", 7, Ending::Agrees), ("alone", 8, Ending::Disagrees)];
    assert_eq!(endings(reports.values()), [agrees, alone].concat());
    let reports: Vec<Report> = sitting.outcomes.into_values().collect();
    assert_eq!(exit_code(&reports), 1);
    assert!(reports.iter().all(|report| report.runs[0].folder.join("scenario.toml").is_file()));
    assert_eq!(printed.said().len(), 4);
    assert_eq!(player.most.load(Ordering::SeqCst), 2, "those that may go side by side do");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_part_of_its_report_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let fails = |_: &RunSpec, before| if before == 1 { Literal::Fails } else { Literal::Holds };
    let played = play(&request(folder.path(), None), folder.path(), LiteralPlayer::new(fails)).await;
    assert_eq!((played.sitting.done(), played.sitting.left().count()), (3, 1));
    let failed: Vec<&Report> = played.sitting.outcomes.values().filter(|report| !report.is_done()).collect();
    assert_eq!((failed.len(), failed[0].failed.as_deref()), (1, Some("n1 does not answer")));
    assert_eq!(failed[0].ending, Ending::DidNotHappen);
    // Where nothing could be played, that is no outcome of a scenario.
    let failed: Vec<Report> = failed.into_iter().cloned().collect();
    assert_eq!(exit_code(&failed), 255);
    let all: Vec<Report> = played.sitting.outcomes.into_values().collect();
    assert_ne!(exit_code(&all), 255);
}

#[tokio::test(start_paused = true)]
async fn against_another_lock_it_counts_whether_that_holds() {
    let folder = tempfile::tempdir().unwrap();
    let mut request = request(folder.path(), None);
    request.times = 1;
    request.options.lock = Some("canary-nolock".to_owned());
    let player = LiteralPlayer::new(|_, before| if before == 0 { Literal::Breaks } else { Literal::Holds });
    let reports = play(&request, folder.path(), player).await.sitting.outcomes;
    assert_eq!(endings(reports.values()), [("calm", 7, Ending::Broken), ("alone", 7, Ending::Holds)]);
}

#[tokio::test(start_paused = true)]
async fn parts_in_any_order_make_one_table_and_what_is_missing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let mut parts = Vec::new();
    for number in [1, 2] {
        let request = request(folder.path(), Shard::new(number, 2).ok());
        let mut played = play(&request, folder.path(), LiteralPlayer::holding()).await;
        assert_eq!(played.sitting.runs.len(), 2);
        played.sitting.end().unwrap();
        parts.push(played.part.unwrap());
    }
    let names = ["calm", "calm", "alone", "alone"];
    for order in [[0, 1], [1, 0]] {
        let sources = Sources::read(&order.map(|place| parts[place].clone())).unwrap();
        let (campaign, reports) = merge(&sources).unwrap();
        assert_eq!(reports.iter().map(|report| report.name.as_str()).collect::<Vec<_>>(), names);
        assert_eq!((campaign.plays(), exit_code(&reports)), (4, 0));
        assert!(reports.iter().all(|report| report.runs[0].folder.join("verdict.json").is_file()));
    }
    let (_, half) = merge(&Sources::read(&parts[..1]).unwrap()).unwrap();
    assert_eq!(half.iter().filter(|report| report.ending == Ending::Missing).count(), 2);
    assert_eq!((half.len(), exit_code(&half)), (4, 2));
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_part_goes_on_with_what_it_did_not_finish() {
    let folder = tempfile::tempdir().unwrap();
    let request = request(folder.path(), Shard::new(1, 1).ok());
    let interrupted = |_: &RunSpec, before| if before == 1 { Literal::Interrupted } else { Literal::Holds };
    let mut first = play(&request, folder.path(), LiteralPlayer::new(interrupted)).await;
    let done = first.sitting.done();
    assert!(done < 4 && first.printed.said().len() >= done);
    let part = first.part.clone().unwrap();
    let busy = request.begin(None, context(folder.path(), LiteralPlayer::holding()).0, Shown::Nothing);
    let busy = busy.err().unwrap().to_string();
    assert!(busy.contains("is a part that is still at work; use other --results"), "{busy}");
    first.sitting.end().unwrap();
    assert!(!PartFolder::read(&part, 0).unwrap().merged.missing().is_empty());

    let player = LiteralPlayer::holding();
    let mut again = play(&request, folder.path(), player.clone()).await;
    assert_eq!(player.played.lock().len(), 4 - done, "what was done is not played again");
    assert_eq!((again.sitting.done(), again.part), (4, Some(part.clone())));
    again.sitting.end().unwrap();
    assert!(PartFolder::read(&part, 0).unwrap().merged.missing().is_empty());

    let other = ScenarioRequest { times: 3, ..request };
    let other = other.begin(None, context(folder.path(), player).0, Shown::Nothing);
    let other = other.err().unwrap().to_string();
    assert!(other.contains("is a part of another command; use other --results"), "{other}");
}
