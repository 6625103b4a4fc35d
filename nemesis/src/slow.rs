//! `slow`: the line carries little, so that packets wait for each other. The traffic of a lock is small; a line has to
//! be very slow to matter to it.

use crate::network::{Dose, Look, MECHANISMS, draw_log, draw_sides, peers_in, prepare};
use crate::tools::packets::{Echoes, Impairment};
use crate::{Aim, Fault, Nemesis, Scene, Settings, Strike, around_ttl};
use fencepost_cluster::Capability;
use fencepost_history::Stream;
use serde_json::{Value, json};

pub(crate) struct Slow;

const LOOK: Look = Look { echoes, shows };

impl Nemesis for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn about(&self) -> &'static str {
        "limits the line to 8 to 512 kbit/s"
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
        let rate_kbit = draw_log(8.0, 512.0, random).round() as u64;
        let dose = json!({"rate_kbit": rate_kbit, "peers": peers, "ways": "both"});
        Some(Aim { on, length: around_ttl(scene.ttl, 1.0, 3.0, random), dose })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        prepare(strike, |asked| asked.rate_kbit > 0, "rate_kbit", LOOK)
    }
}

/// As many as fill the line for 300 ms, four at least.
fn echoes(asked: &Impairment) -> (u16, usize) {
    let bytes = asked.rate_kbit as usize * 1000 / 8 * 3 / 10;
    let count = (bytes / 1400).clamp(4, 40);
    (count as u16, (bytes / count).clamp(84, 1400))
}

/// The last echo came back only after half of the time that all of them take on such a line, or did not yet.
fn shows(dose: &Dose, before: &Echoes, after: &Echoes) -> bool {
    let (count, bytes) = echoes(&dose.impairment);
    let line_ms = (usize::from(count) * bytes * 8) as f64 / dose.impairment.rate_kbit as f64;
    let was_ms = before.most_ms.unwrap_or(0.0);
    after.answered < after.sent || after.most_ms.is_some_and(|is_ms| is_ms >= was_ms + line_ms / 2.0)
}
