use super::*;
use crate::testing::literal::{events, verdict};
use serde_json::json;

fn classes(text: &str) -> Vec<&'static str> {
    let events = events(text);
    let run = RunIndex::new(&events).unwrap();
    overlaps(&run).iter().map(|overlap| overlap.class.name()).collect()
}

#[test]
fn accepts_one_after_the_other() {
    let history = "
        0    1 invoke acquire a {ttl_ms:2000}
        10   1 ok     acquire a
        20   2 invoke acquire a {ttl_ms:2000}
        30   1 invoke write   a 1
        40   1 ok     write   a 1
        50   1 invoke release a
        55   2 ok     acquire a
        60   1 ok     release a {believed:true}";
    assert_eq!(verdict(&EXCLUSION, history).outcome, Outcome::Valid);
}

#[test]
fn rejects_two_at_once_and_says_granted_twice() {
    let history = "
        0    1 invoke acquire a {ttl_ms:2000}
        10   1 ok     acquire a
        20   2 invoke acquire a {ttl_ms:2000}
        700  2 ok     acquire a
        800  1 invoke write   a 1
        810  1 ok     write   a 1";
    let verdict = verdict(&EXCLUSION, history);
    assert_eq!(verdict.outcome, Outcome::Violation);
    assert_eq!(verdict.stats["granted_twice"], json!(1));
    assert_eq!(verdict.findings[0].events, [1, 3, 4]);
    assert_eq!(
        verdict.findings[0].sentence,
        "process 2 acquired a at 0.700 s while process 1, which had acquired it at 0.010 s, still believed at \
         0.800 s that it held it; process 2 got the lock while the TTL of process 1 (2.000 s) still had 1.300 s \
         to run"
    );
}

#[test]
fn says_overstayed_after_the_ttl_and_in_doubt() {
    let go_on = |granted: u32| {
        format!(
            "0    1 invoke acquire a {{ttl_ms:2000}}
             10   1 ok     acquire a
             1900 2 invoke acquire a {{ttl_ms:2000}}
             {granted} 2 ok acquire a
             5000 1 invoke holds   a
             5001 1 ok     holds   a true"
        )
    };
    assert_eq!(classes(&go_on(1999)), ["granted-twice"]);
    // Granted somewhere between 1.9 s and 2 s or just after: the lock service is not blamed.
    assert_eq!(classes(&go_on(2000)), ["overstayed"]);
    assert_eq!(classes(&go_on(4000)), ["overstayed"]);
}

/// Process 2 gets the lock of process 1, which believes in it to the end, long after any TTL.
fn without_ttl(lease: &str, between: &str) -> String {
    format!(
        "0    nemesis info lock - {{name:\"x\",lease:\"{lease}\"}}
         0    1 invoke acquire a {{ttl_ms:2000}}
         10   1 ok     acquire a
         {between}
         5000 2 invoke acquire a {{ttl_ms:2000}}
         6000 2 ok     acquire a
         7000 1 invoke holds   a
         7001 1 ok     holds   a true"
    )
}

const CUT: &str = "
         3000 nemesis invoke kill - {id:1,stage:\"inject\",targets:[\"n1\"]}
         3100 nemesis ok     kill - {id:1,stage:\"heal\"}";

#[test]
fn a_connection_has_no_ttl_but_a_fault_may_end_it() {
    let clean = verdict(&EXCLUSION, &without_ttl("connection", ""));
    assert!(clean.summary.ends_with("overlapped once, among 2 holds: 1 granted twice"), "{}", clean.summary);
    assert!(clean.findings[0].sentence.ends_with(
        "; process 2 got the lock while process 1 held it, and no fault had come that could have ended the connection \
         of process 1"
    ));
    let cut = verdict(&EXCLUSION, &without_ttl("connection", CUT));
    assert!(cut.summary.ends_with("0 granted twice, 1 cut off"), "{}", cut.summary);
    assert!(cut.findings[0].sentence.ends_with(
        "; a fault at 3.000 s may have ended the connection of process 1, and with it the lock, before process 2 got \
         it; process 1 went on as if it held it"
    ));
    let nodes = "0 nemesis info nodes - {slots:[\"c1\",\"c2\"]}";
    let of_client = |client: &str| {
        let stopped = CUT.replace("n1", client).replace(
            "3100",
            "3001 nemesis ok kill - {id:1,stage:\"inject\",effective:true,description:{takes_down:true,sentence:\"x\"}}\n3100",
        );
        classes(&format!("{nodes}\n{}", without_ttl("connection", &stopped)))
    };
    assert_eq!(of_client("c2"), ["cut-off"], "process 1 lives on it");
    assert_eq!(
        of_client("c1"),
        ["granted-twice"],
        "another client that stands still ends no connection of process 1"
    );
    let of_storage = CUT.replace("n1", "storage");
    assert_eq!(classes(&without_ttl("connection", &of_storage)), ["granted-twice"]);
    let healed_before =
        without_ttl("connection", "").replace("0    1 invoke", &format!("{CUT}\n4000 1 invoke"));
    assert_eq!(classes(&healed_before.replace("10   1", "4010 1")), ["granted-twice"]);
}

#[test]
fn packets_end_the_connections_that_they_belong_to() {
    // Process 1 lives on c2.
    let nodes = "0 nemesis info nodes - {slots:[\"c1\",\"c2\"]}\n0 nemesis info servers - [\"n1\",\"n2\"]";
    let lost = |between: &str| {
        let fault = "{id:1,stage:\"inject\",targets:[\"c1\"],description:{sentence:\"x\",between:BETWEEN}}";
        let cut = CUT.replace("{id:1,stage:\"inject\",targets:[\"n1\"]}", &fault.replace("BETWEEN", between));
        classes(&format!("{nodes}\n{}", without_ttl("connection", &cut)))
    };
    assert_eq!(lost(r#"[["c1"],["n1"]]"#), ["granted-twice"]);
    assert_eq!(lost(r#"[["c1"]]"#), ["granted-twice"]);
    assert_eq!(lost(r#"[["c2"],["n1"]]"#), ["cut-off"]);
    assert_eq!(lost(r#"[["n2"]]"#), ["cut-off"]);
    assert_eq!(lost(r#"[["c1","n1"],["n2"]]"#), ["cut-off"], "the servers lose what they say to each other");
    assert_eq!(lost("[]"), ["cut-off"], "the fault names no nodes");
}

#[test]
fn a_lock_without_a_lease_ends_by_nothing_but_its_release() {
    assert_eq!(classes(&without_ttl("none", "")), ["granted-twice"]);
    assert_eq!(classes(&without_ttl("none", CUT)), ["granted-twice"]);
    assert_eq!(classes(&without_ttl("ttl", "")), ["overstayed"]);
}

#[test]
fn a_session_is_judged_by_its_reports_and_without_them_as_a_connection() {
    assert_eq!(classes(&without_ttl("session", "")), ["granted-twice"]);
    assert_eq!(classes(&without_ttl("session", CUT)), ["cut-off"]);
    assert_eq!(classes(&without_ttl("session", "900 1 info renewed a")), ["overstayed"]);
    let late = "3000 1 info renewed a\n4500 1 info renewed a";
    assert_eq!(classes(&without_ttl("session", late)), ["granted-twice"]);
}

#[test]
fn a_ttl_is_rounded_up_as_the_library_does() {
    let stepped = |step: &str| {
        let text = without_ttl("ttl", "").replace("lease:", &format!("ttl-step:\"{step}\",lease:"));
        classes(&text.replace("ttl_ms:2000", "ttl_ms:5001"))
    };
    assert_eq!(stepped("1ms"), ["overstayed"]);
    assert_eq!(stepped("4s"), ["granted-twice"]);
}

#[test]
fn a_paused_holder_that_gives_up_violates_nothing() {
    // antirez's point: it slept, saw that its validity had run out, and stopped.
    let history = "
        0    1 invoke acquire a {ttl_ms:1000}
        10   1 ok     acquire a
        3000 2 invoke acquire a {ttl_ms:1000}
        3010 2 ok     acquire a
        4000 1 invoke write   a 1
        4001 1 fail   write   a null not-held
        4010 1 invoke release a
        4020 1 ok     release a {believed:false}";
    assert_eq!(classes(history), Vec::<&str>::new());
    // Kleppmann's: it woke up and wrote, and only the storage stopped it.
    assert_eq!(classes(&history.replace("not-held", "rejected: made-up-code: too late")), ["overstayed"]);
}

#[test]
fn a_renewal_prolongs_the_lease() {
    let history = "
        0    1 invoke acquire a {ttl_ms:1000}
        10   1 ok     acquire a
        900  1 info   renewed a
        1500 2 invoke acquire a {ttl_ms:1000}
        1600 2 ok     acquire a
        1700 1 invoke release a
        1710 1 ok     release a {believed:true}";
    assert_eq!(classes(history), ["granted-twice"]);
    assert_eq!(classes(&history.replace("renewed", "lost")), Vec::<&str>::new());
}

#[test]
fn a_renewal_recorded_just_before_the_grant_belongs_to_it() {
    // The waiter's session was prolonged while it waited: its lease did not begin with its acquire.
    let history = "
        0    1 invoke acquire a {ttl_ms:1000}
        4990 1 info   renewed a {age_ms:90}
        5000 1 ok     acquire a {validity_ms:900}
        5100 2 invoke acquire a {ttl_ms:1000}
        5200 2 ok     acquire a
        5300 1 invoke holds   a
        5310 1 ok     holds   a true";
    assert_eq!(classes(history), ["granted-twice"]);
    assert_eq!(classes(&history.replace("{age_ms:90}", "{age_ms:900}")), ["overstayed"]);
}

#[test]
fn keys_are_locks_of_their_own() {
    let history = "
        0 1 invoke acquire a
        1 1 ok     acquire a
        2 2 invoke acquire b
        3 2 ok     acquire b
        4 1 invoke holds   a
        5 1 ok     holds   a true";
    assert_eq!(classes(history), Vec::<&str>::new());
    assert_eq!(classes(&history.replace(" b", " a")), ["granted-twice"]);
}

#[test]
fn who_shares_does_not_exclude_and_who_does_not_excludes_all() {
    let history = |first: &str, second: &str| {
        format!(
            "0 1 invoke acquire a {{mode:\"{first}\"}}
             1 1 ok     acquire a
             2 2 invoke acquire a {{mode:\"{second}\"}}
             3 2 ok     acquire a
             4 1 invoke holds   a
             5 1 ok     holds   a true"
        )
    };
    assert_eq!(classes(&history("shared", "shared")), Vec::<&str>::new());
    assert_eq!(classes(&history("shared", "exclusive")), ["granted-twice"]);
    assert_eq!(classes(&history("exclusive", "shared")), ["granted-twice"]);
}

/// Four processes get a permit of a semaphore one after the other, each for 2 s, and release in that order.
fn semaphore(permits: u32) -> String {
    format!(
        "0    1 invoke acquire a {{ttl_ms:2000,capacity:{permits}}}
         10   1 ok     acquire a
         20   2 invoke acquire a {{ttl_ms:2000,capacity:{permits}}}
         30   2 ok     acquire a
         40   3 invoke acquire a {{ttl_ms:2000,capacity:{permits}}}
         50   3 ok     acquire a
         60   4 invoke acquire a {{ttl_ms:2000,capacity:{permits}}}
         70   4 ok     acquire a
         100  1 invoke release a
         110  1 ok     release a {{believed:true}}
         120  2 invoke release a
         130  2 ok     release a {{believed:true}}
         140  3 invoke release a
         150  3 ok     release a {{believed:true}}
         160  4 invoke release a
         170  4 ok     release a {{believed:true}}"
    )
}

#[test]
fn as_many_hold_a_semaphore_as_it_has_permits() {
    let accepted = verdict(&EXCLUSION, &semaphore(4));
    assert_eq!(accepted.outcome, Outcome::Valid);
    assert_eq!(accepted.summary, "no more of 4 holds overlapped than fit together");
    let rejected = verdict(&EXCLUSION, &semaphore(3));
    assert_eq!(
        rejected.summary,
        "more holds of one lock overlapped than it has room for, once, among 4 holds: 1 granted twice, 0 overstayed"
    );
    assert_eq!(
        rejected.findings[0].sentence,
        "process 4 acquired a at 0.070 s while process 3, which had acquired it at 0.050 s, still believed at 0.140 s that it held it, \
         and so did processes 1 and 2: 4 holders of 3 permits; process 4 got the lock while the TTL of process 3 (2.000 s) still had 1.970 s to \
         run"
    );
    assert_eq!(rejected.findings[0].events, [5, 7, 12, 1, 3]);
    // One that gave its permit back before makes room.
    let in_time = semaphore(3)
        .replace("100  1 invoke release a\n         110  1 ok     release a {believed:true}\n", "");
    let in_time = in_time.replace("60   4", "52 1 invoke release a\n54 1 ok release a {believed:true}\n60 4");
    assert_eq!(verdict(&EXCLUSION, &in_time).outcome, Outcome::Valid);
    // Two permits are too few from the third process on: each grant that finds no room is a finding.
    assert_eq!(classes(&semaphore(2)), ["granted-twice", "granted-twice"]);
    // A mutex has one, and each two holds that overlap are a finding, as they were without a capacity.
    assert_eq!(classes(&semaphore(1)).len(), 6);
}

#[test]
fn a_permit_whose_lease_may_have_run_out_leaves_room() {
    let short = semaphore(3).replacen("ttl_ms:2000", "ttl_ms:40", 1);
    let found = verdict(&EXCLUSION, &short);
    assert_eq!(found.findings[0].class, "overstayed");
    assert_eq!(found.findings[0].events, [1, 7, 8, 3, 5], "the first is the one that overstayed");
    // One place is not enough where two are missing.
    assert_eq!(classes(&short.replace("capacity:3", "capacity:2"))[1], "granted-twice");
}

#[test]
fn who_needs_all_of_a_semaphore_excludes_all_others() {
    let alone = semaphore(3).replacen(",capacity:3", "", 1);
    assert_eq!(classes(&alone), ["granted-twice"; 3]);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2_000))]

    /// By definition: at some instant the holds that are certainly believed in do not fit together.
    #[test]
    fn holds_overlap_where_beliefs_at_one_instant_weigh_more_than_the_capacity(
        mut events in crate::testing::random_run::histories(),
        claims in proptest::collection::vec(0..4_usize, 30),
    ) {
        let acquires = events.iter_mut().filter(|event| event.f == "acquire" && event.kind == fencepost_history::Kind::Invoke);
        for (event, claim) in acquires.zip(claims) {
            let values =
                [json!({"ttl_ms": 10}), json!({"mode": "shared"}), json!({"capacity": 2}), json!({"ttl_ms": 10, "capacity": 3})];
            event.value = values[claim].clone().into();
        }
        let run = RunIndex::new(&events).unwrap();
        let believed = |at: u64, key: &str| {
            let holds = run.holds.iter().filter(|hold| hold.key == key && hold.from <= at && (at < hold.until || at == hold.from));
            holds.map(|hold| hold.claim).collect::<Vec<Claim>>()
        };
        let at_once = |key: &str| (0..events.len() as u64).any(|at| !Claim::fit(believed(at, key)));
        let found = overlaps(&run);
        for key in ["a", "b"] {
            proptest::prop_assert_eq!(found.iter().any(|overlap| run.holds[overlap.second].key == key), at_once(key));
        }
    }
}

#[test]
fn unknown_belief_is_no_belief() {
    let history = "
        0 1 invoke acquire a
        1 1 info   acquire a null timeout
        2 2 invoke acquire a
        3 2 ok     acquire a
        4 3 invoke acquire a
        5 3 ok     acquire a
        6 2 invoke write   a 1
        7 2 info   write   a null timeout";
    assert_eq!(classes(history), Vec::<&str>::new());
}

#[test]
fn a_shared_hold_overlaps_without_violation() {
    let text = |value: &str| {
        format!(
            "0 1 invoke acquire a\n1 1 ok acquire a {value}\n2 2 invoke acquire a\n3 2 ok acquire a {value}
             4 1 invoke holds a\n5 1 ok holds a true"
        )
    };
    assert!(crate::testing::literal::maybe_verdict(&EXCLUSION, &text("{exclusive:false}")).is_none());
    assert_eq!(crate::testing::literal::verdict(&EXCLUSION, &text("{}")).outcome, Outcome::Violation);
}

/// Process 2 asked first, and learned of its grant when that was over.
const LATE_ANSWER: &str = "
    1000 2 invoke acquire a {ttl_ms:2000,timeout_ms:8000}
    4000 1 invoke acquire a {ttl_ms:2000}
    4001 1 ok     acquire a {validity_ms:1999}
    5000 2 ok     acquire a {validity_ms:0}
    5100 1 invoke write   a 1
    5101 1 ok     write   a 1
    5200 2 invoke write   a 1
    5201 2 fail   write   a null gave-up: late
    5210 2 invoke release a
    5211 2 fail   release a {believed:false} not-held";

#[test]
fn a_grant_that_is_over_when_its_client_learns_of_it_counts_if_it_is_used() {
    let outcomes = |history: &str| {
        let events = crate::testing::literal::events(history);
        let verdict = crate::check_run(&events);
        let outcome = |name| verdict.of_checker(name).map(|of| of.outcome);
        let mut watch = crate::Watch::new();
        events.iter().for_each(|event| watch.push(event));
        (outcome("exclusion"), outcome("stale-writes"), watch.overlaps)
    };
    let valid = Some(Outcome::Valid);
    assert_eq!(outcomes(LATE_ANSWER), (valid, valid, 0));
    // Its client goes on all the same.
    let used = LATE_ANSWER.replace(
        "5201 2 fail   write   a null gave-up: late",
        "5150 1 invoke holds a\n5151 1 ok holds a true\n5201 2 ok write a 1",
    );
    let used = used.replace("5200 2 invoke write   a 1", "5120 2 invoke write a 1");
    assert_eq!(outcomes(&used).0, Some(Outcome::Violation));
    assert_eq!(classes(&used), ["granted-twice"]);
}

#[test]
fn who_said_that_it_does_not_hold_is_not_believed_to_hold_later() {
    let history = "
        0    1 invoke acquire a {ttl_ms:2000}
        10   1 ok     acquire a
        2100 1 invoke holds   a
        2110 1 ok     holds   a false
        2140 2 invoke acquire a {ttl_ms:2000}
        2150 2 ok     acquire a
        2600 1 invoke holds   a
        2610 1 ok     holds   a true";
    assert_eq!(classes(history), Vec::<&str>::new());
    assert_eq!(classes(&history.replace("a false", "a true")), ["overstayed"]);
}

#[test]
fn a_stopped_client_believed_in_the_write_that_was_asked_of_it_meanwhile() {
    // It hears that the lock is lost as it wakes, and sends the write all the same.
    let history = "
        0    1 invoke acquire a {ttl_ms:2000}
        10   1 ok     acquire a
        2140 2 invoke acquire a {ttl_ms:2000}
        2150 2 ok     acquire a
        2160 1 invoke write   a 1
        2170 1 info   lost    a
        2180 1 ok     write   a 1";
    assert_eq!(classes(history), ["overstayed"]);
}

#[test]
fn a_ttl_that_has_run_out_is_not_prolonged() {
    let history = |renewed: u64| {
        format!(
            "0    1 invoke acquire a {{ttl_ms:2000}}
            10   1 ok     acquire a
            5000 1 info   renewed a {{age_ms:{renewed}}}
            5100 3 invoke acquire a {{ttl_ms:2000}}
            5110 3 ok     acquire a
            5200 1 invoke holds   a
            5210 1 ok     holds   a true"
        )
    };
    assert_eq!(classes(&history(0)), ["overstayed"]);
    assert_eq!(classes(&history(3500)), ["overstayed"], "it ran out at 3.5 s");
    // Granted at last after a long wait, and prolonged in time.
    let waited = history(0).replace("10   1 ok     acquire a", "4000 1 ok     acquire a");
    assert_eq!(classes(&waited), ["granted-twice"]);
}
