//! Parts put together in every order.

use super::part_file::numbered;
use super::records::{Recording, read_records};
use super::*;
use fencepost_history::Seed;
use proptest::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::Path;

const RUNS: u64 = 8;
const PARTS: u32 = 3;

/// A part as it lies in a folder: some of its runs done, some failed; `variant` tells one sitting's runs from
/// another's.
fn part(number: u32, finished: bool, records: &[(u64, bool, u8)]) -> MergedParts {
    let assigned: Vec<u64> =
        (0..RUNS).filter(|run| run % u64::from(PARTS) == u64::from(number - 1)).collect();
    let head = |&(run, done, variant): &(u64, bool, u8)| {
        let digest = [variant; 16];
        (run, RecordHead { run, done, progress: 0, digest, source: 0, offset: 0, bytes: 1 })
    };
    let records: BTreeMap<u64, RecordHead> =
        records.iter().filter(|(run, ..)| assigned.contains(run)).map(head).collect();
    let finished = finished && assigned.iter().all(|run| records.get(run).is_some_and(|head| head.done));
    let file = PartFile {
        fencepost: "0.1.0".to_owned(),
        kind: CampaignKind::Compare,
        command: "fencepost compare --seed 7".to_owned(),
        seed: Seed(7),
        of: NonZeroU32::new(PARTS).unwrap(),
        assignment: "d".to_owned(),
        campaign: json!({}),
        parts: BTreeMap::from([(number, PartState { finished, assigned, runs_in: Vec::new() })]),
    };
    MergedParts { file, records, found_in: BTreeMap::from([(number, BTreeSet::from(["p".into()]))]) }
}

fn any_part() -> impl Strategy<Value = MergedParts> {
    let record = (0..RUNS, prop::bool::weighted(0.8), 0_u8..2);
    (1..=PARTS, any::<bool>(), prop::collection::vec(record, 0..20))
        .prop_map(|(number, finished, records)| part(number, finished, &records))
}

fn joined(one: &MergedParts, two: &MergedParts) -> Option<MergedParts> {
    one.clone().join(two).ok()
}

proptest! {
    #[test]
    fn order_and_grouping_make_no_difference(a in any_part(), b in any_part(), c in any_part()) {
        prop_assert_eq!(joined(&a, &b), joined(&b, &a));
        let left = joined(&a, &b).and_then(|ab| joined(&ab, &c));
        let right = joined(&b, &c).and_then(|bc| joined(&a, &bc));
        prop_assert_eq!(left, right);
    }

    #[test]
    fn a_part_that_is_there_twice_changes_nothing(a in any_part(), b in any_part()) {
        prop_assert_eq!(joined(&a, &a), Some(a.clone()));
        if let Some(both) = joined(&a, &b) {
            prop_assert_eq!(joined(&both, &a), Some(both.clone()));
            prop_assert_eq!(joined(&both, &both), Some(both));
        }
    }

    #[test]
    fn every_run_that_was_dealt_is_there_or_missing(parts in prop::collection::vec(any_part(), 1..6)) {
        let whole = parts[1..].iter().try_fold(parts[0].clone(), |whole, part| whole.join(part));
        let Ok(whole) = whole else { return Ok(()) };
        let missing = whole.missing();
        let absent = missing.parts.iter().flat_map(|number| part(*number, false, &[]).file.parts[number].assigned.clone());
        let undone: usize = missing.unfinished.iter().map(|(_, undone, _)| undone).sum();
        let done = whole.records.values().filter(|head| head.done).count();
        prop_assert_eq!(done + undone + absent.count(), RUNS as usize);
    }
}

fn all_of(number: u32, variant: u8) -> MergedParts {
    let records: Vec<(u64, bool, u8)> = (0..RUNS).map(|run| (run, true, variant)).collect();
    part(number, true, &records)
}

#[test]
fn a_part_that_was_run_again_takes_the_place_of_its_half() {
    let half = part(2, false, &[(1, true, 0)]);
    assert_eq!(half.missing().unfinished, [(2, 2, 3)]);
    let whole = joined(&half, &all_of(2, 1)).unwrap();
    assert_eq!(whole, all_of(2, 1), "nothing of the half is left");
    assert_eq!(
        whole.missing().sentences(whole.file.of),
        ["parts 1 and 3 of 3 are missing: nothing of them was merged".to_owned()]
    );
}

#[test]
fn parts_that_do_not_fit_are_refused_by_name() {
    let named = |mut part: MergedParts, folder: &str| {
        part.found_in.values_mut().for_each(|found| *found = BTreeSet::from([folder.into()]));
        part
    };
    let one = named(all_of(1, 0), "one");
    let said = |change: &dyn Fn(&mut PartFile)| {
        let mut other = named(all_of(2, 0), "two");
        change(&mut other.file);
        one.clone().join(&other).unwrap_err().to_string()
    };
    assert_eq!(
        said(&|file| file.seed = Seed(8)),
        "two does not fit one: they are parts of different seeds (8, 7); merge parts of one command, made by one \
         version"
    );
    assert!(
        said(&|file| file.fencepost = "0.2.0".to_owned()).contains("versions of Fencepost (0.2.0, 0.1.0)")
    );
    assert!(said(&|file| file.kind = CampaignKind::Hunt).contains("(a hunt, a comparison)"));
    assert!(said(&|file| file.of = NonZeroU32::new(4).unwrap()).contains("(one of 4 parts, one of 3 parts)"));
    assert!(said(&|file| file.campaign = json!(1)).contains("different states of one command"));
    let other = |file: &mut PartFile| {
        file.campaign = json!(1);
        file.command = "fencepost hunt".to_owned();
    };
    assert!(said(&other).contains("different commands (`fencepost hunt`, `fencepost compare --seed 7`)"));
    assert!(said(&|file| file.assignment = "e".to_owned()).contains("--durations"));
    let overlapping = |file: &mut PartFile| {
        if let Some(part) = file.parts.get_mut(&2) {
            part.assigned.push(0);
        }
    };
    assert!(said(&overlapping).contains("parts 1 and 2 of 3 overlap"));
    let twice = one.clone().join(&named(all_of(1, 1), "three")).unwrap_err().to_string();
    assert_eq!(
        twice,
        "part 1 of 3 is there twice, with different runs, both finished; keep one: one and three"
    );
}

#[test]
fn records_survive_a_kill_in_the_middle_of_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(RECORDS);
    let record = |run, value: &str| RunRecord::new(run, true, Some(5), &json!(value)).unwrap();
    let recording = Recording::begin(folder.path(), std::iter::once(record(3, "before"))).unwrap();
    recording.add(&record(1, "one")).unwrap();
    recording.add(&record(3, "again")).unwrap();
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&whole, &b"{\"run\":5,\"do"[..]].concat()).unwrap();
    let heads = read(&path).unwrap();
    assert_eq!(heads.keys().copied().collect::<Vec<_>>(), [1, 3]);
    let start = heads[&3].offset as usize;
    let last: RunRecord = serde_json::from_slice(&whole[start..start + heads[&3].bytes]).unwrap();
    assert_eq!((last.value.get(), last.took_ms), ("\"again\"", Some(5)));
    std::fs::write(&path, "nonsense\n").unwrap();
    assert!(read(&path).unwrap_err().to_string().contains("line 1 is no record of a run"));
}

fn read(path: &Path) -> anyhow::Result<BTreeMap<u64, RecordHead>> {
    read_records(&std::fs::File::open(path).unwrap(), path, 0)
}

#[test]
fn numbers_of_parts_are_listed_as_ranges() {
    let said = [&[2][..], &[1, 2], &[1, 2, 4], &[1, 2, 3], &[1, 2, 3, 5, 6, 8, 9, 10, 11]].map(numbered);
    let expected =
        ["part 2", "parts 1 and 2", "parts 1, 2 and 4", "parts 1 to 3", "parts 1 to 3, 5, 6 and 8 to 11"];
    assert_eq!(said, expected);
}

/// The file of the only part of a comparison of one run, which has just begun.
fn begun() -> PartFile {
    PartFile {
        fencepost: "0.1.0".to_owned(),
        kind: CampaignKind::Compare,
        command: "fencepost compare --seed 7".to_owned(),
        seed: Seed(7),
        of: NonZeroU32::MIN,
        assignment: "d".to_owned(),
        campaign: json!({}),
        parts: BTreeMap::from([(1, PartState { finished: false, assigned: vec![0], runs_in: Vec::new() })]),
    }
}

/// Without a process of its own, which would hold the locks of other tests for a moment.
fn make_pipe(path: &Path) {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
}

#[test]
fn pipes_in_place_of_the_files_of_a_part_are_replaced_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for name in [RECORDS, PART_JSON, DURATIONS, "dealt.txt"] {
        make_pipe(&at.join(name));
    }
    assert!(PartFolder::read(at, 0).is_err(), "no part was made here");
    assert!(records_before(at).is_empty());
    let assigned = RunKey { number: 0, label: "a".to_owned(), name: "a".to_owned() };
    let writer = PartWriter::begin(at, begun(), [&assigned].into_iter(), Vec::new()).unwrap();
    writer.add(&RunRecord::new(0, true, Some(900), &1).unwrap()).unwrap();
    writer.end(true).unwrap();
    assert_eq!(records_before(at).len(), 1);
    // A pipe that comes in between is refused.
    std::fs::remove_file(at.join(RECORDS)).unwrap();
    make_pipe(&at.join(RECORDS));
    let refused = format!("{:#}", PartFolder::read(at, 0).err().unwrap());
    assert!(refused.ends_with("records.jsonl: it is not a regular file"), "{refused}");
}

#[test]
fn a_record_without_an_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(RECORDS);
    std::fs::write(&path, "{\"run\":0,\"done\":true,\"value\":1}\n").unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    file.set_len(40 << 30).unwrap();
    let refused = read_records(&file, &path, 0).unwrap_err().to_string();
    let sentence = "records.jsonl: line 2 is no record of a run (the line is longer than 64 MiB";
    assert!(refused.contains(sentence), "{refused}");
}
