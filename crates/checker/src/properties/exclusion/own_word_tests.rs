//! What a library says of its lease: how long it is still valid, when it looked, and what it prolonged.

use super::*;
use crate::testing::literal::verdict;

/// Process 1 waits for two seconds; its library says that the lease began with the attempt that was granted.
const WAITED: &str = "
    0    nemesis info lock - {name:\"x\",lease:\"ttl\"}
    0    1 invoke acquire a {ttl_ms:2000}
    2010 1 ok     acquire a {validity_ms:1990}
    3000 2 invoke acquire a {ttl_ms:2000}
    3010 2 ok     acquire a {validity_ms:1990}
    3500 1 invoke release a
    3510 1 ok     release a {believed:true}
    3600 2 invoke release a
    3610 2 ok     release a {believed:true}";

#[test]
fn a_lease_begins_with_the_attempt_that_was_granted_by_the_librarys_own_word() {
    let class = |text: &str| verdict(&EXCLUSION, text).findings[0].class.clone();
    assert_eq!(class(WAITED), "granted-twice");
    // Without its word, the whole wait may have been part of the lease.
    assert_eq!(class(&WAITED.replace(" {validity_ms:1990}", "")), "overstayed");
    // Nor does it count where the answer was held back, or the clock moved: then it says nothing of when the
    // attempt began.
    let fault = |at_ms: u64, before: &str, description: &str| {
        let inject = format!(r#"id:1,stage:"inject",targets:["c1"],description:{{{description}}}"#);
        let begun = format!("{at_ms} nemesis invoke x - {{{inject}}}");
        let done = format!("{} nemesis ok x - {{{inject},effective:true}}", at_ms + 10);
        WAITED.replacen(before, &format!("{begun}\n    {done}\n    {before}"), 1)
    };
    assert_eq!(class(&fault(100, "2010 1", "")), "overstayed");
    assert_eq!(class(&fault(100, "2010 1", "moves_clocks:true")), "overstayed");
    // A clock that moves only once the lock was granted makes nothing wrong that was said before.
    assert_eq!(class(&fault(2020, "3000 2", "moves_clocks:true")), "granted-twice");
    // Over when the other got it, or nearly: the answer may have been under way for a while.
    assert_eq!(class(&WAITED.replace("3010 2 ok", "3499 2 ok")), "granted-twice");
    assert_eq!(
        class(
            &WAITED
                .replace("ttl_ms:2000", "ttl_ms:1500")
                .replace("1990", "1490")
                .replace("3010 2 ok", "3499 2 ok")
        ),
        "overstayed"
    );
}

/// Process 1 is late, and its renewal prolongs what is process 2's by then.
const PROLONGED: &str = "
    0    nemesis info lock - {name:\"x\",lease:\"ttl\"}
    0    1 invoke acquire a {ttl_ms:1000}
    10   1 ok     acquire a {validity_ms:990}
    1500 2 invoke acquire a {ttl_ms:1000}
    1510 2 ok     acquire a {validity_ms:990}
    1710 1 info   renewed a {age_ms:10}
    1800 1 invoke release a
    1810 1 ok     release a {believed:true}
    1900 2 invoke release a
    1910 2 ok     release a {believed:true}";

#[test]
fn a_renewal_that_succeeds_beside_another_holder_is_a_second_grant() {
    let class = |text: &str| verdict(&EXCLUSION, text).findings[0].class.clone();
    assert_eq!(class(PROLONGED), "granted-twice");
    let sentence = verdict(&EXCLUSION, PROLONGED).findings[0].sentence.clone();
    assert!(sentence.contains("asked for at 1.700 s, while process 2 held it, succeeded"), "{sentence}");
    // Without it, or asked for before the other grant, process 1 was late.
    assert_eq!(class(&PROLONGED.replace("1710 1 info   renewed a {age_ms:10}\n", "")), "overstayed");
    assert_eq!(class(&PROLONGED.replace("age_ms:10", "age_ms:300")), "overstayed");
    // At the same time as its answer, it may have come before.
    assert_eq!(class(&PROLONGED.replace("age_ms:10", "age_ms:200")), "overstayed");
    // So was it where process 2 may have had no lease any more, or may have let go.
    let late =
        PROLONGED.replace("1710 1 info", "2400 1 info").replace("1800", "2500").replace("1810", "2510");
    let late = late.replace("1900 2", "2600 2").replace("1910 2", "2610 2");
    assert_eq!(class(&late.replace("2400", "2510")), "overstayed");
}

/// As [`WAITED`], with a short lease.
const WAITED_FOR_A_SHORT_ONE: &str = "
    0    nemesis info lock - {name:\"x\",lease:\"ttl\"}
    0    1 invoke acquire a {ttl_ms:500}
    2010 1 ok     acquire a {validity_ms:490,waited_ms:2008}
    2300 2 invoke acquire a {ttl_ms:500}
    2400 2 ok     acquire a {validity_ms:400,waited_ms:99}
    2500 1 invoke release a
    2510 1 ok     release a {believed:true}
    2600 2 invoke release a
    2610 2 ok     release a {believed:true}";

#[test]
fn the_doubt_in_a_librarys_word_is_how_late_the_answers_of_this_run_were() {
    let class = |text: &str| verdict(&EXCLUSION, text).findings[0].class.clone();
    assert_eq!(class(WAITED_FOR_A_SHORT_ONE), "granted-twice");
    assert_eq!(class(&WAITED_FOR_A_SHORT_ONE.replace("2400 2 ok", "2487 2 ok")), "granted-twice");
    assert_eq!(class(&WAITED_FOR_A_SHORT_ONE.replace("2400 2 ok", "2490 2 ok")), "overstayed");
    // Both releases took 0.01 s. On a machine that was slower the answer may have been under way for longer.
    let slow = "\n    2700 2 invoke read a\n    2820 2 ok read a 0";
    assert_eq!(class(&format!("{WAITED_FOR_A_SHORT_ONE}{slow}")), "overstayed");
    // A client that does not say when it looked did so before its answer came.
    let silent = WAITED_FOR_A_SHORT_ONE.replace(",waited_ms:2008", "");
    assert_eq!(class(&silent), "granted-twice");
    assert_eq!(class(&format!("{silent}{slow}")), "overstayed");
    // An answer that was long under way says no more than its client does.
    assert_eq!(class(&WAITED_FOR_A_SHORT_ONE.replace("waited_ms:2008", "waited_ms:1900")), "overstayed");
}

/// The library asked for 0.3 s, says that the whole TTL is left, and goes on by its own word.
const WHOLE_TTL_LEFT: &str = "
    0   nemesis info lock - {name:\"x\",lease:\"ttl\"}
    0   1 invoke acquire a {ttl_ms:500}
    302 1 ok     acquire a {validity_ms:500,waited_ms:300}
    400 2 invoke acquire a {ttl_ms:500}
    600 2 ok     acquire a {validity_ms:400,waited_ms:199}
    700 1 invoke release a
    710 1 ok     release a {believed:true}";

#[test]
fn a_library_that_says_that_its_whole_ttl_is_left_is_held_to_it() {
    let finding = |text: &str| verdict(&EXCLUSION, text).findings[0].clone();
    let found = finding(WHOLE_TTL_LEFT);
    assert_eq!(found.class, "granted-twice");
    assert!(
        found.sentence.ends_with("to run by the validity that its library reported"),
        "{}",
        found.sentence
    );
    assert_eq!(finding(&WHOLE_TTL_LEFT.replace(",waited_ms:300", "")).class, "overstayed");
    // Late packets change nothing of what the client saw; one that was stopped may have looked long before.
    let beside = |fault: &str| {
        let nodes = "0 nemesis info nodes - {slots:[\"c0\",\"c1\",\"c2\"]}";
        let fault = format!("0 nemesis ok {fault} - {{stage:\"inject\",id:1,targets:[\"c1\"],effective:true");
        WHOLE_TTL_LEFT.replace("0   1 invoke", &format!("{nodes}\n    {fault}}}\n    0   1 invoke"))
    };
    assert_eq!(finding(&beside("delay")).class, "granted-twice");
    let stops = "effective:true,description:{takes_down:true}";
    assert_eq!(finding(&beside("pause").replace("effective:true", stops)).class, "overstayed");
}
