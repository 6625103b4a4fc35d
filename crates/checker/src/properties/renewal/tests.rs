use super::*;
use crate::testing::literal::{maybe_verdict, verdict};
use crate::verdict::Outcome;

/// Renewed once, and held for six seconds with a TTL of two.
const HELD: &str = "
    0    nemesis info lock - {name:\"x\",lease:\"ttl\",can:[\"extend\",\"lost\"]}
    0    1 invoke acquire a {ttl_ms:2000}
    10   1 ok     acquire a
    1000 1 info   renewed a {age_ms:5}
    2000 1 info   renewed a {age_ms:5}
    6000 1 invoke release a
    6010 1 ok     release a {believed:true}";

#[test]
fn rejects_a_lock_that_stops_renewing_without_a_word() {
    let stopped = verdict(&RENEWAL, HELD);
    assert_eq!(stopped.outcome, Outcome::Violation);
    assert_eq!(
        stopped.summary,
        "process 1 acquired a at 0.010 s and believed until 6.000 s that it held it; its lease was last renewed at 1.995 s and was \
         over at 3.995 s at the latest, and its library did not say so"
    );
}

#[test]
fn accepts_one_that_renews_in_time_or_says_that_it_is_lost() {
    let renewed = HELD.replace("6000 1 invoke", "3900 1 info renewed a\n6000 1 invoke");
    assert_eq!(verdict(&RENEWAL, &renewed).outcome, Outcome::Valid);
    let lost = HELD.replace("6000 1 invoke", "4100 1 info lost a\n6000 1 invoke");
    assert_eq!(verdict(&RENEWAL, &lost).outcome, Outcome::Valid);
    let disbelieved = HELD.replace("believed:true", "believed:false");
    assert_eq!(verdict(&RENEWAL, &disbelieved).outcome, Outcome::Valid);
    let fault = "0 nemesis invoke pause - {id:1,stage:\"inject\",targets:[\"c1\"]}";
    assert_eq!(verdict(&RENEWAL, &format!("{fault}{HELD}")).outcome, Outcome::Valid);
}

#[test]
fn a_lease_that_was_never_renewed_is_over_at_the_latest_a_ttl_after_its_answer() {
    let late = "
    6100 2 invoke acquire a {ttl_ms:2000}
    9900 2 ok     acquire a
    10200 2 info  lost a";
    let renewed = HELD.replace("6000 1 invoke", "3900 1 info renewed a\n6000 1 invoke");
    assert_eq!(verdict(&RENEWAL, &format!("{renewed}{late}")).outcome, Outcome::Valid);
    // It may have been granted just before 9.9 s, and have run up to 11.9 s.
    let silent = |until_ms: u64| {
        let release = format!("{until_ms} 2 invoke release a\n{until_ms} 2 ok release a {{believed:true}}");
        verdict(&RENEWAL, &format!("{renewed}{}", late.replace("10200 2 info  lost a", &release))).outcome
    };
    assert_eq!([12_800, 13_000].map(silent), [Outcome::Valid, Outcome::Violation]);
}

#[test]
fn a_renewal_that_succeeds_after_another_grant_prolongs_what_was_lost() {
    let between = "3000 2 invoke acquire a {ttl_ms:2000}\n3010 2 ok acquire a\n3500 2 invoke release a\n3510 2 ok release a";
    let history = |renewed_at: &str| {
        let text = HELD.replace("6000 1 invoke", &format!("{between}\n{renewed_at}\n6000 1 invoke"));
        verdict(&RENEWAL, &text.replace("believed:true", "believed:false"))
    };
    let lost = history("4200 1 info renewed a {age_ms:5}");
    assert_eq!((lost.outcome, lost.findings[0].class.as_str()), (Outcome::Violation, "prolonged-when-lost"));
    assert_eq!(
        lost.summary,
        "process 1 acquired a at 0.010 s, process 2 was granted it at 3.010 s, and a renewal that process 1 asked for at 4.195 s \
         succeeded all the same"
    );
    // Asked for before the other grant, or at the same time, it may have been carried out before it.
    let twice = history("3510 1 info renewed a {age_ms:500}\n4200 1 info renewed a {age_ms:5}");
    assert_eq!(twice.summary, lost.summary);
    assert_eq!(history("4200 1 info renewed a {age_ms:1300}").outcome, Outcome::Valid);
    assert_eq!(history("4200 1 info lost a").outcome, Outcome::Valid);
    // One that waits from before the first grant gets the lock when its lease can be over, from 2.990 s on.
    let waiting = |granted_ms: u64| {
        let waits = format!(
            "5 2 invoke acquire a {{ttl_ms:2000}}\n{granted_ms} 2 ok acquire a\n4200 1 info renewed a"
        );
        let text = HELD.replace("2000 1 info   renewed a {age_ms:5}\n", "");
        verdict(&RENEWAL, &text.replace("6000 1 invoke", &format!("{waits}\n6000 1 invoke"))).outcome
    };
    assert_eq!([2_990, 3_010].map(waiting), [Outcome::Valid, Outcome::Violation]);
}

/// Held for two seconds, and prolonged at a given time; then another acquires, after `free`.
fn prolonging(asked_ms: u64, answer: &str) -> String {
    format!(
        "0    nemesis info lock - {{name:\"x\",lease:\"ttl\",can:[\"prolong\"]}}
         0    1 invoke acquire a {{ttl_ms:2000}}
         10   1 ok     acquire a
         {asked_ms} 1 invoke prolong a {{ttl_ms:2000}}
         {} 1 {answer}",
        asked_ms + 5
    )
}

#[test]
fn a_lock_that_ran_out_cannot_be_prolonged() {
    // Asked at 2.010 s, it may have been granted as late as its answer came, and still run.
    for (asked_ms, outcome) in [(2_010, Outcome::Valid), (2_011, Outcome::Violation)] {
        assert_eq!(verdict(&RENEWAL, &prolonging(asked_ms, "ok prolong a")).outcome, outcome, "{asked_ms}");
    }
    let revived = verdict(&RENEWAL, &prolonging(2_500, "ok prolong a"));
    assert_eq!(
        (&*revived.findings[0].class, &*revived.summary),
        (
            "revived",
            "process 1 acquired a at 0.010 s; the lock had run out at 2.010 s at the latest, and a prolong that it asked for at 2.500 s \
             succeeded all the same"
        )
    );
    // Prolonged at some time between 1.900 s and 1.905 s.
    for (again_ms, outcome) in [(3_905, Outcome::Valid), (3_906, Outcome::Violation)] {
        let again = format!(
            "{}\n{again_ms} 1 invoke prolong a\n3910 1 ok prolong a",
            prolonging(1_900, "ok prolong a")
        );
        assert_eq!(verdict(&RENEWAL, &again).outcome, outcome, "{again_ms}");
    }
    let moved = "0 nemesis invoke clock-jump - {id:1,stage:\"inject\",targets:[\"n1\"],description:{moves_clocks:true}}\n";
    let clocks = format!("{moved}{}", prolonging(2_500, "ok prolong a"));
    assert_eq!(verdict(&RENEWAL, &clocks).outcome, Outcome::Valid);
    // What was refused was not prolonged.
    assert!(maybe_verdict(&RENEWAL, &prolonging(2_500, "fail prolong a null not-held")).is_none());
}

#[test]
fn a_prolong_that_succeeds_after_another_grant_prolongs_what_was_lost() {
    let history = prolonging(2_600, "ok prolong a").replace(
        "2600 1 invoke",
        "2100 2 invoke acquire a {ttl_ms:2000}\n2110 2 ok acquire a\n2600 1 invoke",
    );
    let lost = verdict(&RENEWAL, &history);
    assert_eq!(lost.findings[0].class, "prolonged-when-lost");
    let refused = history.replace("ok prolong a", "fail prolong a null not-held");
    assert!(maybe_verdict(&RENEWAL, &refused).is_none());
}

#[test]
fn a_prolong_is_as_long_as_it_says() {
    let history = |granted_ms: u64, between: &str| {
        let grant = format!("1510 2 invoke acquire a {{ttl_ms:2000}}\n{between}{granted_ms} 2 ok acquire a");
        verdict(&RENEWAL, &format!("{}\n{grant}", prolonging(1_500, "ok prolong a")))
    };
    let short = history(1_520, "");
    assert_eq!(short.findings[0].class, "cut-short");
    assert_eq!(
        short.summary,
        "process 1 acquired a at 0.010 s; a prolong that it asked for at 1.500 s succeeded, for 2.000 s, and process 2 was granted the \
         lock at 1.520 s"
    );
    let released = "1511 1 invoke release a\n1512 1 ok release a\n";
    for (granted_ms, between, outcome) in [
        (3_499, "", Outcome::Violation),
        (3_500, "", Outcome::Valid),
        (1_520, released, Outcome::Valid),
        (1_520, "1511 1 info lost a\n", Outcome::Valid),
    ] {
        assert_eq!(history(granted_ms, between).outcome, outcome, "{granted_ms} {between}");
    }
}

#[test]
fn judges_only_locks_that_announce_renewals_and_report_them() {
    assert!(maybe_verdict(&RENEWAL, &HELD.replace("\"extend\",", "")).is_none());
    assert!(maybe_verdict(&RENEWAL, &HELD.replace("info   renewed a {age_ms:5}", "info at a")).is_none());
}
