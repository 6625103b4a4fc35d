//! `reorder`: packets overtake each other, because some skip the delay that holds the others back.

use crate::network::{Look, MECHANISMS, draw_log, draw_sides, peers_in, prepare};
use crate::{Aim, Fault, Nemesis, Scene, Settings, Strike, around_ttl};
use fencepost_cluster::Capability;
use fencepost_history::Stream;
use rand::Rng;
use serde_json::{Value, json};

pub(crate) struct Reorder;

const LOOK: Look =
    Look { echoes: |_| (60, 84), shows: |_, before, after| after.overtaken > before.overtaken };

impl Nemesis for Reorder {
    fn name(&self) -> &'static str {
        "reorder"
    }

    fn about(&self) -> &'static str {
        "lets packets overtake each other by up to a fifth of the TTL"
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
        // At least 5 ms: echoes that are sent a millisecond apart show it then.
        let delay_ms = (scene.ttl.as_secs_f64() * 1e3 * draw_log(0.01, 0.2, random)).round().max(5.0);
        let reorder = f64::from(random.random_range(10..=50)) / 100.0;
        let dose = json!({"delay_ms": delay_ms, "reorder": reorder, "peers": peers, "ways": "both"});
        Some(Aim { on, length: around_ttl(scene.ttl, 1.0, 3.0, random), dose })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        prepare(strike, |asked| asked.reorder > 0.0, "reorder", LOOK)
    }
}
