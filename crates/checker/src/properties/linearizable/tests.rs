use super::*;
use crate::ledger::Class;
use crate::literal::{events, maybe_verdict, verdict};
use crate::properties::exclusion::overlaps;
use proptest::prelude::*;
use serde_json::json;

fn outcome(text: &str) -> Outcome {
    verdict(&Linearizable, text).outcome
}

/// Process 2 is granted the lock while the lease of process 1 runs, and process 1 goes on.
const GRANTED_TWICE: &str = "
    0   1 invoke acquire a {ttl_ms:2000}
    10  1 ok     acquire a
    20  2 invoke acquire a {ttl_ms:2000}
    30  2 ok     acquire a
    40  1 invoke holds   a
    50  1 ok     holds   a true";

#[test]
fn rejects_a_lock_that_was_granted_twice() {
    let verdict = verdict(&Linearizable, GRANTED_TWICE);
    assert_eq!(verdict.outcome, Outcome::Violation);
    let finding = &verdict.findings[0];
    assert_eq!(finding.repeats.as_deref(), Some("exclusion"));
    assert_eq!(finding.events, [1, 3, 4]);
    assert_eq!(
        finding.sentence,
        "the lock a: process 2 was granted the lock by 0.030 s, although process 1, which had been granted it by \
         0.010 s, certainly held it until 0.040 s"
    );
    let evidence = finding.evidence.as_ref().expect("operations that have no order");
    assert_eq!((evidence.operations.len(), evidence.start.as_str()), (4, "free"));
}

#[test]
fn accepts_holds_that_end_without_a_sign() {
    // Never used again, crashed, notified of the loss: the holder shows no belief after the other grant.
    assert_eq!(outcome(&GRANTED_TWICE.replace("holds   a true", "holds   a false")), Outcome::Valid);
    assert_eq!(
        outcome(&GRANTED_TWICE.replace("50  1 ok     holds   a true", "50  1 info   holds   a")),
        Outcome::Valid
    );
    let lost = GRANTED_TWICE.replace("20  2 invoke", "15  1 info lost a\n20  2 invoke");
    assert_eq!(outcome(&lost), Outcome::Valid);
}

#[test]
fn a_holder_that_overstays_does_not_break_the_lock() {
    let late = GRANTED_TWICE.replace("ttl_ms:2000", "ttl_ms:5");
    assert_eq!(outcome(&late), Outcome::Valid);
    let events = events(&late);
    assert_eq!(overlaps(&RunIndex::new(&events).unwrap())[0].class, Class::Overstayed);
    // A lease that was renewed in time still ran, and one that was renewed too late may have run out.
    let renewed =
        |at: u32| late.replace("10  1 ok     acquire a", &format!("3 1 ok acquire a\n{at} 1 info renewed a"));
    assert_eq!(outcome(&renewed(4).replace("ttl_ms:5", "ttl_ms:30")), Outcome::Violation);
    assert_eq!(outcome(&renewed(19)), Outcome::Valid);
}

#[test]
fn a_fault_may_end_a_connection_and_nothing_else_does() {
    let with = |lease: &str, fault: &str| {
        let lock = format!("0 nemesis info lock - {{name:\"x\",lease:\"{lease}\"}}");
        let text = GRANTED_TWICE.replace("ttl_ms:2000", "ttl_ms:5");
        outcome(&(lock + &text.replace("20  2 invoke", &format!("{fault}\n20  2 invoke"))))
    };
    let kill = "15 nemesis invoke kill - {id:1,stage:\"inject\",targets:[\"n1\"]}";
    assert_eq!(with("connection", kill), Outcome::Valid);
    assert_eq!(with("connection", ""), Outcome::Violation);
    assert_eq!(with("none", kill), Outcome::Violation);
    assert_eq!(with("ttl", ""), Outcome::Valid);
}

#[test]
fn nothing_is_concluded_from_indeterminate_acquires_and_refused_writes() {
    let unknown = GRANTED_TWICE.replace("10  1 ok     acquire a", "10  1 info   acquire a null timeout");
    assert_eq!(outcome(&unknown.replace("holds   a true", "holds   a false")), Outcome::Valid);
    let refused = GRANTED_TWICE
        .replace("invoke holds   a", "invoke write a 1")
        .replace("50  1 ok     holds   a true", "50  1 fail write a null gave-up: its clock said so");
    assert_eq!(outcome(&refused), Outcome::Valid);
    assert_eq!(outcome(&refused.replace("gave-up", "rejected: made-up-code")), Outcome::Violation);
}

#[test]
fn those_that_share_hold_it_together() {
    let shared = GRANTED_TWICE.replace("{ttl_ms:2000}", "{ttl_ms:2000,mode:\"shared\"}");
    assert_eq!(outcome(&shared), Outcome::Valid);
    assert_eq!(outcome(&shared.replacen("\"shared\"", "\"exclusive\"", 1)), Outcome::Violation);
}

#[test]
fn a_lock_that_claims_nothing_is_not_judged() {
    let claims_nothing = GRANTED_TWICE.replace("ok     acquire a", "ok acquire a {exclusive:false}");
    assert!(maybe_verdict(&Linearizable, &claims_nothing).is_none());
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
    let verdict = verdict(&Linearizable, &stale);
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
    assert!(maybe_verdict(&Linearizable, &stale.replace("\"register\"", "\"replicas\"")).is_none());
    let killed = format!("{stale}\n9 nemesis invoke kill - {{id:1,stage:\"inject\",targets:[\"storage\"]}}");
    assert!(maybe_verdict(&Linearizable, &killed).is_none());
}

proptest! {
    /// Whatever happens, it finds only what `exclusion` has found to be the service's fault.
    #[test]
    fn a_lock_has_no_order_only_where_it_was_granted_twice(
        steps in prop::collection::vec((0..4_u64, 0..6_u8, any::<bool>(), 0..4_u64), 0..60),
    ) {
        let events = lock_events(&steps);
        let run = RunIndex::new(&events).unwrap();
        let twice = overlaps(&run).iter().any(|overlap| overlap.class == Class::GrantedTwice);
        let broken = Linearizable.check(&run).is_ok_and(|verdict| verdict.outcome == Outcome::Violation);
        prop_assert!(!broken || twice, "{events:?}");
        // Without renewals that come late, it is the same question.
        let renewed = events.iter().any(|event| event.f == f::RENEWED);
        prop_assert!(renewed || broken == twice, "{events:?}");
    }
}

/// A history of one lock from a list of choices: the process, what it does, how that ends, and the time that
/// passes.
fn lock_events(steps: &[(u64, u8, bool, u64)]) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut open: FxHashMap<u64, &'static str> = FxHashMap::default();
    let mut time = 0;
    for &(process, what, flag, passes) in steps {
        time += passes;
        let (kind, name, value) = match (open.remove(&process), what) {
            (open_now, 5) => {
                if let Some(name) = open_now {
                    open.insert(process, name);
                }
                (Kind::Info, if flag { f::LOST } else { f::RENEWED }, json!({"age_ms": passes}))
            }
            (Some(f::HOLDS), _) => (Kind::Ok, f::HOLDS, json!(flag)),
            (Some(f::RELEASE), _) => (Kind::Ok, f::RELEASE, json!({"believed": flag})),
            (Some(name), _) => (if flag { Kind::Ok } else { Kind::Fail }, name, Value::Null),
            (None, what) => {
                let name = [f::ACQUIRE, f::ACQUIRE, f::HOLDS, f::HOLDS, f::RELEASE][usize::from(what)];
                open.insert(process, name);
                (Kind::Invoke, name, json!({"ttl_ms": 12}))
            }
        };
        let (index, process) = (events.len() as u64, fencepost_history::Process::Client(process));
        let (f, key, time) = (name.into(), Some("a".into()), time * 1_000_000);
        events.push(Event { index, time, process, kind, f, key, value: value.into(), error: None });
    }
    events
}
