//! What delay, loss, reorder, duplicate and slow have in common: a strike makes the way between its targets and some
//! peers worse, and is believed only when echoes between them show it.

mod fault;

use crate::tools::packets::{Echoes, Impairment};
use crate::{Aim, Fault, Nemesis, Scene, Settings, Strike, around_ttl, subset};
use fault::Impaired;
use fencepost_cluster::Capability;
use fencepost_history::Stream;
use rand::RngExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a strike asks for: an [`Impairment`], and between whom.
#[derive(Clone, Debug)]
pub(crate) struct Dose {
    pub impairment: Impairment,
    /// Whom the targets have trouble to reach; empty: everyone else.
    pub peers: Vec<String>,
    pub ways: Ways,
}

/// Which packets are impaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ways {
    /// Those that the targets send, and those sent to them.
    #[default]
    Both,
    /// Those that the targets send.
    Out,
    /// Those that are sent to the targets.
    In,
}

impl Dose {
    /// Reads `{"delay_ms":100,…,"peers":["n1"],"ways":"both"}`.
    pub fn read(dose: &Value) -> Result<Dose, String> {
        let mut fields = match dose {
            Value::Object(fields) => fields.clone(),
            _ => return Err("it takes a dose with fields, such as {delay_ms = 100}".to_owned()),
        };
        let peers = take(&mut fields, "peers")?;
        let ways = take(&mut fields, "ways")?;
        let impairment: Impairment = serde_json::from_value(Value::Object(fields))
            .map_err(|error| format!("its dose is wrong: {error}"))?;
        impairment.check().map_err(|reason| format!("its dose is wrong: {reason}"))?;
        Ok(Dose { impairment, peers, ways })
    }

    /// By how many milliseconds a round trip should grow, in the mean.
    pub fn round_trip_ms(&self) -> f64 {
        self.impairment.delay_ms * if self.ways == Ways::Both { 2.0 } else { 1.0 }
    }
}

fn take<T: DeserializeOwned + Default>(fields: &mut Map<String, Value>, name: &str) -> Result<T, String> {
    let read =
        |value| serde_json::from_value(value).map_err(|error| format!("its {name} cannot be read: {error}"));
    fields.remove(name).map_or(Ok(T::default()), read)
}

/// Whom to strike and whom from: clients from servers, storage or both, or servers from everyone else.
fn draw_sides(scene: &Scene, random: &mut Stream) -> Option<(Vec<String>, Vec<String>)> {
    let storage: Vec<String> = scene.storage.iter().cloned().collect();
    if !scene.servers.is_empty() && random.random_bool(0.3) {
        let on = subset(&scene.servers, random.random_range(1..=scene.servers.len().div_ceil(2)), random);
        let all = scene.servers.iter().chain(&scene.clients);
        let peers: Vec<String> = all.filter(|name| !on.contains(name)).cloned().collect();
        return (!peers.is_empty()).then_some((on, peers));
    }
    if scene.clients.is_empty() {
        return None;
    }
    let on = subset(&scene.clients, random.random_range(1..=scene.clients.len().div_ceil(2)), random);
    let peers = match (scene.servers.is_empty(), storage.is_empty(), random.random_range(0..4)) {
        (true, true, _) => return None,
        (false, true, _) | (false, false, 0 | 1) => scene.servers.clone(),
        (true, false, _) | (false, false, 2) => storage,
        _ => [scene.servers.clone(), storage].concat(),
    };
    Some((on, peers))
}

/// A number between the two, all magnitudes alike; rounded to three digits after the point.
pub(crate) fn draw_log(low: f64, high: f64, random: &mut Stream) -> f64 {
    let drawn = low * (high / low).powf(random.random_range(0.0..=1.0));
    (drawn * 1e3).round() / 1e3
}

/// How an impairment is looked at, and when it shows.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    /// Echoes to each peer, and bytes of each.
    pub echoes: fn(&Impairment) -> (u16, usize),
    /// Whether what was seen before and after tells of this dose.
    pub shows: fn(&Dose, &Echoes, &Echoes) -> bool,
}

/// A nemesis that makes the way between its targets and some peers worse.
pub(crate) struct WorseWay {
    pub name: &'static str,
    pub about: &'static str,
    /// The field of the dose without which this nemesis is none, and whether it is there.
    pub field: &'static str,
    pub asks: fn(&Impairment) -> bool,
    /// Draws a dose but for the peers; without `ways` it is for both.
    pub draw: fn(&Scene, &mut Stream) -> Value,
    pub look: Look,
    pub words: Words,
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

impl Nemesis for WorseWay {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn kind(&self) -> Option<&'static str> {
        None
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::PacketFilter]
    }

    /// Either of them can impair packets.
    fn needs_one_of(&self) -> &'static [Capability] {
        &[Capability::Netem, Capability::PacketQueue]
    }

    fn names_in(&self, dose: &Value) -> Vec<String> {
        Dose::read(dose).map(|dose| dose.peers).unwrap_or_default()
    }

    fn draw(&self, scene: &Scene, _: &Settings, random: &mut Stream) -> Option<Aim> {
        let (on, peers) = draw_sides(scene, random)?;
        let mut dose = (self.draw)(scene, random);
        dose["peers"] = json!(peers);
        Some(Aim { on, length: around_ttl(scene.ttl, 1.0, 3.0, random), dose })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        let dose = Dose::read(&strike.dose)?;
        if !(self.asks)(&dose.impairment) {
            return Err(format!("its dose has no {}", self.field));
        }
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let id = format!("{}-{}", self.name, NUMBER.fetch_add(1, Ordering::Relaxed));
        Ok(Box::new(Impaired::new(id, strike.on.clone(), dose, self.look, self.words)))
    }
}
