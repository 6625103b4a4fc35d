//! `duplicate`: packets arrive twice. TCP throws the second away; what is done over UDP is done twice.

use crate::network::{FLOWS, WorseWay, as_drawn};
use crate::network_parameters::{Look, Ways, Words, percent};
use crate::tools::packets::Impairment;
use rand::RngExt;

pub(crate) const DUPLICATE: WorseWay = WorseWay {
    name: "duplicate",
    about: "sends a tenth to nine tenths of the packets twice",
    field: "duplicate",
    asks: |asked| asked.duplicate > 0.0,
    draw: |_, random| {
        let duplicate = f64::from(random.random_range(10..=90)) / 100.0;
        (Impairment { duplicate, ..Impairment::default() }, Ways::Both)
    },
    delays_nothing: true,
    aims: FLOWS,
    suit: as_drawn,
    look: Look { echoes: |_| (60, 84), shows: |_, before, after| after.duplicates > before.duplicates },
    words: Words {
        sentence: |asked| format!("{} of the packets came twice", percent(asked.duplicate)),
        label: |asked| format!("duplicate {}", percent(asked.duplicate)),
        summary: "packets came twice",
    },
};
