//! `leader-kill`: ends the server that leads, with SIGKILL, and starts it again.

use crate::aim::{Aim, DrawnAim, Moment};
use crate::fault::Fault;
use crate::kill::{DOWN, Killed, back_soon, downtime};
use crate::nemesis::{Draw, NemesisDescription, NoParameters, Settings, TypedNemesis};
use crate::roles::Role;
use crate::topology::Topology;
use fencepost_history::{Refusal, Stream};

pub(crate) struct LeaderKill;

impl TypedNemesis for LeaderKill {
    type Parameters = NoParameters;

    fn description(&self) -> NemesisDescription {
        let about =
            "ends the leader with SIGKILL and starts it again; without a leader (Redlock), one drawn server";
        NemesisDescription {
            kind: Some("kill"),
            takes_down: true,
            options: &["restart-after"],
            servers_only: true,
            aims: const { &[Aim::at(Role::Leader, &[Moment::GrantedForLong, Moment::Collecting]).lasting(DOWN)] },
            ..NemesisDescription::new("leader-kill", about)
        }
    }

    fn draw(
        &self,
        topology: &Topology,
        settings: &Settings,
        random: &mut Stream,
    ) -> Option<Draw<NoParameters>> {
        let on = topology.draw_leader(random)?;
        Some(Draw { on, length: downtime(topology, settings, random), parameters: NoParameters {} })
    }

    fn adapt_to_aim(
        &self,
        drawn: Draw<NoParameters>,
        _: &DrawnAim,
        _: &Topology,
        settings: &Settings,
        _: &mut Stream,
    ) -> Draw<NoParameters> {
        back_soon(drawn, settings)
    }

    fn prepare(&self, on: &[String], _: NoParameters) -> Result<Box<dyn Fault>, Refusal> {
        Ok(Box::new(Killed::new(on)))
    }
}
