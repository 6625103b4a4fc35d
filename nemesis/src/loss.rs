//! `loss`: some packets never arrive, one by one or in bursts. TCP sends them again, later: what was lost shows as
//! time, and as answers that never come to those who do not wait.

use crate::network::{Look, MECHANISMS, draw_sides, peers_in, prepare};
use crate::{Aim, Fault, Nemesis, Scene, Settings, Strike, around_ttl};
use fencepost_cluster::Capability;
use fencepost_history::Stream;
use rand::Rng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

pub(crate) struct Loss;

/// With the least share that is drawn, one of 60 is missing in 998 of 1000 looks.
const LOOK: Look = Look { echoes: |_| (60, 84), shows: |_, _, after| after.answered < after.sent };

impl Nemesis for Loss {
    fn name(&self) -> &'static str {
        "loss"
    }

    fn about(&self) -> &'static str {
        "loses a tenth to two thirds of the packets, one by one or in bursts"
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
        let hundredth = |share: f64| (share * 100.0).round() / 100.0;
        let loss = hundredth(random.random_range(0.1..0.67));
        let correlation =
            if random.random_bool(0.5) { hundredth(random.random_range(0.1..0.8)) } else { 0.0 };
        let ways = ["both", "out", "in"].choose(random)?;
        let dose = json!({"loss": loss, "loss_correlation": correlation, "peers": peers, "ways": ways});
        Some(Aim { on, length: around_ttl(scene.ttl, 1.0, 3.0, random), dose })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        prepare(strike, |asked| asked.loss > 0.0, "loss", LOOK)
    }
}
