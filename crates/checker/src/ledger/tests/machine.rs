//! What a machine that is too busy explains.

use super::*;

#[test]
fn a_late_answer_makes_a_holder_overstay_for_the_machine() {
    // Process 1 is answered 0.6 s after it asked, and holds the lock for 1.5 s, as it was asked to.
    let whose = |read_ms: u64, before: &str| {
        let text = format!(
            "{before}
             1000 1 invoke acquire a {{ttl_ms:2000,hold_ms:1500}}
             1600 1 ok     acquire a
             1610 1 invoke read    a
             {}   1 ok     read    a 0
             3010 2 invoke acquire a {{ttl_ms:2000}}
             3020 2 ok     acquire a
             3050 1 invoke write   a 1
             3060 1 ok     write   a 1",
            1610 + read_ms
        );
        last_overlap(&format!("{ONE_SERVER}{text}"))
    };
    let overstayed = |whose| ("overstayed".to_owned(), whose);
    let earlier = "
        0  1 invoke acquire a {ttl_ms:2000}
        5  1 fail   acquire a null taken";
    assert_eq!(whose(600, earlier), overstayed(Whose::Machine), "other answers were as late");
    assert_eq!(whose(20, earlier), overstayed(Whose::Library), "no other answer was");
    assert_eq!(whose(20, ""), overstayed(Whose::Machine), "the first acquire of a process may take any time");
}

#[test]
fn a_stall_of_the_machine_makes_a_holder_overstay_and_ends_its_session() {
    let stalled = |node: &str, for_ms: u64| {
        format!("\n6000 nemesis info stalled - {{node:\"{node}\",for_ms:{for_ms}}}")
    };
    let text = PARTED_LEADER.replace("can:[\"lost\"]", "can:[]");
    assert_eq!(last_overlap(&text), twice(Whose::Library), "nothing had happened");
    let cut_off = ("cut-off".to_owned(), Whose::Machine);
    assert_eq!(last_overlap(&format!("{text}{}", stalled("n1", 2500))), cut_off);
    assert_eq!(
        last_overlap(&format!("{text}{}", stalled("n1", 1500))),
        twice(Whose::Library),
        "it is too short"
    );
    // Process 1 is answered 0.6 s after it asked, as no other answer is.
    let late = "
        0    1 invoke acquire a {ttl_ms:4000}
        5    1 fail   acquire a null taken
        1000 1 invoke acquire a {ttl_ms:4000,hold_ms:3900}
        1600 1 ok     acquire a
        5010 2 invoke acquire a {ttl_ms:4000}
        5020 2 ok     acquire a
        6050 1 invoke write   a 1
        6060 1 ok     write   a 1";
    let whose = |stalled: &str| last_overlap(&format!("{ONE_SERVER}{late}{stalled}")).1;
    assert_eq!(whose(""), Whose::Library, "nothing is known to have made it late");
    assert_eq!(whose(&stalled("c2", 2000)), Whose::Library, "another client stalled");
    assert_eq!(whose(&stalled("c1", 2000)), Whose::Machine);
}

#[test]
fn what_sends_packets_twice_makes_no_process_late() {
    let late = |effect: &str| {
        let text = "
            0    1 invoke acquire a {ttl_ms:2000,hold_ms:100}
            10   1 ok     acquire a
            2500 2 invoke acquire a {ttl_ms:2000}
            2510 2 ok     acquire a
            2600 1 invoke write   a 1
            2610 1 ok     write   a 1";
        let hit = fault(effect, ",between:[[\"c1\"],[\"n1\"]]", "\"c1\",\"n1\"", (100, 5000));
        last_overlap(&format!("{ONE_SERVER}{text}\n{hit}"))
    };
    assert_eq!(late("\"duplicates\""), ("overstayed".to_owned(), Whose::Machine));
    assert_eq!(late("\"delays\""), ("overstayed".to_owned(), Whose::NoFence));
}

#[test]
fn answers_under_a_fault_date_no_grant_where_there_were_calm_ones() {
    let latest = |faults: &str| {
        let text = format!(
            "{ONE_SERVER}\n{faults}\n100 1 invoke read a\n400 1 ok read a 0\n900 1 invoke read a\n930 1 ok read a 0"
        );
        RunIndex::new(&events(&in_order(&text))).unwrap().latest_answer_ns
    };
    let paused = fault("\"stops\"", "", "\"c1\"", (50, 500));
    assert_eq!(latest(&paused), Some(30 * MS));
    assert_eq!(latest(""), Some(300 * MS));
    let always = fault("\"stops\"", "", "\"c1\"", (50, 5000));
    assert_eq!(latest(&always), Some(300 * MS), "then they are all that is known");
}
