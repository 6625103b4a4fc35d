//! Parameters of the nemeses of the network: what happens to packets, and between which nodes.

use crate::tools::packets::{Echoes, Impairment};
use fencepost_history::{Refusal, read_fields};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NetworkParameters {
    #[serde(flatten)]
    pub impairment: Impairment,
    /// The nodes that the targets have trouble to reach; empty: all others.
    pub peers: Vec<String>,
    pub ways: Direction,
}

/// The fields of [`NetworkParameters`] that are not those of the impairment.
#[derive(Default, Deserialize)]
#[serde(default)]
struct EndFields {
    peers: Vec<String>,
    ways: Direction,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    #[default]
    Both,
    Out,
    In,
}

const ENDS: [&str; 2] = ["peers", "ways"];

impl NetworkParameters {
    /// Reads them in two parts, since serde refuses no unknown field of a flattened struct.
    pub fn read(fields: &Map<String, Value>) -> Result<NetworkParameters, Refusal> {
        let is_end = |(name, _): &(String, Value)| ENDS.contains(&name.as_str());
        let (ends, others) = fields.clone().into_iter().partition(is_end);
        let EndFields { peers, ways } = read_fields(&ends)?;
        let impairment: Impairment = read_fields(&others).map_err(|mut refusal: Refusal| {
            refusal.known.iter_mut().for_each(|known| known.extend(ENDS.map(str::to_owned)));
            refusal
        })?;
        impairment.check()?;
        Ok(NetworkParameters { impairment, peers, ways })
    }

    /// By how many milliseconds a round trip should grow, in the mean.
    pub fn round_trip_ms(&self) -> f64 {
        self.impairment.delay_ms * if self.ways == Direction::Both { 2.0 } else { 1.0 }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Shown {
    Echoes,
    /// Echoes are no TCP.
    Connections,
    /// Connections that were opened before, beside new ones.
    IdleConnections,
}

#[derive(Clone, Copy)]
pub(crate) struct Look {
    /// Echoes or connections to each peer, and bytes of each echo.
    pub probes: fn(&Impairment) -> (u16, usize),
    pub by: Shown,
    pub shows: fn(&NetworkParameters, &Echoes, &Echoes) -> bool,
}

#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub sentence: fn(&Impairment) -> String,
    pub label: fn(&Impairment) -> String,
    pub summary: &'static str,
}

/// "30 % of the packets", of a share between 0 and 1.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}
