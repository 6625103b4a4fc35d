//! Facts about some options besides their definitions. Others are shown where they differ from the default.

use InScenario::{Always, Changed, Never, Refused};
use fencepost_nemesis::NemesisOptions;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InScenario {
    /// A written one says it whatever the default is, so that another version plays the same.
    Always,
    /// A written one says it where it differs from the default.
    Changed,
    /// It is not written: it says nothing of a run whose faults are written down.
    Never,
    /// Nor is it read; what to do instead.
    Refused(&'static str),
}

pub(crate) struct OptionFacts {
    pub name: &'static str,
    pub in_scenario: InScenario,
    /// Whether it has a place of its own where runs are listed, so that it is left out of their settings.
    pub has_own_place: bool,
}

const IN_FAULTS: InScenario = Refused("write each fault as a [[fault]]");
const ON_OWN_SERVERS: InScenario = Refused("scenarios start their servers themselves");
const IN_CALL: InScenario = Refused("use --driver on the command line");

/// In the order in which a scenario says them.
pub(crate) const OPTION_FACTS: &[OptionFacts] = &[
    of("lock", Always, true),
    of("seed", Always, true),
    of("ttl", Always, false),
    of("clients", Always, false),
    of("concurrency", Always, false),
    of("keys", Always, false),
    of("time-limit", Always, true),
    of("acquisitions", Changed, true),
    of("fail-fast", Changed, true),
    of("guard", Changed, true),
    of("nemesis-interval", Never, false),
    of("scenario", Never, false),
    of("start-time", Never, true),
    of("driver", IN_CALL, true),
    of("nemesis", IN_FAULTS, true),
    of("nemesis-file", IN_FAULTS, false),
    of("servers", ON_OWN_SERVERS, false),
    of("i-own-these-servers", ON_OWN_SERVERS, true),
    of("servers-user", ON_OWN_SERVERS, false),
    of("password-file", ON_OWN_SERVERS, false),
    of("servers-ca", ON_OWN_SERVERS, false),
    of("servers-certificate", ON_OWN_SERVERS, false),
    of("servers-key", ON_OWN_SERVERS, false),
    of("server-hook", ON_OWN_SERVERS, false),
];

const fn of(name: &'static str, in_scenario: InScenario, has_own_place: bool) -> OptionFacts {
    OptionFacts { name, in_scenario, has_own_place }
}

fn facts(name: &str) -> Option<&'static OptionFacts> {
    OPTION_FACTS.iter().find(|facts| facts.name == name)
}

pub(crate) fn in_scenario(name: &str) -> InScenario {
    let drawing = || if NemesisOptions::only_draws(name) { Never } else { Changed };
    facts(name).map_or_else(drawing, |facts| facts.in_scenario)
}

pub(crate) fn has_own_place(name: &str) -> bool {
    facts(name).is_some_and(|facts| facts.has_own_place)
}
