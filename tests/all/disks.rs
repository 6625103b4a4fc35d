//! Servers on disks that lose their power, run full and get slow, under both drivers.

use crate::common::{Ran, planned, under, until_it_happens};
use fencepost_checker::Outcome;
use fencepost_history::Kind;
use serde_json::Value;

under!(
    local: [redis_that_fsyncs_every_second_gives_a_lock_twice, redis_that_always_fsyncs_loses_nothing, etcd_loses_nothing, a_full_disk_is_real, a_slow_disk_is_real],
    docker: [a_full_disk_is_real],
    docker_by_night: [redis_that_fsyncs_every_second_gives_a_lock_twice, redis_that_always_fsyncs_loses_nothing, etcd_loses_nothing, a_slow_disk_is_real],
);

/// Power that is lost, and once more so many milliseconds after the server was started again.
fn outage(at_ms: u32, for_ms: u32, on: &str, flicker_ms: u32) -> String {
    format!(
        "[[fault]]\nat_ms = {at_ms}\nfor_ms = {for_ms}\nfault = \"power-loss\"\non = {on}\nflicker_ms = {flicker_ms}\n"
    )
}

/// Outages that outlast every lock, each with a second cut as soon as the first new locks are given out, not
/// always at the same moment.
fn outages(count: u32, on: &str) -> String {
    (0..count).map(|number| outage(500 + number * 3400, 2100, on, 140 + number * 20)).collect()
}

/// Short outages, each just after a grant.
fn outages_after_grants(count: u32) -> String {
    let fault = |number| outage(500 + number * 5000, 150, "[\"n1\"]", 150) + "then = { f = \"acquire\" }\n";
    (0..count).map(fault).collect()
}

/// What the disks said as the power was lost, at both cuts of each outage.
fn losses(ran: &Ran) -> Vec<Value> {
    let of = |stage| {
        ran.stages(stage, Kind::Ok).into_iter().flat_map(|value| match value["observed"].clone() {
            Value::Object(nodes) => nodes.into_iter().map(|(_, seen)| seen).collect::<Vec<_>>(),
            _ => Vec::new(),
        })
    };
    of("inject").chain(of("heal").map(|seen| seen["lost_again"].clone())).collect()
}

fn sum(losses: &[Value], field: &str) -> u64 {
    losses.iter().map(|lost| lost[field].as_u64().expect("a number")).sum()
}

/// A hold that was acknowledged is gone, and somebody else gets the lock. Each outage is a chance, none a
/// certainty: the fsync of that second may come just before the cut. Sections are long, since a busy machine
/// needs a while to start the server.
fn redis_that_fsyncs_every_second_gives_a_lock_twice(driver: &str) {
    let args =
        "--lock redis-single --redis-persistence everysec --ttl 6s --hold 4s --time-limit 20s --fail-fast";
    let ran = until_it_happens(
        |seed| planned(&outages_after_grants(4), &format!("--driver {driver} {args} --seed {seed}")),
        Ran::assert_faults_real,
        // Behind a slow fsync Redis writes nothing, and then the kill alone loses what it had not written.
        |ran| ran.findings("exclusion", "granted-twice") > 0 && sum(&losses(ran), "bytes") > 0,
    );
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("power"), "the story names the fault");
}

fn redis_that_always_fsyncs_loses_nothing(driver: &str) {
    let args = "--lock redis-single --redis-persistence always --time-limit 8s";
    keeps_everything(&planned(&outages(2, "[\"n1\"]"), &format!("--driver {driver} {args}")));
}

fn etcd_loses_nothing(driver: &str) {
    let args = "--lock etcd --time-limit 10s";
    keeps_everything(&planned(&outages(2, "[\"n1\", \"n2\", \"n3\"]"), &format!("--driver {driver} {args}")));
}

/// Whatever else the disks dropped (space set aside, files on which nothing relied yet), no lock was given
/// twice.
fn keeps_everything(ran: &Ran) {
    assert_eq!(ran.code, 0);
    ran.assert_faults_real();
    assert_eq!(ran.outcome("exclusion"), Outcome::Valid);
    let losses = losses(ran);
    assert!(sum(&losses, "written") > 0 && sum(&losses, "fsyncs") > 0, "the server did not use the disk");
}

/// On a machine that is busy enough no client may write anything while the disk is full, and then Redis is
/// refused nothing.
fn a_full_disk_is_real(driver: &str) {
    let plan =
        "[[fault]]\nat_ms = 1000\nfor_ms = 4000\nfault = \"disk-full\"\non = [\"n1\"]\nbytes_left = 100\n";
    let args = "--lock redis-single --redis-persistence always --ttl 1s --time-limit 6s";
    let healed = |ran: &Ran| ran.stages("heal", Kind::Ok)[0]["observed"]["n1"].clone();
    let ran = until_it_happens(
        |seed| planned(plan, &format!("--driver {driver} {args} --seed {seed}")),
        |ran| {
            ran.assert_faults_real();
            let seen = &ran.stages("inject", Kind::Ok)[0]["observed"]["n1"];
            let full = (&seen["before"]["full"], &seen["after"]["full"]);
            assert_eq!(full, (&Value::Bool(false), &Value::Bool(true)));
            assert_eq!(healed(ran)["after"]["full"], false);
            assert_eq!(ran.outcome("progress"), Outcome::Valid);
        },
        |ran| healed(ran)["held_up"]["refused"].as_u64() > Some(0),
    );
    assert_eq!(healed(&ran)["restarted"], true, "Redis ends when it cannot fsync what it promised");
}

fn a_slow_disk_is_real(driver: &str) {
    let plan =
        "[[fault]]\nat_ms = 1000\nfor_ms = 2000\nfault = \"disk-slow\"\non = [\"n1\"]\nfsync_ms = 300\n";
    let args = "--lock redis-single --redis-persistence always --time-limit 5s --hold 20ms";
    let ran = planned(plan, &format!("--driver {driver} {args}"));
    assert_eq!(ran.code, 0);
    ran.assert_faults_real();
    let seen = &ran.stages("inject", Kind::Ok)[0]["observed"]["n1"];
    assert!(seen["before"]["ms"].as_f64() < Some(300.0) && seen["after"]["ms"].as_f64() >= Some(300.0));
    let healed = &ran.stages("heal", Kind::Ok)[0]["observed"]["n1"];
    assert!(healed["held_up"]["delayed"].as_u64() > Some(0), "Redis waited for nothing");
    assert!(healed["after"]["ms"].as_f64() < Some(300.0));
}
