//! `disk-slow`: servers' disks are slow, as dying ones. A server that gives up on its disk is started again.

use crate::disks::disk_fault::DiskNemesis;
use crate::disks::disk_tool::DiskCall;
use crate::plan::distributions::{draw_log, millis};
use crate::plan::topology::Topology;
use crate::tools::disk::{DiskProbe, Slow};
use fencepost_history::{Refusal, Stream};
use rand::RngExt;

pub(crate) const DISK_SLOW: DiskNemesis<Slow> = DiskNemesis {
    name: "disk-slow",
    about: "the disks of some servers get slow: each fsync, and often each write and read, takes longer",
    around: (1.0, 3.0),
    draw,
    call,
    shows,
    sentence: slowed,
    healing: "was as fast as before",
    label: "disk slow",
    summary: "disks were slow",
    still: |_| None,
};

fn draw(topology: &Topology, random: &mut Stream) -> Slow {
    // From a spinning disk to one that hangs for as long as a lock lives.
    let longest_ms = (millis(topology.ttl) as f64).max(20.0);
    let fsync_ms = draw_log(10.0, longest_ms, random) as u64;
    let all = random.random_bool(0.5);
    let each_ms = if all { (fsync_ms / 10).max(1) } else { 0 };
    Slow { read_ms: each_ms, write_ms: each_ms, fsync_ms }
}

fn call(slow: &Slow) -> Result<DiskCall, Refusal> {
    if *slow == Slow::default() {
        return Err(Refusal::new("it slows nothing down: give `read_ms`, `write_ms` or `fsync_ms`"));
    }
    Ok(DiskCall::Slow(*slow))
}

/// "was slow: each fsync took 50 ms longer, each write took 5 ms longer".
fn slowed(slow: &Slow) -> String {
    let of = [(slow.fsync_ms, "fsync"), (slow.write_ms, "write"), (slow.read_ms, "read")];
    let slow = of.into_iter().filter(|(ms, _)| *ms > 0);
    let slow = slow.map(|(ms, what)| format!("each {what} took {ms} ms longer"));
    format!("was slow: {}", slow.collect::<Vec<_>>().join(", "))
}

/// A probe writes once and fsyncs once. That reads are slow shows in what the server met, at the healing.
fn shows(slow: &Slow, probe: &DiskProbe) -> bool {
    probe.ms >= (slow.write_ms + slow.fsync_ms) as f64
}
