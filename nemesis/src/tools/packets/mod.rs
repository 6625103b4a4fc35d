//! Makes the way from this node to others worse: delay, loss, copies, overtaking, a lower rate.
//!
//! Two mechanisms do the same: the kernel's `netem` where it has it, else the project's own emulator over the
//! kernel's packet queue, also for what netem cannot do. Both work on what *leaves* this node, for chosen
//! destinations only. `docs/packets.md` has limits and measurements.

mod chain;
mod emulator;
mod engine;
mod fate;
mod impairment;
mod netem;
mod probe;
mod queue;
mod segment;
mod streams;

pub use engine::PacketsError;
pub use fate::Counts;
pub use impairment::{Distribution, Impairment};
pub use probe::{Echoes, Probe};
pub use streams::{Streams, is_silent, listen};

use engine::{ImpairmentTable, PacketsEngine};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Who holds the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    Netem,
    Emulator,
}

/// This node's outgoing packets and their faults, by id; they add up ([`Impairment::and`]). A drop heals all.
#[derive(Default)]
pub struct Network {
    faults: BTreeMap<String, PacketsFault>,
    /// What does all that it can; none before the first fault.
    preferred: Option<Mechanism>,
    engines: BTreeMap<Mechanism, Box<dyn PacketsEngine>>,
}

struct PacketsFault {
    to: Vec<Ipv4Addr>,
    impairment: Impairment,
    by: Mechanism,
}

/// What is in force, and what it did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub mechanism: Option<Mechanism>,
    pub faults: Vec<String>,
    pub counts: BTreeMap<Ipv4Addr, Counts>,
}

impl Network {
    /// The mechanism that this node offers, by trying: netem, else the emulator, else reasons why not.
    pub fn offers() -> Result<Mechanism, PacketsError> {
        let Err(no_netem) = netem::try_out() else { return Ok(Mechanism::Netem) };
        match emulator::Emulator::try_out() {
            Ok(()) => Ok(Mechanism::Emulator),
            Err(no_emulator) => Err(PacketsError(format!(
                "packets can be impaired neither by netem ({no_netem}) nor by the emulator ({no_emulator})"
            ))),
        }
    }

    /// An emulator of its own that is at work holds the queue, so that nothing else could try it.
    fn offers_beside_its_own(&self) -> Result<Mechanism, PacketsError> {
        match self.engines.contains_key(&Mechanism::Emulator) && netem::try_out().is_err() {
            true => Ok(Mechanism::Emulator),
            false => Network::offers(),
        }
    }

    /// Uses this mechanism where it can, whatever else the node offers. Only before the first fault.
    #[must_use]
    pub fn by(mechanism: Mechanism) -> Network {
        Network { preferred: Some(mechanism), ..Network::default() }
    }

    /// Impairs what leaves for these addresses, under this id. If it fails, everything is as before.
    pub fn set(
        &mut self,
        id: &str,
        to: &[Ipv4Addr],
        impairment: Impairment,
    ) -> Result<Mechanism, PacketsError> {
        impairment.check().map_err(|refusal| PacketsError(refusal.sentence))?;
        let by = match (impairment.needs_emulator(), self.preferred) {
            (true, _) => Mechanism::Emulator,
            (false, Some(preferred)) => preferred,
            (false, None) => {
                let offered = self.offers_beside_its_own()?;
                *self.preferred.insert(offered)
            }
        };
        let fault = |by| PacketsFault { to: to.to_vec(), impairment, by };
        let before = self.faults.insert(id.to_owned(), fault(by));
        let mut applied = self.apply().map(|()| by);
        if let (Err(refused), Mechanism::Netem) = (&applied, by) {
            // Kernels differ in what their netem takes: since 2025 some refuse copies beside any other netem.
            self.faults.insert(id.to_owned(), fault(Mechanism::Emulator));
            applied = self.apply().map(|()| Mechanism::Emulator).map_err(|error| {
                PacketsError(format!("netem refuses that ({refused}), and so does the emulator: {error}"))
            });
        }
        if applied.is_err() {
            match before {
                Some(before) => self.faults.insert(id.to_owned(), before),
                None => self.faults.remove(id),
            };
            // The first error says more than what follows from it.
            let _ = self.apply();
        }
        applied
    }

    /// Ends the fault of that id, if any. Held packets go on at once; netem loses them after the last fault.
    pub fn clear(&mut self, id: &str) -> Result<(), PacketsError> {
        self.faults.remove(id);
        self.apply()
    }

    /// What is in force, and what it did.
    pub fn look(&self) -> Result<State, PacketsError> {
        let mut counts: BTreeMap<Ipv4Addr, Counts> = BTreeMap::new();
        for engine in self.engines.values() {
            for (address, more) in engine.counts()? {
                let sum = counts.entry(address).or_default();
                *sum = sum.and(more);
            }
        }
        let mechanism = self.preferred.filter(|preferred| self.engines.contains_key(preferred));
        let mechanism = mechanism.or_else(|| self.engines.keys().next().copied());
        Ok(State { mechanism, faults: self.faults.keys().cloned().collect(), counts })
    }

    /// Whether no rule of ours is left in this network, by asking the kernel.
    pub fn is_gone(&self) -> Result<bool, PacketsError> {
        let each: Result<Vec<bool>, PacketsError> =
            self.engines.values().map(|engine| engine.is_gone()).collect();
        Ok(each?.into_iter().all(|gone| gone))
    }

    fn apply(&mut self) -> Result<(), PacketsError> {
        let mut tables: BTreeMap<Mechanism, ImpairmentTable> =
            self.engines.keys().map(|mechanism| (*mechanism, ImpairmentTable::new())).collect();
        for PacketsFault { to, impairment, by } in self.faults.values() {
            let table = tables.entry(*by).or_default();
            for address in to {
                let sum = table.entry(*address).or_default();
                *sum = sum.and(*impairment);
            }
        }
        for (mechanism, table) in tables {
            self.engines.entry(mechanism).or_insert_with(|| engine(mechanism)).apply(&table)?;
        }
        Ok(())
    }
}

fn engine(mechanism: Mechanism) -> Box<dyn PacketsEngine> {
    match mechanism {
        Mechanism::Netem => Box::new(netem::Netem::default()),
        Mechanism::Emulator => Box::new(emulator::Emulator::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mechanism that may take no copies where there is more than one destination.
    #[derive(Default)]
    struct Fake {
        refuses_copies_beside_others: bool,
        table: ImpairmentTable,
    }

    impl PacketsEngine for Fake {
        fn apply(&mut self, table: &ImpairmentTable) -> Result<(), PacketsError> {
            let copies = table.values().any(|impairment| impairment.duplicate > 0.0);
            if self.refuses_copies_beside_others && copies && table.len() > 1 {
                return Err(PacketsError("cannot mix duplicating netems".to_owned()));
            }
            self.table.clone_from(table);
            Ok(())
        }

        fn counts(&self) -> Result<BTreeMap<Ipv4Addr, Counts>, PacketsError> {
            Ok(self.table.keys().map(|address| (*address, Counts::default())).collect())
        }

        fn is_gone(&self) -> Result<bool, PacketsError> {
            Ok(self.table.is_empty())
        }
    }

    fn network(emulator_refuses_too: bool) -> Network {
        let mut network = Network::by(Mechanism::Netem);
        let fake = |refuses| Box::new(Fake { refuses_copies_beside_others: refuses, ..Fake::default() });
        network.engines.insert(Mechanism::Netem, fake(true));
        network.engines.insert(Mechanism::Emulator, fake(emulator_refuses_too));
        network
    }

    const TO: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];

    fn copies() -> Impairment {
        Impairment { duplicate: 0.5, ..Impairment::default() }
    }

    #[test]
    fn what_netem_refuses_the_emulator_does() {
        let mut network = network(false);
        let delay = Impairment { delay_ms: 5.0, ..Impairment::default() };
        assert_eq!(network.set("delay", &TO, delay).unwrap(), Mechanism::Netem);
        assert_eq!(network.set("copies", &TO, copies()).unwrap(), Mechanism::Emulator);
        network.clear("delay").unwrap();
        assert!(!network.is_gone().unwrap());
        network.clear("copies").unwrap();
        assert!(network.is_gone().unwrap());
    }

    #[test]
    fn what_both_refuse_leaves_everything_as_before() {
        let mut network = network(true);
        let refused = network.set("copies", &TO, copies()).unwrap_err().to_string();
        assert!(
            refused.contains("netem refuses that") && refused.contains("so does the emulator"),
            "{refused}"
        );
        assert!(network.is_gone().unwrap() && network.look().unwrap().faults.is_empty());
    }
}
