//! `leader-pause`: stops the server that leads, for longer than the TTL. The others choose a new leader meanwhile; the
//! old one wakes and still believes that it leads.

use crate::leader::draw_leader;
use crate::pause::{self, AROUND};
use crate::{Aim, Fault, Nemesis, Scene, Settings, Strike, around_ttl};
use fencepost_cluster::Capability;
use fencepost_history::Stream;

pub(crate) struct LeaderPause;

impl Nemesis for LeaderPause {
    fn name(&self) -> &'static str {
        "leader-pause"
    }

    fn about(&self) -> &'static str {
        "stops whoever leads for longer than the TTL, then wakes it; without a leader (Redlock), one drawn server"
    }

    fn kind(&self) -> Option<&'static str> {
        Some("pause")
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::Signal]
    }

    fn draw(&self, scene: &Scene, _: &Settings, random: &mut Stream) -> Option<Aim> {
        let on = draw_leader(scene, random)?;
        let length = around_ttl(scene.ttl, AROUND.0, AROUND.1, random);
        Some(Aim { on, length, dose: pause::draw_dose(random) })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        pause::prepare(strike)
    }
}
