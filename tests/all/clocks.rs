//! Clocks that jump, drift, strobe and stand still, in servers and clients, under both drivers. What is
//! believed is what the process itself says: Redis by TIME and PTTL, the others by a call of their own clock.

use crate::common::turn::Weight;
use crate::common::{Ran, planned_weighed, root, test, under, until_it_happens};
use fencepost_checker::Outcome;
use fencepost_history::{Kind, f};
use serde_json::Value;

under!(
    local: [a_key_expires_early_on_a_fast_clock, a_frozen_clock_keeps_keys_alive, a_strobe_goes_there_and_back, the_clocks_of_clients_go_wrong_too, a_restarted_server_keeps_its_clock, faults_on_one_clock_add_up_and_end_apart, libfaketime_does_the_same, libfaketime_carries_redis_8_and_valkey, etcd_counts_leases_by_the_monotonic_clock],
    docker: [a_restarted_server_keeps_its_clock, libfaketime_does_the_same],
    docker_by_night: [a_key_expires_early_on_a_fast_clock, a_frozen_clock_keeps_keys_alive, a_strobe_goes_there_and_back, the_clocks_of_clients_go_wrong_too, faults_on_one_clock_add_up_and_end_apart, etcd_counts_leases_by_the_monotonic_clock],
);

/// One look at a clock, from clocks.jsonl: seconds, wall and monotonic offset in milliseconds; none while it
/// is down.
struct Look {
    at_s: f64,
    /// The most by which `at_s` may be wrong.
    time_error_s: f64,
    wall_ms: Option<f64>,
    monotonic_ms: Option<f64>,
}

impl Look {
    /// Whether it was certainly taken between these times.
    fn is_within(&self, from_s: f64, to_s: f64) -> bool {
        self.at_s - self.time_error_s >= from_s && self.at_s + self.time_error_s <= to_s
    }
}

fn looks(ran: &Ran, node: &str) -> Vec<Look> {
    let text = std::fs::read_to_string(ran.folder().join("clocks.jsonl")).expect("looks at clocks");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON lines"));
    let of_node = lines.filter(|look| look["node"] == node);
    let look = |look: Value| Look {
        at_s: look["time"].as_f64().expect("a time") / 1e9,
        time_error_s: look["time_error_ms"].as_f64().expect("a precision") / 1e3,
        wall_ms: look["wall_ms"].as_f64(),
        monotonic_ms: look["monotonic_ms"].as_f64(),
    };
    of_node.map(look).collect()
}

/// Fault `number` of the plan: when it was seen to be in force, and when its healing began, in seconds.
fn in_force(ran: &Ran, number: u64) -> (f64, f64) {
    let at = |stage: &str, kind: Kind| {
        let events = ran.history();
        let mut found =
            events.iter().filter(|event| event.value["id"] == number && event.value["stage"] == stage);
        let event = found.find(|event| event.kind == kind).expect("the stage is in the history");
        event.time as f64 / 1e9
    };
    (at("inject", Kind::Ok), at("heal", Kind::Invoke))
}

/// Every look at the node within fault `number`, away from its edges, and there are some.
fn during(ran: &Ran, node: &str, number: u64) -> Vec<Look> {
    let (from, to) = in_force(ran, number);
    let looks: Vec<Look> = looks(ran, node)
        .into_iter()
        .filter(|look| look.is_within(from + 0.1, to - 0.1) && look.wall_ms.is_some())
        .collect();
    assert!(!looks.is_empty(), "there is no look at {node} during fault {number}");
    looks
}

/// The first and the last look show true clocks.
fn assert_true_before_and_after(ran: &Ran, node: &str) {
    let looks = looks(ran, node);
    for look in [looks.first().expect("a look"), looks.last().expect("a look")] {
        let off = look.wall_ms.expect("it runs").abs().max(look.monotonic_ms.expect("it runs").abs());
        assert!(off < 50.0, "{node} is {off} ms off at {} s", look.at_s);
    }
}

/// How many milliseconds a second the wall clock gains over these looks: the median over all pairs of looks
/// (Theil and Sen), since on a busy machine the one or other look comes later than its time says.
fn gain(looks: &[Look]) -> f64 {
    let gained_ms = |from: &Look, to: &Look| to.wall_ms.expect("it runs") - from.wall_ms.expect("it runs");
    let pairs = looks.iter().enumerate().flat_map(|(at, from)| looks[at..].iter().map(move |to| (from, to)));
    let apart = pairs.filter(|(from, to)| to.at_s - from.at_s > 0.4);
    let mut slopes: Vec<f64> = apart.map(|(from, to)| gained_ms(from, to) / (to.at_s - from.at_s)).collect();
    assert!(!slopes.is_empty(), "too few looks to tell a rate");
    slopes.sort_by(f64::total_cmp);
    slopes[slopes.len() / 2]
}

/// A fault of a plan; `parameters` are lines.
fn planned_fault(at_ms: u64, for_ms: u64, fault: &str, on: &str, parameters: &str) -> String {
    format!(
        "[[fault]]\nat_ms = {at_ms}\nfor_ms = {for_ms}\nfault = \"{fault}\"\non = [\"{on}\"]\n{parameters}\n"
    )
}

/// What clocks show is compared with the time at which they were looked at: a run of these tests needs its
/// cores in time.
fn precise(plan: &str, args: &str) -> Ran {
    planned_weighed(Weight::PRECISE, plan, args)
}

/// Twenty times as fast, a lease of two seconds is over after 0.1 s, and its holder is still inside.
fn a_key_expires_early_on_a_fast_clock(driver: &str) {
    for (model, gained) in
        [("linear", 16_000.0..22_000.0), ("step", 10_000.0..28_000.0), ("non-ideal", 1_000.0..20_500.0)]
    {
        let parameters = format!("model = \"{model}\"\ndrift_ppm = 19000000\nperiod_ms = 400\nseed = 1");
        let args = format!("--driver {driver} --lock redis-single --hold 300ms --time-limit 5s");
        let drifted = |ran: &Ran| {
            ran.assert_faults_real();
            assert_true_before_and_after(ran, "n1");
            let gain = gain(&during(ran, "n1", 0));
            assert!(gained.contains(&gain), "{model}: {gain} ms a second");
        };
        let ran = until_it_happens(
            |seed| {
                precise(
                    &planned_fault(500, 3000, "clock-drift", "n1", &parameters),
                    &format!("{args} --seed {seed}"),
                )
            },
            drifted,
            |ran| model != "linear" || ran.findings("exclusion", "granted-twice") > 0,
        );
        if model == "linear" {
            assert_eq!(ran.code, 1);
            assert!(ran.stdout.contains("too fast"), "the story names the fault");
        }
    }
}

/// While its holder sleeps for far longer than the TTL, no other process gets a key whose time stands still;
/// and TIME does.
fn a_frozen_clock_keeps_keys_alive(driver: &str) {
    let plan = planned_fault(500, 6000, "clock-freeze", "n1", "clock = \"wall\"")
        + &planned_fault(1500, 4000, "pause", "c1", "")
        + &planned_fault(1500, 4000, "pause", "c2", "");
    // Both clients sleep in the middle of things, and one of their processes holds the lock nearly always.
    let ran = precise(
        &plan,
        &format!(
            "--driver {driver} --lock redis-single --clients 3 --concurrency 9 --hold 400ms --time-limit 8s --ttl 1s"
        ),
    );
    assert_true_before_and_after(&ran, "n1");
    let gain = gain(&during(&ran, "n1", 0));
    assert!((-1030.0..-970.0).contains(&gain), "the clock is not still: {gain} ms a second");
    // No process was let in after a lease that ended by itself; when the clock is right again, that is
    // another matter.
    let (_, thawed_s) = in_force(&ran, 0);
    let early = |finding: &fencepost_checker::Finding| (finding.time as f64) < thawed_s * 1e9;
    let verdict = ran.verdict();
    let exclusion = verdict.of_checker("exclusion").expect("a verdict");
    assert!(!exclusion.findings.iter().any(early), "a lease ended although its clock stood still");
}

fn a_strobe_goes_there_and_back(driver: &str) {
    let parameters = "clock = \"wall\"\nsize_ms = 20000\nperiod_ms = 700";
    let args = format!("--driver {driver} --lock redis-single --time-limit 7s");
    let ran = until_it_happens(
        |seed| {
            precise(
                &planned_fault(500, 6000, "clock-strobe", "n1", parameters),
                &format!("{args} --seed {seed}"),
            )
        },
        Ran::assert_faults_real,
        |ran| ran.code == 1,
    );
    assert_true_before_and_after(&ran, "n1");
    let walls: Vec<f64> = during(&ran, "n1", 0).iter().filter_map(|look| look.wall_ms).collect();
    let ahead = walls.iter().filter(|ms| (**ms - 20_000.0).abs() < 50.0).count();
    let right = walls.iter().filter(|ms| ms.abs() < 50.0).count();
    assert_eq!(ahead + right, walls.len(), "{walls:?}");
    assert!(ahead >= 3 && right >= 3, "{walls:?}");
}

/// A hundred minutes for the client are none for the controller, by whose clock the verdict is found.
fn the_clocks_of_clients_go_wrong_too(driver: &str) {
    let plan = planned_fault(1000, 2000, "clock-jump", "c1", "wall_ms = 5000\nmonotonic_ms = 6000000");
    let ran = precise(
        &plan,
        &format!("--driver {driver} --lock redis-single --careful --hold 200ms --time-limit 5s --ttl 1s"),
    );
    ran.assert_faults_real();
    assert_true_before_and_after(&ran, "c1");
    for look in during(&ran, "c1", 0) {
        assert!((look.wall_ms.expect("it runs") - 5000.0).abs() < 50.0);
        assert!((look.monotonic_ms.expect("it runs") - 6_000_000.0).abs() < 50.0);
    }
    let last = ran.history().last().expect("a history").time;
    assert!(last < 300_000_000_000, "the run seems to have taken {last} ns");
}

fn a_restarted_server_keeps_its_clock(driver: &str) {
    // Long enough for a restart that takes its time on a busy machine.
    let plan = planned_fault(500, 16_000, "clock-jump", "n1", "wall_ms = 60000")
        + &planned_fault(1500, 500, "kill", "n1", "");
    let ran =
        precise(&plan, &format!("--driver {driver} --lock redis-single --time-limit 18s --workload lock"));
    ran.assert_faults_real();
    assert_true_before_and_after(&ran, "n1");
    let (_, restarted_s) = in_force(&ran, 1);
    let after: Vec<Look> =
        during(&ran, "n1", 0).into_iter().filter(|look| look.at_s > restarted_s + 0.5).collect();
    assert!(after.len() > 3, "there is no look after the restart");
    for look in after {
        let wall_ms = look.wall_ms.expect("it runs");
        assert!((wall_ms - 60_000.0).abs() < 50.0, "{wall_ms} ms at {} s", look.at_s);
    }
}

fn overlapping() -> String {
    planned_fault(500, 3000, "clock-jump", "n1", "wall_ms = 30000")
        + &planned_fault(1500, 4000, "clock-drift", "n1", "drift_ppm = 500000")
}

/// The jump's healing takes back the jump, and leaves the drift where it has come to by itself.
fn assert_added_up(ran: &Ran) {
    ran.assert_faults_real();
    assert_true_before_and_after(ran, "n1");
    let ((drift_from, _), (_, jump_to)) = (in_force(ran, 1), in_force(ran, 0));
    let drifted_ms = |look: &Look| 500.0 * (look.at_s - drift_from);
    // The drift began at some time of its injection, which on a busy machine takes a while.
    let invoked_s = ran.nemesis_events("inject", Kind::Invoke)[1].time as f64 / 1e9;
    let early_ms = 500.0 * (drift_from - invoked_s);
    for look in looks(ran, "n1").iter().filter(|look| look.at_s > drift_from + 0.2) {
        let wall_ms = look.wall_ms.expect("it runs");
        let due = if look.is_within(drift_from, jump_to - 0.1) {
            30_000.0 + drifted_ms(look)
        } else if look.is_within(jump_to + 0.2, in_force(ran, 1).1 - 0.1) {
            drifted_ms(look)
        } else {
            continue;
        };
        // The drift goes on while the clock is being looked at.
        let look_ms = 500.0 * look.time_error_s;
        let allowed = due - 100.0 - look_ms..due + early_ms + 100.0 + look_ms;
        assert!(allowed.contains(&wall_ms), "{wall_ms} ms and not in {allowed:?} at {} s", look.at_s);
    }
}

fn faults_on_one_clock_add_up_and_end_apart(driver: &str) {
    assert_added_up(&precise(
        &overlapping(),
        &format!("--driver {driver} --lock redis-single --time-limit 7s"),
    ));
}

fn libfaketime_does_the_same(driver: &str) {
    let args = format!("--driver {driver} --lock redis-single --time-limit 7s --clock-mechanism faketime");
    let ran = until_it_happens(
        |seed| precise(&overlapping(), &format!("{args} --seed {seed}")),
        assert_added_up,
        |ran| ran.code == 1,
    );
    for injected in ran.stages("inject", Kind::Ok) {
        assert_eq!(injected["observed"]["n1"]["mechanism"], "faketime");
    }
}

/// Servers of another suite than the built-in ones, which ask more of jemalloc.
fn libfaketime_carries_redis_8_and_valkey(driver: &str) {
    for server in ["redis-8", "valkey"] {
        let lock = format!("{}/tests/locks/{server}", root());
        let args = format!("--driver {driver} --lock {lock} --time-limit 7s --clock-mechanism faketime");
        let ran = until_it_happens(
            |seed| precise(&overlapping(), &format!("{args} --seed {seed}")),
            assert_added_up,
            |ran| ran.code == 1,
        );
        assert!(ran.stdout.contains("v=8."), "{}", ran.stdout);
        for injected in ran.stages("inject", Kind::Ok) {
            assert_eq!(injected["observed"]["n1"]["mechanism"], "faketime");
        }
    }
}

/// Both clocks of all members leap over every lease: its holder loses it, unless it has just been renewed.
fn etcd_counts_leases_by_the_monotonic_clock(driver: &str) {
    let both = "wall_ms = 60000\nmonotonic_ms = 60000";
    let plan = planned_fault(2000, 3000, "clock-jump", "n1\", \"n2\", \"n3", both);
    let args = format!("--driver {driver} --lock etcd --hold 1500ms --ttl 5s --time-limit 8s");
    let lost = |ran: &Ran| ran.history().iter().any(|event| event.f == f::LOST);
    until_it_happens(
        |seed| precise(&plan, &format!("{args} --seed {seed}")),
        Ran::assert_faults_real,
        |ran| lost(ran) || ran.outcome("exclusion") == Outcome::Violation,
    );
}

#[test]
fn a_mechanism_that_does_not_reach_the_servers_is_refused() {
    let ran = test("--lock etcd --nemesis clock-jump --clock-mechanism faketime");
    assert_eq!(ran.code, 254);
    assert!(ran.stderr.contains("use vdso"), "{}", ran.stderr);
}
