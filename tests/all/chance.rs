//! What happens in some runs and not in others: which moment a fault meets is not in its plan. Each test
//! plays a stated number of seeds, reports how often it happened, with the interval of the rate, and fails if
//! even the upper end of that interval is below what is claimed here. What must always be so is asserted in
//! every play.
//!
//! By day the same faults wait for events, so that what they do is certain.

use crate::clocks::{STROBE, assert_faketime_adds_up, assert_strobed, during};
use crate::common::{Ran, output, planned, root, test, under};
use crate::{compare, disks, hunt, manual_adapter, nemeses, scenarios};
use fencepost_checker::Outcome;
use fencepost_history::{Kind, f};
use fencepost_report::Rate;
use std::collections::BTreeSet;
use std::io::Write;

under!(by_night: [
    redlock_breaks_under_drawn_clock_jumps,
    redlock_splits_votes,
    drawn_pauses_lose_updates,
    drawn_partitions_drop_packets,
    drawn_kills_take_effect,
    etcd_holds_under_drawn_jumps_of_wall_clocks,
    late_writes_are_rejected_by_their_token,
    drawn_faults_of_packets_take_effect,
    other_nemeses_take_effect_when_drawn,
    drawn_jumps_reach_another_version,
    a_swarm_takes_effect,
    redis_that_fsyncs_every_second_gives_a_lock_twice,
    redis_ends_where_its_disk_is_full,
    redis_waits_for_a_slow_disk,
    a_drifting_clock_is_looked_at_while_it_drifts,
    a_strobe_breaks_a_lock_and_is_seen_on_both_sides,
    faults_of_faketime_break_a_lock,
    etcd_loses_leases_by_the_monotonic_clock,
]);

/// Plays these seeds, from 1, and reports how often it happened, past what the test harness captures. Fails
/// if not even the upper end of the rate's interval reaches what is claimed.
fn assert_rate(what: &str, plays: u64, claimed: f64, mut happens: impl FnMut(u64) -> bool) {
    let mut rate = Rate::default();
    (1..=plays).for_each(|seed| rate.add(happens(seed)));
    let line = format!("chance: {what}: {}; claimed are {:.0} %\n", rate.of_runs(), claimed * 100.0);
    let _ = std::io::stderr().write_all(line.as_bytes());
    assert!(rate.interval().1 >= claimed, "{line}");
}

/// In how many of the drawn faults of a run an effect was seen.
fn effective(ran: &Ran) -> usize {
    ran.stages("inject", Kind::Ok).iter().filter(|value| value["effective"] == true).count()
}

fn redlock_breaks_under_drawn_clock_jumps(driver: &str) {
    assert_rate("redlock is granted twice when clocks jump", 6, 0.5, |seed| {
        let ran = test(&format!(
            "--driver {driver} --nemesis clock-jump --time-limit 12s --fail-fast --seed {seed}"
        ));
        ran.assert_faults_real();
        let is_broken = ran.findings("exclusion", "granted-twice") > 0;
        assert!(!is_broken || ran.code == 1 && ran.stdout.contains("jumped"), "the story names the fault");
        is_broken
    });
}

fn redlock_splits_votes(driver: &str) {
    assert_rate("votes are split for many rounds without a random delay", 5, 0.8, |seed| {
        scenarios::agrees("redlock-split-vote", driver, seed)
    });
}

fn drawn_pauses_lose_updates(driver: &str) {
    assert_rate("a stopped holder loses updates", 6, 0.8, |seed| {
        let args = "--lock redis-single --nemesis pause --guard none --ttl 1s --time-limit 10s";
        let ran = test(&format!("--driver {driver} {args} --seed {seed}"));
        ran.assert_faults_real();
        let is_lost = ran.outcome("lost-updates") == Outcome::Violation;
        assert!(!is_lost || ran.code == 1);
        is_lost
    });
}

fn drawn_partitions_drop_packets(driver: &str) {
    assert_rate("a drawn partition drops packets", 4, 0.8, |seed| {
        let ran =
            test(&format!("--driver {driver} --nemesis partition --ttl 1s --time-limit 12s --seed {seed}"));
        ran.assert_faults_real();
        let healed = ran.stages("heal", Kind::Ok);
        let observed = healed.iter().filter_map(|value| value["observed"].as_object());
        observed.flatten().filter_map(|(_, node)| node["packets_dropped"].as_u64()).sum::<u64>() > 0
    });
}

fn drawn_kills_take_effect(driver: &str) {
    assert_rate("a drawn kill takes effect", 4, 0.8, |seed| {
        let ran = test(&format!("--driver {driver} --nemesis kill --ttl 1s --time-limit 12s --seed {seed}"));
        ran.assert_faults_real();
        effective(&ran) > 0
    });
}

/// etcd counts leases by the monotonic clock: whatever the time of day does, the lock holds.
fn etcd_holds_under_drawn_jumps_of_wall_clocks(driver: &str) {
    assert_rate("etcd holds while wall clocks jump", 3, 0.8, |seed| {
        let args = "--lock etcd --guard token --nemesis clock-jump --clock wall --time-limit 8s";
        let ran = test(&format!("--driver {driver} {args} --seed {seed}"));
        ran.assert_faults_real();
        for checker in ["exclusion", "lost-updates", "fencing"] {
            assert_eq!(ran.outcome(checker), Outcome::Valid, "{checker}");
        }
        ran.code == 0
    });
}

/// Each client is stopped while it holds the lock, for longer than its lease, and mostly writes when it goes
/// on.
fn late_writes_are_rejected_by_their_token(driver: &str) {
    let paused = |client: u32| {
        format!("[[fault]]\nwhen = 'c{client} acquire'\nfor = '4s'\nfault = 'pause'\non = ['c{client}']\n")
    };
    let plan: String = (1..=5).map(paused).collect();
    assert_rate("a late write is rejected by its token", 5, 0.7, |seed| {
        let args = "--lock etcd --guard token --hold 500ms --time-limit 16s";
        let ran = planned(&plan, &format!("--driver {driver} {args} --seed {seed}"));
        ran.assert_faults_real();
        assert_eq!(ran.outcome("lost-updates"), Outcome::Valid);
        assert_eq!(ran.outcome("fencing"), Outcome::Valid);
        let errors = ran.history();
        let mut errors = errors.iter().filter_map(|event| event.error.as_ref());
        errors.any(|error| error.is_rejected() && error.detail().starts_with("stale-token"))
    });
}

fn drawn_faults_of_packets_take_effect(driver: &str) {
    assert_rate("four drawn faults of packets take effect in 8 s", 5, 0.6, |seed| {
        let ran = test(&format!(
            "--lock redlock --driver {driver} --nemesis delay,loss,reorder,duplicate,slow \
             --nemesis-interval 500ms --ttl 1s --time-limit 8s --seed {seed}"
        ));
        ran.assert_faults_real();
        effective(&ran) >= 4
    });
}

/// A nemesis without parameters in the table of `nemeses` is played with what it draws.
fn other_nemeses_take_effect_when_drawn(driver: &str) {
    let in_table: BTreeSet<String> = nemeses::FAULTS.iter().map(|(fault, ..)| (*fault).to_owned()).collect();
    for name in nemeses::listed().difference(&in_table) {
        assert_rate(&format!("{name} takes effect when drawn"), 4, 0.7, |seed| {
            let args =
                format!("--lock redlock --by-name --nemesis {name} --ttl 1s --time-limit 6s --seed {seed}");
            effective(&test(&format!("--driver {driver} {args}"))) > 0
        });
    }
}

fn a_swarm_takes_effect(driver: &str) {
    assert_rate("a fault of a swarm takes effect in 5 s", 4, 0.8, |seed| {
        let ran = test(&format!("--driver {driver} --nemesis swarm --time-limit 5s --seed {}", seed + 4));
        assert!([0, 1, 2].contains(&ran.code), "the run itself failed: {}", ran.code);
        effective(&ran) > 0
    });
}

fn drawn_jumps_reach_another_version(driver: &str) {
    assert_rate("a drawn jump reaches Valkey's clock", 4, 0.8, |seed| {
        let args = "--lock redis-single@valkey-8.1 --nemesis clock-jump --time-limit 5s";
        let ran = test(&format!("--driver {driver} {args} --seed {seed}"));
        assert!(ran.stdout.contains("valkey-server 8.1."), "{}", ran.stdout);
        effective(&ran) > 0
    });
}

/// A hold that was acknowledged is gone, and somebody else gets the lock, in short outages that come just
/// after a grant. The fsync of that second may come just before the cut. Sections are long, since a busy
/// machine needs a while to start the server.
fn redis_that_fsyncs_every_second_gives_a_lock_twice(driver: &str) {
    let fault = |number: u32| {
        format!(
            "[[fault]]\nat_ms = {}\nfor_ms = 150\nfault = 'power-loss'\non = ['n1']\nflicker_ms = 150\n\
             then = {{ f = 'acquire' }}\n",
            500 + number * 5000
        )
    };
    let plan: String = (0..4).map(fault).collect();
    assert_rate("an outage takes a lock that was not fsynced", 6, 0.5, |seed| {
        let args = "--lock redis-single --redis-persistence everysec --ttl 6s --hold 4s --time-limit 20s --fail-fast";
        let ran = planned(&plan, &format!("--driver {driver} {args} --seed {seed}"));
        ran.assert_faults_real();
        // Behind a slow fsync Redis writes nothing, and then the kill alone loses what it had not written.
        let is_twice = ran.findings("exclusion", "granted-twice") > 0;
        assert!(!is_twice || ran.code == 1 && ran.stdout.contains("power"), "the story names the fault");
        is_twice && disks::sum(&disks::losses(&ran), "bytes") > 0
    });
}

fn redis_ends_where_its_disk_is_full(driver: &str) {
    assert_rate("Redis is refused a write, and ends, while its disk is full", 4, 0.8, |_| {
        let ran = planned(disks::FULL_DISK, &format!("--driver {driver} {}", disks::ON_A_FULL_DISK));
        disks::assert_disk_was_full(&ran);
        let healed = ran.observed("heal", "disk-full", "n1");
        let is_refused = healed["held_up"]["refused"].as_u64() > Some(0);
        assert!(
            !is_refused || healed["restarted"] == true,
            "Redis ends when it cannot fsync what it promised"
        );
        is_refused
    });
}

/// And the disk is as quick as it was before and afterwards.
fn redis_waits_for_a_slow_disk(driver: &str) {
    assert_rate("Redis waits for a slow disk, which is quick before and afterwards", 4, 0.8, |_| {
        let ran = planned(disks::SLOW_DISK, &format!("--driver {driver} {}", disks::ON_A_SLOW_DISK));
        disks::assert_disk_was_slow(&ran);
        let (seen, healed) =
            (ran.observed("inject", "disk-slow", "n1"), ran.observed("heal", "disk-slow", "n1"));
        let is_quick = |probe: &serde_json::Value| probe["ms"].as_f64().is_some_and(|ms| ms < 300.0);
        let is_delayed = healed["held_up"]["delayed"].as_u64() > Some(0);
        is_delayed && is_quick(&seen["before"]) && is_quick(&healed["after"])
    });
}

fn a_drifting_clock_is_looked_at_while_it_drifts(driver: &str) {
    let plan = "[[fault]]\nwhen = 'any acquire'\nfor = '3s'\nfault = 'clock-drift'\non = ['n1']\ndrift_ppm = 500000\n";
    assert_rate("four looks at a clock in three seconds", 4, 0.8, |seed| {
        let args = "--lock redis-single --brief --time-limit 300s";
        let ran = planned(plan, &format!("--driver {driver} {args} --seed {seed}"));
        ran.assert_all_effective(&["clock-drift"]);
        during(&ran, "n1", 0).len() >= 4
    });
}

fn a_strobe_breaks_a_lock_and_is_seen_on_both_sides(driver: &str) {
    assert_rate("a strobe breaks a lock", 5, 0.6, |seed| {
        let args = "--lock redis-single --time-limit 7s";
        let ran = planned(STROBE, &format!("--driver {driver} {args} --seed {seed}"));
        ran.assert_faults_real();
        let (ahead, right) = assert_strobed(&ran);
        ran.code == 1 && ahead >= 3 && right >= 3
    });
}

fn faults_of_faketime_break_a_lock(driver: &str) {
    for lock in ["redis-single".to_owned(), format!("{}/tests/locks/redis-8", root())] {
        assert_rate(&format!("a jump by libfaketime breaks {lock}"), 3, 0.5, |_| {
            assert_faketime_adds_up(driver, &lock).code == 1
        });
    }
}

/// Both clocks of all members leap over every lease: its holder loses it, unless it has just been renewed.
fn etcd_loses_leases_by_the_monotonic_clock(driver: &str) {
    let plan = "[[fault]]\nat_ms = 2000\nfor_ms = 3000\nfault = 'clock-jump'\non = ['n1', 'n2', 'n3']\n\
                wall_ms = 60000\nmonotonic_ms = 60000\n";
    assert_rate("a lease of etcd is over when its monotonic clock leaps", 5, 0.5, |seed| {
        let args = "--lock etcd --hold 1500ms --ttl 5s --time-limit 8s";
        let ran = planned(plan, &format!("--driver {driver} {args} --seed {seed}"));
        ran.assert_faults_real();
        let is_lost = ran.history().iter().any(|event| event.f == f::LOST);
        is_lost || ran.outcome("exclusion") == Outcome::Violation
    });
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn a_hunt_finds_what_breaks_a_lock_by_night() {
    assert_rate("a hunt of 30 s finds how redis-single breaks", 4, 0.7, |seed| {
        let results = tempfile::tempdir().expect("a temporary folder");
        hunt::hunt_on_one_redis(results.path(), "30s", seed)
    });
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn a_planted_lock_is_worse_than_its_reference_by_night() {
    assert_rate("three runs show that a lock is worse", 5, 0.4, |seed| {
        let standing = compare::standing_of_a_planted_lock(10 * seed - 5);
        assert!(["worse", "uncertain"].iter().any(|known| standing == *known), "{standing}");
        standing == "worse"
    });
}

/// A finding comes again in 8 of 10 plays at least: `shrink` asks for that.
#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn a_finding_comes_again_by_night() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let played = |args: &str| output(&args.split_whitespace().collect::<Vec<_>>());
    let options = "--lock canary-nolock --ttl 500ms --time-limit 4s --seed 5 --driver local";
    played(&format!("test {options} --results {}", path("results")));
    let shrunk = format!("shrink {}/latest --for 60s --findings {}", path("results"), path("findings"));
    assert_eq!(played(&shrunk).status.code(), Some(1));
    let scenario = path("findings/granted-twice-in-peace/scenario.toml");
    assert_rate("a finding of the canary comes again", 10, 0.8, |_| {
        played(&format!("scenario {scenario} --driver local --results {}", path("results"))).status.success()
    });
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn an_attempt_at_a_taken_lock_is_certain_by_night() {
    assert_rate("the adapter of the manual says for certain that a lock is taken", 20, 0.8, |_| {
        manual_adapter::taken_is_certain()
    });
}
