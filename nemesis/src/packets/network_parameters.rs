//! Nemeses of the network and their parameters: what happens to packets, and between which nodes.

use crate::nemesis::Drawing;
use crate::plan::aim::{Aim, DrawnAim};
use crate::plan::topology::Topology;
use crate::tools::packets::{Echoes, Impairment};
use fencepost_history::{Refusal, Stream, read_fields};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is done to packets, and on which way.
pub(crate) type OneOrBothWays = (Impairment, Direction);

/// A nemesis that makes the way between its targets and some peers worse.
#[derive(Clone, Copy)]
pub(crate) struct NetworkNemesis {
    pub name: &'static str,
    pub about: &'static str,
    /// The parameter without which this nemesis does nothing.
    pub field: &'static str,
    pub draw: fn(&Topology, &mut Stream) -> OneOrBothWays,
    /// Whether it acts on connections to servers: netem cannot do that, and the storage is spared.
    pub on_connections: bool,
    pub aims: &'static [Aim],
    pub adapt_to_aim: fn(OneOrBothWays, &DrawnAim, &mut Drawing<'_>) -> OneOrBothWays,
    /// Echoes or connections to each peer, and bytes of each echo.
    pub probes: fn(&Impairment) -> (u16, usize),
    pub shown_by: Shown,
    pub shows: fn(&NetworkParameters, &Echoes, &Echoes) -> bool,
    pub sentence: fn(&Impairment) -> String,
    pub label: fn(&Impairment) -> String,
    pub summary: &'static str,
}

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

/// "30 % of the packets", of a share between 0 and 1.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}
