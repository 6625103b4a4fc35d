//! `delay`: packets take longer, from a tenth of the TTL to twice as much: an answer that comes too late, a write that
//! arrives when the lease has run out.

use crate::network::{Dose, Look, MECHANISMS, draw_log, draw_sides, peers_in, prepare};
use crate::tools::packets::{Distribution, Echoes};
use crate::{Aim, Fault, Nemesis, Scene, Settings, Strike, around_ttl};
use fencepost_cluster::Capability;
use fencepost_history::Stream;
use rand::Rng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

pub(crate) struct Delay;

const LOOK: Look = Look { echoes: |_| (5, 84), shows };

impl Nemesis for Delay {
    fn name(&self) -> &'static str {
        "delay"
    }

    fn about(&self) -> &'static str {
        "holds packets back, with jitter, so that round trips take from a tenth to twice the TTL"
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
        let ways = *["both", "out", "in"].choose(random)?;
        let round_trip_ms = scene.ttl.as_secs_f64() * 1e3 * draw_log(0.1, 2.0, random);
        let delay_ms = (if ways == "both" { round_trip_ms / 2.0 } else { round_trip_ms }).round();
        // Half of the delays are steady, which keeps packets in order.
        let jitter_ms =
            if random.random_bool(0.5) { (delay_ms * random.random_range(0.0..0.5)).round() } else { 0.0 };
        let distribution =
            [Distribution::Uniform, Distribution::Normal, Distribution::Pareto].choose(random)?;
        let dose = json!({
            "delay_ms": delay_ms, "jitter_ms": jitter_ms, "distribution": distribution, "peers": peers, "ways": ways,
        });
        Some(Aim { on, length: around_ttl(scene.ttl, 1.0, 3.0, random), dose })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        prepare(strike, |asked| asked.delay_ms > 0.0, "delay_ms", LOOK)
    }
}

/// Round trips take at least half as much longer as was asked for, or none has ended yet.
fn shows(dose: &Dose, before: &Echoes, after: &Echoes) -> bool {
    let was_ms = before.median_ms.unwrap_or(0.0);
    after.median_ms.is_none_or(|is_ms| is_ms >= was_ms + dose.round_trip_ms() / 2.0)
}
