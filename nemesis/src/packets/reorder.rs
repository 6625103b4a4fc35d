//! `reorder`: packets overtake each other, because some skip the delay that holds the others back.

use crate::packets::network::FLOWS;
use crate::packets::network_parameters::{Direction, NetworkNemesis, Shown, percent};
use crate::plan::distributions::draw_log;
use crate::tools::packets::Impairment;
use rand::RngExt;

pub(crate) const REORDER: NetworkNemesis = NetworkNemesis {
    name: "reorder",
    about: "lets packets overtake each other by up to a fifth of the TTL",
    field: "reorder",
    draw: |topology, random| {
        // At least 5 ms: echoes that are sent a millisecond apart show it then.
        let delay_ms = (topology.ttl.as_secs_f64() * 1e3 * draw_log(0.01, 0.2, random)).round().max(5.0);
        let reorder = f64::from(random.random_range(10..=50)) / 100.0;
        (Impairment { delay_ms, reorder, ..Impairment::default() }, Direction::Both)
    },
    on_connections: false,
    aims: FLOWS,
    adapt_to_aim: |drawn, _, _| drawn,
    shown_by: Shown::Echoes,
    probes: |_| (60, 84),
    shows: |_, before, after| after.overtaken > before.overtaken,
    sentence: |impairment| {
        let share = percent(impairment.reorder);
        format!("{share} of the packets overtook the others, which were held back")
    },
    label: |impairment| format!("reorder {}", percent(impairment.reorder)),
    summary: "packets overtook each other",
};
