//! `duplicate`: packets arrive twice. TCP throws the second away; what is done over UDP is done twice.

use crate::network::{Look, MECHANISMS, draw_sides, peers_in, prepare};
use crate::{Aim, Fault, Nemesis, Scene, Settings, Strike, around_ttl};
use fencepost_cluster::Capability;
use fencepost_history::Stream;
use rand::Rng;
use serde_json::{Value, json};

pub(crate) struct Duplicate;

const LOOK: Look =
    Look { echoes: |_| (60, 84), shows: |_, before, after| after.duplicates > before.duplicates };

impl Nemesis for Duplicate {
    fn name(&self) -> &'static str {
        "duplicate"
    }

    fn about(&self) -> &'static str {
        "sends a tenth to nine tenths of the packets twice"
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::PacketFilter]
    }

    fn needs_one_of(&self) -> &'static [Capability] {
        MECHANISMS
    }

    fn names_in(&self, dose: &Value) -> Vec<String> {
        peers_in(dose)
    }

    fn draw(&self, scene: &Scene, _: &Settings, random: &mut Stream) -> Option<Aim> {
        let (on, peers) = draw_sides(scene, random)?;
        let duplicate = f64::from(random.random_range(10..=90)) / 100.0;
        let dose = json!({"duplicate": duplicate, "peers": peers, "ways": "both"});
        Some(Aim { on, length: around_ttl(scene.ttl, 1.0, 3.0, random), dose })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        prepare(strike, |asked| asked.duplicate > 0.0, "duplicate", LOOK)
    }
}
