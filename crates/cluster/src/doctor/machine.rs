//! What machine this is: what its kernel, its processors and the files of its root say.

use crate::container::Confines;
use nix::libc;
use serde::Serialize;
use std::fmt;
use std::fs;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    pub kernel: String,
    pub architecture: String,
    /// What the system calls itself, such as `Debian GNU/Linux 13 (trixie)`; empty where it does not say.
    pub system: String,
    pub page_bytes: u64,
    pub processors: usize,
    pub memory_bytes: u64,
    pub is_root: bool,
    /// What made the container that this program runs in, such as `Docker`; none outside of one.
    #[serde(rename = "container")]
    pub confined_by: Option<String>,
    /// Options of `docker run` or `podman run` for the rights that nodes of the driver `local` lack.
    pub lacking_options: Vec<String>,
}

impl Machine {
    /// How to give this container the rights that it lacks; none where it is no container, or lacks none.
    pub fn advice(&self) -> Option<String> {
        let options = self.lacking_options.join(" ");
        (!options.is_empty()).then(|| format!("start this container with {options}"))
    }

    /// Looks. Facts that cannot be read are empty or 0.
    pub(super) fn look() -> Machine {
        let confines = Confines::look();
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        // SAFETY: it reads a constant of the process.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Machine {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            architecture: std::env::consts::ARCH.to_owned(),
            system: system(&read("/etc/os-release")),
            page_bytes: u64::try_from(page_bytes).unwrap_or_default(),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            is_root: nix::unistd::geteuid().is_root(),
            lacking_options: confines.lacking_options(),
            confined_by: confines.container,
        }
    }
}

/// One line: `Linux 6.12.48 on x86_64, 2 processors, 4.1 GB of memory, pages of 4 KiB, as root`.
impl fmt::Display for Machine {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Linux {} on {}", self.kernel, self.architecture)?;
        if !self.system.is_empty() {
            write!(to, ", {}", self.system)?;
        }
        let (processors, memory) = (self.processors, self.memory_bytes as f64 / 1e9);
        let plural = if processors == 1 { "" } else { "s" };
        write!(to, ", {processors} processor{plural}, {memory:.1} GB of memory")?;
        write!(to, ", pages of {} KiB", self.page_bytes / 1024)?;
        if let Some(maker) = &self.confined_by {
            write!(to, ", in a container of {maker}")?;
        }
        to.write_str(if self.is_root { ", as root" } else { ", as a user without root's rights" })
    }
}

fn system(os_release: &str) -> String {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or_default().trim_matches(['"', '\'']).to_owned()
}

fn memory_bytes(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or_default() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described_in_one_line() {
        let machine = Machine {
            kernel: "6.12.48+deb13-arm64-16k".to_owned(),
            architecture: "aarch64".to_owned(),
            system: system("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n"),
            page_bytes: 16384,
            processors: 1,
            memory_bytes: memory_bytes("MemTotal:        4000000 kB\nMemFree: 1 kB\n"),
            is_root: true,
            confined_by: Some("Podman 5.4.2".to_owned()),
            lacking_options: Vec::new(),
        };
        assert_eq!(
            machine.to_string(),
            "Linux 6.12.48+deb13-arm64-16k on aarch64, Debian GNU/Linux 13 (trixie), 1 processor, 4.1 GB of memory, \
             pages of 16 KiB, in a container of Podman 5.4.2, as root"
        );
    }

    #[test]
    fn this_machine_has_a_kernel_pages_and_memory() {
        let machine = Machine::look();
        assert!(!machine.kernel.is_empty() && machine.architecture == std::env::consts::ARCH, "{machine:?}");
        assert!(machine.page_bytes.is_power_of_two() && machine.page_bytes >= 4096, "{machine:?}");
        assert!(machine.memory_bytes > 100_000_000 && machine.processors > 0, "{machine:?}");
    }
}
