//! Parameters that the nemeses of the network have in common: what happens to packets, and between which nodes.

use crate::tools::packets::{Echoes, Impairment};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An [`Impairment`], and between which nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub(crate) struct NetworkParameters {
    #[serde(flatten)]
    pub impairment: Impairment,
    /// The nodes that the targets have trouble to reach; empty: all others.
    pub peers: Vec<String>,
    pub ways: Direction,
}

/// Which packets are impaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// Those that the targets send, and those sent to them.
    #[default]
    Both,
    /// Those that the targets send.
    Out,
    /// Those that are sent to the targets.
    In,
}

/// The own fields of [`NetworkParameters`]; all others are those of the impairment. Spelled out, since serde refuses no
/// unknown field of a flattened struct.
impl TryFrom<Map<String, Value>> for NetworkParameters {
    type Error = String;

    fn try_from(mut fields: Map<String, Value>) -> Result<NetworkParameters, String> {
        let read = |error: serde_json::Error| error.to_string();
        let peers = fields.remove("peers").map(serde_json::from_value).transpose().map_err(read)?;
        let ways = fields.remove("ways").map(serde_json::from_value).transpose().map_err(read)?;
        let impairment: Impairment = serde_json::from_value(Value::Object(fields)).map_err(read)?;
        impairment.check()?;
        Ok(NetworkParameters { impairment, peers: peers.unwrap_or_default(), ways: ways.unwrap_or_default() })
    }
}

impl NetworkParameters {
    /// By how many milliseconds a round trip should grow, in the mean.
    pub fn round_trip_ms(&self) -> f64 {
        self.impairment.delay_ms * if self.ways == Direction::Both { 2.0 } else { 1.0 }
    }
}

/// How an impairment is looked at, and when it shows.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    /// Echoes to each peer, and bytes of each.
    pub echoes: fn(&Impairment) -> (u16, usize),
    /// Whether what was seen before and after tells of these parameters.
    pub shows: fn(&NetworkParameters, &Echoes, &Echoes) -> bool,
}

/// How a nemesis of the network describes its faults.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// What happened to packets, as a clause in the past tense.
    pub sentence: fn(&Impairment) -> String,
    /// The same in a word or two, for a picture.
    pub label: fn(&Impairment) -> String,
    /// What all faults of this nemesis do.
    pub summary: &'static str,
}

/// "30 % of the packets", of a share between 0 and 1.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}
