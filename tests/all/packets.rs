//! The network nemeses on real clusters: each shows in what the nodes themselves measure, is gone after
//! healing, and leaves nothing behind.

use crate::common::{Ran, planned, under};
use fencepost_history::Kind;
use serde_json::Value;

under!(
    local: [every_impairment_is_seen_and_healed, partitions_of_every_kind_are_real],
    docker: [],
    docker_by_night: [every_impairment_is_seen_and_healed, partitions_of_every_kind_are_real],
);

/// Runs a plan in which each fault waits for the one before it, and which is over when the last one is.
fn run_plan(driver: &str, plan: &str) -> Ran {
    let ran = planned(plan, &format!("--lock redlock --driver {driver} --ttl 1s --brief --time-limit 300s"));
    // What is tested is the fault. A holder that a partition keeps waiting for longer than its TTL overstays,
    // and a verdict that says so is right.
    assert!([0, 1].contains(&ran.code), "the run itself failed: {}", ran.code);
    ran
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Bounds from below alone: what a busy machine adds, it adds to both. A round trip after the healing that is
/// shorter than the delay was not delayed.
fn every_impairment_is_seen_and_healed(driver: &str) {
    let ran = run_plan(
        driver,
        r#"
        [[fault]]
        when = "any acquire"
        for = "500ms"
        fault = "delay"
        on = ["c1"]
        delay = "400ms"
        peers = ["n1", "n2", "n3"]
        [[fault]]
        when = "delay healed"
        for = "500ms"
        fault = "loss"
        on = ["n1"]
        loss = 0.5
        loss_correlation = 0.2
        ways = "out"
        [[fault]]
        when = "loss healed"
        for = "500ms"
        fault = "reorder"
        on = ["c2"]
        delay = "200ms"
        reorder = 0.3
        [[fault]]
        when = "reorder healed"
        for = "500ms"
        fault = "duplicate"
        on = ["c1"]
        duplicate = 0.5
        [[fault]]
        when = "duplicate healed"
        for = "500ms"
        fault = "slow"
        on = ["c1"]
        rate_kbit = 64
        peers = ["storage"]
        "#,
    );
    ran.assert_faults_real();
    let injected = ran.nemesis_events("inject", Kind::Ok);
    for event in injected.iter().filter(|event| event.f != "slow") {
        assert_eq!(event.value["effective"], true, "{}: {}", event.f, event.value);
    }
    let delayed = ran.observed("inject", "delay", "c1");
    assert!(["netem", "emulator"].contains(&delayed["mechanism"].as_str().unwrap()), "{delayed}");
    let over = ["round_trip_ms", "round_trip_over_ms"].map(|name| delayed[name].as_f64());
    assert!(over.into_iter().flatten().all(|ms| ms >= 800.0) && over != [None, None], "{delayed}");
    assert!(number(&delayed["round_trip_ms_before"]) < 400.0, "{delayed}");
    assert!(number(&ran.observed("heal", "delay", "c1")["round_trip_ms"]) < 400.0);
    assert!(number(&ran.observed("heal", "loss", "n1")["packets"]["lost"]) > 0.0);
    assert!(number(&ran.observed("inject", "reorder", "c2")["echoes"]["overtaken"]) > 0.0);
    assert!(number(&ran.observed("inject", "duplicate", "c1")["echoes"]["duplicates"]) > 0.0);
    assert_line_is_slow(&ran.observed("inject", "slow", "c1"));
}

/// On such a line the last echo comes late, or not before the probe's patience ends.
pub fn assert_line_is_slow(seen: &Value) {
    assert!(seen["round_trip_over_ms"].is_number() || number(&seen["echoes"]["most_ms"]) > 50.0, "{seen}");
}

fn partitions_of_every_kind_are_real(driver: &str) {
    let ran = run_plan(
        driver,
        r#"
        [[fault]]
        when = "any acquire"
        for = "1s"
        fault = "partition"
        groups = "c1<n4,n5"
        [[fault]]
        when = "partition healed"
        for = "1s"
        fault = "partition"
        groups = "c2|storage"
        [[fault]]
        when = "partition healed 2 times"
        for = "1s"
        fault = "partition"
        groups = "n1|n2|c1,c2"
        "#,
    );
    ran.assert_all_effective(&["partition", "partition", "partition"]);
    let cut = |pair| assert_eq!(ran.observed("inject", "partition", pair)["connected"], false, "{pair}");
    ["c1-n4", "c1-n5", "c2-storage", "c1-n1", "c2-n2", "n1-n2"].into_iter().for_each(cut);
    // Only answers were lost: requests still reached n4, which lost nothing itself.
    let healed = ran.stages("heal", Kind::Ok).swap_remove(0);
    assert!(number(&healed["observed"]["c1"]["packets_dropped"]) > 0.0, "{healed}");
    assert_eq!(healed["observed"]["n4"], Value::Null, "{healed}");
    let whole = |pair| assert_eq!(ran.observed("heal", "partition", pair)["connected"], true, "{pair}");
    ["c1-n4", "c2-storage", "n1-n2"].into_iter().for_each(whole);
}
