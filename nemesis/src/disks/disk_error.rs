//! `disk-error`: writes or fsyncs of servers' disks fail with EIO, each with a probability, or one alone.
//! What a server then does is its own: it may end, refuse, or go on as if nothing had been. Sources: "Can
//! Applications Recover from fsync Failures?" (Rebello et al., USENIX ATC 2020); PostgreSQL's "fsyncgate".

use crate::disks::disk_fault::{DiskNemesis, Words};
use crate::disks::disk_tool::DiskCall;
use crate::tools::disk::{DiskCallKind, Failing};
use fencepost_history::Refusal;
use rand::RngExt;

/// Each probe is an fsync of a file: more would take too long.
const NTH_MAX: u32 = 1000;

pub(crate) const DISK_ERROR: DiskNemesis<Failing> = DiskNemesis {
    name: "disk-error",
    about: "writes or fsyncs of some servers' disks fail with EIO, by chance or one alone",
    around: (0.5, 2.0),
    draw: |_, random| {
        let call = if random.random_bool(0.5) { DiskCallKind::Write } else { DiskCallKind::Fsync };
        match random.random_bool(0.5) {
            true => Failing { call, share: f64::from(random.random_range(2..=10)) / 10.0, nth: 0 },
            false => Failing { call, share: 0.0, nth: random.random_range(1..=5) },
        }
    },
    call: |failing| match (failing.nth, failing.share) {
        (0, share) if !(0.1..=1.0).contains(&share) => {
            Err(Refusal::at("share", "share is a part of the calls from 0.1 to 1, unless nth says which one"))
        }
        (nth, _) if nth > NTH_MAX => Err(Refusal::at("nth", format!("nth is at most {NTH_MAX}"))),
        _ => Ok(DiskCall::Fail(*failing)),
    },
    shows: |_, probe| probe.failed,
    words: Words {
        sentence: |failing| {
            let call = match failing.call {
                DiskCallKind::Write => "write",
                DiskCallKind::Fsync => "fsync",
            };
            match failing.nth {
                0 => format!("failed: {} % of {call}s ended with EIO", (failing.share * 100.0).round()),
                nth => format!("failed once: {call} number {nth} ended with EIO"),
            }
        },
        healing: "failed no more",
        label: "disk errors",
        summary: "disks failed with errors",
    },
    still: |probe| probe.failed.then_some("failing"),
};
