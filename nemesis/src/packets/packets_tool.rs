//! The tool by which an agent impairs the packets that leave its node, and probes the way to others.

use crate::tools::packets::{Counts, Impairment, Network, PacketsError, Probe, Streams, is_silent, listen};
use fencepost_cluster::agent::{Tool, ToolError};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

#[derive(Default)]
pub struct PacketsTool {
    network: Mutex<Network>,
    /// Connections that were opened before a fault, by its id.
    kept: Mutex<HashMap<String, Vec<TcpStream>>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum PacketsCall {
    /// Impairs packets to these addresses. Gives the mechanism.
    Set { id: String, to: Vec<Ipv4Addr>, impairment: Impairment },
    /// Gives what happened to the packets until then. No such fault is no error.
    Clear { id: String },
    /// Gives the state of the network ([`crate::tools::packets::State`]).
    Look,
    /// Gives the mechanism that this node offers, found by trying.
    Offers,
    /// Gives [`crate::tools::packets::Echoes`].
    Probe(Probe),
    /// Gives the port at which streams are sent back.
    Listen,
    /// Gives how many of them were not reset.
    Streams(Streams),
    /// Opens a connection, and keeps it.
    Keep { id: String, stream: Streams },
    /// After so many milliseconds gives a [`Kept`]. The connections are closed.
    LookAtKept { id: String, after_ms: u64 },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub all: u64,
    /// Those over which nothing came back, not even their end.
    pub silent: u64,
}

impl Tool for PacketsTool {
    fn name(&self) -> &'static str {
        "packets"
    }

    fn call(&self, args: Value) -> Result<Value, ToolError> {
        let call =
            serde_json::from_value(args).map_err(|error| format!("the packets tool was misused: {error}"))?;
        Ok(self.carry_out(call)?)
    }
}

impl PacketsTool {
    fn carry_out(&self, call: PacketsCall) -> Result<Value, PacketsError> {
        match call {
            PacketsCall::Set { id, to, impairment } => {
                Ok(json!(self.network.lock().set(&id, &to, impairment)?))
            }
            PacketsCall::Clear { id } => self.clear(&id),
            PacketsCall::Look => Ok(json!(self.network.lock().look()?)),
            PacketsCall::Offers => Ok(json!(Network::offers()?)),
            PacketsCall::Probe(probe) => Ok(json!(probe.run()?)),
            PacketsCall::Listen => Ok(json!(listen()?)),
            PacketsCall::Streams(streams) => Ok(json!(streams.run()?)),
            PacketsCall::Keep { id, stream } => {
                let opened = stream.open()?;
                self.kept.lock().entry(id).or_default().push(opened);
                Ok(json!(()))
            }
            PacketsCall::LookAtKept { id, after_ms } => {
                let kept = self.kept.lock().remove(&id).unwrap_or_default();
                std::thread::sleep(Duration::from_millis(after_ms));
                let silent = kept.iter().filter(|stream| is_silent(stream)).count() as u64;
                Ok(json!(Kept { all: kept.len() as u64, silent }))
            }
        }
    }

    fn clear(&self, id: &str) -> Result<Value, PacketsError> {
        let mut network = self.network.lock();
        // An emulator that broke down counts no more, but its rules must go all the same.
        let counts = network.look().map(|state| sum(state.counts.values()));
        network.clear(id)?;
        if network.look()?.faults.is_empty() && !network.is_gone()? {
            return Err(PacketsError("the rules for packets are still there after healing".to_owned()));
        }
        Ok(json!(counts?))
    }
}

fn sum<'a>(counts: impl Iterator<Item = &'a Counts>) -> Counts {
    counts.fold(Counts::default(), |sum, next| sum.and(*next))
}
