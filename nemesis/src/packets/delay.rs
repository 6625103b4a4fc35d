//! `delay`: packets take a tenth of the TTL to twice as much: answers come too late, writes after the lease.

use crate::nemesis::Drawing;
use crate::packets::network_parameters::{
    Direction, NetworkNemesis, NetworkParameters, OneOrBothWays, Shown,
};
use crate::plan::aim::{Aim, DrawnAim, Moment, OtherEnd};
use crate::plan::distributions::draw_log;
use crate::plan::roles::Role;
use crate::plan::topology::Topology;
use crate::tools::packets::{Distribution, Echoes, Impairment};
use fencepost_history::Stream;
use rand::RngExt;
use rand::seq::IndexedRandom;

pub(crate) const DELAY: NetworkNemesis = NetworkNemesis {
    name: "delay",
    about: "holds packets back, with jitter, so that round trips take from a tenth to twice the TTL",
    field: "delay_ms",
    draw,
    on_connections: false,
    aims: AIMS,
    adapt_to_aim,
    shown_by: Shown::Echoes,
    probes: |_| (5, 84),
    shows,
    sentence: held_back,
    label: |impairment| format!("delay {} ms", impairment.delay_ms),
    summary: "packets were held back",
};

fn draw(topology: &Topology, random: &mut Stream) -> (Impairment, Direction) {
    let ways = [Direction::Both, Direction::Out, Direction::In].choose(random).copied().unwrap_or_default();
    let round_trip_ms = topology.ttl.as_secs_f64() * 1e3 * draw_log(0.1, 2.0, random);
    let both = ways == Direction::Both;
    let delay_ms = (if both { round_trip_ms / 2.0 } else { round_trip_ms }).round();
    // Half of the delays are steady, which keeps packets in order.
    let jitter_ms =
        if random.random_bool(0.5) { (delay_ms * random.random_range(0.0..0.5)).round() } else { 0.0 };
    let all = [Distribution::Uniform, Distribution::Normal, Distribution::Pareto];
    let distribution = all.choose(random).copied().unwrap_or_default();
    (Impairment { delay_ms, jitter_ms, distribution, ..Impairment::default() }, ways)
}

/// A write of the holder that arrives when the lease has run out. Where the lease is renewed while the write
/// is on its way, it runs out only if the servers hear as late of the holder.
const AIMS: &[Aim] = &[
    Aim::between(Role::Holder, OtherEnd::ServersAndStorage, &[Moment::BeforeWrite])
        .lasting(LENGTHS)
        .until(&[Moment::Read]),
    Aim::between(Role::Holder, OtherEnd::Storage, &[Moment::BeforeWrite])
        .lasting(LENGTHS)
        .until(&[Moment::Read]),
    Aim::between(Role::Waiter, OtherEnd::Servers, &[Moment::Collecting]).lasting(LENGTHS),
];

/// Shortest and longest aimed fault, in TTLs: what is still held back at its end arrives then.
const LENGTHS: (f64, f64) = (1.8, 2.6);

/// What is held back on its way to the storage arrives after the TTL, all equally late and thus in order.
fn adapt_to_aim(drawn: OneOrBothWays, aim: &DrawnAim, from: &mut Drawing<'_>) -> OneOrBothWays {
    if aim.aim.other_end.is_none_or(|end| !end.has_storage()) {
        return drawn;
    }
    let delay_ms = (from.topology.ttl.as_secs_f64() * 1e3 * from.random.random_range(2.0..3.0)).round();
    (Impairment { delay_ms, ..Impairment::default() }, Direction::Out)
}

/// Round trips take at least half as much longer as was requested, or none has ended yet.
pub(crate) fn shows(parameters: &NetworkParameters, before: &Echoes, after: &Echoes) -> bool {
    let was_ms = before.median_ms.unwrap_or(0.0);
    after.median_ms.is_none_or(|is_ms| is_ms >= was_ms + parameters.round_trip_ms() / 2.0)
}

fn held_back(impairment: &Impairment) -> String {
    let jitter = match impairment.jitter_ms {
        jitter_ms if jitter_ms > 0.0 => format!(", give or take {jitter_ms} ms"),
        _ => String::new(),
    };
    format!("each packet was held back for {} ms{jitter}", impairment.delay_ms)
}
