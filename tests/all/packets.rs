//! The network nemeses on real clusters: each shows in what the nodes themselves measure, is gone after
//! healing, and leaves nothing behind.

use crate::common::turn::Weight;
use crate::common::{Ran, planned_weighed, test_until, under};
use fencepost_history::Kind;
use serde_json::Value;

under!(
    local: [every_impairment_is_seen_and_healed, partitions_of_every_kind_are_real, drawn_faults_take_effect],
    docker: [every_impairment_is_seen_and_healed],
    docker_by_night: [partitions_of_every_kind_are_real, drawn_faults_take_effect],
);

/// Runs a plan.
fn run_plan(driver: &str, plan: &str) -> Ran {
    // Round trips are compared with what was asked for.
    let ran = planned_weighed(
        Weight::PRECISE,
        plan,
        &format!("--lock redlock --driver {driver} --ttl 1s --time-limit 8s"),
    );
    // What is tested is the fault. A holder that a partition keeps waiting for longer than its TTL overstays,
    // and a verdict that says so is right.
    assert!([0, 1].contains(&ran.code), "the run itself failed: {}", ran.code);
    ran
}

/// What the nemesis saw on `target` in a stage of the fault of that name.
fn seen(ran: &Ran, stage: &str, fault: &str, target: &str) -> Value {
    let history = ran.history();
    let event = history.iter().find(|event| {
        event.kind == Kind::Ok
            && event.f == fault
            && event.value["stage"] == stage
            && event.value["observed"][target] != Value::Null
    });
    let event = event.unwrap_or_else(|| panic!("{fault} has no {stage} that tells of {target}"));
    if stage == "inject" {
        assert_eq!(event.value["effective"], true, "{fault}: {}", event.value);
    }
    event.value["observed"][target].clone()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn every_impairment_is_seen_and_healed(driver: &str) {
    let ran = run_plan(
        driver,
        r#"
        [[fault]]
        at_ms = 500
        for_ms = 500
        fault = "delay"
        on = ["c1"]
        delay_ms = 100
        peers = ["n1", "n2", "n3"]
        [[fault]]
        at_ms = 2000
        for_ms = 500
        fault = "loss"
        on = ["n1"]
        loss = 0.5
        loss_correlation = 0.2
        ways = "out"
        [[fault]]
        at_ms = 3500
        for_ms = 500
        fault = "reorder"
        on = ["c2"]
        delay_ms = 20
        reorder = 0.3
        [[fault]]
        at_ms = 5000
        for_ms = 500
        fault = "duplicate"
        on = ["c1"]
        duplicate = 0.5
        [[fault]]
        at_ms = 6500
        for_ms = 500
        fault = "slow"
        on = ["c1"]
        rate_kbit = 64
        peers = ["storage"]
        "#,
    );
    ran.assert_faults_real();
    let delayed = seen(&ran, "inject", "delay", "c1");
    assert!(["netem", "emulator"].contains(&delayed["mechanism"].as_str().unwrap()), "{delayed}");
    assert!((200.0..400.0).contains(&number(&delayed["round_trip_ms"])), "{delayed}");
    assert!(number(&delayed["round_trip_ms_before"]) < 100.0, "{delayed}");
    assert!(number(&seen(&ran, "heal", "delay", "c1")["round_trip_ms"]) < 150.0);
    assert!(number(&seen(&ran, "heal", "loss", "n1")["packets"]["lost"]) > 0.0);
    assert!(number(&seen(&ran, "inject", "reorder", "c2")["echoes"]["overtaken"]) > 0.0);
    assert!(number(&seen(&ran, "inject", "duplicate", "c1")["echoes"]["duplicates"]) > 0.0);
    // On such a line the last echo comes late, or not before the probe's patience ends.
    let slow = seen(&ran, "inject", "slow", "c1");
    assert!(slow["round_trip_over_ms"].is_number() || number(&slow["echoes"]["most_ms"]) > 50.0, "{slow}");
}

fn partitions_of_every_kind_are_real(driver: &str) {
    let ran = run_plan(
        driver,
        r#"
        [[fault]]
        at_ms = 500
        for_ms = 1000
        fault = "partition"
        on = ["c1"]
        groups = [["c1"], ["n4", "n5"]]
        one_way = "to-first"
        [[fault]]
        at_ms = 2500
        for_ms = 1000
        fault = "partition"
        on = ["c2"]
        groups = [["c2"], ["storage"]]
        [[fault]]
        at_ms = 4500
        for_ms = 1000
        fault = "partition"
        on = ["n1"]
        groups = [["n1"], ["n2"], ["c1", "c2"]]
        "#,
    );
    ran.assert_faults_real();
    let cut = |pair| assert_eq!(seen(&ran, "inject", "partition", pair)["connected"], false, "{pair}");
    ["c1-n4", "c1-n5", "c2-storage", "c1-n1", "c2-n2", "n1-n2"].into_iter().for_each(cut);
    // Only answers were lost: requests still reached n4, which lost nothing itself.
    let healed = ran.stages("heal", Kind::Ok).swap_remove(0);
    assert!(number(&healed["observed"]["c1"]["packets_dropped"]) > 0.0, "{healed}");
    assert_eq!(healed["observed"]["n4"], Value::Null, "{healed}");
    let whole = |pair| assert_eq!(seen(&ran, "heal", "partition", pair)["connected"], true, "{pair}");
    ["c1-n4", "c2-storage", "n1-n2"].into_iter().for_each(whole);
}

fn drawn_faults_take_effect(driver: &str) {
    let effective =
        |ran: &Ran| ran.stages("inject", Kind::Ok).iter().filter(|value| value["effective"] == true).count();
    test_until(
        &format!(
            "--lock redlock --driver {driver} --nemesis delay,loss,reorder,duplicate,slow \
             --nemesis-interval 500ms --ttl 1s --time-limit 8s"
        ),
        Ran::assert_faults_real,
        |ran| effective(ran) >= 4,
    );
}
