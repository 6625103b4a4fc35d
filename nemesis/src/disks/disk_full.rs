//! `disk-full`: servers' disks have no room for a while. A server that ends of this is then started again.

use crate::disks::disk_fault::DiskNemesis;
use crate::disks::disk_tool::DiskCall;
use rand::RngExt;
use serde::{Deserialize, Serialize};

pub(crate) const DISK_FULL: DiskNemesis<DiskFullParameters> = DiskNemesis {
    name: "disk-full",
    about: "the disks of some servers run full: writes fail with ENOSPC",
    around: (0.5, 2.0),
    draw: |_, random| {
        let bytes_left = if random.random_bool(0.5) { 0 } else { random.random_range(1..=LEFT_MAX) };
        DiskFullParameters { bytes_left, copy_on_write: random.random_bool(0.5) }
    },
    call: |parameters| {
        let DiskFullParameters { bytes_left, copy_on_write } = *parameters;
        Ok(DiskCall::Full { bytes_left: bytes_left.into(), copy_on_write })
    },
    shows: |_, probe| probe.full,
    sentence: |parameters| match parameters.bytes_left {
        0 => "was full".to_owned(),
        left => format!("had only {left} bytes left"),
    },
    healing: "had room again",
    label: "disk full",
    summary: "disks ran full",
    still: |probe| probe.full.then_some("full"),
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DiskFullParameters {
    /// Bytes by which files may still grow: with a few left, a write can get through in part.
    bytes_left: u32,
    /// Whether overwriting fails, too, as with copy on write.
    copy_on_write: bool,
}

const LEFT_MAX: u32 = 64 << 10;
