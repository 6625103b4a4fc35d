//! `disk-slow`: the disks of servers take their time, as a dying disk or a neighbour's backup makes them. A server that
//! gives up on so slow a disk is started again.

use crate::Scene;
use crate::disks::{Words, WorseDisks};
use crate::network::draw_log;
use crate::plan::millis;
use crate::tools::disk::Slow;
use fencepost_history::Stream;
use rand::RngExt;
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) const DISK_SLOW: WorseDisks = WorseDisks {
    name: "disk-slow",
    about: "the disks of some servers get slow: each fsync, and often each write and read, takes longer",
    around: (1.0, 3.0),
    draw,
    order,
    shows,
    words: Words {
        sentence: slowed,
        healing: "was as fast as before",
        label: "disk slow",
        summary: "disks were slow",
    },
    still: |_| None,
};

fn draw(scene: &Scene, random: &mut Stream) -> Value {
    // From a spinning disk to one that hangs for as long as a lock lives.
    let longest_ms = (millis(scene.ttl) as f64).max(20.0);
    let fsync_ms = draw_log(10.0, longest_ms, random) as u64;
    let all = random.random_bool(0.5);
    let each_ms = if all { (fsync_ms / 10).max(1) } else { 0 };
    json!({"read_ms": each_ms, "write_ms": each_ms, "fsync_ms": fsync_ms})
}

fn order(dose: &Value) -> Result<Value, String> {
    let slow = Slow::deserialize(dose).map_err(|error| {
        format!("its dose is not understood: {error} (it takes read_ms, write_ms and fsync_ms)")
    })?;
    if slow == Slow::default() {
        return Err("its dose slows nothing down: give read_ms, write_ms or fsync_ms".to_owned());
    }
    let Slow { read_ms, write_ms, fsync_ms } = slow;
    Ok(json!({"do": "slow", "read_ms": read_ms, "write_ms": write_ms, "fsync_ms": fsync_ms}))
}

/// "was slow: each fsync took 50 ms longer, each write took 5 ms longer".
fn slowed(order: &Value) -> String {
    let of = [("fsync_ms", "fsync"), ("write_ms", "write"), ("read_ms", "read")];
    let slow = of.into_iter().filter_map(|(name, what)| {
        let ms = order[name].as_u64().filter(|ms| *ms > 0)?;
        Some(format!("each {what} took {ms} ms longer"))
    });
    format!("was slow: {}", slow.collect::<Vec<_>>().join(", "))
}

/// A probe writes once and fsyncs once. That reads are slow shows in what the server met, at the healing.
fn shows(order: &Value, met: &Value) -> bool {
    let asked_ms = ["write_ms", "fsync_ms"].iter().filter_map(|field| order[*field].as_u64()).sum::<u64>();
    met["ms"].as_f64().is_some_and(|ms| ms >= asked_ms as f64)
}
