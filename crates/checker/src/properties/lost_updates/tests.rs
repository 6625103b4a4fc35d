//! Updates that are there, lost, and late.

use super::*;
use crate::Whose;
use crate::testing::literal::{maybe_verdict, verdict};
use serde_json::json;

fn history(writes: &[(u64, i64, &str)], last: i64) -> String {
    let mut text = String::new();
    for (at, (process, value, end)) in writes.iter().enumerate() {
        let time = at * 10;
        text += &format!(
            "{time} {process} invoke write a {value}\n{} {process} {end} write a {value}\n",
            time + 5
        );
    }
    text + &format!("900 nemesis info phase - \"closing\"\n901 9 invoke read a\n902 9 ok read a {last}")
}

#[test]
fn accepts_increments_that_are_all_there() {
    let history = history(&[(1, 1, "ok"), (2, 2, "ok"), (3, 3, "fail"), (1, 3, "ok")], 3);
    let verdict = verdict(&LOST_UPDATES, &history);
    assert_eq!(verdict.outcome, Outcome::Valid);
    assert_eq!(verdict.stats["rejected"], json!(1));
}

#[test]
fn rejects_a_value_acknowledged_twice() {
    let verdict = verdict(&LOST_UPDATES, &history(&[(1, 1, "ok"), (2, 2, "ok"), (3, 2, "ok")], 2));
    assert_eq!(verdict.summary, "1 of 3 acknowledged updates is lost (33.3 %)");
    assert_eq!(verdict.findings[0].events, [3, 5]);
    assert_eq!(
        verdict.findings[0].sentence,
        "process 2 and process 3 both got the answer that their write of 2 was done, at 0.015 s and at 0.025 s: two \
         increments, and the value grew by one"
    );
}

#[test]
fn rejects_a_counter_that_went_back_and_a_write_that_vanished() {
    let back = verdict(&LOST_UPDATES, &history(&[(1, 3, "ok"), (2, 2, "ok")], 2));
    assert_eq!(back.findings.len(), 2, "{:?}", back.findings);
    assert!(back.findings[0].sentence.ends_with("but the final value is 2"));
    assert!(back.findings[1].sentence.ends_with("the counter went back"));
    assert_eq!(back.stats["lost"], json!(1));
}

#[test]
fn writes_whose_answers_crossed_are_in_the_order_of_the_storages_log() {
    // Process 1 writes 2 after its lease, and the storage does that last; process 3 reads it, and writes 3.
    let history = |log: &str| {
        format!(
            "0   nemesis info lock - {{lease:\"ttl\"}}
             0   1 invoke acquire a {{ttl_ms:50}}
             1   1 ok     acquire a
             60  2 invoke acquire a {{ttl_ms:50}}
             61  2 ok     acquire a
             62  2 invoke write   a 3
             63  2 ok     write   a 3
             64  2 invoke write   a 4
             65  1 invoke write   a 2
             66  1 ok     write   a 2
             67  2 ok     write   a 4
             70  2 invoke release a
             71  2 ok     release a
             72  3 invoke acquire a {{ttl_ms:50}}
             73  3 ok     acquire a
             74  3 invoke write   a 3
             75  3 ok     write   a 3
             80  nemesis info phase - \"closing\"
             81  9 invoke read a
             82  9 ok read a 3
             90  nemesis info storage-log - [{log}]"
        )
    };
    let said = |log: &str| {
        let findings = verdict(&LOST_UPDATES, &history(log)).findings;
        let twice = findings.into_iter().find(|finding| finding.sentence.contains("two increments"));
        twice.expect("3 was written twice").sentence
    };
    let logged = said(
        r#"["a",2,"write",3],["a",2,"write",4],["a",1,"write",2],["a",3,"write",3],["a",9,"read",null]"#,
    );
    assert!(logged.contains("in between process 1 had written 2; the lease of process 1"), "{logged}");
    let unlogged = said("");
    assert!(unlogged.ends_with("in between process 2 had written 4"), "{unlogged}");
}

#[test]
fn an_indeterminate_write_is_never_held_against_anyone() {
    // 2 may have been written by the indeterminate one, so 3 may stand on it.
    let fine = history(&[(1, 1, "ok"), (2, 2, "info"), (3, 3, "ok")], 3);
    assert_eq!(verdict(&LOST_UPDATES, &fine).outcome, Outcome::Valid);
    let late = history(&[(1, 1, "ok"), (2, 2, "info")], 1);
    assert_eq!(verdict(&LOST_UPDATES, &late).outcome, Outcome::Valid);
}

#[test]
fn does_not_know_without_a_closing_read_unless_the_writes_tell() {
    let cut = |text: String| text.split("900").next().unwrap().to_owned();
    let fine = cut(history(&[(1, 1, "ok"), (2, 2, "ok")], 2));
    assert_eq!(verdict(&LOST_UPDATES, &fine).outcome, Outcome::Unknown);
    let twice = cut(history(&[(1, 1, "ok"), (2, 1, "ok")], 1));
    assert_eq!(verdict(&LOST_UPDATES, &twice).outcome, Outcome::Violation);
    assert!(maybe_verdict(&LOST_UPDATES, "0 1 invoke read a").is_none());
}

/// Process 1 is stopped in its write; process 2 gets the lock and writes the same value.
const STOPPED: &str = "
    0    nemesis info lock - {name:\"x\",lease:\"ttl\"}
    0    nemesis info servers - [\"n1\"]
    0    1 invoke acquire a {ttl_ms:1000}
    10   1 ok     acquire a {token:1}
    50   nemesis invoke pause - {id:1,stage:\"inject\",targets:[\"c1\"]}
    60   nemesis ok pause - {id:1,stage:\"inject\",targets:[\"c1\"],effective:true}
    1500 2 invoke acquire a {ttl_ms:1000}
    1510 2 ok     acquire a {token:2}
    1520 2 invoke write a 1
    1530 2 ok     write a 1
    1540 2 invoke release a
    1550 2 ok     release a {believed:true}
    1600 nemesis invoke pause - {id:1,stage:\"heal\"}
    1610 nemesis ok pause - {id:1,stage:\"heal\"}
    1620 1 invoke write a 1
    1640 1 ok     write a 1
    1700 nemesis info phase - \"closing\"
    1710 3 invoke read a
    1720 3 ok     read a 1";

#[test]
fn a_late_write_that_took_the_counter_back_is_to_blame_for_the_values_that_come_twice_after_it() {
    // Process 1 was asked to hold the lock for longer than its TTL. Its write takes 3 back to 1; 4 reads
    // that, and so 2 comes twice, by processes that held the lock alone.
    let section = |at: u64, process: u64, value: i64| {
        let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map(|after| at + after);
        format!(
            "{a} {process} invoke acquire a {{ttl_ms:500}}\n{b} {process} ok acquire a\n{c} {process} invoke write a {value}\n\
             {d} {process} ok write a {value}\n{e} {process} invoke release a\n{f} {process} ok release a {{believed:true}}\n"
        )
    };
    let text = format!(
        "0 nemesis info lock - {{name:\"x\",lease:\"ttl\"}}
         0 1 invoke acquire a {{ttl_ms:500,hold_ms:900}}
         1 1 ok acquire a\n{}{}{}800 1 invoke write a 1\n802 1 ok write a 1\n{}900 nemesis info phase - \"closing\"
         901 9 invoke read a\n902 9 ok read a 2",
        section(600, 2, 1),
        section(650, 3, 2),
        section(700, 2, 3),
        section(850, 4, 2),
    );
    let run = crate::check_run(&crate::testing::literal::events(&text));
    let findings = &run.of_checker("lost-updates").unwrap().findings;
    let twice = findings.iter().find(|finding| finding.sentence.contains("write of 2 was")).unwrap();
    let late =
        "; in between process 1 had written 1; the lease of process 1 may have been over from 0.500 s on";
    assert!(twice.sentence.contains(late), "{}", twice.sentence);
    assert_eq!(twice.whose, Some(Whose::NoFence));
}

#[test]
fn a_late_write_is_named_with_how_that_is_known() {
    let of = |text: &str| {
        let run = crate::check_run(&crate::testing::literal::events(text));
        let finding = run.of_checker("lost-updates").unwrap().findings[0].clone();
        let cause = finding.sentence.split("; ").last().unwrap_or_default().to_owned();
        (finding.class, finding.whose.unwrap(), cause)
    };
    let late = of(STOPPED);
    assert_eq!((&*late.0, late.1), (WRITTEN_LATE, Whose::NoFence));
    assert_eq!(
        late.2,
        "the lease of process 1 may have been over from 1.000 s on, and its write was sent late at 1.620 s and done at 1.640 s"
    );
    // The lease was over from 1.000 s on at the earliest, and from 1.010 s on at the latest.
    for (sent_ms, how) in
        [(900, "sent in time at 0.900 s and arrived late: it was done"), (1005, "sent at 1.005 s and done")]
    {
        let text = STOPPED.replace("    1620 1 invoke write a 1\n", "");
        let text = text.replacen("1500", &format!("{sent_ms} 1 invoke write a 1\n    1500"), 1);
        let (class, _, cause) = of(&text);
        assert!(class == WRITTEN_LATE && cause.ends_with(&format!("{how} at 1.640 s")), "{class}: {cause}");
    }
    let notified = |at: &str| STOPPED.replace(&format!("{at} 1"), &format!("{at} 1 info lost a\n{at} 1"));
    assert_eq!((&*of(&notified("1640")).0, &*of(&notified("1620")).0), (WRITTEN_LATE, WRITTEN_AFTER_LOSS));
    // A notice that came after the write explains nothing.
    let after = of(&STOPPED.replace("write a 1\n    1700", "write a 1\n    1650 1 info lost a\n    1700"));
    assert_eq!(after, late);
    // Granted while the first one's lease still ran: the lock's own failure, and without any fault of a
    // server the library's.
    let twice = STOPPED.replace("ttl_ms:1000", "ttl_ms:9000");
    assert_eq!((&*of(&twice).0, of(&twice).1), (LOST, Whose::Library));
    assert_eq!(of(&twice.replace("\"c1\"", "\"n1\"")).1, Whose::Service);
}
