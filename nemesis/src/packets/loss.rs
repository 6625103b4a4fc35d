//! `loss`: some packets never arrive, one by one or in bursts. TCP sends them again: answers come too late.

use crate::packets::network::FLOWS;
use crate::packets::network_parameters::{Direction, NetworkNemesis, Shown, percent};
use crate::tools::packets::Impairment;
use rand::RngExt;
use rand::seq::IndexedRandom;

pub(crate) const LOSS: NetworkNemesis = NetworkNemesis {
    name: "loss",
    about: "loses a tenth to two thirds of the packets, one by one or in bursts",
    field: "loss",
    draw: |_, random| {
        let loss = hundredth(random.random_range(0.1..0.67));
        let loss_correlation =
            if random.random_bool(0.5) { hundredth(random.random_range(0.1..0.8)) } else { 0.0 };
        let ways =
            [Direction::Both, Direction::Out, Direction::In].choose(random).copied().unwrap_or_default();
        (Impairment { loss, loss_correlation, ..Impairment::default() }, ways)
    },
    on_connections: false,
    aims: FLOWS,
    adapt_to_aim: |drawn, _, _| drawn,
    // With the least share that is drawn, one of 60 is missing in 998 of 1000 looks.
    shown_by: Shown::Echoes,
    probes: |_| (60, 84),
    shows: |_, _, after| after.answered < after.sent,
    sentence: |impairment| {
        let bursts = if impairment.loss_correlation > 0.0 { ", in bursts" } else { "" };
        format!("{} of the packets were lost{bursts}", percent(impairment.loss))
    },
    label: |impairment| format!("loss {}", percent(impairment.loss)),
    summary: "packets were lost",
};

fn hundredth(share: f64) -> f64 {
    (share * 100.0).round() / 100.0
}
