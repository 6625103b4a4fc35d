//! What nemeses of packets share: a fault impairs ways to peers, and counts if echoes show it.

use crate::fault::Fault;
use crate::nemesis::{Draw, Drawing, NemesisDescription, TypedNemesis};
use crate::packets::network_fault::Impaired;
use crate::packets::network_parameters::{NetworkNemesis, NetworkParameters};
use crate::plan::aim::{Aim, DrawnAim, Moment, OtherEnd};
use crate::plan::distributions::{around_ttl, subset};
use crate::plan::roles::Role;
use crate::plan::topology::Topology;
use fencepost_cluster::Capability;
use fencepost_history::{Refusal, Stream};
use rand::RngExt;
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU64, Ordering};

impl TypedNemesis for NetworkNemesis {
    type Parameters = NetworkParameters;

    fn description(&self) -> NemesisDescription {
        NemesisDescription {
            kind: None,
            needs: &[Capability::PacketFilter],
            on_packets: true,
            aims: self.aims,
            needs_one_of: match self.on_connections {
                true => &[Capability::PacketQueue],
                // Either of them can impair packets.
                false => &[Capability::Netem, Capability::PacketQueue],
            },
            ..NemesisDescription::new(self.name, self.about)
        }
    }

    fn draw(&self, from: &mut Drawing<'_>) -> Option<Draw<NetworkParameters>> {
        let Drawing { topology, random, .. } = from;
        let (on, mut peers) = draw_sides(topology, random)?;
        if self.on_connections {
            peers.retain(|peer| topology.storage.as_ref() != Some(peer));
            if peers.is_empty() {
                peers.clone_from(&topology.servers);
            }
            if peers.is_empty() {
                return None;
            }
        }
        let (impairment, ways) = (self.draw)(topology, random);
        let parameters = NetworkParameters { impairment, peers, ways };
        Some(Draw { on, length: around_ttl(topology.ttl, 1.0, 3.0, random), parameters })
    }

    fn adapt_to_aim(
        &self,
        drawn: Draw<NetworkParameters>,
        aim: &DrawnAim,
        from: &mut Drawing<'_>,
    ) -> Draw<NetworkParameters> {
        let NetworkParameters { impairment, ways, .. } = drawn.parameters;
        let (impairment, ways) = (self.adapt_to_aim)((impairment, ways), aim, from);
        let parameters = NetworkParameters { impairment, peers: aim.peers.clone(), ways };
        Draw { parameters, ..drawn }
    }

    fn read(&self, parameters: &Map<String, Value>) -> Result<NetworkParameters, Refusal> {
        NetworkParameters::read(parameters)
    }

    fn prepare(&self, on: &[String], parameters: NetworkParameters) -> Result<Box<dyn Fault>, Refusal> {
        if !parameters.impairment.has(self.field) {
            return Err(Refusal::new(format!("it needs the parameter `{}`", self.field)));
        }
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let id = format!("{}-{}", self.name, NUMBER.fetch_add(1, Ordering::Relaxed));
        Ok(Box::new(Impaired::new(id, on.to_vec(), parameters, *self)))
    }
}

/// Aims of most nemeses of the network: the holder's writes and releases, an acquire, and the leader.
pub(crate) const FLOWS: &[Aim] = &[
    Aim::between(
        Role::Holder,
        OtherEnd::ServersAndStorage,
        &[Moment::BeforeWrite, Moment::GrantedForLong, Moment::Releasing],
    ),
    Aim::between(Role::Waiter, OtherEnd::Servers, &[Moment::Collecting]),
    Aim::between(Role::Leader, OtherEnd::Followers, &[Moment::Granted, Moment::Collecting]),
];

/// Targets and peers: clients from servers, storage or both, or servers from all others.
fn draw_sides(topology: &Topology, random: &mut Stream) -> Option<(Vec<String>, Vec<String>)> {
    let storage: Vec<String> = topology.storage.iter().cloned().collect();
    if !topology.servers.is_empty() && random.random_bool(0.3) {
        let on =
            subset(&topology.servers, random.random_range(1..=topology.servers.len().div_ceil(2)), random);
        let all = topology.servers.iter().chain(&topology.clients);
        let peers: Vec<String> = all.filter(|name| !on.contains(name)).cloned().collect();
        return (!peers.is_empty()).then_some((on, peers));
    }
    if topology.clients.is_empty() {
        return None;
    }
    let on = subset(&topology.clients, random.random_range(1..=topology.clients.len().div_ceil(2)), random);
    let peers = match (topology.servers.is_empty(), storage.is_empty(), random.random_range(0..4)) {
        (true, true, _) => return None,
        (false, true, _) | (false, false, 0 | 1) => topology.servers.clone(),
        (true, false, _) | (false, false, 2) => storage,
        _ => [topology.servers.clone(), storage].concat(),
    };
    Some((on, peers))
}
