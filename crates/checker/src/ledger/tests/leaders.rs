//! Grants of one leader and of another, leaders that go on, and servers that lost a part of what they gave.

use super::*;

#[test]
fn a_grant_of_another_leader_may_have_forgotten_the_one_before_until_then_and_not_later() {
    let paused = fault("\"stops\"", "", "\"n1\"", (20, 40));
    let history = format!(
        "0 nemesis info lock - {{name:\"x\",lease:\"ttl\"}}
         0 nemesis info servers - [\"n1\",\"n2\"]
         0 nemesis info nodes - {{leader:true,slots:[\"c0\",\"c1\",\"c2\"]}}
         {paused}
         0   1 invoke acquire a {{ttl_ms:2000}}
         10  1 ok     acquire a {{granted_by:[\"n1\"]}}
         190 2 invoke acquire a {{ttl_ms:2000}}
         200 2 ok     acquire a {{granted_by:[\"n2\"]}}"
    );
    let all = events(&in_order(&history));
    let run = RunIndex::new(&all).unwrap();
    let by_leader = |until_ms: u64| {
        let ends = possible_ends(&run.setting(), &run.holds, &run.holds[0], (u64::MAX, until_ms * MS));
        ends.into_iter().filter(|end| end.events == [run.holds[1].from]).count()
    };
    assert_eq!([199, 200, 201].map(by_leader), [0, 1, 1]);
}

#[test]
fn a_library_that_promised_to_report_a_loss_and_never_did_is_to_blame_once_no_fault_hinders_it() {
    let stopped = |until: u64| fault("\"stops\"", "", "\"c1\"", (2000, until));
    let whose = |text: &str| last_overlap(text).1;
    // It ran again from 7.5 s on, and believed at 14 s still.
    let text = format!("{}\n{}", PARTED_LEADER.replace("12000 1 invoke", "14000 1 invoke"), stopped(7480));
    let text = text.replace("12010 1 ok", "14010 1 ok");
    assert_eq!(whose(&text), Whose::Library);
    assert_eq!(whose(&text.replace("can:[\"lost\"]", "can:[]")), Whose::NoFence, "it promised nothing");
    let soon = text.replace("14000 1 invoke", "12900 1 invoke").replace("14010 1 ok", "12910 1 ok");
    assert_eq!(whose(&soon), Whose::NoFence, "it may rest for as long as it was stopped");
    let later = fault("\"stops\"", "", "\"c1\"", (11000, 12000)).replace("id:1", "id:2");
    assert_eq!(whose(&format!("{text}\n{later}")), Whose::NoFence, "it was stopped once more");
}

#[test]
fn permits_that_the_servers_lost_make_room_for_those_that_they_gave_afterwards() {
    // Processes 1 and 2 before the server lost its memory, if it did, and 3 and 4 after it.
    let acquired = |process: u64, at: u64| {
        format!(
            "{at} {process} invoke acquire a {{ttl_ms:9000,capacity:3}}\n{} {process} ok acquire a\n",
            at + 10
        )
    };
    let used = |process: u64, at: u64| {
        format!("{at} {process} invoke write a 1\n{} {process} ok write a 1\n", at + 1)
    };
    let grants: String =
        [(1, 100), (2, 200), (3, 2100), (4, 2200)].map(|(who, at)| acquired(who, at)).concat();
    let uses: String = [1, 2, 3, 4].map(|process| used(process, 3000 + 10 * process)).concat();
    let text = in_order(&format!("{ONE_SERVER}\n{grants}{uses}"));
    let lost = fault("\"forgets\"", "", "\"n1\"", (1000, 2000));
    assert_eq!(last_overlap(&text), twice(Whose::Library));
    assert_eq!(last_overlap(&in_order(&format!("{text}\n{lost}"))), twice(Whose::Service));
    // Of what it gave afterwards alone there are too many.
    let more: String = [(5, 2300), (6, 2400)].map(|(who, at)| acquired(who, at)).concat();
    let text = format!("{text}\n{more}{}{}", used(5, 3050), used(6, 3060));
    assert_eq!(last_overlap(&in_order(&format!("{text}\n{lost}"))), twice(Whose::Library));
    // A permit that was given back beside another was its own.
    let given_back = "\n300 1 invoke release a\n310 1 ok release a {removed:true,believed:true}";
    let grants: String =
        [(1, 100), (2, 200), (3, 2100), (4, 2200), (5, 2300)].map(|(who, at)| acquired(who, at)).concat();
    let uses: String = [2, 3, 4, 5].map(|process| used(process, 3000 + 10 * process)).concat();
    let text = format!("{ONE_SERVER}\n{grants}{uses}{given_back}\n{lost}");
    assert_eq!(last_overlap(&in_order(&text)), twice(Whose::Service));
}
