//! The tool by which an agent puts a disk under its node's data, and breaks it.

use crate::tools::disk::{Disk, DiskCounts, DiskProbe, Failing, Slow, Torn};
use fencepost_cluster::agent::{Tool, ToolError};
use fencepost_cluster::{ClusterError, Node};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};

/// Takes a `DiskCall` as JSON. The disk lives as long as the agent.
#[derive(Default)]
pub struct DiskTool {
    disk: Mutex<Option<Disk>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum DiskCall {
    /// Before the service starts. Gives null.
    Mount { dir: PathBuf },
    /// Gives what was lost ([`crate::tools::disk::Lost`]).
    Crash {
        torn: Option<Torn>,
        #[serde(default)]
        seed: u64,
    },
    /// Gives what a probe met before and after ([`Probed`]).
    Full {
        bytes_left: u64,
        #[serde(default)]
        copy_on_write: bool,
    },
    /// Gives what a probe met before and after ([`Probed`]).
    Slow(Slow),
    /// Gives what a probe met before and after ([`Probed`]).
    Fail(Failing),
    /// Turns bits of stored files; after a crash. Gives the places, as a list of texts.
    Flip { bits: u32, path: String, seed: u64 },
    /// Each fsync says yes and keeps nothing, until the next crash; or no longer. Gives null.
    Lie { lies: bool },
    /// Gives how many bytes were written since the mount or the last crash.
    Look,
    /// Neither full nor slow any more, and without errors. Gives a [`DiskHealed`].
    Heal,
}

/// What a small file met that was written before and after a change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Probed {
    pub before: DiskProbe,
    pub after: DiskProbe,
}

/// The service's calls that a bad disk held up, and a probe after the healing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DiskHealed {
    pub held_up: DiskCounts,
    pub after: DiskProbe,
}

const PROBE_BYTES: usize = 4096;

/// With a share of a tenth, all of them pass in three of a million looks.
const FAIR_PROBES: u32 = 120;

/// Puts a disk that can be broken under a node's data. Errors: no right to mount, or one is there.
pub async fn prepare_disk(node: &dyn Node) -> Result<(), ClusterError> {
    node.tool("disk", json!(DiskCall::Mount { dir: "{data}".into() })).await.map(drop)
}

impl Tool for DiskTool {
    fn name(&self) -> &'static str {
        "disk"
    }

    fn call(&self, args: Value) -> Result<Value, ToolError> {
        let call =
            serde_json::from_value(args).map_err(|error| format!("the disk tool was misused: {error}"))?;
        let mut slot = self.disk.lock();
        if let DiskCall::Mount { dir } = call {
            return mount(&mut slot, &dir);
        }
        let disk = slot.as_ref().ok_or("this node has no disk that could be broken: none was mounted")?;
        Ok(carry_out(disk, &call)
            .map_err(|error| format!("the disk at {}: {error}", disk.folder().display()))?)
    }
}

fn mount(slot: &mut Option<Disk>, folder: &Path) -> Result<Value, ToolError> {
    if let Some(disk) = slot {
        return Err(format!("a disk is mounted on {} already", disk.folder().display()).into());
    }
    let disk = Disk::mount(folder)
        .map_err(|error| format!("cannot mount a disk on {}: {error}", folder.display()))?;
    *slot = Some(disk);
    Ok(Value::Null)
}

fn carry_out(disk: &Disk, call: &DiskCall) -> io::Result<Value> {
    match call.clone() {
        DiskCall::Mount { .. } => Ok(Value::Null),
        DiskCall::Crash { torn, seed } => {
            let lied = disk.lie(false);
            let mut lost = json!(disk.crash(torn, seed)?);
            if lied > 0 {
                lost["lied"] = json!(lied);
            }
            Ok(lost)
        }
        DiskCall::Flip { bits, path, seed } => Ok(json!(disk.flip(bits, &path, seed)?)),
        DiskCall::Lie { lies } => {
            disk.lie(lies);
            Ok(Value::Null)
        }
        DiskCall::Fail(failing) => {
            // As often as it takes to meet an error.
            let probes = failing.nth.max(FAIR_PROBES);
            probed(disk, PROBE_BYTES, probes, || disk.fail(failing.clone()))
        }
        DiskCall::Full { bytes_left, copy_on_write } => {
            // One byte more than there is room for.
            let bytes = usize::try_from(bytes_left).map_or(PROBE_BYTES, |bytes| bytes.saturating_add(1));
            probed(disk, bytes, 1, || disk.fill(bytes_left, copy_on_write))
        }
        DiskCall::Look => Ok(json!(disk.written())),
        DiskCall::Slow(slow) => probed(disk, PROBE_BYTES, 1, || disk.slow(slow)),
        DiskCall::Heal => {
            let held_up = disk.heal();
            Ok(json!(DiskHealed { held_up, after: disk.probe(PROBE_BYTES)? }))
        }
    }
}

/// Breaks the disk, and looks at it before and after: then so often at most, until a call fails.
fn probed(disk: &Disk, bytes: usize, probes: u32, act: impl Fn()) -> io::Result<Value> {
    let before = disk.probe(bytes)?;
    act();
    let mut after = disk.probe(bytes)?;
    for _ in 1..probes {
        if after.failed {
            break;
        }
        after = disk.probe(bytes)?;
    }
    // The probe may have taken some of the room, and its calls must not count as the service's.
    act();
    disk.counts();
    Ok(json!(Probed { before, after }))
}
