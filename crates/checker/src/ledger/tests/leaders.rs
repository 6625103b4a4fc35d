//! Grants of one leader and of another.

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
