//! `duplicate`: packets arrive twice. TCP throws the second away; what is done over UDP is done twice.

use crate::packets::network::FLOWS;
use crate::packets::network_parameters::{Direction, NetworkNemesis, Shown, percent};
use crate::tools::packets::Impairment;
use rand::RngExt;

pub(crate) const DUPLICATE: NetworkNemesis = NetworkNemesis {
    name: "duplicate",
    about: "sends a tenth to nine tenths of the packets twice",
    field: "duplicate",
    draw: |_, random| {
        let duplicate = f64::from(random.random_range(10..=90)) / 100.0;
        (Impairment { duplicate, ..Impairment::default() }, Direction::Both)
    },
    on_connections: false,
    aims: FLOWS,
    adapt_to_aim: |drawn, _, _| drawn,
    shown_by: Shown::Echoes,
    probes: |_| (60, 84),
    shows: |_, before, after| after.duplicates > before.duplicates,
    sentence: |impairment| format!("{} of the packets came twice", percent(impairment.duplicate)),
    label: |impairment| format!("duplicate {}", percent(impairment.duplicate)),
    summary: "packets came twice",
};
