//! `reset`: connections break while they are in use. Where the request is hit, the server never sees it;
//! where the answer is, the server has done what was asked, and the client cannot know.

use crate::packets::network_parameters::{Direction, NetworkNemesis, Shown, percent};
use crate::plan::aim::{Aim, Moment, OtherEnd};
use crate::plan::roles::Role;
use crate::tools::packets::Impairment;
use rand::RngExt;
use rand::seq::IndexedRandom;

pub(crate) const RESET: NetworkNemesis = NetworkNemesis {
    name: "reset",
    about: "resets connections to the servers, as a request is sent or in the middle of its answer",
    field: "reset",
    draw: |_, random| {
        let reset = f64::from(random.random_range(30..=100)) / 100.0;
        let ways =
            [Direction::Both, Direction::Out, Direction::In].choose(random).copied().unwrap_or_default();
        (Impairment { reset, ..Impairment::default() }, ways)
    },
    on_connections: true,
    aims: AIMS,
    adapt_to_aim: |drawn, _, _| drawn,
    // With the least share that is drawn, all of 20 connections last in 8 of 10,000 looks.
    shown_by: Shown::Connections,
    probes: |_| (20, 0),
    shows: |_, _, after| after.answered < after.sent,
    sentence: |impairment| {
        format!("{} of the packets with data reset their connection", percent(impairment.reset))
    },
    label: |impairment| format!("reset {}", percent(impairment.reset)),
    summary: "connections were reset",
};

/// The holder as it renews and releases, and who acquires.
const AIMS: &[Aim] = &[
    Aim::between(Role::Holder, OtherEnd::Servers, &[Moment::GrantedForLong, Moment::BeforeWrite]),
    Aim::between(Role::Waiter, OtherEnd::Servers, &[Moment::Collecting, Moment::GrantedForLong]),
];
