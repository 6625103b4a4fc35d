//! `disk-error`: reads, writes or fsyncs of servers' disks fail with EIO, each with a probability, or one
//! alone; or a write is lost. What a server then does is its own: it may end, refuse, or go on as if nothing
//! had been. Sources: "Can
//! Applications Recover from fsync Failures?" (Rebello et al., USENIX ATC 2020); PostgreSQL's "fsyncgate".

use crate::disks::disk_fault::DiskNemesis;
use crate::disks::disk_tool::DiskCall;
use crate::tools::disk::{DiskCallKind, Failing};
use fencepost_history::Refusal;
use rand::RngExt;

/// Each probe is an fsync of a file: more would take too long.
const NTH_MAX: u32 = 1000;

pub(crate) const DISK_ERROR: DiskNemesis<Failing> = DiskNemesis {
    name: "disk-error",
    about: "reads, writes or fsyncs of some servers' disks fail with EIO, by chance or one alone",
    around: (0.5, 2.0),
    draw: |_, random| {
        let calls = [DiskCallKind::Write, DiskCallKind::Fsync, DiskCallKind::Read];
        let call = calls[random.random_range(0..calls.len())];
        let (share, nth) = match random.random_bool(0.5) {
            true => (f64::from(random.random_range(2..=10)) / 10.0, 0),
            false => (0.0, random.random_range(1..=5)),
        };
        let lost = call == DiskCallKind::Write && nth > 0 && random.random_bool(0.5);
        Failing { call, share, nth, path: None, lost }
    },
    call: |failing| match (failing.nth, failing.share) {
        (0, share) if !(0.1..=1.0).contains(&share) => {
            Err(Refusal::at("share", "share is a part of the calls from 0.1 to 1, unless nth says which one"))
        }
        (nth, _) if nth > NTH_MAX => Err(Refusal::at("nth", format!("nth is at most {NTH_MAX}"))),
        _ if failing.lost && failing.call != DiskCallKind::Write => {
            Err(Refusal::at("lost", "only a write can be lost: `lying` of power-loss is for fsyncs"))
        }
        _ => Ok(DiskCall::Fail(failing.clone())),
    },
    shows: |_, probe| probe.failed,
    sentence: |failing| {
        let call = match failing.call {
            DiskCallKind::Read => "read",
            DiskCallKind::Write => "write",
            DiskCallKind::Fsync => "fsync",
        };
        let ended = if failing.lost { "was lost, but reported as done" } else { "ended with EIO" };
        let of = failing.path.as_ref().map_or_else(String::new, |path| format!(" of *{path}*"));
        match failing.nth {
            0 => format!("failed: {} % of {call}s{of} {ended}", (failing.share * 100.0).round()),
            nth => format!("failed once: {call} number {nth}{of} {ended}"),
        }
    },
    healing: "failed no more",
    label: "disk errors",
    summary: "disks failed with errors",
    still: |probe| probe.failed.then_some("failing"),
};
