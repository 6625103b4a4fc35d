//! All that `doctor` concludes, as one value: it is printed as text or as JSON.

use fencepost_cluster::doctor::{Check, Examination, FoundEngine, Machine, Start, recommended_ttl};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Raised when a program that reads the JSON would have to change.
const FORMAT: u32 = 1;

#[derive(Debug, Serialize)]
pub(super) struct FaultReport {
    pub(super) format: u32,
    pub(super) version: &'static str,
    pub(super) machine: Machine,
    /// For how long a program waited for a core at a stretch, at most.
    pub(super) longest_stall_ms: u64,
    /// A shorter TTL is one for which such a stall counts.
    pub(super) recommended_ttl_ms: u64,
    pub(super) engines: Vec<FoundEngine>,
    /// In the order in which `auto` takes them.
    pub(super) drivers: Vec<DriverReport>,
    pub(super) images: Vec<Check>,
    /// In the order of `list nemeses`.
    pub(super) nemeses: Vec<NemesisReport>,
    /// Whether a driver starts nodes here, or was not tried yet.
    pub(super) can_test: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct DriverReport {
    pub(super) name: &'static str,
    #[serde(flatten)]
    pub(super) start: Start,
    pub(super) checks: Vec<Check>,
    /// Why no fault could be tried, although nodes start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_tried: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct NemesisReport {
    pub(super) name: &'static str,
    /// By the names of the drivers under which it was tried.
    pub(super) drivers: BTreeMap<&'static str, TriedEffect>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(super) enum TriedEffect {
    Effective {
        mechanism: String,
    },
    /// The machine has no part in it: it was not tried.
    Possible {
        mechanism: String,
    },
    /// It was injected, and no effect was observed.
    Vacuous,
    Impossible {
        reason: String,
    },
    /// It could not be injected, observed or healed.
    Failed {
        reason: String,
    },
}

type Tried = anyhow::Result<HashMap<&'static str, TriedEffect>>;

impl FaultReport {
    pub(super) fn new(found: Examination, stall: Duration, tried: Vec<(&'static str, Tried)>) -> FaultReport {
        let starts = found.starts();
        let checks_of =
            |area: &str| found.checks.iter().filter(|check| check.area == area).cloned().collect();
        let not_tried = |driver: &str| {
            let of_driver = tried.iter().find(|(name, _)| *name == driver);
            of_driver.and_then(|(_, tried)| Some(format!("{:#}", tried.as_ref().err()?)))
        };
        let effects = |nemesis: &str| {
            let of_driver = |(driver, tried): &(&'static str, Tried)| {
                Some((*driver, tried.as_ref().ok()?.get(nemesis)?.clone()))
            };
            tried.iter().filter_map(of_driver).collect()
        };
        let driver = |(name, start)| {
            let (checks, not_tried) = (checks_of(name), not_tried(name));
            DriverReport { name, start, checks, not_tried }
        };
        let nemesis = |name| NemesisReport { name, drivers: effects(name) };
        FaultReport {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION"),
            can_test: starts.iter().any(|(_, start)| !matches!(start, Start::No(_))),
            drivers: starts.into_iter().map(driver).collect(),
            images: checks_of("images"),
            nemeses: fencepost_nemesis::registry().iter().map(|it| nemesis(it.name())).collect(),
            machine: found.machine,
            longest_stall_ms: stall.as_millis() as u64,
            recommended_ttl_ms: recommended_ttl(stall).as_millis() as u64,
            engines: found.engines,
        }
    }
}
