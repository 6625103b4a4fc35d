use crate::run_index::{Fault, RunIndex};
use fencepost_history::{RunPhase, f};
use serde::{Deserialize, Serialize};

/// What the lock of a run cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// How many acquires succeeded before everything was healed for good.
    pub acquisitions: usize,
    pub acquisitions_per_s: f64,
    /// Of the acquires that succeeded. None where none did.
    pub acquire_median_ms: Option<f64>,
    pub acquire_p99_ms: Option<f64>,
    /// The longest time from the healing of the last fault in force to the next acquire that succeeded, or at
    /// least to the next fault or the history's end. None without a fault that took effect and was healed.
    pub recovery_ms: Option<f64>,
}

/// Measures what the lock cost.
pub fn costs(run: &RunIndex) -> Costs {
    let granted =
        || run.operations.iter().filter(|op| op.f() == f::ACQUIRE).filter_map(|op| Some((op, op.ok()?)));
    let mut latencies: Vec<u64> =
        granted().map(|(acquire, ok)| ok.time.saturating_sub(acquire.invoke.time)).collect();
    latencies.sort_unstable();
    let from_ns = run.phase(RunPhase::Main).map_or(0, |phase| phase.from_ns);
    let until_ns = [RunPhase::Heal, RunPhase::Closing]
        .into_iter()
        .find_map(|phase| run.phase(phase))
        .map_or(run.end_ns, |phase| phase.from_ns);
    let acquisitions = granted().filter(|(_, ok)| (from_ns..=until_ns).contains(&ok.time)).count();
    let seconds = until_ns.saturating_sub(from_ns) as f64 / 1e9;
    Costs {
        acquisitions,
        acquisitions_per_s: if seconds > 0.0 { acquisitions as f64 / seconds } else { 0.0 },
        acquire_median_ms: quantile(&latencies, 0.5).map(ms),
        acquire_p99_ms: quantile(&latencies, 0.99).map(ms),
        recovery_ms: recovery_ns(run).map(ms),
    }
}

/// The value below which that share of the sorted values lies. None of none.
pub fn quantile(sorted: &[u64], share: f64) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(last as f64 * share).round() as usize])
}

/// In milliseconds, to the microsecond: the history is not more exact than that.
fn ms(ns: u64) -> f64 {
    (ns as f64 / 1e3).round() / 1e3
}

fn recovery_ns(run: &RunIndex) -> Option<u64> {
    let mut grants: Vec<u64> = run.holds.iter().map(|hold| hold.from_ns).collect();
    grants.sort_unstable();
    let effective = || run.faults.iter().filter(|fault| fault.effective);
    let in_force =
        |fault: &Fault, at: u64| fault.inject_ns <= at && fault.healed_ns.is_none_or(|healed| healed > at);
    effective()
        .filter_map(|fault| fault.healed_ns)
        .filter(|&healed| !effective().any(|fault| in_force(fault, healed)))
        .map(|healed| {
            let next = |at: Option<u64>| at.unwrap_or(run.end_ns);
            let granted = next(grants.get(grants.partition_point(|&at| at < healed)).copied());
            let next_fault = next(effective().map(|fault| fault.inject_ns).filter(|&at| at >= healed).min());
            granted.min(next_fault).saturating_sub(healed)
        })
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::events;

    fn measured(text: &str) -> Costs {
        costs(&RunIndex::new(&events(text)).unwrap())
    }

    const RUN: &str = "
        0    nemesis info phase - \"main\"
        100  1 invoke acquire a
        110  1 ok     acquire a
        200  1 invoke release a
        201  1 ok     release a
        300  nemesis invoke pause - {id:0,stage:\"inject\"}
        310  nemesis ok     pause - {id:0,stage:\"inject\",effective:true}
        320  2 invoke acquire a
        900  nemesis invoke pause - {id:0,stage:\"heal\"}
        910  nemesis ok     pause - {id:0,stage:\"heal\"}
        1350 2 ok     acquire a
        2000 nemesis info phase - \"heal\"
        2100 3 invoke acquire b
        2130 3 ok     acquire b";

    #[test]
    fn counts_while_the_test_ran_and_times_the_way_back() {
        let costs = measured(RUN);
        assert_eq!((costs.acquisitions, costs.acquisitions_per_s), (2, 1.0));
        assert_eq!((costs.acquire_median_ms, costs.acquire_p99_ms), (Some(30.0), Some(1030.0)));
        assert_eq!(costs.recovery_ms, Some(440.0));
    }

    #[test]
    fn the_way_back_begins_when_no_fault_is_left() {
        let second = RUN
            .replace(
                "900  nemesis invoke",
                "800  nemesis invoke kill - {id:1,stage:\"inject\"}
        810  nemesis ok     kill - {id:1,stage:\"inject\",effective:true}
        900  nemesis invoke",
            )
            .replace(
                "1350 2 ok",
                "1090 nemesis invoke kill - {id:1,stage:\"heal\"}
        1100 nemesis ok     kill - {id:1,stage:\"heal\"}
        1350 2 ok",
            );
        assert_eq!(measured(&second).recovery_ms, Some(250.0));
    }

    #[test]
    fn a_service_that_never_came_back_took_at_least_until_the_end() {
        let costs = measured(
            &RUN.replace("1350 2 ok     acquire a", "1350 2 fail acquire a null timeout")
                .replace("2130 3 ok     acquire b", "2130 3 fail acquire b null timeout"),
        );
        assert_eq!(costs.recovery_ms, Some(1220.0));
        assert_eq!(costs.acquisitions, 1);
    }

    #[test]
    fn without_faults_and_acquires_there_is_nothing_to_measure() {
        let costs = measured("0 nemesis info phase - \"main\"\n1000 nemesis info phase - \"closing\"");
        assert_eq!((costs.acquisitions_per_s, costs.acquire_median_ms, costs.recovery_ms), (0.0, None, None));
    }
}
