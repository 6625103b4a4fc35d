use super::*;
use crate::properties::overlaps;
use crate::testing::literal::events;
use crate::testing::random_run::histories;
use proptest::prelude::*;

fn nearest(text: &str) -> Option<NearMiss> {
    nearest_miss(&RunIndex::new(&events(text)).unwrap())
}

/// Process 1 acts for the last time at 100 ms; process 2 is granted the lock later.
fn taken_over(between: &str, granted_ms: u64) -> String {
    format!(
        "0   1 invoke acquire a {{ttl_ms:200}}
         10  1 ok     acquire a
         20  2 invoke acquire a {{ttl_ms:200}}
         100 1 invoke holds   a
         101 1 ok     holds   a true
         {between}
         {granted_ms} 2 ok    acquire a"
    )
}

#[test]
fn a_grant_without_a_release_before_it_is_a_near_miss() {
    let miss = nearest(&taken_over("", 240)).unwrap();
    assert_eq!((miss.kind, miss.distance_ns), (MissKind::Belief, 140_000_000));
    assert_eq!((miss.earlier.index, miss.earlier.process), (3, 1));
    assert_eq!((miss.grant.index, miss.grant.process, &*miss.key), (5, 2, "a"));
    assert_eq!(miss.sentence(), "process 2 was granted a 140 ms after process 1 last acted as its holder");
}

#[test]
fn a_grant_that_follows_a_release_is_none() {
    assert_eq!(nearest(&taken_over("102 1 invoke release a", 103)), None);
    // A release that begins after the grant does not explain it.
    let late = taken_over("", 240) + "\n250 1 invoke release a\n251 1 ok release a {believed:false}";
    assert_eq!(nearest(&late).unwrap().distance_ns, 140_000_000);
}

#[test]
fn an_overlap_has_a_negative_distance() {
    let miss = nearest(&(taken_over("", 240) + "\n300 1 invoke holds a\n301 1 ok holds a true")).unwrap();
    assert_eq!((miss.kind, miss.distance_ns), (MissKind::Belief, -60_000_000));
    assert_eq!(miss.sentence(), "process 2 was granted a 60 ms before process 1 last acted as its holder");
}

#[test]
fn a_grant_that_was_over_as_its_client_learned_of_it_has_no_distance() {
    let overlap = taken_over("", 240) + " {validity_ms:0}\n300 1 invoke holds a\n301 1 ok holds a true";
    assert_eq!(nearest(&overlap), None);
    assert!(overlaps(&RunIndex::new(&events(&overlap)).unwrap()).is_empty(), "as mutual exclusion has it");
    // One that its client goes on under counts.
    let used = overlap + "\n310 2 invoke holds a\n311 2 ok holds a true";
    assert_eq!(nearest(&used).unwrap().distance_ns, -60_000_000);
}

#[test]
fn a_write_is_as_near_as_its_completion() {
    let done = nearest(&taken_over("110 1 invoke write a 7\n230 1 ok write a 7", 240)).unwrap();
    assert_eq!((done.kind, done.distance_ns), (MissKind::Write, 10_000_000));
    assert_eq!(done.sentence(), "process 2 was granted a 10 ms after a write of process 1 was done");
    let in_flight = taken_over("110 1 invoke write a 7", 240) + "\n300 1 ok write a 7";
    let miss = nearest(&in_flight).unwrap();
    assert_eq!((miss.kind, miss.distance_ns), (MissKind::Write, -60_000_000));
    // A write that was not acknowledged may never have been sent.
    let unknown = taken_over("110 1 invoke write a 7", 240) + "\n300 1 info write a 7";
    assert_eq!(nearest(&unknown).unwrap().distance_ns, 140_000_000);
}

#[test]
fn a_violation_is_nearer_than_a_write_in_flight() {
    let history = "
        0   1 invoke acquire a
        1   1 ok     acquire a
        2   1 invoke write   a 7
        5   2 invoke acquire a
        9   2 ok     acquire a
        90  1 ok     write   a 7
        91  1 lost   -
        100 2 invoke release a
        101 2 ok     release a
        ";
    let history = history.replace("91  1 lost   -", "91  1 invoke holds a\n92 1 ok holds a true");
    let miss = nearest(&history).unwrap();
    // Sent at 2 ms and seen to be believed at 91 ms: the belief decides.
    assert_eq!((miss.kind, miss.distance_ns), (MissKind::Belief, -82_000_000));
}

#[test]
fn each_key_and_each_process_counts_by_itself() {
    let other_key = taken_over("", 240).replace("2 invoke acquire a", "2 invoke acquire b");
    assert_eq!(nearest(&other_key.replace("2 ok    acquire a", "2 ok acquire b")), None);
    let again = taken_over("", 240).replace("20  2 invoke", "110  1 invoke").replace("240 2 ok", "240 1 ok");
    // The lines stand in the order of time.
    let again: Vec<&str> = again.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let again = [again[0], again[1], again[3], again[4], again[2], again[5]].join("\n");
    assert_eq!(nearest(&again), None);
}

#[test]
fn a_violation_ranks_before_every_miss_and_a_nearer_miss_before_a_farther_one() {
    let [far, near] = [240, 150].map(|granted_ms| nearest(&taken_over("", granted_ms)).unwrap());
    assert_eq!((far.rank(), near.rank()), ((true, 140_000_000, 5), (true, 50_000_000, 5)));
    let overlap = NearMiss { distance_ns: -7_000_000, ..near.clone() };
    assert_eq!(overlap.rank(), (false, -7_000_000, 5));
    // A write in flight that is done later than the next grant is no violation.
    let late = NearMiss { kind: MissKind::Write, ..overlap.clone() };
    assert_eq!(late.rank(), (true, -7_000_000, 5));
    assert!(overlap.rank() < late.rank() && near.rank() < far.rank());
}

#[test]
fn those_who_share_the_lock_have_no_distance() {
    let shared = taken_over("", 240).replace("ttl_ms:200", "ttl_ms:200,mode:\"shared\"");
    assert_eq!(nearest(&shared), None);
    let one_writes = taken_over("", 240).replacen("ttl_ms:200", "ttl_ms:200,mode:\"shared\"", 1);
    assert_eq!(nearest(&one_writes).unwrap().distance_ns, 140_000_000);
}

/// The definition, without any cleverness: the last act of all earlier holders that had not released.
fn by_definition(run: &RunIndex, act: impl Fn(usize) -> Option<ActMoment>, second: usize) -> Option<i64> {
    let hold = &run.holds[second];
    let counts = |first: usize| {
        let earlier = &run.holds[first];
        earlier.key == hold.key
            && earlier.process != hold.process
            && earlier.excludes(hold)
            && !released_before(earlier, hold)
    };
    let last = (0..second).filter(|&first| counts(first)).filter_map(&act).max()?;
    Some(distance_ns(hold, last))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn distances_are_those_of_the_definition(events in histories()) {
        let run = RunIndex::new(&events).unwrap();
        let writes = last_writes(&run);
        let belief = |at: usize| Some((run.holds[at].until, run.holds[at].until_ns));
        let found = handovers(&run);
        let of = |kind, second| {
            found.iter().find(|one| (one.kind, one.second) == (kind, second)).map(|one| one.distance_ns)
        };
        for second in 0..run.holds.len() {
            prop_assert_eq!(of(MissKind::Belief, second), by_definition(&run, belief, second));
            prop_assert_eq!(of(MissKind::Write, second), by_definition(&run, |at| writes[at], second));
        }
    }

    #[test]
    fn a_distance_of_belief_is_negative_exactly_where_two_believed(events in histories()) {
        let run = RunIndex::new(&events).unwrap();
        let negative: Vec<usize> = handovers(&run)
            .iter()
            .filter(|one| one.kind == MissKind::Belief && one.distance_ns < 0)
            .map(|one| one.second)
            .collect();
        let mut overlapping: Vec<usize> = overlaps(&run).iter().map(|overlap| overlap.second).collect();
        overlapping.dedup();
        prop_assert_eq!(&negative, &overlapping);
        let violated = nearest_miss(&run).is_some_and(|miss| miss.kind == MissKind::Belief && miss.distance_ns < 0);
        prop_assert_eq!(violated, !overlapping.is_empty());
    }
}
