//! All nemeses, by name.

use crate::clocks::{clock_drift, clock_freeze, clock_jump, clock_strobe};
use crate::disks::{disk_error, disk_full, disk_slow, power_loss};
use crate::nemesis::Nemesis;
use crate::orders::{error_replies, evict, failover, member, reconfigure, script_flush};
use crate::packets::{delay, dns, duplicate, half_open, loss, partition, reorder, reset, slow, stall};
use crate::processes::{command, cpu, kill, pause, terminate, thread_pause};

/// Every nemesis. `none` is the absence of any, and therefore not in it.
pub fn registry() -> &'static [&'static dyn Nemesis] {
    &[
        &clock_jump::CLOCK_JUMP,
        &clock_drift::CLOCK_DRIFT,
        &clock_strobe::CLOCK_STROBE,
        &clock_freeze::CLOCK_FREEZE,
        &pause::PAUSE,
        &thread_pause::THREAD_PAUSE,
        &cpu::CPU,
        &partition::PARTITION,
        &delay::DELAY,
        &loss::LOSS,
        &reorder::REORDER,
        &duplicate::DUPLICATE,
        &slow::SLOW,
        &stall::STALL,
        &reset::RESET,
        &half_open::HALF_OPEN,
        &dns::DNS,
        &error_replies::ERROR_REPLIES,
        &script_flush::SCRIPT_FLUSH,
        &evict::EVICT,
        &kill::KILL,
        &terminate::TERMINATE,
        &terminate::ROLLING,
        &power_loss::POWER_LOSS,
        &failover::FAILOVER,
        &member::MEMBER,
        &reconfigure::RECONFIGURE,
        &kill::LEADER_KILL,
        &pause::LEADER_PAUSE,
        &disk_full::DISK_FULL,
        &disk_slow::DISK_SLOW,
        &disk_error::DISK_ERROR,
        &command::COMMAND,
    ]
}

pub fn find(name: &str) -> Option<&'static dyn Nemesis> {
    registry().iter().copied().find(|nemesis| nemesis.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nemesis::{NemesisDescription, REMAINING};

    #[test]
    fn a_refusal_lists_the_faults_that_remain() {
        let named = |wanted: fn(&NemesisDescription) -> bool| {
            let descriptions = registry().iter().map(|nemesis| nemesis.description());
            descriptions.filter(wanted).map(|description| description.name).collect::<Vec<_>>().join(", ")
        };
        let packets = named(|nemesis| nemesis.on_packets);
        let clients = named(|nemesis| !nemesis.on_packets && !nemesis.servers_only && !nemesis.by_name);
        assert_eq!(REMAINING.map(str::to_owned), [packets, clients, named(|nemesis| nemesis.by_hook)]);
    }

    #[test]
    fn the_docs_name_every_nemesis() {
        let page = |name: &str| {
            let path = format!("{}/../docs/{name}.md", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let docs = ["nemeses", "clocks", "packets", "disks"].map(page).concat();
        for nemesis in registry() {
            assert!(docs.contains(&format!("`{}`", nemesis.name())), "{} is not in the docs", nemesis.name());
        }
    }
}
