//! The rules that lead packets to the queue, in a chain of the table `raw`, ahead of connection tracking:
//! behind it, of several held first packets (pings, repeated SYNs) the kernel would let only one go on.

use super::engine::{PacketsError, run};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

const CHAIN: &str = "fencepost-packets";

/// A second one, to try whether the kernel has the target.
const TRIAL: &str = "fencepost-trial";

/// Marks the copies that the emulator sends, so that they are not taken in again.
pub(super) const COPY_MARK: u32 = 0xfe9c_e905;

pub(super) struct Chain {
    queue: String,
    exists: bool,
    leads: BTreeSet<Ipv4Addr>,
}

impl Chain {
    pub fn new(queue: u16) -> Chain {
        Chain { queue: queue.to_string(), exists: false, leads: BTreeSet::new() }
    }

    /// Leads packets to these addresses to the queue, and no others; to none: the chain goes.
    pub fn apply(&mut self, addresses: impl IntoIterator<Item = Ipv4Addr>) -> Result<(), PacketsError> {
        let wanted: BTreeSet<Ipv4Addr> = addresses.into_iter().collect();
        if wanted.is_empty() {
            return self.remove();
        }
        if !self.exists {
            self.exists = true;
            iptables(&["-N", CHAIN])?;
            iptables(&jump("-I"))?;
        }
        for address in self.leads.clone().difference(&wanted) {
            self.lead("-D", CHAIN, *address)?;
            self.leads.remove(address);
        }
        for address in wanted.difference(&self.leads.clone()) {
            self.lead("-A", CHAIN, *address)?;
            self.leads.insert(*address);
        }
        Ok(())
    }

    /// Whether nothing of ours is left in the packet filter, by asking it.
    pub fn is_gone(&self) -> Result<bool, PacketsError> {
        Ok(!iptables(&["-S"])?.contains(CHAIN))
    }

    /// Makes and removes a rule that no packet ever meets.
    pub fn try_out(&self) -> Result<(), PacketsError> {
        iptables(&["-N", TRIAL])?;
        let possible = self.lead("-A", TRIAL, Ipv4Addr::LOCALHOST);
        iptables(&["-F", TRIAL])?;
        iptables(&["-X", TRIAL])?;
        possible
    }

    fn remove(&mut self) -> Result<(), PacketsError> {
        if !self.exists {
            return Ok(());
        }
        // A chain that was made only half lacks its last steps; whether anything is left is asked afterwards.
        let _ = iptables(&jump("-D"));
        let _ = iptables(&["-F", CHAIN]);
        let _ = iptables(&["-X", CHAIN]);
        if !self.is_gone()? {
            return Err(PacketsError(format!("the chain {CHAIN} is still in the packet filter")));
        }
        (self.exists, self.leads) = (false, BTreeSet::new());
        Ok(())
    }

    fn lead(&self, action: &str, chain: &str, address: Ipv4Addr) -> Result<(), PacketsError> {
        let address = address.to_string();
        let to_queue = ["-j", "NFQUEUE", "--queue-num", &self.queue, "--queue-bypass"];
        iptables(&[&[action, chain, "-d", &address][..], &to_queue].concat()).map(drop)
    }
}

fn jump(action: &str) -> [&str; 9] {
    [action, "OUTPUT", "-m", "mark", "!", "--mark", MARK, "-j", CHAIN]
}

const MARK: &str = "0xfe9ce905";

fn iptables(args: &[&str]) -> Result<String, PacketsError> {
    // -w: another run of iptables in this node may hold the lock.
    run(&[&["iptables", "-w", "-t", "raw"], args].concat())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_mark_is_one_and_the_same() {
        assert_eq!(super::MARK, format!("{:#x}", super::COPY_MARK));
    }
}
