//! `script-flush`: servers forget the scripts that clients have loaded, as after `SCRIPT FLUSH`, a restart or
//! a failover. A client that calls a script by its digest alone (`EVALSHA`) can then neither release nor
//! renew. Source: the Redis documentation, "Scripting with Lua", on the cache of scripts.

use crate::nemesis::{Draw, Drawing, NemesisDescription, NemesisRow, NoParameters};
use crate::orders::ordered::{by_order, half_or_more, ordered};
use crate::plan::aim::{Aim, Moment};
use crate::plan::roles::Role;
use fencepost_history::prose::and;
use fencepost_history::{FaultDescription, FaultEffect};
use std::time::Duration;

/// Before a renewal or a release.
const AIMS: &[Aim] = &[
    Aim::at(Role::Granting, &[Moment::GrantedForLong, Moment::Releasing]),
    Aim::at(Role::Leader, &[Moment::Collecting]),
];

/// Nothing is to be undone: the scripts are gone until clients load them again.
const AT_ONCE: Duration = Duration::from_millis(1);

pub(crate) const SCRIPT_FLUSH: NemesisRow<NoParameters> = NemesisRow {
    description: NemesisDescription {
        aims: AIMS,
        ..by_order("script-flush", "makes servers forget the scripts that clients have loaded (SCRIPT FLUSH)")
    },
    draw: |Drawing { topology, random, .. }| {
        topology.orders_of("script-flush").first()?;
        Some(Draw { on: half_or_more(topology, random)?, length: AT_ONCE, parameters: NoParameters {} })
    },
    adapt_to_aim: |drawn, _, _| drawn,
    prepare: |on, NoParameters {}| {
        let targets = and(on);
        let description = FaultDescription {
            effects: vec![FaultEffect::Refuses],
            keeps_memory: true,
            sentence: format!("{targets} forgot all scripts"),
            healing: format!("{targets} took scripts again"),
            label: format!("{} scripts gone", on.join(" ")),
            summary: "servers forgot the scripts of clients".to_owned(),
            ..FaultDescription::default()
        };
        Ok(ordered(on, "script-flush:".to_owned(), description))
    },
};
