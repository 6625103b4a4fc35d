//! The tool by which an agent puts a disk under its node's data, and breaks it.

use crate::tools::disk::{Disk, Slow, Torn};
use fencepost_cluster::agent::Tool;
use fencepost_cluster::{ClusterError, Node};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Takes, as JSON:
///
/// - `{"do":"mount","dir":"{data}"}`: before the service starts. Gives null.
/// - `{"do":"crash","torn":null|"prefix"|"sectors","seed":N}`: gives what was lost (see [`crate::tools::disk::Lost`]).
/// - `{"do":"full","bytes_left":N,"copy_on_write":false}` and `{"do":"slow","read_ms":N,"write_ms":N,"fsync_ms":N}`:
///   give what a probe met, `{"before":…,"after":…}`.
/// - `{"do":"look"}`: gives the bytes that were written since the mount or the last crash, `{"written":N}`.
/// - `{"do":"heal"}`: neither full nor slow any more. Gives what the service met, and a probe after it.
///
/// The disk lives as long as the agent.
#[derive(Default)]
pub struct DiskTool {
    disk: Mutex<Option<Disk>>,
}

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
enum Args {
    Mount {
        dir: PathBuf,
    },
    Crash {
        torn: Option<Torn>,
        #[serde(default)]
        seed: u64,
    },
    Full {
        bytes_left: u64,
        #[serde(default)]
        copy_on_write: bool,
    },
    Slow(Slow),
    Look,
    Heal,
}

/// What a probe writes, in bytes, where the size does not matter.
const PROBE: usize = 4096;

/// Puts a disk that can be broken under a node's data folder; to be called before its service starts.
///
/// # Errors
/// One sentence: the node has no right to mount, or no /dev/fuse, or has such a disk already.
pub async fn prepare_disk(node: &dyn Node) -> Result<(), ClusterError> {
    node.tool("disk", json!({"do": "mount", "dir": "{data}"})).await.map(drop)
}

impl Tool for DiskTool {
    fn name(&self) -> &'static str {
        "disk"
    }

    fn call(&self, args: Value) -> Result<Value, String> {
        let args =
            serde_json::from_value(args).map_err(|error| format!("the disk tool was misused: {error}"))?;
        let mut slot = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        if let Args::Mount { dir } = args {
            return mount(&mut slot, &dir);
        }
        let disk = slot.as_ref().ok_or("this node has no disk that could be broken: none was mounted")?;
        strike(disk, &args).map_err(|error| format!("the disk at {}: {error}", disk.folder().display()))
    }
}

fn mount(slot: &mut Option<Disk>, folder: &Path) -> Result<Value, String> {
    if let Some(disk) = slot {
        return Err(format!("a disk is mounted on {} already", disk.folder().display()));
    }
    let disk = Disk::mount(folder)
        .map_err(|error| format!("cannot mount a disk on {}: {error}", folder.display()))?;
    *slot = Some(disk);
    Ok(Value::Null)
}

fn strike(disk: &Disk, args: &Args) -> io::Result<Value> {
    match *args {
        Args::Mount { .. } => Ok(Value::Null),
        Args::Crash { torn, seed } => Ok(json!(disk.crash(torn, seed)?)),
        Args::Full { bytes_left, copy_on_write } => {
            // One byte more than there is room for.
            let bytes = usize::try_from(bytes_left).map_or(PROBE, |bytes| bytes.saturating_add(1));
            probed(disk, bytes, || disk.fill(bytes_left, copy_on_write))
        }
        Args::Look => Ok(json!({"written": disk.written()})),
        Args::Slow(slow) => probed(disk, PROBE, || disk.slow(slow)),
        Args::Heal => {
            let met = disk.heal();
            Ok(json!({"met": met, "after": disk.probe(PROBE)?}))
        }
    }
}

/// Breaks the disk, and looks at it before and after.
fn probed(disk: &Disk, bytes: usize, act: impl Fn()) -> io::Result<Value> {
    let before = disk.probe(bytes)?;
    act();
    let after = disk.probe(bytes)?;
    // The probe may have taken some of the room; and what it met is not what the service will meet.
    act();
    disk.met();
    Ok(json!({"before": before, "after": after}))
}
