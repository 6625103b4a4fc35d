//! Chooses the mechanism that moves servers' clocks, before they start: libfaketime is a part of the program.

use crate::clocks::clock_tool::ClockCall;
use crate::clocks::motion::Motions;
use crate::plan::Plan;
use crate::plan::planned_fault::PlannedFault;
use crate::plan::topology::Topology;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClockMechanism, ClusterError, Node};
use fencepost_history::Refusal;
use serde_json::json;
use std::time::Duration;

/// Servers whose clocks are to be faked from before their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FakedClocks {
    /// The monotonic clock, too.
    pub monotonic: bool,
}

/// Chooses the mechanism that moves the servers' clocks: the requested one, or the first that the servers'
/// program offers. None where nothing has to be prepared.
///
/// A program that offers faketime first (a JVM) waits for absolute times of its monotonic clock. Only
/// libfaketime can move that, and then the wall clock with it; only the vDSO can move the wall clock alone.
///
/// Errors: the mechanism does not reach that program, or cannot do what the plan wants.
pub fn fake_clocks(
    plan: &Plan,
    topology: &Topology,
    requested: Option<ClockMechanism>,
    offered: &[ClockMechanism],
) -> Result<Option<FakedClocks>, Refusal> {
    use ClockMechanism::{Faketime, Vdso};
    if let Some(requested) = requested.filter(|requested| !offered.contains(requested)) {
        let offered: Vec<String> = offered.iter().map(ToString::to_string).collect();
        return Err(Refusal::new(format!(
            "--clock-mechanism {requested} does not reach these servers: their program takes its time in another way; use {} \
             or auto",
            offered.join(", ")
        )));
    }
    let on_servers = |fault: &&PlannedFault| {
        let mut nodes = fault.on.iter().flat_map(|on| topology.candidates(on));
        nodes.any(|node| topology.servers.contains(&node))
    };
    let faults = plan.faults.iter().filter(on_servers);
    let moved: Vec<Motions> = faults.filter_map(PlannedFault::motions).collect();
    let waits_by_clock = offered.first() == Some(&Faketime);
    let any_monotonic = moved.iter().any(|motions| motions.monotonic.is_some());
    let suits = if waits_by_clock && any_monotonic { Faketime } else { Vdso };
    match requested.unwrap_or(suits) {
        Vdso if waits_by_clock && any_monotonic => Err(Refusal::new(
            "the program of these servers waits for times of its \
             monotonic clock, which would never come if only the clock were moved; use --clock-mechanism faketime, or \
             --clock wall",
        )),
        Faketime if waits_by_clock && !any_monotonic && !moved.is_empty() => Err(Refusal::new(
            "libfaketime cannot move the \
             wall clock of these servers alone: their program would stop waiting for anything; use --clock both, or \
             --clock-mechanism vdso",
        )),
        Vdso => Ok(None),
        Faketime => faked(&moved),
    }
}

fn faked(moved: &[Motions]) -> Result<Option<FakedClocks>, Refusal> {
    let mut faked: Option<FakedClocks> = None;
    for motions in moved {
        let monotonic = motions.monotonic.is_some();
        if monotonic && motions.wall != motions.monotonic {
            return Err(Refusal::new(
                "libfaketime, by which the clocks of these servers are moved, moves the monotonic clock only \
                        together with the wall clock; use --clock both",
            ));
        }
        if faked.is_some_and(|faked| faked.monotonic != monotonic) {
            return Err(Refusal::new(
                "libfaketime, by which the clocks of these servers are moved, moves either the wall clock \
                        or both in one run; let all faults of the plan say the same",
            ));
        }
        faked = Some(FakedClocks { monotonic });
    }
    Ok(faked)
}

/// The nodes whose clocks a plan may move, sorted: of a role, all that may play it.
pub fn moved_clocks(plan: &Plan, topology: &Topology) -> Vec<String> {
    let moving = plan.faults.iter().filter(|fault| fault.motions().is_some());
    let targets = moving.flat_map(|fault| &fault.on);
    let mut names: Vec<String> = targets.flat_map(|name| topology.candidates(name)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// How long a program may take to tell its version.
const START: Duration = Duration::from_secs(10);

/// Puts what fakes clocks into a node and its service's environment, before it starts. Errors: it fails.
pub async fn prepare_clock(
    node: &dyn Node,
    service: &mut Service,
    faked: FakedClocks,
) -> Result<(), ClusterError> {
    let answer = node.tool("clock", json!(ClockCall::Fake { monotonic: faked.monotonic })).await?;
    let env: Vec<(String, String)> =
        serde_json::from_value(answer).map_err(|error| ClusterError::new(error.to_string()))?;
    try_program(node, service, &env).await?;
    service.env.extend(env);
    Ok(())
}

/// Asks the program for its version, with libfaketime in it. Any answer will do: it may know no such option.
async fn try_program(
    node: &dyn Node,
    service: &Service,
    env: &[(String, String)],
) -> Result<(), ClusterError> {
    let Some(program) = service.argv.first() else { return Ok(()) };
    let settings: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let words = ["env"].into_iter().chain(settings.iter().map(String::as_str)).chain([program, "--version"]);
    let output = node.exec(&words.collect::<Vec<_>>(), START).await?;
    let trouble = output.stderr.lines().find(|line| line.contains("symbol lookup error"));
    let why = match (output.code, trouble) {
        (_, Some(line)) => line.trim().to_owned(),
        (None, None) => "it does not start, or hangs".to_owned(),
        (Some(_), None) => return Ok(()),
    };
    Err(ClusterError::new(format!(
        "{}: libfaketime cannot carry {program} ({why}); use --clock-mechanism vdso",
        node.name()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::roles::LEADER;
    use ClockMechanism::{Faketime, Vdso};

    fn topology() -> Topology {
        crate::testing::topology(2, 1)
    }

    fn plan(faults: &str) -> Plan {
        Plan::parse(faults, &topology()).unwrap()
    }

    fn jump(on: &str, parameters: &str) -> String {
        let parameters = parameters.replace(", ", "\n");
        format!(
            "[[fault]]\nat_ms = 1000\nfor_ms = 1000\nfault = \"clock-jump\"\non = [\"{on}\"]\n{parameters}\n"
        )
    }

    #[test]
    fn what_fakes_clocks_is_chosen_before_the_start() {
        let wall = plan(&jump("n1", "wall_ms = 5"));
        let both = plan(&jump("n1", "wall_ms = 5, monotonic_ms = 5"));
        let choose =
            |plan: &Plan, requested, offered: &[_]| fake_clocks(plan, &topology(), requested, offered);
        assert_eq!(choose(&wall, None, &[Vdso, Faketime]), Ok(None));
        let faked = |monotonic| Ok(Some(FakedClocks { monotonic }));
        assert_eq!(choose(&wall, Some(Faketime), &[Vdso, Faketime]), faked(false));
        // A JVM: both clocks by libfaketime, the wall clock alone by the vDSO.
        assert_eq!(choose(&both, None, &[Faketime, Vdso]), faked(true));
        assert_eq!(choose(&wall, None, &[Faketime, Vdso]), Ok(None));
        // Nothing is prepared for servers whose clocks no fault moves.
        assert_eq!(choose(&plan(&jump("c1", "monotonic_ms = 5")), None, &[Faketime, Vdso]), Ok(None));
        let refused = |plan: &str, requested, offered: &[_]| {
            choose(&self::plan(plan), requested, offered).unwrap_err().sentence
        };
        assert!(refused(&jump("n1", "wall_ms = 5"), Some(Faketime), &[Vdso]).contains("use vdso"));
        let jvm = &[Faketime, Vdso];
        assert!(refused(&jump("n1", "monotonic_ms = 5"), None, jvm).contains("--clock both"));
        assert!(refused(&jump("n1", "monotonic_ms = 5"), Some(Vdso), jvm).contains("never come"));
        assert!(refused(&jump("n1", "wall_ms = 5"), Some(Faketime), jvm).contains("stop waiting"));
        let mixed = jump("n1", "wall_ms = 5") + &jump("n2", "wall_ms = 5, monotonic_ms = 5");
        assert!(refused(&mixed, None, jvm).contains("one run"));
    }

    #[test]
    fn whose_clocks_a_plan_moves() {
        let pause = "[[fault]]\nat_ms = 1000\nfor_ms = 1000\nfault = \"pause\"\non = [\"n2\"]\n";
        assert_eq!(moved_clocks(&plan(&(jump("n1", "wall_ms = 5") + pause)), &topology()), ["n1"]);
        let mut aimed = plan(&jump("n1", "wall_ms = 5"));
        for (role, moved) in [(LEADER, &["n1", "n2"][..]), ("granting:1", &["n1", "n2"]), ("holder", &["c1"])]
        {
            aimed.faults[0].on = vec![role.to_owned()];
            assert_eq!(moved_clocks(&aimed, &topology()), moved, "{role}");
        }
    }
}
