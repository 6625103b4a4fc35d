//! `half-open`: a connection that was idle for a while is forgotten by the network, as by a firewall or a
//! NAT on the way: what either end sends is lost, without a word. New connections work. Each end takes the
//! old one for alive until it asks, or for ever. Sources: Toxiproxy's `timeout`; the kernel's documentation
//! of conntrack, whose entries end by themselves; RFC 5382, which lets a NAT forget.

use crate::packets::network_parameters::{Direction, NetworkNemesis, Shown};
use crate::plan::aim::{Aim, Moment, OtherEnd};
use crate::plan::distributions::draw_log;
use crate::plan::roles::Role;
use crate::tools::packets::Impairment;

pub(crate) const HALF_OPEN: NetworkNemesis = NetworkNemesis {
    name: "half-open",
    about: "drops idle connections to the servers silently: packets on them are lost, and new connections work",
    field: "idle_ms",
    draw: |topology, random| {
        let idle_ms = (topology.ttl.as_secs_f64() * 1e3 * draw_log(0.02, 0.3, random)).ceil() as u64;
        (Impairment { idle_ms, ..Impairment::default() }, Direction::Both)
    },
    on_connections: true,
    aims: AIMS,
    adapt_to_aim: |drawn, _, _| drawn,
    shown_by: Shown::IdleConnections,
    probes: |_| (1, 0),
    shows: |_, _, after| after.answered < after.sent,
    sentence: |impairment| {
        format!(
            "connections over which nothing had gone for {} ms were forgotten, and their packets lost",
            impairment.idle_ms
        )
    },
    label: |impairment| format!("forgets after {} ms", impairment.idle_ms),
    summary: "idle connections were forgotten",
};

/// The session of a holder in its section, and of who waits for a lock.
const AIMS: &[Aim] = &[
    Aim::between(Role::Holder, OtherEnd::Servers, &[Moment::GrantedForLong, Moment::BeforeWrite])
        .lasting(LENGTHS),
    Aim::between(Role::Waiter, OtherEnd::Servers, &[Moment::GrantedForLong]).lasting(LENGTHS),
];

/// Shortest and longest aimed fault, in TTLs: beyond the end of the section.
const LENGTHS: (f64, f64) = (1.5, 3.0);
