//! Each row of the ledger as a literal history.

mod leaders;
mod machine;

use super::ends::{Cause, possible_ends};
use super::interval::Reason;
use crate::check_run;
use crate::run_index::{Hold, RunIndex};
use crate::testing::literal::events;
use crate::verdict::{Finding, Outcome};
use crate::whose::Whose;

const MS: u64 = 1_000_000;

/// A fault as it is recorded: its effects, its targets, and when it was injected and healed.
fn fault(effects: &str, more: &str, targets: &str, (from, heal): (u64, u64)) -> String {
    format!(
        "{from} nemesis invoke x - {{id:1,stage:\"inject\",targets:[{targets}],description:{{effects:[{effects}],sentence:\"x\"{more}}}}}
         {from} nemesis ok x - {{id:1,stage:\"inject\",targets:[{targets}],effective:true}}
         {heal} nemesis invoke x - {{id:1,stage:\"heal\",targets:[{targets}]}}
         {} nemesis ok x - {{id:1,stage:\"heal\",targets:[{targets}]}}",
        heal + 20
    )
}

/// The lines of a history in the order of their times; lines of one time stay in theirs.
fn in_order(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.sort_by_key(|line| line.split_whitespace().next().and_then(|time| time.parse::<u64>().ok()));
    lines.join("\n")
}

fn findings(checker: &str, text: &str) -> Vec<Finding> {
    let verdict = check_run(&events(&in_order(text)));
    let of_checker = verdict.of_checker(checker);
    of_checker.map(|verdict| verdict.findings.clone()).unwrap_or_default()
}

/// The class of the finding about the hold that was granted last, and whose failure it is.
fn last_overlap(text: &str) -> (String, Whose) {
    let finding = findings("exclusion", text).into_iter().max_by_key(|finding| finding.time);
    let finding = finding.expect("two holds overlap");
    (finding.class.clone(), finding.whose.expect("every finding says whose failure it is"))
}

fn twice(whose: Whose) -> (String, Whose) {
    ("granted-twice".to_owned(), whose)
}

const ONE_SERVER: &str = "
    0 nemesis info lock - {name:\"x\",lease:\"ttl\"}
    0 nemesis info servers - [\"n1\"]
    0 nemesis info nodes - {slots:[\"c0\",\"c1\",\"c2\",\"c3\"]}";

/// A (process 1) is granted the lock, then B (2), which releases its own, then C (3); A writes.
const GRANTED_IN_BETWEEN: &str = "
    0    1 invoke acquire a {ttl_ms:2000}
    10   1 ok     acquire a
    210  2 invoke acquire a {ttl_ms:2000}
    220  2 ok     acquire a
    300  2 invoke release a
    310  2 ok     release a {believed:true,removed:true}
    320  3 invoke acquire a {ttl_ms:2000}
    330  3 ok     acquire a
    400  1 invoke write   a 1
    410  1 ok     write   a 1";

#[test]
fn a_process_that_was_granted_the_lock_in_between_removed_its_own() {
    let jump = fault("\"moves-clocks\"", "", "\"n1\"", (100, 5000));
    assert_eq!(last_overlap(&format!("{ONE_SERVER}{GRANTED_IN_BETWEEN}\n{jump}")), twice(Whose::Service));
    let kill = fault("\"stops\",\"kills\"", "", "\"n1\"", (100, 150));
    assert_eq!(last_overlap(&format!("{ONE_SERVER}{GRANTED_IN_BETWEEN}\n{kill}")), twice(Whose::Service));
    // A paused server forgets nothing, and neither does one that another client cannot reach.
    let pause = fault("\"stops\"", "", "\"n1\"", (100, 150));
    assert_eq!(last_overlap(&format!("{ONE_SERVER}{GRANTED_IN_BETWEEN}\n{pause}")), twice(Whose::Library));
    let delay = fault("\"delays\"", ",between:[[\"c1\"],[\"n1\"]]", "\"c1\",\"n1\"", (100, 150));
    assert_eq!(last_overlap(&format!("{ONE_SERVER}{GRANTED_IN_BETWEEN}\n{delay}")), twice(Whose::Library));
}

#[test]
fn of_several_faults_the_one_that_began_last_is_named() {
    let jump = |id: &str, sentence: &str, from| {
        let jump = fault("\"moves-clocks\"", "", "\"n1\"", (from, 5000));
        jump.replace("id:1", id).replace("\"x\"", sentence)
    };
    let (early, late) = (jump("id:1", "\"early\"", 5), jump("id:2", "\"late\"", 100));
    let found = findings("exclusion", &format!("{ONE_SERVER}{GRANTED_IN_BETWEEN}\n{early}\n{late}"));
    assert!(!found.is_empty());
    for finding in found {
        assert!(
            finding.sentence.contains("late at 0.100 s") && !finding.sentence.contains("early"),
            "{finding:?}"
        );
    }
}

/// B (process 2) deletes without looking after its own lease had run out, and A (1) had been granted the
/// lock.
const REMOVED_BY_A_STRANGER: &str = "
    0    2 invoke acquire a {ttl_ms:2000}
    10   2 ok     acquire a
    2100 1 invoke acquire a {ttl_ms:2000}
    2110 1 ok     acquire a
    2200 2 invoke release a
    2210 2 ok     release a {removed:true}
    2220 3 invoke acquire a {ttl_ms:2000}
    2230 3 ok     acquire a
    2300 1 invoke write   a 1
    2310 1 ok     write   a 1";

#[test]
fn a_release_whose_own_lease_had_run_out_removed_the_lock_of_another() {
    let jump = fault("\"moves-clocks\"", "", "\"n1\"", (2150, 5000));
    let text = format!("{ONE_SERVER}{REMOVED_BY_A_STRANGER}\n{jump}");
    assert_eq!(last_overlap(&text), twice(Whose::Library));
    let finding = findings("exclusion", &text).remove(0);
    assert!(
        finding.sentence.contains(
            "the release of process 2 at 2.200 s had removed it, although process 2 did not hold the lock then"
        ),
        "{}",
        finding.sentence
    );
    // Where the release found nothing, the clock remains.
    let found_nothing = text.replace("removed:true", "removed:false");
    assert_eq!(last_overlap(&found_nothing), twice(Whose::Service));
}

/// All servers are away for 4 s; process 1 held the lock before, 2 and 3 wait for it, and both lead after.
const AFTER_HEALING: &str = "
    0    nemesis info lock - {name:\"x\",lease:\"session\"}
    0    nemesis info servers - [\"n1\",\"n2\",\"n3\"]
    0    nemesis info nodes - {slots:[\"c0\",\"c1\",\"c2\",\"c3\"]}
    0    1 invoke acquire a {ttl_ms:4000}
    10   1 ok     acquire a
    50   2 invoke acquire a {ttl_ms:4000}
    60   3 invoke acquire a {ttl_ms:4000}
    90   1 invoke holds   a
    95   1 ok     holds   a true
    7100 2 ok     acquire a
    7200 3 ok     acquire a
    9000 2 invoke holds   a
    9010 2 ok     holds   a true
    9020 3 invoke holds   a
    9030 3 ok     holds   a true";

#[test]
fn an_outage_that_was_over_excuses_no_grant_after_it() {
    let holder = "6900 1 invoke write a 1\n6910 1 ok write a 1";
    let away = fault("\"stops\",\"kills\"", "", "\"n1\",\"n2\",\"n3\"", (3000, 7000));
    let text = format!("{AFTER_HEALING}\n{holder}\n{away}");
    assert_eq!(last_overlap(&text), twice(Whose::Library));
    let only = text.replace(",\"n2\",\"n3\"]", "]");
    assert_eq!(last_overlap(&only), twice(Whose::Library), "of one server, too");
    // While one server stays, its session can have ended meanwhile, and another leader be chosen.
    let one = text.replace("\"n1\",\"n2\",\"n3\"],description", "\"n1\"],description");
    assert_ne!(last_overlap(&one), twice(Whose::Library));
}

/// Process 1 is parted from its server at 2 s, and says at 12 s that it leads; 2 was granted the lock at 7 s.
const PARTED_LEADER: &str = "
    0     nemesis info lock - {name:\"x\",lease:\"session\",can:[\"lost\"]}
    0     nemesis info servers - [\"n1\"]
    0     nemesis info nodes - {slots:[\"c0\",\"c1\",\"c2\",\"c3\"]}
    0     1 invoke acquire a {ttl_ms:4000}
    10    1 ok     acquire a
    7000  2 invoke acquire a {ttl_ms:4000}
    7010  2 ok     acquire a
    12000 1 invoke holds   a
    12010 1 ok     holds   a true";

#[test]
fn a_leader_that_promised_to_know_and_says_that_it_leads_is_the_librarys() {
    let parted = fault("\"parts\"", ",between:[[\"c1\"],[\"n1\"]]", "\"c1\",\"n1\"", (2000, 15000));
    let text = format!("{PARTED_LEADER}\n{parted}");
    assert_eq!(last_overlap(&text), ("cut-off".to_owned(), Whose::Library));
    let of = |from: &str, to: &str| last_overlap(&text.replace(from, to)).1;
    assert_eq!(of("can:[\"lost\"]", "can:[]"), Whose::NoFence, "it promised nothing");
    assert_eq!(of("\"parts\"", "\"delays\""), Whose::NoFence, "it may have been answered");
    let stopped = fault("\"stops\"", "", "\"c1\"", (3000, 11000)).replace("id:1", "id:2");
    assert_eq!(last_overlap(&format!("{text}\n{stopped}")).1, Whose::NoFence, "it could not know");
    let goes_on = "15500 1 invoke write a 1\n15510 1 ok write a 1";
    assert_eq!(
        last_overlap(&format!("{text}\n{goes_on}")).1,
        Whose::Library,
        "what came later hides nothing"
    );
}

#[test]
fn what_no_server_can_have_granted_is_the_librarys() {
    let grants = "
        0    1 invoke acquire a {ttl_ms:2000}
        10   1 ok     acquire a
        2500 2 invoke acquire a {ttl_ms:2000}
        2510 2 ok     acquire a
        2600 1 invoke write   a 1
        2610 1 ok     write   a 1";
    let parts = |who: &str, until: u64| {
        fault("\"parts\"", &format!(",between:[[{who}],[\"n1\"]]"), &format!("{who},\"n1\""), (2400, until))
    };
    assert_eq!(
        last_overlap(&format!("{ONE_SERVER}{grants}\n{}", parts("\"c2\"", 9000))),
        twice(Whose::Library)
    );
    let overstayed = ("overstayed".to_owned(), Whose::NoFence);
    assert_eq!(last_overlap(&format!("{ONE_SERVER}{grants}\n{}", parts("\"c1\"", 9000))), overstayed);
    assert_eq!(last_overlap(&format!("{ONE_SERVER}{grants}\n{}", parts("\"c2\"", 2505))), overstayed);
}

/// The server is down from 3 to 4 s; from 5.5 s on it refuses everybody.
const STUCK: &str = "
    0    nemesis info phase - \"main\"
    10   1 invoke acquire a {ttl_ms:1000}
    20   1 ok     acquire a
    30   1 invoke release a
    40   1 ok     release a
    4100 nemesis info phase - \"heal\"
    5500 2 invoke acquire a {ttl_ms:1000}
    5600 2 fail   acquire a null taken
    9000 nemesis info phase - \"closing\"
    9010 3 invoke acquire a {ttl_ms:1000}
    9500 3 fail   acquire a null taken";

#[test]
fn an_outage_explains_no_stuck_lock_once_the_lock_has_answered_again() {
    let whose = |text: &str| {
        let findings = findings("progress", text);
        assert_eq!(findings[0].class, "stuck");
        findings[0].whose.unwrap()
    };
    let kill = fault("\"stops\",\"kills\"", "", "\"n1\"", (3000, 4000));
    let text = format!("{ONE_SERVER}{STUCK}\n{kill}");
    assert_eq!(whose(&text), Whose::Library);
    // A clock that was moved may have dated the lease for long.
    assert_eq!(whose(&text.replace("\"stops\",\"kills\"", "\"moves-clocks\"")), Whose::Service);
    // It has not answered since.
    let silent = text.replace("null taken", "null unreachable");
    assert_eq!(whose(&silent), Whose::Service);
    // Nothing was seen of the fault as it began: only what it had held up, when it was healed.
    let unseen = silent.replace("effective:true", "effective:false");
    assert_eq!(whose(&unseen), Whose::Library);
    let counted = "4020 nemesis ok x - {observed:{n1:{held_up:{refused:2}}},";
    assert_eq!(whose(&unseen.replace("4020 nemesis ok x - {", counted)), Whose::Service);
    // A connection that a partition cut off may still hold the lock at the server, whomever it targets.
    let parted = |between: &str| {
        let parts = fault("\"parts\"", &format!(",between:{between}"), "\"c1\"", (3000, 4000));
        let of_connection = ONE_SERVER.replace("lease:\"ttl\"", "lease:\"connection\"");
        whose(&format!("{of_connection}{STUCK}\n{parts}"))
    };
    assert_eq!(parted("[[\"c1\"],[\"n1\"]]"), Whose::Service);
    assert_eq!(parted("[[\"c1\"]]"), Whose::Service);
    assert_eq!(parted("[[\"c1\"],[\"storage\"]]"), Whose::Library);
}

/// B (process 2) waits from before A's grant; the tokens are the other way round.
const TOKENS_TURNED: &str = "
    0   2 invoke acquire a {ttl_ms:2000}
    80  1 invoke acquire a {ttl_ms:2000}
    93  1 ok     acquire a {token:5}
    100 1 invoke write   a 1
    110 1 ok     write   a 1
    136 1 invoke release a
    140 1 ok     release a
    142 2 ok     acquire a {token:3}
    150 2 invoke write   a 2
    157 2 ok     write   a 2";

#[test]
fn tokens_that_are_out_of_order_order_no_writes() {
    let text = format!("{ONE_SERVER}{TOKENS_TURNED}");
    let verdict = check_run(&events(&text));
    let broken: Vec<&str> = verdict
        .verdicts
        .iter()
        .filter(|each| each.outcome == Outcome::Violation)
        .map(|each| &*each.checker)
        .collect();
    assert_eq!(broken, ["fencing"]);
    let right = text.replace("token:5", "token:2");
    assert_eq!(check_run(&events(&right)).of_checker("fencing").unwrap().outcome, Outcome::Valid);
}

/// Process 2 waits for 6 s with a TTL of 2 s, behind one that renews, and is renewed itself.
const WAITED: &str = "
    0    1 invoke acquire a {ttl_ms:2000}
    10   1 ok     acquire a
    500  2 invoke acquire a {ttl_ms:2000}
    1500 1 info   renewed a
    3000 1 info   renewed a
    4500 1 info   renewed a
    6400 1 invoke release a
    6410 1 ok     release a
    6500 2 ok     acquire a {validity_ms:0}
    7500 2 info   renewed a
    8600 3 invoke acquire a {ttl_ms:2000}
    8700 2 invoke write   a 1
    8710 2 ok     write   a 1
    8720 2 invoke release a
    8730 2 ok     release a
    8800 3 ok     acquire a
    8810 3 invoke release a
    8820 3 ok     release a";

#[test]
fn a_wait_that_is_longer_than_the_ttl_is_no_lease_that_is_over() {
    let verdict = check_run(&events(&format!("{ONE_SERVER}{WAITED}")));
    for checker in ["exclusion", "stale-writes"] {
        assert_eq!(verdict.of_checker(checker).unwrap().outcome, Outcome::Valid, "{checker}");
    }
    let all = events(&format!("{ONE_SERVER}{WAITED}"));
    let run = RunIndex::new(&all).unwrap();
    let waited = &run.holds[1].granted;
    assert_eq!((waited.earliest.ns, waited.earliest.why), (6400 * MS, Reason::HeldBy { process: 1 }));
    assert_eq!((waited.latest.ns, waited.latest.why), (6500 * MS, Reason::Answered));
}

#[test]
fn a_lock_that_was_given_twice_dates_no_grant() {
    let text = format!(
        "{ONE_SERVER}
         0  1 invoke acquire a {{ttl_ms:2000}}
         10 1 ok     acquire a
         20 2 invoke acquire a {{ttl_ms:2000}}
         30 2 ok     acquire a
         90 1 invoke release a
         95 1 ok     release a {{believed:true}}"
    );
    let all = events(&text);
    let second = RunIndex::new(&all).unwrap().holds[1].granted.earliest;
    assert_eq!((second.ns, second.why), (20 * MS, Reason::Asked));
    assert_eq!(last_overlap(&text), twice(Whose::Library));
}

#[test]
fn who_is_asked_to_hold_a_lock_for_longer_than_its_lease_overstays_for_no_fence() {
    let held_for = |hold_ms: u64, can: &str| {
        let text = format!(
            "0    nemesis info lock - {{name:\"x\",lease:\"ttl\",can:[{can}]}}
             0    1 invoke acquire a {{ttl_ms:2000,hold_ms:{hold_ms}}}
             10   1 ok     acquire a
             2500 2 invoke acquire a {{ttl_ms:2000}}
             2510 2 ok     acquire a
             2600 1 invoke write   a 1
             2610 1 ok     write   a 1"
        );
        last_overlap(&text)
    };
    let overstayed = |whose| ("overstayed".to_owned(), whose);
    assert_eq!(held_for(3000, ""), overstayed(Whose::NoFence));
    assert_eq!(held_for(3000, "\"extend\""), overstayed(Whose::Library));
    assert_eq!(held_for(1000, ""), overstayed(Whose::Machine));
}

fn causes(run: &RunIndex, hold: &Hold, until: (u64, u64)) -> Vec<Cause> {
    possible_ends(&run.setting(), &run.holds, hold, until).iter().map(|end| end.cause).collect()
}

#[test]
fn every_end_that_the_history_allows_is_kept() {
    let jump = fault("\"moves-clocks\"", "", "\"n1\"", (100, 5000));
    let all = events(&in_order(&format!("{ONE_SERVER}{GRANTED_IN_BETWEEN}\n{jump}")));
    let run = RunIndex::new(&all).unwrap();
    let [a, b, c] = &run.holds[..] else { panic!("three grants") };
    assert_eq!(causes(&run, a, (b.from, b.granted.latest.ns)), [Cause::Forgotten]);
    assert_eq!(causes(&run, b, (c.from, c.granted.latest.ns)), [Cause::Released, Cause::Forgotten]);
    assert_eq!(causes(&run, c, (u64::MAX, 3000 * MS)), [Cause::GivenUp, Cause::RanOut, Cause::Forgotten]);
    // Each fault that can have done it is an end of its own.
    let before = fault("\"moves-clocks\"", "", "\"n1\"", (0, 5)).replace("id:1", "id:0");
    let all = events(&in_order(&format!("{ONE_SERVER}{GRANTED_IN_BETWEEN}\n{before}\n{jump}")));
    let run = RunIndex::new(&all).unwrap();
    let lost = possible_ends(&run.setting(), &run.holds, &run.holds[0], (u64::MAX, 300 * MS));
    let lost = lost.iter().filter(|end| end.cause == Cause::Forgotten);
    let over: Vec<Reason> = lost.map(|end| end.interval.latest.why).collect();
    assert_eq!(over, [Reason::FaultOver { id: 0 }, Reason::FaultOver { id: 1 }]);
    let all = events(&in_order(&format!("{ONE_SERVER}{REMOVED_BY_A_STRANGER}")));
    let run = RunIndex::new(&all).unwrap();
    let [_, removed, next] = &run.holds[..] else { panic!("three grants") };
    assert_eq!(causes(&run, removed, (next.from, next.granted.latest.ns)), [Cause::Removed { by: 2 }]);
}

#[test]
fn nothing_is_granted_while_no_server_can_be_reached() {
    let kill = fault("\"stops\",\"kills\"", "", "\"n1\"", (1000, 3000));
    let history = |invoke: u64, answer: u64| {
        format!("{ONE_SERVER}\n{kill}\n{invoke} 1 invoke acquire a {{ttl_ms:500}}\n{answer} 1 ok acquire a")
    };
    let granted = |invoke, answer| {
        let all = events(&in_order(&history(invoke, answer)));
        let granted = RunIndex::new(&all).unwrap().holds[0].granted;
        (granted.earliest.ns / MS, granted.latest.ns / MS)
    };
    assert_eq!(granted(2000, 3500), (3000, 3500));
    assert_eq!(granted(500, 2000), (500, 1000));
    assert_eq!(granted(500, 3500), (500, 3500), "it may have been granted before, and answered late");
}

#[test]
fn a_server_that_is_killed_while_it_is_stopped_runs_once_it_is_started_again() {
    let stopped = fault("\"stops\"", "", "\"n1\"", (1000, 9000));
    let killed = fault("\"stops\",\"kills\"", "", "\"n1\"", (2000, 3000)).replace("id:1", "id:2");
    let history = format!(
        "{ONE_SERVER}\n{stopped}\n{killed}\n4000 1 invoke acquire a {{ttl_ms:500}}\n4010 1 ok acquire a"
    );
    let all = events(&in_order(&history));
    assert!(!RunIndex::new(&all).unwrap().holds[0].granted_by_no_server);
    let only = events(&in_order(&history.replace(&killed, "")));
    assert!(RunIndex::new(&only).unwrap().holds[0].granted_by_no_server);
}

#[test]
fn the_doubt_in_a_reported_validity_is_how_late_this_runs_answers_were() {
    let history = |answered: u64| {
        format!(
            "{ONE_SERVER}
             0    1 invoke acquire a {{ttl_ms:500}}
             2010 1 ok     acquire a {{validity_ms:490,waited_ms:2008}}
             2020 1 invoke read    a
             {answered} 1 ok read a 0"
        )
    };
    let earliest = |answered| {
        let all = events(&history(answered));
        RunIndex::new(&all).unwrap().holds[0].granted.earliest
    };
    assert_eq!(earliest(2050).ns, (1998 - 30) * MS);
    assert_eq!(earliest(2320).ns, (1998 - 300) * MS);
    assert_eq!(earliest(2320).why, Reason::Validity { doubt_ns: 300 * MS });
}

#[test]
fn the_table_gives_every_grant_its_interval_and_every_end_its_reason() {
    let jump = fault("\"moves-clocks\"", "", "\"n1\"", (100, 5000));
    let all = events(&in_order(&format!("{ONE_SERVER}{GRANTED_IN_BETWEEN}\n{jump}")));
    let table = super::ledger_table(&RunIndex::new(&all).unwrap(), None);
    for line in [
        "fault 1: 0.100 s to 5.020 s: x; it moves clocks",
        "lock a",
        "    granted   0.000 s (the acquire was invoked) to 0.010 s (its answer came)",
        "    ended     released: 0.300 s (the release was invoked) to 0.310 s (the release was answered); events 9",
        "    ended     lost by the servers: 0.100 s (fault 1 began) to 5.020 s (fault 1 was healed); events 5",
    ] {
        assert!(table.lines().any(|each| each == line), "{line}\n{table}");
    }
}
