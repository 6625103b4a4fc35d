//! `leader-kill`: ends the server that leads, with SIGKILL, and starts it again.

use crate::kill::{Killed, downtime};
use crate::leader::draw_leader;
use crate::{Aim, Fault, Nemesis, Scene, Settings, Strike};
use fencepost_cluster::Capability;
use fencepost_history::Stream;
use serde_json::Value;

pub(crate) struct LeaderKill;

impl Nemesis for LeaderKill {
    fn name(&self) -> &'static str {
        "leader-kill"
    }

    fn about(&self) -> &'static str {
        "ends whoever leads with SIGKILL and starts it again; without a leader (Redlock), one drawn server"
    }

    fn kind(&self) -> Option<&'static str> {
        Some("kill")
    }

    fn takes_down(&self) -> bool {
        true
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::Signal]
    }

    fn draw(&self, scene: &Scene, settings: &Settings, random: &mut Stream) -> Option<Aim> {
        let on = draw_leader(scene, random)?;
        Some(Aim { on, length: downtime(scene, settings, random), dose: Value::Null })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        Ok(Box::new(Killed::new(&strike.on)))
    }
}
