//! What the two mechanisms that impair packets have in common.

use super::fate::Counts;
use super::impairment::Impairment;
use fencepost_cluster::agent::output_of;
use fencepost_cluster::network_command;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::Command;

/// Why packets could not be impaired, or are not let go: one sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PacketsError(pub(crate) String);

pub(super) type ImpairmentTable = BTreeMap<Ipv4Addr, Impairment>;

pub(super) trait PacketsEngine: Send {
    /// Brings the kernel to this table; an empty one removes everything that was added.
    fn apply(&mut self, table: &ImpairmentTable) -> Result<(), PacketsError>;
    /// What happened so far to the packets of each destination of the table.
    fn counts(&self) -> Result<BTreeMap<Ipv4Addr, Counts>, PacketsError>;
    /// Whether nothing is left of what was added, by asking the kernel.
    fn is_gone(&self) -> Result<bool, PacketsError>;
}

pub(super) fn run(argv: &[&str]) -> Result<String, PacketsError> {
    let failed = |why: &str| PacketsError(format!("`{}` failed: {why}", argv.join(" ")));
    let command = network_command(argv.iter().map(|&word| word.to_owned()).collect());
    let output = output_of(Command::new(&command[0]).args(&command[1..]));
    let output = output.map_err(|error| failed(&error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(failed(&String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")))
}
