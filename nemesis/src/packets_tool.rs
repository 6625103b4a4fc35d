//! The tool by which an agent impairs the packets that leave its node, and probes the way to others.

use crate::tools::packets::{Counts, Impairment, Network, PacketsError, Probe};
use fencepost_cluster::agent::Tool;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes, as JSON:
///
/// - `{"do":"set","id":"…","to":["198.18.0.2"],"impairment":{…}}`, see [`Impairment`]; gives the mechanism.
/// - `{"do":"clear","id":"…"}`: gives what happened to the packets up to then, and the faults that are still in force:
///   `{"counts":{…},"left":["…"]}`. No such fault is no error.
/// - `{"do":"look"}`: gives the state of the network, see [`crate::tools::packets::State`].
/// - `{"do":"offers"}`: gives the mechanism that this node offers, found by trying.
/// - `{"do":"probe","to":"198.18.0.2","count":5,…}`, see [`Probe`]; gives [`crate::tools::packets::Echoes`].
#[derive(Default)]
pub struct PacketsTool {
    network: Mutex<Network>,
}

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
enum Args {
    Set { id: String, to: Vec<Ipv4Addr>, impairment: Impairment },
    Clear { id: String },
    Look,
    Offers,
    Probe(Probe),
}

impl Tool for PacketsTool {
    fn name(&self) -> &'static str {
        "packets"
    }

    fn call(&self, args: Value) -> Result<Value, String> {
        let args =
            serde_json::from_value(args).map_err(|error| format!("the packets tool was misused: {error}"))?;
        self.carry_out(args).map_err(|error| error.to_string())
    }
}

impl PacketsTool {
    fn carry_out(&self, args: Args) -> Result<Value, PacketsError> {
        match args {
            Args::Set { id, to, impairment } => Ok(json!(self.network().set(&id, &to, impairment)?)),
            Args::Clear { id } => self.clear(&id),
            Args::Look => Ok(json!(self.network().look()?)),
            Args::Offers => Ok(json!(Network::offers()?)),
            Args::Probe(probe) => Ok(json!(probe.run()?)),
        }
    }

    fn clear(&self, id: &str) -> Result<Value, PacketsError> {
        let mut network = self.network();
        // An emulator that broke down counts no more, but its rules must go all the same.
        let counts = network.look().map(|state| sum(state.counts.values()));
        network.clear(id)?;
        let left = network.look()?.faults;
        if left.is_empty() && !network.is_gone()? {
            return Err(PacketsError::new("the rules for packets are still there after healing".to_owned()));
        }
        Ok(json!({"counts": counts?, "left": left}))
    }

    fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sum<'a>(counts: impl Iterator<Item = &'a Counts>) -> Counts {
    counts.fold(Counts::default(), |sum, next| Counts {
        passed: sum.passed + next.passed,
        lost: sum.lost + next.lost,
        duplicated: sum.duplicated + next.duplicated,
        reordered: sum.reordered + next.reordered,
    })
}
