//! Servers on disks that lose their power, run full and get slow, under both drivers.

use crate::common::{Ran, planned, under};
use fencepost_checker::Outcome;
use fencepost_history::Kind;
use serde_json::Value;

under!(
    local: [redis_that_always_fsyncs_loses_nothing, redis_loses_what_a_disk_lied_about, etcd_loses_nothing, a_full_disk_is_real, a_slow_disk_is_real],
    docker: [],
    docker_by_night: [redis_that_always_fsyncs_loses_nothing, redis_loses_what_a_disk_lied_about, etcd_loses_nothing, a_full_disk_is_real, a_slow_disk_is_real],
);

/// Two losses of power that outlast every lock, each with a second cut as soon as the first new locks are
/// given out, not at the same moment.
fn outages(on: &str) -> String {
    let outage = |when: &str, flicker_ms: u32| {
        format!(
            "[[fault]]\nwhen = '{when}'\nfor = '2100ms'\nfault = 'power-loss'\non = {on}\nflicker_ms = {flicker_ms}\n"
        )
    };
    outage("any acquire 3 times", 140) + "\n" + &outage("power-loss healed", 160) + "after = '1s'\n"
}

/// What the disks said as the power was lost, at both cuts of each outage.
pub fn losses(ran: &Ran) -> Vec<Value> {
    let of = |stage| {
        ran.stages(stage, Kind::Ok).into_iter().flat_map(|value| match value["observed"].clone() {
            Value::Object(nodes) => nodes.into_iter().map(|(_, seen)| seen).collect::<Vec<_>>(),
            _ => Vec::new(),
        })
    };
    of("inject").chain(of("heal").map(|seen| seen["lost_again"].clone())).collect()
}

pub fn sum(losses: &[Value], field: &str) -> u64 {
    losses.iter().map(|lost| lost[field].as_u64().expect("a number")).sum()
}

fn redis_that_always_fsyncs_loses_nothing(driver: &str) {
    let args = "--lock redis-single --redis-persistence always --brief --time-limit 300s";
    keeps_everything(&planned(&outages("['n1']"), &format!("--driver {driver} {args}")));
}

/// The same server, whose disk said yes for a second before the cut and kept nothing.
fn redis_loses_what_a_disk_lied_about(driver: &str) {
    let lying =
        "[[fault]]\nwhen = 'any acquire'\nfor = '1ms'\nfault = 'power-loss'\non = ['n1']\nlying = '1s'\n";
    let args = "--lock redis-single --redis-persistence always --hold 20ms --brief --time-limit 300s";
    let ran = planned(lying, &format!("--driver {driver} {args}"));
    ran.assert_all_effective(&["power-loss"]);
    let losses = losses(&ran);
    assert!(sum(&losses[..1], "lied") > 0 && sum(&losses[..1], "bytes") > 0, "{losses:?}");
}

fn etcd_loses_nothing(driver: &str) {
    let args = "--lock etcd --brief --time-limit 300s";
    keeps_everything(&planned(&outages("['n1', 'n2', 'n3']"), &format!("--driver {driver} {args}")));
}

/// Whatever else the disks dropped (space set aside, files on which nothing relied yet), no lock was given
/// twice.
fn keeps_everything(ran: &Ran) {
    assert_eq!(ran.code, 0);
    ran.assert_all_effective(&["power-loss", "power-loss"]);
    assert_eq!(ran.outcome("exclusion"), Outcome::Valid);
    let losses = losses(ran);
    assert!(sum(&losses, "written") > 0 && sum(&losses, "fsyncs") > 0, "the server did not use the disk");
}

/// A disk that is full when the lock was granted. Whether a client writes anything before it is healed is
/// chance (`chance::redis_ends_where_its_disk_is_full_by_night`).
pub const FULL_DISK: &str =
    "[[fault]]\nwhen = 'any acquire'\nfor = '4s'\nfault = 'disk-full'\non = ['n1']\nbytes_left = 100\n";

pub const ON_A_FULL_DISK: &str =
    "--lock redis-single --redis-persistence always --ttl 1s --brief --time-limit 300s";

fn a_full_disk_is_real(driver: &str) {
    assert_disk_was_full(&planned(FULL_DISK, &format!("--driver {driver} {ON_A_FULL_DISK}")));
}

pub fn assert_disk_was_full(ran: &Ran) {
    ran.assert_all_effective(&["disk-full"]);
    let seen = ran.observed("inject", "disk-full", "n1");
    let full = (&seen["before"]["full"], &seen["after"]["full"]);
    assert_eq!(full, (&Value::Bool(false), &Value::Bool(true)));
    assert_eq!(ran.observed("heal", "disk-full", "n1")["after"]["full"], false);
    assert_eq!(ran.outcome("progress"), Outcome::Valid);
}

/// As [`FULL_DISK`]; what the server waited for is chance, too.
pub const SLOW_DISK: &str =
    "[[fault]]\nwhen = 'any acquire'\nfor = '2s'\nfault = 'disk-slow'\non = ['n1']\nfsync_ms = 300\n";

pub const ON_A_SLOW_DISK: &str =
    "--lock redis-single --redis-persistence always --hold 20ms --brief --time-limit 300s";

fn a_slow_disk_is_real(driver: &str) {
    let ran = planned(SLOW_DISK, &format!("--driver {driver} {ON_A_SLOW_DISK}"));
    assert_eq!(ran.code, 0);
    assert_disk_was_slow(&ran);
}

/// Each fsync took as long as was asked for, at least.
pub fn assert_disk_was_slow(ran: &Ran) {
    ran.assert_all_effective(&["disk-slow"]);
    let seen = ran.observed("inject", "disk-slow", "n1");
    assert!(seen["after"]["ms"].as_f64() >= Some(300.0), "{seen}");
}
