//! What `redis-cli` reads of a server's clock, over a connection of its own.

use super::{ON_REDIS, watch};
use crate::common::nodes::Node;
use crate::common::under;
use crate::common::waiting::await_until;
use std::time::{SystemTime, UNIX_EPOCH};

under!(
    local: [redis_cli_reads_a_clock_that_jumped],
    local_by_night: [
        redis_cli_reads_a_clock_that_drifts,
        redis_cli_reads_a_clock_that_goes_there_and_back,
        redis_cli_reads_a_clock_that_stands_still,
    ],
    docker: [],
    docker_by_night: [
        redis_cli_reads_a_clock_that_jumped,
        redis_cli_reads_a_clock_that_drifts,
        redis_cli_reads_a_clock_that_goes_there_and_back,
        redis_cli_reads_a_clock_that_stands_still,
    ],
);

/// What Redis shows by TIME over a new connection, and the true time right before and after, in seconds.
#[derive(Debug)]
struct Time {
    before_s: f64,
    shown_s: f64,
    after_s: f64,
}

impl Time {
    fn of(node: &Node) -> Time {
        let now_s = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        let before_s = now_s();
        let text = node.run(&["redis-cli", "TIME"]);
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [seconds, micros] = numbers[..] else { panic!("redis-cli printed: {text}") };
        Time { before_s, shown_s: seconds + micros / 1e6, after_s: now_s() }
    }

    /// By less only where the look took minutes.
    fn is_an_hour_ahead(&self) -> bool {
        (3000.0..=3601.0).contains(&(self.shown_s - self.after_s))
    }
}

fn redis_cli_reads_a_clock_that_jumped(driver: &str) {
    watch(driver, ON_REDIS, "clock-jump", "on = ['n1']\nwall = '3600s'", |nodes, _| {
        Time::of(&nodes["n1"]).is_an_hour_ahead()
    });
}

/// Twenty times as fast, between two looks that are both taken while the fault is in force.
fn redis_cli_reads_a_clock_that_drifts(driver: &str) {
    let parameters = "on = ['n1']\nclock = 'wall'\nmodel = 'linear'\ndrift_ppm = 19000000";
    watch(driver, ON_REDIS, "clock-drift", parameters, |nodes, in_force| {
        let first = Time::of(&nodes["n1"]);
        let is_fast = || {
            let later = Time::of(&nodes["n1"]);
            later.shown_s - first.shown_s > 10.0 * (later.after_s - first.before_s)
        };
        if in_force {
            await_until("the clock gains ten seconds in one", is_fast);
            return true;
        }
        is_fast()
    });
}

fn redis_cli_reads_a_clock_that_goes_there_and_back(driver: &str) {
    let parameters = "on = ['n1']\nclock = 'wall'\nsize = '3600s'\nperiod = '200ms'";
    watch(driver, ON_REDIS, "clock-strobe", parameters, |nodes, in_force| {
        let is_ahead = || Time::of(&nodes["n1"]).is_an_hour_ahead();
        if in_force {
            for there in [true, false, true, false] {
                await_until(&format!("the clock is ahead: {there}"), || is_ahead() == there);
            }
            return true;
        }
        (0..50).any(|_| is_ahead())
    });
}

fn redis_cli_reads_a_clock_that_stands_still(driver: &str) {
    watch(driver, ON_REDIS, "clock-freeze", "on = ['n1']\nclock = 'wall'", |nodes, _| {
        let [first, second] = [(); 2].map(|()| Time::of(&nodes["n1"]));
        first.shown_s == second.shown_s
    });
}
