use super::*;
use crate::testing::literal::{maybe_verdict, verdict};
use crate::verdict::Outcome;
use proptest::prelude::*;

const LOCK: &str =
    "0 nemesis info lock - {name:\"x\",kind:\"reentrant\",lease:\"ttl\",can:[\"reentrant\",\"validity\"]}\n";

/// Process 1 acquires at 10 ms, again at 20 ms, and releases once at 40 ms, which is answered with `left`.
fn nested(left: &str, then: &str) -> String {
    format!(
        "{LOCK}
         10 1 invoke acquire a {{ttl_ms:1000}}\n12 1 ok acquire a {{validity_ms:998,waited_ms:2}}
         20 1 invoke reenter a {{ttl_ms:1000}}\n22 1 ok reenter a {{validity_ms:998}}
         40 1 invoke leave a\n42 1 ok leave a {{believed:true,removed:{left}}}
         {then}"
    )
}

const RELEASED: &str = "90 1 invoke release a\n92 1 ok release a {believed:true,removed:true}\n";

fn class(text: &str) -> String {
    let verdict = verdict(&REENTRY, text);
    assert_eq!(verdict.outcome, Outcome::Violation, "{}", verdict.summary);
    verdict.findings[0].class.clone()
}

#[test]
fn accepts_a_lock_that_is_held_until_its_last_release() {
    let next = "100 2 invoke acquire a {ttl_ms:1000}\n103 2 ok acquire a";
    let verdict = verdict(&REENTRY, &nested("false", &format!("{RELEASED}{next}")));
    assert_eq!((verdict.outcome, &verdict.stats["reentries"]), (Outcome::Valid, &1.into()));
}

#[test]
fn rejects_an_inner_release_that_removes_the_lock() {
    let verdict = verdict(&REENTRY, &nested("true", RELEASED));
    assert_eq!(
        verdict.findings[0].sentence,
        "process 1 acquired a at 0.012 s, and again at 0.020 s; its release of the inner section at 0.040 s removed the \
         lock, before it had released the outer one"
    );
    assert_eq!(verdict.findings[0].class, TOO_EARLY);
}

#[test]
fn rejects_a_grant_to_another_after_an_inner_release() {
    let other = "50 2 invoke acquire a {ttl_ms:1000}\n55 2 ok acquire a\n";
    let early = nested("null", &format!("{other}{RELEASED}"));
    let verdict = verdict(&REENTRY, &early);
    assert_eq!(
        verdict.findings[0].sentence,
        "process 2 was granted a at 0.055 s after process 1 had released an inner section at 0.040 s, and before that process, \
         which still believed at 0.090 s that it held the lock, had released the outer one"
    );
    // What removed it may have been the release of another, or a fault that made the servers forget.
    let blind = "44 3 invoke release a\n45 3 ok release a {removed:true,removed_owner:1}\n";
    let removed = nested("null", &format!("{blind}{other}{RELEASED}"));
    assert!(verdict_is_valid(&removed));
    let killed = "43 nemesis invoke kill - {id:1,stage:\"inject\",targets:[\"n1\"],description:{keeps_memory:false,effects:[\"forgets\"]}}\n\
                  44 nemesis ok kill - {id:1,stage:\"inject\",targets:[\"n1\"],effective:true,description:{keeps_memory:false,effects:[\"forgets\"]}}\n";
    let servers = "0 nemesis info servers - [\"n1\"]\n";
    let forgot = format!("{servers}{}", nested("null", &format!("{killed}{other}{RELEASED}")));
    assert!(verdict_is_valid(&forgot));
}

fn verdict_is_valid(text: &str) -> bool {
    verdict(&REENTRY, text).outcome == Outcome::Valid
}

#[test]
fn a_grant_to_another_before_the_inner_release_is_not_of_it() {
    let early = nested("null", RELEASED)
        .replace("40 1 invoke", "30 2 invoke acquire a {ttl_ms:1000}\n35 2 ok acquire a\n40 1 invoke");
    assert!(verdict_is_valid(&early));
}

/// Attempts of process 2 from just before the last release was answered, each refused, and a grant at last.
fn refused_until(granted_ms: u64) -> String {
    let attempt = |at_ms: u64| {
        let ended_ms = at_ms + 49;
        format!(
            "{at_ms} 2 invoke acquire a {{ttl_ms:1000}}\n{ended_ms} 2 fail acquire a null taken: another client holds the lock\n"
        )
    };
    let refused: String = (63..granted_ms - 50).step_by(50).map(attempt).collect();
    format!("{refused}{granted_ms} 2 invoke acquire a {{ttl_ms:1000}}\n{} 2 ok acquire a", granted_ms + 1)
}

#[test]
fn rejects_a_lock_that_stays_until_its_lease_is_over() {
    let quiet = RELEASED.replace("removed:true", "removed:null");
    let late = nested("null", &format!("{quiet}{}", refused_until(1100)));
    assert_eq!(class(&late), TOO_LATE);
    // Or it was granted before that, or a fault was there.
    let soon = nested("null", &format!("{quiet}{}", refused_until(300)));
    assert!(verdict_is_valid(&soon));
    let fault = "5 nemesis invoke pause - {id:1,stage:\"inject\",targets:[\"n1\"]}\n";
    assert!(verdict_is_valid(&late.replace("10 1 invoke", &format!("{fault}10 1 invoke"))));
    // One entry was not released: the lock is right to stay.
    let kept = late.replace("40 1 invoke leave a\n42 1 ok leave a {believed:true,removed:null}", "");
    assert!(verdict_is_valid(&kept));
}

#[test]
fn rejects_a_last_release_that_says_that_it_removed_nothing() {
    let late = nested("false", &RELEASED.replace("removed:true", "removed:false"));
    assert_eq!(class(&late), TOO_LATE);
    // Its lease was over by then.
    let over = late.replace("90 1", "1090 1").replace("92 1", "1092 1");
    assert!(verdict_is_valid(&over));
}

#[test]
fn rejects_a_holder_that_is_shut_out() {
    let refused =
        nested("null", RELEASED).replace("ok reenter a {validity_ms:998}", "fail reenter a null taken: x");
    assert_eq!(class(&refused), SHUT_OUT);
    let after_another =
        refused.replace("20 1 invoke", "15 2 invoke acquire a {ttl_ms:1000}\n16 2 ok acquire a\n20 1 invoke");
    assert_eq!(maybe_verdict(&REENTRY, &after_another).map(|it| it.findings.len()), None);
}

#[test]
fn a_run_in_which_no_holder_acquires_again_is_not_judged() {
    let text = format!("{LOCK}10 1 invoke acquire a {{ttl_ms:1000}}\n12 1 ok acquire a\n{RELEASED}");
    assert!(maybe_verdict(&REENTRY, &text).is_none());
}

/// Three processes use a lock that counts, or one whose every release removes it: each step is a process that
/// goes in or out. Gives the history, and whether an inner release ended a hold, by following each.
fn played(steps: &[(u64, bool)], counts: bool) -> (String, bool) {
    let (mut text, mut is_early) = (LOCK.to_owned(), false);
    let mut holder: Option<(u64, u32)> = None;
    // How often each process has to release.
    let mut depths = [0_u32; 4];
    for (at, &(process, enters)) in steps.iter().enumerate() {
        let (at_ms, depth) = (10 + 2 * at, depths[process as usize]);
        let is_own = holder.is_some_and(|(own, _)| own == process);
        let mut say = |f: &str, kind: &str, value: &str| {
            text += &format!(
                "{at_ms} {process} invoke {f} a {{ttl_ms:90000}}\n{at_ms} {process} {kind} {f} a {value}\n"
            );
        };
        match (enters, depth) {
            (true, 0) if holder.is_none() => {
                (holder, depths[process as usize]) = (Some((process, 1)), 1);
                say("acquire", "ok", "{validity_ms:90000}");
            }
            (true, 0) => say("acquire", "fail", "null taken"),
            (true, _) if is_own => {
                holder = holder.map(|(own, count)| (own, count + 1));
                depths[process as usize] += 1;
                say("reenter", "ok", "{validity_ms:90000}");
            }
            (true, _) => say("reenter", "fail", "null not-held"),
            (false, 0) => {}
            (false, depth) => {
                let f = if depth > 1 { "leave" } else { "release" };
                depths[process as usize] -= 1;
                let removes = is_own && (!counts || holder.is_some_and(|(_, count)| count == 1));
                is_early |= removes && depth > 1;
                holder = match holder {
                    Some((own, _)) if own == process && removes => None,
                    Some((own, count)) if own == process => Some((own, count - 1)),
                    other => other,
                };
                let kind = if is_own { "ok" } else { "fail" };
                let error = if is_own { "" } else { "not-held" };
                say(f, kind, &format!("{{believed:true,removed:{removes}}} {error}"));
            }
        }
    }
    (text, is_early)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn finds_what_following_every_process_finds(
        steps in prop::collection::vec((1..4_u64, prop::bool::weighted(0.6)), 0..40),
        counts: bool,
    ) {
        let (text, is_early) = played(&steps, counts);
        prop_assert!(!(counts && is_early));
        let verdict = maybe_verdict(&REENTRY, &text);
        let found = verdict.is_some_and(|verdict| verdict.outcome == Outcome::Violation);
        prop_assert_eq!(found, is_early, "{}", text);
    }
}
