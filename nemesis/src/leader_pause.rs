//! `leader-pause`: stops the server that leads, for longer than the TTL. The others choose a new leader
//! meanwhile; the old one wakes and still believes that it leads.

use crate::aim::{Aim, Moment};
use crate::distributions::around_ttl;
use crate::fault::Fault;
use crate::nemesis::{Draw, NemesisDescription, Settings, TypedNemesis};
use crate::pause::{self, AROUND, LENGTHS, PauseParameters};
use crate::roles::Role;
use crate::topology::Topology;
use fencepost_history::{Refusal, Stream};

pub(crate) struct LeaderPause;

impl TypedNemesis for LeaderPause {
    type Parameters = PauseParameters;

    fn description(&self) -> NemesisDescription {
        let about = "stops the leader for longer than the TTL, then wakes it; without a leader (Redlock), one drawn server";
        NemesisDescription {
            kind: Some("pause"),
            servers_only: true,
            aims: const { &[Aim::at(Role::Leader, &[Moment::Granted, Moment::Collecting]).lasting(LENGTHS)] },
            ..NemesisDescription::new("leader-pause", about)
        }
    }

    fn draw(&self, topology: &Topology, _: &Settings, random: &mut Stream) -> Option<Draw<PauseParameters>> {
        let on = topology.draw_leader(random)?;
        let length = around_ttl(topology.ttl, AROUND.0, AROUND.1, random);
        Some(Draw { on, length, parameters: PauseParameters::draw(random) })
    }

    fn prepare(&self, on: &[String], parameters: PauseParameters) -> Result<Box<dyn Fault>, Refusal> {
        pause::prepare(on, parameters)
    }
}
