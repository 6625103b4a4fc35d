//! Stories of clocks, sessions and late writes.

use super::*;
use crate::check_run;
use crate::testing::literal::events;

const JUMP: &str = "
    0    nemesis info phase - \"main\"
    100  3 invoke acquire a {ttl_ms:2000}
    110  3 ok     acquire a {token:33,validity_ms:1961,granted_by:[\"n1\",\"n2\",\"n3\"]}
    150  3 invoke read a
    160  3 ok     read a 41
    200  7 invoke acquire a {ttl_ms:2000}
    500  nemesis invoke clock-jump - {id:1,stage:\"inject\",targets:[\"n3\"],requested:{wall_ms:60000,monotonic_ms:60000}}
    510  nemesis ok clock-jump - {id:1,stage:\"inject\",targets:[\"n3\"],observed:{n3:{wall_ms:60001,monotonic_ms:60000}},effective:true,description:{sentence:\"the~clock~of~n3~jumped~forward~by~60.001~s\",healing:\"the~clock~of~n3~was~set~right\"}}
    810  7 ok     acquire a {token:34,granted_by:[\"n3\",\"n4\",\"n5\"]}
    820  7 invoke read a
    830  7 ok     read a 41
    840  7 invoke write a 42
    850  7 ok     write a 42
    900  3 invoke write a 42
    905  nemesis invoke clock-jump - {id:1,stage:\"heal\"}
    906  nemesis ok clock-jump - {id:1,stage:\"heal\"}
    910  3 ok     write a 42
    950  3 invoke release a
    960  3 ok     release a {believed:true}";

fn story_of(text: &str, checker: &str) -> Vec<String> {
    let events = events(text);
    let verdict = check_run(&events);
    let run = RunIndex::new(&events).unwrap();
    let finding = &verdict.of_checker(checker).unwrap().findings[0];
    let lines = story(&run, finding);
    lines.iter().map(|line| format!("{} {}", seconds(line.time_ns), line.text)).collect()
}

#[test]
fn tells_of_a_clock_that_jumped() {
    let expected = [
        "0.110 s process 3 acquired a on n1, n2 and n3 for 2.000 s (reported validity: 1.961 s), with token 33",
        "0.160 s process 3 read 41",
        "0.500 s the clock of n3 jumped forward by 60.001 s (observed by 0.510 s)",
        "0.810 s process 7 acquired a on n3, n4 and n5 for 2.000 s, with token 34, while process 3 still held it",
        "0.830 s process 7 read 41",
        "0.850 s process 7 wrote 42",
        "0.905 s the clock of n3 was set right",
        "0.910 s process 3 wrote 42: the same value as process 7",
        "0.950 s process 3 began to release: until here it believed that it held the lock",
        "0.950 s granted twice: process 7 got the lock while the TTL of process 3 (2.000 s) still had 1.290 s to run; \
         possible cause: the clock of n3 jumped forward by 60.001 s at 0.500 s",
    ];
    assert_eq!(story_of(JUMP, "exclusion"), expected);
    // The lost update is the same story.
    assert_eq!(story_of(JUMP, "lost-updates"), expected);
}

#[test]
fn tells_of_a_server_that_ended_meanwhile() {
    let ended =
        "\n    860  nemesis info server-ended - {node:\"n2\",log:[\"no~memory\",\"gave~up\"]}\n    900";
    let story = story_of(&JUMP.replacen("\n    900", ended, 1), "exclusion");
    let expected = "0.860 s n2 ended by itself; its log says: no memory / gave up";
    assert!(story.iter().any(|line| line == expected), "{story:?}");
}

#[test]
fn tells_when_a_stopped_client_ran_again_though_that_was_seen_later() {
    let text = "
        0    nemesis info lock - {name:\"x\",lease:\"ttl\"}
        0    1 invoke acquire a {ttl_ms:1000}
        10   1 ok     acquire a
        50   nemesis invoke pause - {id:1,stage:\"inject\",targets:[\"c1\"]}
        51   nemesis ok pause - {id:1,stage:\"inject\",targets:[\"c1\"],effective:true,description:{sentence:\"c1~was~stopped\",healing:\"c1~ran~again\"}}
        1500 2 invoke acquire a {ttl_ms:1000}
        1510 2 ok     acquire a
        1600 nemesis invoke pause - {id:1,stage:\"heal\"}
        1610 1 invoke release a
        1620 nemesis ok pause - {id:1,stage:\"heal\"}
        1630 1 ok     release a {believed:true}";
    let story = story_of(text, "exclusion");
    assert!(story.contains(&"1.600 s c1 ran again (observed by 1.620 s)".to_owned()), "{story:?}");
}

#[test]
fn tells_of_a_stall_of_the_machine_and_whether_the_verdict_rests_on_it() {
    let stalled = "\n    890  nemesis info stalled - {node:\"c1\",for_ms:100}\n    900";
    let story = story_of(&JUMP.replacen("\n    900", stalled, 1), "exclusion");
    let expected = "0.780 s the machine stalled (not an injected fault; the verdict does not rest on this): it gave c1 hardly any \
                    time for 0.110 s";
    assert!(story.iter().any(|line| line == expected), "{story:?}");
}

#[test]
fn tells_of_a_release_that_removed_the_lock() {
    let text = "
        0  1 invoke acquire a {ttl_ms:2000}
        5  1 ok     acquire a
        6  2 invoke acquire a {ttl_ms:2000}
        7  3 invoke release a
        8  2 ok     acquire a
        9  3 ok     release a {believed:false,removed:true}
        10 1 invoke holds   a
        11 1 ok     holds   a true";
    let removed =
        "0.009 s the release of a by process 3, begun at 0.007 s, removed the lock of process 1".to_owned();
    assert!(story_of(text, "exclusion").contains(&removed));
    let nothing = text.replace("removed:true", "removed:false");
    assert!(!story_of(&nothing, "exclusion").iter().any(|line| line.contains("release of a")));
}

#[test]
fn tells_of_faults_that_it_does_not_know() {
    let described = JUMP.find(",description:").expect("the fault describes itself");
    let end = described + JUMP[described..].find("}}").expect("the description ends") + 1;
    let odd = format!("{}{}", &JUMP[..described], &JUMP[end..]).replace("clock-jump", "cosmic-ray");
    assert!(story_of(&odd, "exclusion").contains(
        &"0.500 s the fault cosmic-ray was injected on n3: {\"n3\":{\"monotonic_ms\":60000,\"wall_ms\":60001}} (observed by 0.510 s)".to_owned()
    ));
}

#[test]
fn two_holds_that_do_not_meet_have_a_story_and_one_hold_has_none() {
    let text = "
        0 1 invoke acquire a
        1 1 ok     acquire a {token:5}
        2 1 invoke release a
        3 1 ok     release a {believed:true}
        4 2 invoke acquire a
        5 2 ok     acquire a {token:4}";
    let lines = [
        "0.001 s process 1 acquired a, with token 5",
        "0.002 s process 1 began to release: until here it believed that it held the lock",
        "0.005 s process 2 acquired a, with token 4",
        "0.005 s token not greater: process 2 began to acquire at 0.004 s and got token 4, although process 1 had already got token 5 at \
         0.001 s",
    ];
    assert_eq!(story_of(text, "fencing"), lines);
    let of_one = "
        0 nemesis info lock - {name:\"x\",lease:\"ttl\"}
        0 1 invoke acquire a {ttl_ms:1000}
        1 1 ok     acquire a {validity_ms:1001}";
    assert_eq!(story_of(of_one, "validity"), Vec::<String>::new());
}

#[test]
fn a_write_that_was_under_way_for_long_says_since_when() {
    assert_eq!(sent(1_000_000_000, 1_049_999_999), "");
    assert_eq!(sent(1_000_000_000, 1_050_000_000), " (sent at 1.000 s)");
}

#[test]
fn a_fault_that_was_over_or_had_not_begun_is_no_part_of_a_story() {
    let pause = |id: u64, from: u64| {
        format!(
            "{from} nemesis invoke pause - {{id:{id},stage:\"inject\",targets:[\"n5\"]}}
             {} nemesis ok pause - {{id:{id},stage:\"inject\",targets:[\"n5\"],effective:true,description:{{sentence:\"n5~stood~still\"}}}}
             {} nemesis invoke pause - {{id:{id},stage:\"heal\"}}
             {} nemesis ok pause - {{id:{id},stage:\"heal\"}}",
            from + 5,
            from + 10,
            from + 15
        )
    };
    let line = |text: &str| story_of(text, "exclusion").iter().any(|line| line.contains("n5 stood still"));
    assert!(line(&JUMP.replacen("    150", &format!("{}\n    150", pause(2, 120)), 1)));
    assert!(!line(&JUMP.replacen("    100", &format!("{}\n    100", pause(2, 20)), 1)));
    assert!(!line(&format!("{JUMP}\n{}", pause(2, 2000))));
}
