//! The kernel's own network emulator, set up by `tc` (of iproute2). Each interface gets a tree of classes
//! (HTB, unlimited) beside which everything else passes; each destination gets a filter, a class and a netem.
//! A change makes a new class and lets the old one run dry: in place it would keep old options.

use super::engine::{ImpairmentTable, PacketsEngine, PacketsError, run};
use super::fate::Counts;
use super::impairment::{Distribution, Impairment};
use super::queue::HELD_MAX;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The tree's handle; its netems count on from [`FIRST_NETEM`].
const ROOT: &str = "fe9c:";
const FIRST_NETEM: u32 = 0x1000;

pub(super) fn try_out() -> Result<(), PacketsError> {
    run(&["tc", "qdisc", "add", "dev", "lo", "root", "handle", ROOT, "netem", "delay", "0"])?;
    run(&["tc", "qdisc", "del", "dev", "lo", "root", "handle", ROOT]).map(drop)
}

#[derive(Default)]
pub(super) struct Netem {
    trees: BTreeMap<String, NetemTree>,
}

#[derive(Default)]
struct NetemTree {
    classes: u32,
    /// The class in force for a destination.
    leads: BTreeMap<Ipv4Addr, (u32, Impairment)>,
    /// Classes whose packets went to a destination, those that run dry too.
    owners: BTreeMap<u32, Ipv4Addr>,
}

impl PacketsEngine for Netem {
    fn apply(&mut self, table: &ImpairmentTable) -> Result<(), PacketsError> {
        let mut by_interface: BTreeMap<String, ImpairmentTable> =
            self.trees.keys().map(|name| (name.clone(), ImpairmentTable::new())).collect();
        for (address, impairment) in table {
            by_interface.entry(interface_to(*address)?).or_default().insert(*address, *impairment);
        }
        for (interface, table) in by_interface {
            if table.is_empty() {
                run(&["tc", "qdisc", "del", "dev", &interface, "root", "handle", ROOT])?;
                self.trees.remove(&interface);
                continue;
            }
            if !self.trees.contains_key(&interface) {
                run(&["tc", "qdisc", "add", "dev", &interface, "root", "handle", ROOT, "htb"])?;
                self.trees.insert(interface.clone(), NetemTree::default());
            }
            self.trees.entry(interface.clone()).or_default().apply(&interface, &table)?;
        }
        Ok(())
    }

    fn counts(&self) -> Result<BTreeMap<Ipv4Addr, Counts>, PacketsError> {
        let mut counts = BTreeMap::new();
        for (interface, tree) in &self.trees {
            for (class, passed, lost) in statistics(interface)? {
                let Some(address) = tree.owners.get(&class) else { continue };
                let sum: &mut Counts = counts.entry(*address).or_default();
                sum.passed += passed;
                sum.lost += lost;
            }
        }
        Ok(counts)
    }

    fn is_gone(&self) -> Result<bool, PacketsError> {
        Ok(!run(&["tc", "qdisc", "show"])?.contains(ROOT))
    }
}

impl Drop for Netem {
    fn drop(&mut self) {
        // A drop has no caller to report an error to.
        let _ = self.apply(&ImpairmentTable::new());
    }
}

impl NetemTree {
    fn apply(&mut self, interface: &str, table: &ImpairmentTable) -> Result<(), PacketsError> {
        for (address, (class, _)) in self.leads.clone() {
            if !table.contains_key(&address) {
                remove_filter(interface, class)?;
                self.leads.remove(&address);
            }
        }
        for (address, impairment) in table {
            let before = self.leads.get(address).copied();
            if before.is_some_and(|(_, before)| before == *impairment) {
                continue;
            }
            self.classes += 1;
            let class = self.classes;
            add_class(interface, class, impairment)?;
            self.owners.insert(class, *address);
            // The old filter comes first, and decides until it is removed: no packet slips through.
            add_filter(interface, class, *address)?;
            if let Some((before, _)) = before {
                remove_filter(interface, before)?;
            }
            self.leads.insert(*address, (class, *impairment));
        }
        Ok(())
    }
}

fn add_class(interface: &str, class: u32, impairment: &Impairment) -> Result<(), PacketsError> {
    let (class, handle) = (format!("{ROOT}{class:x}"), format!("{:x}:", FIRST_NETEM + class));
    // A rate that no interface reaches; the quantum only keeps the kernel from warning about it.
    let unlimited = ["htb", "rate", "100gbit", "quantum", "60000"];
    run(&[&["tc", "class", "add", "dev", interface, "parent", ROOT, "classid", &class], &unlimited[..]]
        .concat())?;
    let limit = HELD_MAX.to_string();
    let netem = [
        "tc", "qdisc", "add", "dev", interface, "parent", &class, "handle", &handle, "netem", "limit", &limit,
    ];
    let options = options(impairment);
    run(&[&netem[..], &options.iter().map(String::as_str).collect::<Vec<_>>()].concat()).map(drop)
}

fn add_filter(interface: &str, class: u32, address: Ipv4Addr) -> Result<(), PacketsError> {
    let (order, class, address) = (class.to_string(), format!("{ROOT}{class:x}"), format!("{address}/32"));
    let filter = ["tc", "filter", "add", "dev", interface, "parent", ROOT, "protocol", "ip", "prio", &order];
    run(&[&filter[..], &["u32", "match", "ip", "dst", &address, "classid", &class]].concat()).map(drop)
}

fn remove_filter(interface: &str, class: u32) -> Result<(), PacketsError> {
    let order = class.to_string();
    run(&["tc", "filter", "del", "dev", interface, "parent", ROOT, "protocol", "ip", "prio", &order])
        .map(drop)
}

fn options(impairment: &Impairment) -> Vec<String> {
    let Impairment {
        delay_ms,
        jitter_ms,
        distribution,
        loss,
        loss_correlation,
        duplicate,
        reorder,
        rate_kbit,
        reset: _,
        pass_first: _,
        idle_ms: _,
    } = *impairment;
    let micros = |ms: f64| format!("{:.0}us", ms * 1000.0);
    let percent = |share: f64| format!("{:.6}%", share * 100.0);
    let mut options = Vec::new();
    let mut add = |words: &[&str]| options.extend(words.iter().map(|word| (*word).to_owned()));
    if delay_ms > 0.0 {
        add(&["delay", &micros(delay_ms)]);
    }
    if jitter_ms > 0.0 {
        add(&[&micros(jitter_ms)]);
        match distribution {
            Distribution::Uniform => {}
            Distribution::Normal => add(&["distribution", "normal"]),
            Distribution::Pareto => add(&["distribution", "pareto"]),
        }
    }
    if loss > 0.0 && loss_correlation == 0.0 {
        add(&["loss", "random", &percent(loss)]);
    } else if loss > 0.0 {
        // netem's own correlation changes the share of losses as well; its model of two states does not.
        let (begins, ends) = (impairment.loss_after(false), 1.0 - impairment.loss_after(true));
        add(&["loss", "gemodel", &percent(begins), &percent(ends)]);
    }
    if duplicate > 0.0 {
        add(&["duplicate", &percent(duplicate)]);
    }
    if reorder > 0.0 {
        add(&["reorder", &percent(reorder)]);
    }
    if rate_kbit > 0 {
        add(&["rate", &format!("{rate_kbit}kbit")]);
    }
    options
}

fn interface_to(address: Ipv4Addr) -> Result<String, PacketsError> {
    let route = run(&["ip", "-o", "route", "get", &address.to_string()])?;
    let mut words = route.split_whitespace().skip_while(|word| *word != "dev");
    words.nth(1).map(str::to_owned).ok_or_else(|| PacketsError(format!("no interface leads to {address}")))
}

#[derive(Deserialize)]
struct Qdisc {
    kind: String,
    handle: String,
    #[serde(default)]
    packets: u64,
    #[serde(default)]
    drops: u64,
}

/// Class, packets and losses of each netem of ours on an interface.
fn statistics(interface: &str) -> Result<Vec<(u32, u64, u64)>, PacketsError> {
    let text = run(&["tc", "-s", "-j", "qdisc", "show", "dev", interface])?;
    let all: Vec<Qdisc> = serde_json::from_str(&text)
        .map_err(|error| PacketsError(format!("tc's statistics of {interface} cannot be read: {error}")))?;
    let ours = |qdisc: Qdisc| {
        let handle = u32::from_str_radix(qdisc.handle.strip_suffix(':')?, 16).ok()?;
        (qdisc.kind == "netem").then_some((handle.checked_sub(FIRST_NETEM)?, qdisc.packets, qdisc.drops))
    };
    Ok(all.into_iter().filter_map(ours).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tc_gets_the_same_settings_as_the_emulator() {
        let impairment = Impairment {
            delay_ms: 12.5,
            jitter_ms: 2.0,
            distribution: Distribution::Pareto,
            loss: 0.2,
            loss_correlation: 0.5,
            duplicate: 0.01,
            reorder: 0.25,
            rate_kbit: 64,
            ..Impairment::default()
        };
        assert_eq!(
            options(&impairment).join(" "),
            "delay 12500us 2000us distribution pareto loss gemodel 10.000000% 40.000000% duplicate 1.000000% \
             reorder 25.000000% rate 64kbit"
        );
        let lossy = Impairment { loss: 0.3, ..Impairment::default() };
        assert_eq!(options(&lossy).join(" "), "loss random 30.000000%");
    }
}
