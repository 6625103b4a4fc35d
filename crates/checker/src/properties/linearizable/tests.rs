use super::*;
use crate::testing::literal::{maybe_verdict, verdict};
use crate::verdict::Outcome;

fn outcome(text: &str) -> Outcome {
    verdict(&LINEARIZABLE, text).outcome
}

/// A register that process 1 writes and process 2 reads.
const REGISTER: &str = "
    0   nemesis info storage - \"register\"
    1   1 invoke write a 1
    2   1 ok     write a 1
    3   2 invoke read  a
    4   2 ok     read  a 1
    5   1 invoke write a 2
    6   1 ok     write a 2
    7   2 invoke read  a
    8   2 ok     read  a 2";

#[test]
fn accepts_a_storage_that_returns_what_was_written() {
    assert_eq!(outcome(REGISTER), Outcome::Valid);
    assert_eq!(
        outcome(
            &REGISTER.replace(
                "1   1 invoke write a 1",
                "0 2 invoke read a\n0 2 ok read a 0\n1   1 invoke write a 1"
            )
        ),
        Outcome::Valid
    );
    // It may have been written at any time since.
    assert_eq!(
        outcome(&REGISTER.replace("6   1 ok     write a 2", "6 1 info write a null timeout")),
        Outcome::Valid
    );
    let lists = REGISTER
        .replace("a 1", "a [1]")
        .replace("a 2", "a [1,2]")
        .replace("ok     write a [1,2]", "ok write a 2");
    assert_eq!(outcome(&lists), Outcome::Valid);
}

#[test]
fn rejects_a_storage_that_forgets_a_write() {
    let stale = REGISTER.replace("8   2 ok     read  a 2", "8 2 ok read a 1");
    let verdict = verdict(&LINEARIZABLE, &stale);
    assert_eq!(verdict.outcome, Outcome::Violation);
    assert_eq!(
        (verdict.findings[0].class.as_str(), &verdict.findings[0].repeats),
        ("storage-without-order", &None)
    );
    assert!(verdict.findings[0].events.contains(&8), "{:?}", verdict.findings[0]);
    let never = REGISTER.replace("6   1 ok     write a 2", "6 1 fail write a null rejected: stale-token");
    assert_eq!(outcome(&never), Outcome::Violation);
}

#[test]
fn a_storage_that_is_no_register_is_not_judged() {
    let stale = REGISTER.replace("8   2 ok     read  a 2", "8 2 ok read a 1");
    assert!(maybe_verdict(&LINEARIZABLE, &stale.replace("\"register\"", "\"replicas\"")).is_none());
    let killed = format!("{stale}\n9 nemesis invoke kill - {{id:1,stage:\"inject\",targets:[\"storage\"]}}");
    assert!(maybe_verdict(&LINEARIZABLE, &killed).is_none());
}
