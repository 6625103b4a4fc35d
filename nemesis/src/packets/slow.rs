//! `slow`: the line carries little, so that packets wait. A lock sends little: only a very slow line matters.

use crate::packets::network::FLOWS;
use crate::packets::network_parameters::{Direction, NetworkNemesis, NetworkParameters, Shown};
use crate::plan::distributions::draw_log;
use crate::tools::packets::{Echoes, Impairment};

pub(crate) const SLOW: NetworkNemesis = NetworkNemesis {
    name: "slow",
    about: "limits the bandwidth, to between 8 and 512 kbit/s",
    field: "rate_kbit",
    draw: |_, random| {
        let rate_kbit = draw_log(8.0, 512.0, random).round() as u64;
        (Impairment { rate_kbit, ..Impairment::default() }, Direction::Both)
    },
    on_connections: false,
    aims: FLOWS,
    adapt_to_aim: |drawn, _, _| drawn,
    shown_by: Shown::Echoes,
    probes: echoes,
    shows,
    sentence: |impairment| format!("no more than {} kbit passed a second", impairment.rate_kbit),
    label: |impairment| format!("{} kbit/s", impairment.rate_kbit),
    summary: "lines were slow",
};

/// As many as fill the line for 300 ms, four at least.
fn echoes(impairment: &Impairment) -> (u16, usize) {
    let bytes = impairment.rate_kbit as usize * 1000 / 8 * 3 / 10;
    let count = (bytes / 1400).clamp(4, 40);
    (count as u16, (bytes / count).clamp(84, 1400))
}

/// The last echo came back only after half of the time that all of them take on such a line, or did not yet.
fn shows(parameters: &NetworkParameters, before: &Echoes, after: &Echoes) -> bool {
    let (count, bytes) = echoes(&parameters.impairment);
    let line_ms = (usize::from(count) * bytes * 8) as f64 / parameters.impairment.rate_kbit as f64;
    let was_ms = before.most_ms.unwrap_or(0.0);
    after.answered < after.sent || after.most_ms.is_some_and(|is_ms| is_ms >= was_ms + line_ms / 2.0)
}
