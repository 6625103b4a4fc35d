//! `stall`: the first request to the servers passes, and those after it are held back. Two requests in a row,
//! such as a look at a key and its deletion, are far apart: the first answer is old when the second arrives.

use crate::nemesis::Drawing;
use crate::packets::network_parameters::{Direction, NetworkNemesis, OneOrBothWays, Shown};
use crate::plan::aim::{Aim, DrawnAim, Moment, OtherEnd};
use crate::plan::distributions::draw_log;
use crate::plan::roles::Role;
use crate::plan::topology::Topology;
use crate::tools::packets::Impairment;
use rand::RngExt;

pub(crate) const STALL: NetworkNemesis = NetworkNemesis {
    name: "stall",
    about: "lets the first request to the servers pass, and holds back those after it",
    field: "delay_ms",
    draw: |topology, random| (stalled(topology, draw_log(0.5, 2.0, random), 1), Direction::Out),
    on_connections: true,
    aims: AIMS,
    adapt_to_aim,
    // Echoes are no requests: each is held back.
    shown_by: Shown::Echoes,
    probes: |_| (5, 84),
    shows: crate::packets::delay::shows,
    sentence: |impairment| {
        let first = match impairment.pass_first {
            1 => "the first request".to_owned(),
            many => format!("the first {many} requests"),
        };
        format!("{first} to each passed, and what came after was held back for {} ms", impairment.delay_ms)
    },
    label: |impairment| format!("stall {} ms", impairment.delay_ms),
    summary: "requests after the first were held back",
};

fn stalled(topology: &Topology, ttls: f64, pass_first: u64) -> Impairment {
    let delay_ms = (topology.ttl.as_secs_f64() * 1e3 * ttls).round();
    Impairment { delay_ms, pass_first, ..Impairment::default() }
}

/// From the grant on: the first request is the release's, or the renewal's before it.
const AIMS: &[Aim] = &[
    Aim::between(Role::Holder, OtherEnd::Servers, &[Moment::GrantedForLong]).lasting(LENGTHS),
    Aim::between(Role::Waiter, OtherEnd::Servers, &[Moment::GrantedForLong, Moment::Collecting])
        .lasting(LENGTHS),
];

/// Shortest and longest aimed fault, in TTLs: the release comes in time, what it holds back after the lease.
const LENGTHS: (f64, f64) = (1.5, 2.5);

/// What is held back arrives after the lease has run out. Mostly one request passes, sometimes some.
fn adapt_to_aim(_: OneOrBothWays, _: &DrawnAim, from: &mut Drawing<'_>) -> OneOrBothWays {
    let Drawing { topology, random, .. } = from;
    let pass_first = if random.random_bool(0.7) { 1 } else { random.random_range(2..=4) };
    (stalled(topology, random.random_range(0.8..1.5), pass_first), Direction::Out)
}
