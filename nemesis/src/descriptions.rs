//! What faults say about themselves, checked nemesis by nemesis.

use fencepost_history::{FaultDescription, FaultEffect};
use serde_json::{Value, json};

fn described(name: &str, on: &[&str], parameters: Value, observed: Value) -> FaultDescription {
    let on: Vec<String> = on.iter().map(|name| (*name).to_owned()).collect();
    let parameters = parameters.as_object().cloned().unwrap_or_default();
    let fault = crate::find(name).unwrap().prepare(&on, &parameters).unwrap();
    fault.describe(&observed.as_object().cloned().unwrap_or_default())
}

fn sentence(name: &str, on: &[&str], parameters: Value) -> String {
    described(name, on, parameters, Value::Null).sentence
}

#[test]
fn equal_jumps_are_named_once() {
    let seen = json!({"n1": {"wall_ms": 60001, "monotonic_ms": 60000}, "n2": {"wall_ms": 60002, "monotonic_ms": 60000},
        "n3": {"wall_ms": 60001, "monotonic_ms": 30000}});
    let jump = json!({"wall_ms": 60000, "monotonic_ms": 60000});
    assert_eq!(
        described("clock-jump", &["n1", "n2", "n3"], jump, seen).sentence,
        "the clocks of n1 and n2 jumped forward by 60.000 s; the wall clock of n3 jumped forward by 60.000 s, the \
         monotonic one forward by 30.000 s"
    );
}

#[test]
fn a_clock_that_was_left_alone_is_not_named() {
    let seen = json!({"n1": {"wall_ms": 30000.2, "monotonic_ms": 0.4}, "n2": {"wall_ms": 30001, "monotonic_ms": 2.5}});
    let jump = described("clock-jump", &["n1", "n2"], json!({"wall_ms": 30000, "monotonic_ms": 0}), seen);
    assert_eq!(jump.sentence, "the wall clocks of n1 and n2 jumped forward by 30.000 s");
    assert_eq!(jump.label, "n1 n2 clock +30.0 s");
    assert!(jump.moves_clocks && jump.keeps_memory && !jump.takes_down);
}

#[test]
fn each_nemesis_describes_its_faults() {
    let cut = |more: Value| {
        let mut groups = json!({"groups": [["c1"], ["n1", "n2"]]});
        groups.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        sentence("partition", &["c1"], groups)
    };
    assert_eq!(cut(json!({"one_way": "to-first"})), "packets from n1 and n2 to c1 were lost, and only those");
    assert_eq!(cut(json!({})), "the network was cut between c1 | n1 and n2");
    assert_eq!(sentence("partition", &["n1"], json!({"deaf": {"n1": ["n2"]}})), "n1 lost what came from n2");
    let delay = json!({"delay_ms": 300.0, "jitter_ms": 20.0, "peers": ["n1"], "ways": "in"});
    assert_eq!(
        sentence("delay", &["c1"], delay),
        "on the way from n1 to c1, each packet was held back for 300 ms, give or take 20 ms"
    );
    let loss = json!({"loss": 0.305, "loss_correlation": 0.5, "peers": ["storage"], "ways": "out"});
    assert_eq!(
        sentence("loss", &["c1"], loss),
        "on the way from c1 to storage, 30.5 % of the packets were lost, in bursts"
    );
    assert_eq!(
        sentence("duplicate", &["c1"], json!({"duplicate": 0.2})),
        "on the way between c1 and all others, 20 % of the packets came twice"
    );
    let reorder = sentence("reorder", &["c1"], json!({"reorder": 0.25, "delay_ms": 5, "peers": ["n1"]}));
    assert!(reorder.contains("25 % of the packets overtook"), "{reorder}");
    let slow = sentence("slow", &["c1"], json!({"rate_kbit": 64, "peers": ["n1"]}));
    assert!(slow.contains("no more than 64 kbit passed a second"), "{slow}");
    assert_eq!(sentence("disk-full", &["n1"], json!({"bytes_left": 0})), "the disk of n1 was full");
    assert_eq!(
        sentence("disk-slow", &["n1"], json!({"read_ms": 0, "write_ms": 5, "fsync_ms": 50})),
        "the disk of n1 was slow: each fsync took 50 ms longer, each write took 5 ms longer"
    );
    let failing = sentence("disk-error", &["n1"], json!({"call": "fsync", "share": 0.5}));
    assert_eq!(failing, "the disk of n1 failed: 50 % of fsyncs ended with EIO");
    let lost = json!({"call": "write", "nth": 3, "path": "wal", "lost": true});
    assert_eq!(
        sentence("disk-error", &["n1"], lost),
        "the disk of n1 failed once: write number 3 of *wal* was lost, but reported as done"
    );
    let flipped = sentence("power-loss", &["n1", "n2"], json!({"flipped_bits": 2}));
    assert!(flipped.ends_with("; 2 bits of what n1 had stored turned"), "{flipped}");
    assert_eq!(
        sentence("clock-drift", &["n1"], json!({"clock": "both", "drift_ppm": -50000})),
        "the clock of n1 began to run up to 5.0 % too slow"
    );
    let transferred =
        described("failover", &["n1"], Value::Null, json!({"n1": {"led": true, "leader": "n2"}}));
    assert_eq!(transferred.sentence, "n1 transferred its leadership to n2");
    assert!(sentence("power-loss", &["n1"], Value::Null).contains("n1 lost power"));
}

#[test]
fn each_fault_says_what_it_can_do() {
    use FaultEffect::{Delays, Duplicates, Forgets, Kills, MovesClocks, Parts, Refuses, Stops};
    let cut = |more: Value| {
        let mut groups = json!({"groups": [["c1"], ["n1", "n2"]]});
        groups.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        groups
    };
    for (name, parameters, expected) in [
        ("kill", Value::Null, &[Stops, Kills][..]),
        ("thread-pause", json!({"thread": "last"}), &[Delays]),
        ("cpu", json!({"share": 0.1}), &[Delays]),
        ("script-flush", Value::Null, &[Refuses]),
        ("evict", json!({"policy": "allkeys-lru"}), &[Forgets, Refuses]),
        ("terminate", Value::Null, &[Stops, Kills, Delays]),
        ("rolling", Value::Null, &[Kills, Delays]),
        ("pause", Value::Null, &[Stops]),
        ("pause", json!({"stop_ms": 50, "run_ms": 10}), &[Delays]),
        ("power-loss", Value::Null, &[Stops, Forgets]),
        ("clock-jump", json!({"wall_ms": 60000, "monotonic_ms": 0}), &[MovesClocks]),
        ("partition", cut(json!({})), &[Parts]),
        // What still passes one way may arrive.
        ("partition", cut(json!({"one_way": "to-first"})), &[Delays]),
        ("loss", json!({"loss": 0.3, "peers": ["n1"]}), &[Delays]),
        ("duplicate", json!({"duplicate": 0.3, "peers": ["n1"]}), &[Duplicates]),
        ("disk-full", json!({"bytes_left": 0}), &[Forgets, Delays, Refuses]),
        ("failover", Value::Null, &[Forgets, Delays]),
    ] {
        assert_eq!(
            described(name, &["n1"], parameters.clone(), Value::Null).effects,
            expected,
            "{name} {parameters}"
        );
    }
}

#[test]
fn a_strobe_does_not_take_its_targets_down() {
    let strobe = described("pause", &["c1"], json!({"stop_ms": 50, "run_ms": 10}), Value::Null);
    assert_eq!(strobe.sentence, "c1 was stopped (SIGSTOP) again and again, for 50 ms with 10 ms in between");
    assert!(!strobe.takes_down && described("pause", &["c1"], Value::Null, Value::Null).takes_down);
}
