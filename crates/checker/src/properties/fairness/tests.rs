//! What is fair, what is idle, and what only a slow machine explains.

use super::*;
use crate::testing::literal::{events, maybe_verdict, verdict};

/// Twelve seconds of attempts, one a second, each of which ends so. Then the run is closed.
fn attempts(end: &str) -> String {
    let attempt = |at: u64| {
        let (from, until, process) = (at * 1000, at * 1000 + 990, 10 + at);
        format!(
            "{from} {process} invoke acquire a {{ttl_ms:1000,timeout_ms:1000}}\n{until} {process} {end}\n"
        )
    };
    let attempts: String = (0..12).map(attempt).collect();
    format!("0 nemesis info phase - \"main\"\n{attempts}12000 nemesis info phase - \"heal\"")
}

#[test]
fn rejects_a_free_lock_that_no_process_gets() {
    let verdict = verdict(&FAIRNESS, &attempts("fail acquire a null taken"));
    assert_eq!(verdict.outcome, Outcome::Violation);
    assert_eq!(
        verdict.summary,
        "without any fault, none of 12 attempts to acquire a succeeded in 12.000 s, although for 11.880 s of that \
         time no process held it"
    );
    assert_eq!(verdict.findings[0].class, "never-granted");
}

#[test]
fn accepts_a_lock_that_is_granted_and_tells_the_longest_wait() {
    let granted = attempts("ok acquire a").replace("11990 21 ok", "11990 21 fail");
    let verdict = verdict(&FAIRNESS, &granted);
    assert_eq!(verdict.outcome, Outcome::Valid);
    assert_eq!(verdict.summary, "11 of 12 processes got the lock, after at most 0.990 s");
}

#[test]
fn a_lock_that_was_left_taken_by_no_holder_is_not_excused_but_a_slow_machine_is() {
    // A library that says no may have left something behind, and one that raises an error as well: no process
    // holds it.
    for end in ["fail acquire a null refused-by-library: no", "info acquire a null raised: x"] {
        let verdict = verdict(&FAIRNESS, &attempts(end));
        assert_eq!(
            (verdict.outcome, &*verdict.findings[0].class),
            (Outcome::Violation, "never-granted"),
            "{end}"
        );
    }
    for end in ["fail acquire a null expired", "info acquire a null timeout"] {
        let verdict = verdict(&FAIRNESS, &attempts(end));
        assert_eq!(verdict.outcome, Outcome::Vacuous, "{end}");
        assert_eq!(
            verdict.summary,
            "for 11.880 s of 12.000 s no process held a, and 12 attempts to acquire it failed: it was granted never, \
             so hardly anything was tested"
        );
    }
}

/// A grant at the beginning and at the end; in between two processes try in turn, and overlap, until
/// `until_ms`.
fn idle_until(until_ms: u64, end: &str) -> String {
    let grant = |at: u64, process: u64| {
        let times = [at, at + 1, at + 2, at + 3];
        let [a, b, c, d] = times;
        format!(
            "{a} {process} invoke acquire a {{ttl_ms:1000,timeout_ms:1000}}\n{b} {process} ok acquire a\n\
             {c} {process} invoke release a\n{d} {process} ok release a\n"
        )
    };
    let mut text = format!("0 nemesis info phase - \"main\"\n{}", grant(0, 1));
    let mut open: Option<u64> = None;
    for at in (10..until_ms).step_by(500) {
        let process = at;
        text += &format!("{at} {process} invoke acquire a {{ttl_ms:1000,timeout_ms:1000}}\n");
        if let Some(before) = open.replace(process) {
            text += &format!("{at} {before} {end}\n");
        }
    }
    let last = open.map_or(String::new(), |process| format!("{until_ms} {process} {end}\n"));
    format!("{text}{last}{}20000 nemesis info phase - \"heal\"", grant(until_ms + 1, 2))
}

#[test]
fn rejects_a_free_lock_that_is_wanted_for_longer_than_the_bound() {
    let idle = verdict(&FAIRNESS, &idle_until(9000, "fail acquire a null taken"));
    assert_eq!((idle.outcome, idle.findings[0].class.as_str()), (Outcome::Violation, "idle"));
    assert_eq!(
        idle.summary,
        "without any fault, no process held a from 0.003 s to 9.002 s, while at every moment of these 8.999 s processes tried to \
         acquire it: 18 attempts failed"
    );
    // Within the bound, and of a machine that is too slow.
    assert_eq!(verdict(&FAIRNESS, &idle_until(4900, "fail acquire a null taken")).outcome, Outcome::Valid);
    for end in ["info acquire a null timeout", "fail acquire a null timeout"] {
        assert_ne!(verdict(&FAIRNESS, &idle_until(9000, end)).outcome, Outcome::Violation, "{end}");
    }
}

#[test]
fn the_time_in_which_the_machine_stalled_counts_nowhere() {
    let with = |text: &str, for_ms: u64| {
        let stalled = format!("\n8900 nemesis info stalled - {{node:\"n1\",for_ms:{for_ms}}}");
        maybe_verdict(&FAIRNESS, &(text.to_owned() + &stalled)).map(|verdict| verdict.outcome)
    };
    let idle = idle_until(9000, "fail acquire a null taken");
    assert_eq!(with(&idle, 1000), Some(Outcome::Violation), "it was idle for 8 s beside that");
    assert_eq!(with(&idle, 4000), Some(Outcome::Valid), "what is left is within the bound");
    let never = attempts("fail acquire a null taken");
    assert_eq!(with(&never, 1000), Some(Outcome::Violation));
    assert_eq!(with(&never, 7000), Some(Outcome::Vacuous));
}

#[test]
fn rejects_a_lock_that_is_idle_for_most_of_the_time() {
    // Four grants in 12 s: three stretches of 3.9 s, each within the bound.
    let seldom = |every: u64| {
        let mut text = attempts("fail acquire a null refused-by-library: no");
        for at in (every - 1..12).step_by(every as usize) {
            let (until, process) = (at * 1000 + 990, at + 10);
            text = text.replace(
                &format!("{until} {process} fail acquire a null refused-by-library: no"),
                &format!("{until} {process} ok acquire a\n{} {process} invoke release a\n{} {process} ok release a", until + 4, until + 8),
            );
        }
        verdict(&FAIRNESS, &text)
    };
    let idle = seldom(4);
    assert_eq!((idle.outcome, &*idle.findings[0].class), (Outcome::Violation, "idle"));
    assert!(
        idle.summary.ends_with("3 attempts failed; in all that was so for 11.974 s of 12.000 s"),
        "{}",
        idle.summary
    );
    // One grant a second: waited for, and no stretch is long.
    assert_eq!(seldom(1).outcome, Outcome::Valid);
}

#[test]
fn a_lease_that_was_waited_for_may_run_from_its_grant() {
    // Each process waits for four seconds, and is over at once: its lease of a second may run from the answer
    // on. Counted from its question, the lease would be over before.
    let abandoned = |at: u64| {
        let (asked, granted) = ((at * 1000).saturating_sub(3000) + at, at * 1000 + 950);
        let (began, over) = (granted + 1, granted + 2);
        [
            (asked, format!("{asked} {at} invoke acquire a {{ttl_ms:1000,timeout_ms:5000}}")),
            (granted, format!("{granted} {at} ok acquire a")),
            (began, format!("{began} {at} invoke write a 1")),
            (over, format!("{over} {at} info write a null timeout")),
        ]
    };
    let mut events: Vec<(u64, String)> = (0..14).flat_map(abandoned).collect();
    events.sort();
    let text = events.into_iter().map(|(_, line)| line + "\n").collect::<String>();
    let text = format!("0 nemesis info phase - \"main\"\n{text}14000 nemesis info phase - \"heal\"");
    let verdict = verdict(&FAIRNESS, &text);
    assert_eq!(verdict.outcome, Outcome::Valid, "{}", verdict.summary);
}

#[test]
fn a_waiter_that_is_woken_late_was_in_an_acquire() {
    let text = "0 nemesis info phase - \"main\"
        10 1 invoke acquire a {ttl_ms:1000,timeout_ms:20000}
        8000 1 ok acquire a
        8010 1 invoke release a
        8020 1 ok release a
        8030 2 invoke acquire a {ttl_ms:1000,timeout_ms:20000}
        8040 2 ok acquire a
        9000 nemesis info phase - \"heal\"";
    let late = verdict(&FAIRNESS, text);
    assert_eq!(late.outcome, Outcome::Violation);
    assert!(
        late.summary.ends_with("of these 7.990 s processes tried to acquire it: none of them got it"),
        "{}",
        late.summary
    );
}

/// Why the checker does not judge a history.
fn reason(text: &str) -> String {
    let events = events(text);
    FAIRNESS.check(&RunIndex::new(&events).unwrap()).unwrap_err().0.into_owned()
}

fn monopoly(grants: u64, end: &str) -> Verdict {
    verdict(&FAIRNESS, &monopoly_text(grants, end))
}

/// Process 1 gets the lock over and over; process 2 waits all the time.
fn monopoly_text(grants: u64, end: &str) -> String {
    let grant = |at: u64| {
        let [a, b, c, d] = [at * 100, at * 100 + 1, at * 100 + 98, at * 100 + 99];
        let wait = format!("{a} {} invoke acquire a {{ttl_ms:1000,timeout_ms:1000}}\n", 100 + 2 * at);
        let took = format!(
            "{a} 1 invoke acquire a {{ttl_ms:1000,timeout_ms:1000}}\n{b} 1 ok acquire a\n{c} 1 invoke release a\n{d} 1 ok release a\n"
        );
        format!("{wait}{took}{d} {} {end}\n", 100 + 2 * at)
    };
    let text: String = (0..grants).map(grant).collect();
    let nodes = "0 nemesis info nodes - {slots:[\"c1\",\"c2\"]}";
    format!("{nodes}\n0 nemesis info phase - \"main\"\n{text}{} nemesis info phase - \"heal\"", grants * 100)
}

#[test]
fn rejects_a_lock_that_one_process_never_gets_while_another_gets_it_over_and_over() {
    let starved = monopoly(80, "fail acquire a null taken");
    assert_eq!((starved.outcome, &*starved.findings[0].class), (Outcome::Violation, "starved"));
    assert_eq!(
        starved.summary,
        "without any fault, process 0 tried to acquire a from 0.000 s to 7.999 s, 80 times, and did not get it, while others got it \
         80 times"
    );
    assert_eq!(starved.stats["in_a_row"], 80);
    // Within the bound of 5 s.
    assert_eq!(monopoly(50, "fail acquire a null taken").outcome, Outcome::Valid);
    // A machine that is too slow explains it, and still nothing says that the lock is fair.
    let slow = reason(&monopoly_text(80, "fail acquire a null timeout"));
    assert!(slow.contains("while others got it 80 times: errors of a slow machine may be why"), "{slow}");
}

/// Ten processes ask for a lock in turns of 0.1 s. Of each turn, one that may get it does; all others are
/// refused at once. `who` gives the process that is granted the turn of this number.
fn turns(turns: u64, mut who: impl FnMut(u64) -> u64) -> String {
    let mut text = "0 nemesis info phase - \"main\"\n".to_owned();
    for turn in 0..turns {
        let (at, granted) = (turn * 100, who(turn));
        for process in 0..10 {
            let end =
                if process == granted { "ok acquire a" } else { "fail acquire a null refused-by-library" };
            text += &format!(
                "{at} {process} invoke acquire a {{ttl_ms:1000,timeout_ms:60}}\n{} {process} {end}\n",
                at + 1
            );
        }
        text += &format!("{0} {granted} invoke release a\n{0} {granted} ok release a\n", at + 98);
    }
    format!("{text}{} nemesis info phase - \"heal\"", turns * 100)
}

#[test]
fn rejects_a_lock_that_some_processes_never_get_again_however_short_their_attempts_are() {
    let left_out = |count| verdict(&FAIRNESS, &turns(count, |turn| if turn < 10 { turn } else { turn % 3 }));
    let starved = left_out(70);
    assert_eq!((starved.outcome, &*starved.findings[0].class), (Outcome::Violation, "starved"));
    assert_eq!(
        starved.summary,
        "without any fault, 7 of 10 processes tried to acquire a from 1.000 s to 6.901 s, 420 times, and did not get it, while \
         others got it 60 times"
    );
    assert_eq!(starved.stats["starved"], 7);
}

#[test]
fn a_run_in_which_too_little_was_granted_to_tell_is_not_judged() {
    // One of ten, and 60 grants to others: by lot that happens.
    let alone = reason(&turns(60, |turn| 1 + turn % 9));
    assert_eq!(
        alone,
        "process 0 tried to acquire a from 0.000 s to 5.901 s, 60 times, and did not get it, while others got it 60 times: that may \
         be chance; 9 of 10 processes got the lock, after at most 0.801 s; at the end, 1 had waited for more than 5.000 s in vain"
    );
    // With more grants it is no chance.
    let starved = verdict(&FAIRNESS, &turns(500, |turn| 1 + turn % 9));
    assert!(starved.summary.starts_with("without any fault, process 0 tried"), "{}", starved.summary);
    // A process that stopped asking is left out by its own will.
    let text = turns(500, |turn| 1 + turn % 9);
    let quiet: String = text
        .lines()
        .filter(|line| {
            let mut words = line.split(' ');
            let at: u64 = words.next().unwrap().parse().unwrap();
            words.next() != Some("0") || at < 100 || (40_000..40_002).contains(&at)
        })
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(reason(&quiet).contains("twice, and did not get it"), "{}", reason(&quiet));
}

#[test]
fn a_wait_at_the_end_that_others_saw_end_with_a_grant_is_usual() {
    // Process 0 is granted nothing in the last 5.9 s. Process 9 waited for as long before, and got the lock.
    let usual = |turn: u64| match turn {
        0..60 => turn % 9,
        60 => 9,
        _ => 1 + turn % 9,
    };
    let longest = verdict(&FAIRNESS, &turns(115, usual));
    assert_eq!((longest.outcome, longest.stats["longest_wait_ms"].as_u64()), (Outcome::Valid, Some(6001)));
    let longer = reason(&turns(122, usual));
    assert!(longer.starts_with("process 0 tried to acquire a from 5.500 s to 12.101 s"), "{longer}");
}

#[test]
fn a_process_that_gets_another_key_meanwhile_does_not_wait() {
    // It is refused one key now and then, and gets another one at its end.
    let text = turns(60, |turn| 1 + turn % 9);
    let other = "5990 0 invoke acquire b {ttl_ms:1000,timeout_ms:60}\n5991 0 ok acquire b\n6000 nemesis";
    assert_eq!(verdict(&FAIRNESS, &text.replace("6000 nemesis", other)).outcome, Outcome::Valid);
}

#[test]
fn a_lock_that_is_drawn_by_lot_is_never_accused() {
    for seed in 1..40_u64 {
        let mut state = seed;
        let mut draw = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        // Every second lock of these goes back to the process that had it, in a third of the cases.
        let mut last = 0;
        let text = turns(200, |_| {
            let goes_back = seed % 2 == 0 && draw(3) == 0;
            last = if goes_back { last } else { draw(10) };
            last
        });
        let outcome = maybe_verdict(&FAIRNESS, &text).map(|verdict| verdict.outcome);
        assert_ne!(outcome, Some(Outcome::Violation), "seed {seed}");
    }
}

#[test]
fn a_run_that_is_shorter_than_the_bound_is_not_judged() {
    let short = attempts("ok acquire a").replace("ttl_ms:1000", "ttl_ms:9000");
    assert!(maybe_verdict(&FAIRNESS, &short).is_none());
}

#[test]
fn acquires_that_take_twice_the_time_that_they_were_given_show_a_slow_machine_and_no_idle_lock() {
    // Each process is granted the lock in the end, after three times its time-out.
    let slow = |given_ms: u64| {
        let acquire = |at: u64| {
            let (from, until) = (at * 6000, at * 6000 + 6000);
            format!(
                "{from} {at} invoke acquire a {{ttl_ms:1000,timeout_ms:{given_ms}}}\n{until} {at} ok acquire a\n\
                 {until} {at} invoke release a\n{until} {at} ok release a\n"
            )
        };
        let text: String = (0..3).map(acquire).collect();
        format!("0 nemesis info phase - \"main\"\n{text}18000 nemesis info phase - \"heal\"")
    };
    assert_eq!(verdict(&FAIRNESS, &slow(2000)).outcome, Outcome::Valid);
    assert_eq!(verdict(&FAIRNESS, &slow(6000)).findings[0].class, "idle", "they kept to their time");
    // Nor is a lock one that is never granted.
    let never =
        attempts("fail acquire a null refused-by-library: no").replace("timeout_ms:1000", "timeout_ms:330");
    assert_eq!(verdict(&FAIRNESS, &never).outcome, Outcome::Vacuous);
}

#[test]
fn a_lock_that_is_held_is_waited_for() {
    let held = format!(
        "0 1 invoke acquire a {{ttl_ms:2000}}\n0 1 ok acquire a\n{}\n13000 1 invoke release a\n13001 1 ok release a",
        attempts("fail acquire a null taken")
    );
    let verdict = verdict(&FAIRNESS, &held);
    assert_eq!((verdict.outcome, verdict.stats["in_vain_ms"].as_u64()), (Outcome::Valid, Some(0)));
}

#[test]
fn a_lock_that_is_hardly_ever_granted_tests_nothing() {
    let seldom = attempts("fail acquire a null expired").replace(
        "3990 13 fail acquire a null expired",
        "3990 13 ok acquire a\n3991 13 invoke release a\n3992 13 ok release a",
    );
    let verdict = verdict(&FAIRNESS, &seldom);
    assert_eq!(verdict.outcome, Outcome::Vacuous);
    assert!(
        verdict.summary.ends_with("it was granted once, so hardly anything was tested"),
        "{}",
        verdict.summary
    );
}

#[test]
fn a_process_that_waits_in_vain_at_the_end_leaves_fairness_open() {
    let mut text = attempts("ok acquire a");
    for at in 0..11 {
        let process = 10 + at;
        text = text.replace(&format!(" {process} "), " 1 ");
    }
    let alone = verdict(&FAIRNESS, &text);
    assert_eq!(alone.summary, "2 of 2 processes got the lock, after at most 0.990 s");
    let other = "0 2 invoke acquire a {ttl_ms:1000,timeout_ms:1000}\n";
    let text = text.replace("12000 nem", "11995 2 fail acquire a null taken\n12000 nem");
    let text = text.replacen("0 1 invoke", &format!("{other}0 1 invoke"), 1);
    assert_eq!(
        reason(&text),
        "process 2 tried to acquire a from 0.000 s to 11.995 s, once, and did not get it, while others got it 12 times: that may be \
         chance; 2 of 3 processes got the lock, after at most 0.990 s; at the end, 1 had waited for more than 5.000 s in vain"
    );
}

#[test]
fn is_silent_under_faults_and_where_no_process_tried() {
    let fault = "0 nemesis invoke kill - {id:1,stage:\"inject\",targets:[\"n1\"]}\n";
    assert!(maybe_verdict(&FAIRNESS, &(fault.to_owned() + &attempts("fail acquire a null taken"))).is_none());
    assert!(maybe_verdict(&FAIRNESS, "0 nemesis info phase - \"main\"").is_none());
}
