//! `disk-full`: the disks of servers have no room left, for a while. A server that ends for want of room is started
//! again once there is some.

use crate::disks::{Words, WorseDisks};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) const DISK_FULL: WorseDisks = WorseDisks {
    name: "disk-full",
    about: "the disks of some servers run full: writes fail with ENOSPC",
    around: (0.5, 2.0),
    draw: |_, random| {
        let bytes_left = if random.random_bool(0.5) { 0 } else { random.random_range(1..=LEFT_MAX) };
        json!(Dose { bytes_left, copy_on_write: random.random_bool(0.5) })
    },
    order,
    shows: |_, met| met["full"] == true,
    words: Words {
        sentence: |order| match order["bytes_left"].as_u64() {
            Some(left) if left > 0 => format!("had only {left} bytes left"),
            _ => "was full".to_owned(),
        },
        healing: "had room again",
        label: "disk full",
        summary: "disks ran full",
    },
    still: |met| (met["full"] == true).then_some("full"),
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Dose {
    /// Bytes by which files may still grow: with a few left, a write can get through in part.
    bytes_left: u32,
    /// Whether overwriting fails, too, as on file systems that copy on write. Where it does not, a server that set
    /// its space aside in advance notices nothing for a while.
    copy_on_write: bool,
}

/// The most that is left, when something is.
const LEFT_MAX: u32 = 64 << 10;

fn order(dose: &Value) -> Result<Value, String> {
    let dose = Option::<Dose>::deserialize(dose).map_err(|error| {
        format!("its dose is not understood: {error} (it takes bytes_left and copy_on_write)")
    })?;
    let mut order = json!(dose.unwrap_or_default());
    order["do"] = json!("full");
    Ok(order)
}
