//! Locks that come free, that come free late, and that stay stuck.

use super::*;
use crate::testing::literal::{maybe_verdict, verdict};

const HEALED: &str = "
    0    1 invoke acquire a {ttl_ms:2000}
    1    1 ok     acquire a
    5000 nemesis info phase - \"heal\"
    5001 2 invoke acquire a {ttl_ms:2000}
    6001 2 fail   acquire a null taken
    8000 nemesis info phase - \"closing\"
    8001 3 invoke acquire a {ttl_ms:2000}
    9001 3 ok     acquire a";

#[test]
fn accepts_a_lock_that_comes_free() {
    assert_eq!(verdict(&PROGRESS, HEALED).outcome, Outcome::Valid);
}

#[test]
fn rejects_a_lock_that_stays_stuck() {
    let stuck = verdict(&PROGRESS, &HEALED.replace("3 ok     acquire a", "3 fail acquire a null taken"));
    assert_eq!(stuck.outcome, Outcome::Violation);
    // The attempt right after healing does not count: the TTL of the first holder may still have run.
    assert_eq!(stuck.findings[0].events, [6]);
}

#[test]
fn a_call_that_was_given_up_is_named() {
    let given_up =
        "2 4 invoke acquire a {ttl_ms:2000}\n3 4 info acquire a null cancelled: CancelledError\n5000 nem";
    let text = HEALED.replacen("5000 nem", given_up, 1);
    assert_eq!(verdict(&PROGRESS, &text).outcome, Outcome::Valid);
    let stuck = verdict(&PROGRESS, &text.replace("3 ok     acquire a", "3 fail acquire a null taken"));
    let named = "; the last call that its caller gave up was the acquire of process 4, at 0.002 s";
    assert!(stuck.findings[0].sentence.ends_with(named), "{}", stuck.findings[0].sentence);
}

/// Acquired and released after healing, and taken for good since.
const LEFT_TAKEN: &str = "
    0    nemesis info phase - \"liveness\"
    1000 1 invoke acquire a {ttl_ms:2000}
    1010 1 ok     acquire a
    1100 1 invoke release a
    1110 1 ok     release a {believed:true}
    4000 nemesis info phase - \"closing\"
    4001 2 invoke acquire a {ttl_ms:2000,timeout_ms:9000}
    13001 2 fail  acquire a null taken";

#[test]
fn the_closing_attempts_decide() {
    let stuck = verdict(&PROGRESS, LEFT_TAKEN);
    assert_eq!((stuck.outcome, &stuck.findings[0].events[..]), (Outcome::Violation, &[6][..]));
    let outcome =
        |by: &str| verdict(&PROGRESS, &LEFT_TAKEN.replace("13001 2 fail  acquire a null taken", by)).outcome;
    // Refused no longer than a TTL may run, or by a client that reaches nothing: then what came before
    // counts.
    assert_eq!(outcome("5001 2 fail acquire a null taken"), Outcome::Valid);
    assert_eq!(outcome("13001 2 fail acquire a null unreachable"), Outcome::Valid);
    assert_eq!(outcome("13001 2 info acquire a null timeout"), Outcome::Valid);
    let final_grant =
        "13001 2 fail acquire a null taken\n13002 3 invoke acquire a {ttl_ms:2000}\n13003 3 ok acquire a";
    // Granted in the end, and long after it had to be free.
    let late = verdict(&PROGRESS, &LEFT_TAKEN.replace("13001 2 fail  acquire a null taken", final_grant));
    assert_eq!((late.outcome, &*late.findings[0].class), (Outcome::Violation, "late"));
    assert_eq!(
        late.summary,
        "at the end of the run, no process held a and processes tried to acquire it from 4.001 s on, and it was granted 9.001 s \
         later; the last grant before went to process 1, at 1.010 s, which released it"
    );
    // A lock that stays taken for a while after a loss came when it had to.
    let delay = "0 nemesis info lock - {name:\"chubby\",lease:\"ttl\",lock-delay:\"10s\"}\n";
    let delayed = delay.to_owned() + &LEFT_TAKEN.replace("13001 2 fail  acquire a null taken", final_grant);
    assert_eq!(verdict(&PROGRESS, &delayed).outcome, Outcome::Valid);
    let soon = "8001 2 fail acquire a null taken\n8002 3 invoke acquire a {ttl_ms:2000}\n8003 3 ok acquire a";
    assert_eq!(outcome(soon), Outcome::Valid);
    // It may have been granted at once, and the answer late; with what remains of the TTL it is known.
    let waited = |validity: &str| {
        let lock = "0 nemesis info lock - {name:\"x\",lease:\"ttl\"}\n";
        let granted = format!("13001 2 ok acquire a {validity}");
        verdict(
            &PROGRESS,
            &format!("{lock}{}", LEFT_TAKEN.replace("13001 2 fail  acquire a null taken", &granted)),
        )
        .outcome
    };
    assert_eq!([waited(""), waited("{validity_ms:1990}")], [Outcome::Valid, Outcome::Violation]);
}

#[test]
fn does_not_know_of_a_lock_that_no_process_ever_got_and_no_server_ever_refused() {
    let never = |error: &str| {
        let first = HEALED.replace("1    1 ok     acquire a", &format!("1 1 fail acquire a null {error}"));
        let text = first.replace("null taken", &format!("null {error}"));
        verdict(&PROGRESS, &text.replace("3 ok     acquire a", &format!("3 fail acquire a null {error}")))
            .outcome
    };
    assert_eq!(never("taken"), Outcome::Violation);
    assert_eq!(never("timeout: etcd did not answer in time"), Outcome::Unknown);
}

#[test]
fn does_not_know_where_the_last_attempts_are_of_unknown_outcome() {
    let text = HEALED.replace("3 ok     acquire a", "3 info   acquire a null raised: reset");
    let text = text.replace("6001 2 fail   acquire a null taken", "6001 2 info acquire a null raised: reset");
    let verdict = verdict(&PROGRESS, &text);
    assert_eq!(verdict.outcome, Outcome::Unknown);
    assert!(verdict.summary.ends_with("the last ended with: raised: reset"), "{}", verdict.summary);
}

#[test]
fn a_server_that_came_back_at_the_last_try_and_a_fault_that_failed_halfway() {
    let stuck = HEALED.replace("3 ok     acquire a", "3 fail acquire a null taken");
    let faults = "0 nemesis invoke kill - {id:1,stage:\"inject\",targets:[\"n1\"]}
         1 nemesis ok kill - {id:1,stage:\"inject\",effective:true}
         2 nemesis invoke kill - {id:1,stage:\"heal\"}
         3 nemesis info server-ended - {node:\"n1\",after_fault:1,log:[]}";
    let back = format!("{faults}\n4 nemesis ok kill - {{id:1,stage:\"heal\"}}\n{stuck}");
    assert_eq!(verdict(&PROGRESS, &back).outcome, Outcome::Violation);
    assert_eq!(verdict(&PROGRESS, &format!("{faults}\n{stuck}")).outcome, Outcome::Unknown);
    let halfway = "0 nemesis invoke kill - {id:1,stage:\"inject\",targets:[\"n1\"]}
         1 nemesis info kill - {id:1,stage:\"inject\"} half
         2 nemesis invoke kill - {id:1,stage:\"heal\"}
         3 nemesis info kill - {id:1,stage:\"heal\"} failed";
    assert_eq!(verdict(&PROGRESS, &format!("{halfway}\n{stuck}")).outcome, Outcome::Unknown);
}

#[test]
fn does_not_know_where_no_attempt_was_ever_answered() {
    let later = HEALED
        .replace("2 fail   acquire a null taken", "2 fail   acquire a null unreachable")
        .replace("3 ok     acquire a", "3 fail   acquire a null unreachable");
    let never =
        verdict(&PROGRESS, &later.replace("1 ok     acquire a", "1 fail   acquire a null unreachable"));
    assert_eq!(never.outcome, Outcome::Unknown, "{}", never.summary);
    assert!(never.summary.ends_with("the last attempt ended with: unreachable"), "{}", never.summary);
    // One that was answered once had a right server.
    assert_eq!(verdict(&PROGRESS, &later).outcome, Outcome::Violation);
}

#[test]
fn does_not_know_without_healing_or_without_an_attempt() {
    let before = HEALED.split("5000").next().unwrap();
    assert_eq!(verdict(&PROGRESS, before).outcome, Outcome::Unknown);
    let untried = HEALED.split("8001").next().unwrap();
    assert_eq!(verdict(&PROGRESS, untried).outcome, Outcome::Unknown);
    let unhealed = format!(
        "0 nemesis invoke kill - {{id:1,stage:\"inject\",targets:[\"n1\"]}}
         1 nemesis ok kill - {{id:1,stage:\"inject\",effective:true}}{HEALED}"
    );
    assert!(verdict(&PROGRESS, &unhealed).summary.contains("never healed"));
}

#[test]
fn a_client_in_the_middle_of_its_script_may_still_hold_the_lock() {
    let cut = |process: u64| {
        let event =
            format!("7999 nemesis info scripts-cut-short - [{{client:\"c1\",process:{process}}}]\n8000 nem");
        HEALED.replace("8000 nem", &event)
    };
    let stuck = |process| cut(process).replace("3 ok     acquire a", "3 fail acquire a null taken");
    assert_eq!(verdict(&PROGRESS, &cut(1)).outcome, Outcome::Valid);
    assert!(maybe_verdict(&PROGRESS, &stuck(1)).is_none());
    // Process 2 was never granted the lock: it stands before it, as all others do.
    assert_eq!(verdict(&PROGRESS, &stuck(2)).outcome, Outcome::Violation);
}

#[test]
fn a_client_that_has_ended_tries_nothing() {
    let dead =
        |kind: &str| HEALED.replace("3 ok     acquire a", &format!("3 {kind} acquire a null client-gone"));
    for kind in ["fail", "info"] {
        let judged = verdict(&PROGRESS, &dead(kind));
        assert_eq!(judged.outcome, Outcome::Unknown);
        assert_eq!(judged.summary, "no process tried to acquire a once it had to be free");
    }
    let tried = "\n9002 4 invoke acquire a {ttl_ms:2000}\n9900 4 fail acquire a null taken";
    assert_eq!(verdict(&PROGRESS, &(dead("fail") + tried)).outcome, Outcome::Violation);
}

#[test]
fn no_ttl_is_named_where_there_is_none() {
    let stuck = |lease: &str| {
        let lock = format!("0 nemesis info lock - {{name:\"x\",lease:\"{lease}\"}}");
        let text = lock + &HEALED.replace("3 ok     acquire a", "3 fail acquire a null refused-by-library");
        verdict(&PROGRESS, &text).findings[0].sentence.clone()
    };
    assert_eq!(
        stuck("none"),
        "all faults were healed, yet none of 2 attempts to acquire a from 5.001 s on succeeded; the last ended with: \
         refused-by-library; the last grant before went to process 1, at 0.001 s, which never released it"
    );
    assert!(
        stuck("ttl").starts_with("all faults were healed and every TTL had passed, yet none of 1 attempts")
    );
}

#[test]
fn a_server_that_did_not_come_back_is_no_fault_of_the_lock() {
    let stuck = HEALED.replace("3 ok     acquire a", "3 fail acquire a null taken");
    let ended =
        |of: &str| format!("{stuck}\n9002 nemesis info server-ended - {{node:\"n1\",{of}log:[\"broken\"]}}");
    let unknown = verdict(&PROGRESS, &ended("after_fault:1,"));
    assert_eq!(unknown.outcome, Outcome::Unknown);
    assert!(unknown.summary.contains("its log says: broken"), "{}", unknown.summary);
    // Nor is one without a fault that ended it, or one that cannot read what it had written, excused.
    let unreadable = verdict(&PROGRESS, &ended("after_fault:1,unreadable:\"damaged\","));
    assert_eq!(unreadable.outcome, Outcome::Violation);
    let sentence = &unreadable.findings[0].sentence;
    assert!(
        sentence
            .starts_with("n1 did not serve again after the fault was healed; its log says: damaged; none of"),
        "{sentence}"
    );
    assert_eq!(verdict(&PROGRESS, &ended("")).outcome, Outcome::Violation);
    // The lock is granted again without it, and no healing could bring it back.
    let lost = |of: &str| {
        format!(
            "100 nemesis invoke kill - {{id:1,stage:\"inject\",targets:[\"n1\"],description:{{effects:[\"stops\"]}}}}
             101 nemesis ok kill - {{id:1,stage:\"inject\",targets:[\"n1\"],effective:true}}
             102 nemesis info kill - {{id:1,stage:\"heal\",targets:[\"n1\"]}}
             {HEALED}
             9002 nemesis info server-ended - {{node:\"n1\",{of}log:[\"broken\"]}}"
        )
    };
    assert_eq!(verdict(&PROGRESS, &lost("after_fault:1,")).outcome, Outcome::Unknown);
    assert_eq!(verdict(&PROGRESS, &lost("after_fault:1,unreadable:\"damaged\",")).outcome, Outcome::Valid);
    let valid = format!("{HEALED}\n9002 nemesis info server-ended - {{node:\"n1\",after_fault:1,log:[]}}");
    assert_eq!(verdict(&PROGRESS, &valid).outcome, Outcome::Valid);
}

/// Process 1 holds a lock that a session keeps, and its section was given up: no process releases it.
const GIVEN_UP: &str = "
    0    nemesis info lock - {name:\"x\",lease:\"session\"}
    0    nemesis info nodes - {slots:[\"c0\",\"c1\",\"c2\",\"c3\"]}
    1    1 invoke acquire a {ttl_ms:2000}
    2    1 ok     acquire a
    GIVE_UP
    5000 nemesis info phase - \"heal\"
    5001 2 invoke acquire a {ttl_ms:2000}
    8000 2 fail   acquire a null taken
    8001 nemesis info phase - \"closing\"
    8002 3 invoke acquire a {ttl_ms:2000}
    13000 3 fail  acquire a null taken";

const ABANDONED: &str = "2100 nemesis info section-abandoned - {process:1,key:\"a\",late_ms:120}";
const UNANSWERED: &str = "1000 1 invoke write a 1\n4000 1 info write a null timeout: no answer";

#[test]
fn a_lock_that_fencepost_keeps_taken_is_nobodys_failure() {
    let given_up = |how: &str| verdict(&PROGRESS, &GIVEN_UP.replace("GIVE_UP", how));
    for how in [ABANDONED, UNANSWERED] {
        let unknown = given_up(how);
        assert_eq!(unknown.outcome, Outcome::Unknown, "{how}");
        assert!(
            unknown.summary.starts_with(
                "no process could acquire a, but Fencepost gave up the section of process 1, which had acquired it at 0.002 s"
            ),
            "{}",
            unknown.summary
        );
    }
    // Its process went on, and did not release; or had released before.
    assert_eq!(given_up("1000 1 invoke write a 1\n4000 1 ok write a 1").outcome, Outcome::Violation);
    let released = format!("1000 1 invoke release a\n1010 1 ok release a {{believed:true}}\n{ABANDONED}");
    assert_eq!(given_up(&released).outcome, Outcome::Violation);
    // The client is gone, or a fault had parted it from the storage: then the lock has to come free.
    let gone = UNANSWERED.replace("timeout: no answer", "client-gone");
    assert_eq!(given_up(&gone).outcome, Outcome::Violation);
    let parted =
        "900 nemesis invoke x - {id:1,stage:\"inject\",targets:[\"c1\"],description:{effects:[\"parts\"]}}
         901 nemesis ok x - {id:1,stage:\"inject\",effective:true}";
    let healed = "4500 nemesis invoke x - {id:1,stage:\"heal\"}\n4501 nemesis ok x - {id:1,stage:\"heal\"}";
    assert_eq!(given_up(&format!("{parted}\n{UNANSWERED}\n{healed}")).outcome, Outcome::Violation);
}

#[test]
fn a_lease_that_ends_by_itself_ends_under_a_section_that_was_given_up() {
    let with_ttl = GIVEN_UP.replace("session", "ttl").replace("GIVE_UP", ABANDONED);
    assert_eq!(verdict(&PROGRESS, &with_ttl).outcome, Outcome::Violation);
    // Unless it is renewed for a process that is over.
    let renewed = with_ttl.replace("8002 3", "8001 1 info renewed a\n8002 3").replace("13000 3", "9000 3");
    assert_eq!(verdict(&PROGRESS, &renewed).outcome, Outcome::Unknown);
}

#[test]
fn another_lock_that_is_stuck_stays_a_violation() {
    let other = GIVEN_UP.replace("GIVE_UP", ABANDONED)
        + "\n13001 4 invoke acquire b {ttl_ms:2000}\n16000 4 fail acquire b null taken";
    let found = verdict(&PROGRESS, &other);
    assert_eq!((found.outcome, &*found.findings[0].key), (Outcome::Violation, "b"));
    assert_eq!(found.findings.len(), 1);
}
