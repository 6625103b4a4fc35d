//! Clocks that jump, drift, strobe and stand still, in servers and clients, under both drivers. What is
//! believed is what the process itself says: Redis by TIME and PTTL, the others by a call of their own clock.

use crate::common::{Ran, directed, planned, root, test, under};
use fencepost_history::Kind;
use serde_json::Value;

under!(
    local: [a_key_expires_early_on_a_fast_clock, every_model_of_drift_gains_what_it_says, a_frozen_clock_keeps_keys_alive, a_strobe_goes_there_and_back, the_clocks_of_clients_go_wrong_too, a_restarted_server_keeps_its_clock, faults_on_one_clock_add_up_and_end_apart, libfaketime_does_the_same],
    local_by_night: [libfaketime_carries_redis_8_and_valkey],
    docker: [],
    docker_by_night: [a_key_expires_early_on_a_fast_clock, every_model_of_drift_gains_what_it_says, a_frozen_clock_keeps_keys_alive, a_strobe_goes_there_and_back, the_clocks_of_clients_go_wrong_too, a_restarted_server_keeps_its_clock, faults_on_one_clock_add_up_and_end_apart, libfaketime_does_the_same],
);

/// What a clock may be off beyond the error of a look, in milliseconds.
const EXACT_MS: f64 = 5.0;

/// One look at a clock, from clocks.jsonl: seconds, wall and monotonic offset in milliseconds; none while it
/// is down.
pub struct Look {
    pub at_s: f64,
    /// The most by which `at_s` may be wrong: a busy machine makes this large, and nothing else.
    time_error_s: f64,
    /// The most by which the offsets may be wrong.
    error_ms: f64,
    wall_ms: Option<f64>,
    monotonic_ms: Option<f64>,
}

impl Look {
    /// Whether it was certainly taken between these times.
    fn is_within(&self, from_s: f64, to_s: f64) -> bool {
        self.at_s - self.time_error_s >= from_s && self.at_s + self.time_error_s <= to_s
    }

    /// Fails if one of the clocks was certainly not off by so much.
    fn assert_off(&self, wall_ms: f64, monotonic_ms: f64) {
        let off =
            [self.wall_ms.expect("it runs") - wall_ms, self.monotonic_ms.expect("it runs") - monotonic_ms];
        let may_ms = EXACT_MS + self.error_ms;
        assert!(
            off.iter().all(|off| off.abs() <= may_ms),
            "wrong by {off:?} and not {may_ms} ms at {} s",
            self.at_s
        );
    }
}

pub fn looks(ran: &Ran, node: &str) -> Vec<Look> {
    let text = std::fs::read_to_string(ran.folder().join("clocks.jsonl")).expect("looks at clocks");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON lines"));
    let of_node = lines.filter(|look| look["node"] == node);
    let look = |look: Value| Look {
        at_s: look["time"].as_f64().expect("a time") / 1e9,
        time_error_s: look["time_error_ms"].as_f64().expect("a precision") / 1e3,
        error_ms: look["error_ms"].as_f64().unwrap_or(0.0),
        wall_ms: look["wall_ms"].as_f64(),
        monotonic_ms: look["monotonic_ms"].as_f64(),
    };
    of_node.map(look).collect()
}

/// When fault `number` of the plan came to this stage, in seconds.
fn at(ran: &Ran, number: u64, stage: &str, kind: Kind) -> f64 {
    let events = ran.nemesis_events(stage, kind);
    let event = events.iter().find(|event| event.value["id"] == number);
    event.expect("the stage is in the history").time as f64 / 1e9
}

/// Every look at the node for which fault `number` was certainly in force. How many there are, the machine
/// decides.
pub fn during(ran: &Ran, node: &str, number: u64) -> Vec<Look> {
    let (from, to) = (at(ran, number, "inject", Kind::Ok), at(ran, number, "heal", Kind::Invoke));
    let looks = looks(ran, node).into_iter();
    looks.filter(|look| look.is_within(from, to) && look.wall_ms.is_some()).collect()
}

/// Every look that ended before the first fault began shows true clocks (a fault may begin before the first
/// look), and so does the last one.
fn assert_true_before_and_after(ran: &Ran, node: &str) {
    let looks = looks(ran, node);
    let first_fault_s = at(ran, 0, "inject", Kind::Invoke);
    let before = looks.iter().filter(|look| look.is_within(f64::MIN, first_fault_s));
    for look in before.chain([looks.last().expect("a look")]) {
        look.assert_off(0.0, 0.0);
    }
}

/// The wall clock's offset as the fault itself saw it right before its healing, in milliseconds.
fn at_its_end(ran: &Ran, fault: &str, node: &str) -> f64 {
    ran.observed("heal", fault, node)["was"]["wall_ms"].as_f64().expect("the clock was read")
}

/// What the wall clock gained from the injection of its only fault to the healing, in milliseconds a second:
/// the least and the most that fit the times in between.
fn gain(ran: &Ran, fault: &str, node: &str) -> (f64, f64) {
    let gained = at_its_end(ran, fault, node);
    let shortest = at(ran, 0, "heal", Kind::Invoke) - at(ran, 0, "inject", Kind::Ok);
    let longest = at(ran, 0, "heal", Kind::Ok) - at(ran, 0, "inject", Kind::Invoke);
    let rates = [gained / shortest, gained / longest];
    (rates[0].min(rates[1]), rates[0].max(rates[1]))
}

/// A fault of a plan; `parameters` are lines.
fn planned_fault(when: &str, for_ms: u64, fault: &str, on: &str, parameters: &str) -> String {
    format!("[[fault]]\nwhen = '{when}'\nfor_ms = {for_ms}\nfault = '{fault}'\non = ['{on}']\n{parameters}\n")
}

/// Runs a plan, until its faults are over.
fn run(plan: &str, args: &str) -> Ran {
    planned(plan, &format!("{args} --brief --time-limit 300s"))
}

/// Twenty times as fast, a lease of 20 s is over after one, and its holder, who waits for the next one, is
/// still inside.
const FAST_CLOCK: &str = r#"
about = "the clock of the server runs twenty times as fast while client 1 holds the lock"
lock = "redis-single"
ttl = "20s"
acquire-timeout = "60s"
time-limit = "300s"

[[client]]
name = "c1"
script = ["acquire", "read", "wait c2 acquire", "write", "release"]

[[client]]
name = "c2"
script = ["wait clock-drift injected", "acquire", "read", "wait c1 begins release", "write", "release"]

[[fault]]
when = "c1 acquire"
fault = "clock-drift"
on = ["n1"]
drift_ppm = 19000000
for = "60s"
until = "c1 begins release"

[[expect]]
violation = { checker = "exclusion", class = "granted-twice" }
"#;

fn a_key_expires_early_on_a_fast_clock(driver: &str) {
    let ran = directed(FAST_CLOCK, &format!("--driver {driver}"));
    assert_eq!(ran.code, 0, "the scenario shows it");
    ran.assert_faults_real();
    assert!(ran.findings("exclusion", "granted-twice") > 0);
    let (code, text) = ran.analyzed();
    assert_eq!(code, Some(1));
    assert!(text.contains("too fast"), "the story names the fault: {text}");
}

/// By 19 s a second: all the time, in steps, and with a rate that wanders.
fn every_model_of_drift_gains_what_it_says(driver: &str) {
    for (model, least, most) in
        [("linear", 16_000.0, 22_000.0), ("step", 10_000.0, 28_000.0), ("non-ideal", 1_000.0, 20_500.0)]
    {
        let parameters = format!("model = \"{model}\"\ndrift_ppm = 19000000\nperiod_ms = 400\nseed = 1");
        let plan = planned_fault("any acquire", 3000, "clock-drift", "n1", &parameters);
        let ran = run(&plan, &format!("--driver {driver} --lock redis-single --hold 300ms"));
        ran.assert_all_effective(&["clock-drift"]);
        assert_true_before_and_after(&ran, "n1");
        let (low, high) = gain(&ran, "clock-drift", "n1");
        assert!(low <= most && high >= least, "{model}: {low} to {high} ms a second");
    }
}

/// While its holder sleeps for far longer than the TTL, no other process gets a key whose time stands still;
/// and TIME does.
fn a_frozen_clock_keeps_keys_alive(driver: &str) {
    let pause = "[[fault]]\nwhen = 'clock-freeze injected'\nthen = { f = 'acquire' }\nfor = '4s'\n\
                 fault = 'pause'\non = ['holder']\n";
    let plan = planned_fault("any acquire", 9000, "clock-freeze", "n1", "clock = 'wall'") + pause;
    let args = "--lock redis-single --clients 3 --concurrency 9 --hold 400ms --ttl 1s";
    let ran = run(&plan, &format!("--driver {driver} {args}"));
    ran.assert_faults_real();
    assert_true_before_and_after(&ran, "n1");
    let (low, high) = gain(&ran, "clock-freeze", "n1");
    assert!(low <= -970.0 && high >= -1030.0, "the clock is not still: {low} to {high} ms a second");
    // No process was let in after a lease that ended by itself; when the clock is right again, that is
    // another matter.
    let thawed_s = at(&ran, 0, "heal", Kind::Invoke);
    let early = |finding: &fencepost_checker::Finding| (finding.time as f64) < thawed_s * 1e9;
    let verdict = ran.verdict();
    let exclusion = verdict.of_checker("exclusion").expect("a verdict");
    assert!(!exclusion.findings.iter().any(early), "a lease ended although its clock stood still");
}

/// Each look finds the clock there or back. What a strobe does to a lock is for `chance`.
pub const STROBE: &str = "[[fault]]\nwhen = 'any acquire'\nfor = '6s'\nfault = 'clock-strobe'\non = ['n1']\n\
                          clock = 'wall'\nsize_ms = 20000\nperiod_ms = 700\n";

fn a_strobe_goes_there_and_back(driver: &str) {
    let ran = run(STROBE, &format!("--driver {driver} --lock redis-single"));
    ran.assert_all_effective(&["clock-strobe"]);
    assert_true_before_and_after(&ran, "n1");
    assert_strobed(&ran);
}

/// How often the clock was seen ahead, and how often right.
pub fn assert_strobed(ran: &Ran) -> (usize, usize) {
    let (mut ahead, mut right) = (0, 0);
    for look in during(ran, "n1", 0) {
        let is_ahead = look.wall_ms.is_some_and(|ms| ms > 10_000.0);
        look.assert_off(if is_ahead { 20_000.0 } else { 0.0 }, 0.0);
        (ahead, right) = (ahead + usize::from(is_ahead), right + usize::from(!is_ahead));
    }
    (ahead, right)
}

/// A hundred minutes for the client are none for the controller, by whose clock the verdict is found.
fn the_clocks_of_clients_go_wrong_too(driver: &str) {
    let parameters = "wall_ms = 5000\nmonotonic_ms = 6000000";
    let plan = planned_fault("any acquire", 2000, "clock-jump", "c1", parameters);
    let args = "--lock redis-single --careful --hold 200ms --ttl 1s";
    let ran = run(&plan, &format!("--driver {driver} {args}"));
    ran.assert_all_effective(&["clock-jump"]);
    assert_true_before_and_after(&ran, "c1");
    during(&ran, "c1", 0).iter().for_each(|look| look.assert_off(5000.0, 6_000_000.0));
    let was = ran.observed("heal", "clock-jump", "c1")["was"]["monotonic_ms"].as_f64();
    assert!(was.is_some_and(|ms| (3e6..9e6).contains(&ms)), "{was:?}");
    let last = ran.history().last().expect("a history").time;
    assert!(last < 6_000_000_000_000, "the run seems to have taken {last} ns");
}

/// The jump lasts until the run ends, and the run until the server that was killed has served again for a
/// while: each of so many sections lasts a tenth of a second.
fn a_restarted_server_keeps_its_clock(driver: &str) {
    let plan = "[[fault]]\nwhen = 'any acquire'\nfault = 'clock-jump'\non = ['n1']\nwall = '60s'\n"
        .to_owned()
        + &planned_fault("clock-jump injected", 500, "kill", "n1", "");
    let args = "--lock redis-single --workload lock --acquisitions 100 --time-limit 300s";
    let ran = planned(&plan, &format!("--driver {driver} {args}"));
    ran.assert_all_effective(&["clock-jump", "kill"]);
    assert_true_before_and_after(&ran, "n1");
    let (killed_s, restarted_s) = (at(&ran, 1, "inject", Kind::Invoke), at(&ran, 1, "heal", Kind::Ok));
    assert!(restarted_s < at(&ran, 0, "heal", Kind::Invoke), "it was not restarted during the jump");
    for look in during(&ran, "n1", 0) {
        if look.is_within(0.0, killed_s) || look.is_within(restarted_s, f64::MAX) {
            look.assert_off(60_000.0, 0.0);
        }
    }
    let was = at_its_end(&ran, "clock-jump", "n1");
    assert!((30_000.0..90_000.0).contains(&was), "{was} ms after the restart");
}

/// A jump, and in it the beginning of a drift that outlasts it.
pub fn overlapping() -> String {
    planned_fault("any acquire", 3000, "clock-jump", "n1", "wall_ms = 30000")
        + &planned_fault("clock-jump injected", 5000, "clock-drift", "n1", "drift_ppm = 500000")
}

/// The jump's healing takes back the jump, and leaves the drift where it has come to by itself.
fn assert_added_up(ran: &Ran) {
    ran.assert_all_effective(&["clock-jump", "clock-drift"]);
    assert_true_before_and_after(ran, "n1");
    // The drift began at some time of its injection, which on a busy machine takes a while.
    let [invoked_s, drift_from] = [Kind::Invoke, Kind::Ok].map(|kind| at(ran, 1, "inject", kind));
    let early_ms = 500.0 * (drift_from - invoked_s);
    let drifted_ms = |at_s: f64| 500.0 * (at_s - drift_from);
    for look in during(ran, "n1", 1) {
        let jumped = match look {
            _ if look.is_within(drift_from, at(ran, 0, "heal", Kind::Invoke)) => 30_000.0,
            _ if look.is_within(at(ran, 0, "heal", Kind::Ok), f64::MAX) => 0.0,
            _ => continue,
        };
        // The drift goes on, in steps, while the clock is being looked at.
        let look_ms = 500.0 * look.time_error_s + look.error_ms + 100.0;
        let due = jumped + drifted_ms(look.at_s);
        let allowed = due - look_ms..due + early_ms + look_ms;
        let wall_ms = look.wall_ms.expect("it runs");
        assert!(allowed.contains(&wall_ms), "{wall_ms} ms and not in {allowed:?} at {} s", look.at_s);
    }
    // Each fault saw the sum of both right before its own healing.
    assert!(at_its_end(ran, "clock-jump", "n1") > 30_000.0);
    let drifted = at_its_end(ran, "clock-drift", "n1");
    let longest_s = at(ran, 1, "heal", Kind::Ok) - invoked_s;
    assert!(drifted > 500.0 && drifted < 500.0 * longest_s + 100.0, "{drifted} ms in {longest_s} s");
}

fn faults_on_one_clock_add_up_and_end_apart(driver: &str) {
    assert_added_up(&run(&overlapping(), &format!("--driver {driver} --lock redis-single")));
}

fn libfaketime_does_the_same(driver: &str) {
    assert_faketime_adds_up(driver, "redis-single");
}

/// Servers of another suite than the built-in ones, which ask more of jemalloc.
fn libfaketime_carries_redis_8_and_valkey(driver: &str) {
    for server in ["redis-8", "valkey"] {
        let ran = assert_faketime_adds_up(driver, &format!("{}/tests/locks/{server}", root()));
        assert!(ran.stdout.contains("v=8."), "{}", ran.stdout);
    }
}

pub fn assert_faketime_adds_up(driver: &str, lock: &str) -> Ran {
    let args = format!("--driver {driver} --lock {lock} --clock-mechanism faketime");
    let ran = run(&overlapping(), &args);
    assert_added_up(&ran);
    for injected in ran.stages("inject", Kind::Ok) {
        assert_eq!(injected["observed"]["n1"]["mechanism"], "faketime");
    }
    ran
}

#[test]
fn a_mechanism_that_does_not_reach_the_servers_is_refused() {
    let ran = test("--lock etcd --nemesis clock-jump --clock-mechanism faketime");
    assert_eq!(ran.code, 254);
    assert!(ran.stderr.contains("use vdso"), "{}", ran.stderr);
}
