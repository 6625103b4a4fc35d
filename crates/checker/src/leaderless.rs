//! How long an election had no leader, while some process campaigned. A process leads from its grant until it
//! lets go of it: it begins to resign, is notified that it no longer leads, or ends. While its client is
//! stopped it does not lead, and a leadership of which no more is known ends with its lease. No clock but the
//! controller's is used, so each time without a leader is known within bounds.

use crate::run_index::{Fault, Hold, RunIndex};
use crate::spans::{Span, difference, union};
use crate::tracker::HoldEnd;
use crate::wants::{View, wants};
use fencepost_history::{FaultEffect, RunPhase};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leaderless {
    /// When it began at the earliest.
    pub from_ns: u64,
    pub at_least_ns: u64,
    pub at_most_ns: u64,
}

pub(crate) fn longest_without_leader(run: &RunIndex) -> Leaderless {
    let from_ns = run.phase(RunPhase::Main).map_or(0, |phase| phase.from_ns);
    let within = (from_ns, last_campaign_ns(run).max(from_ns));
    let mut longest = Leaderless::default();
    for (key, wanted) in wants(run, (0, within.1), View::Benefit) {
        let holds = || run.holds.iter().filter(|hold| hold.key == key);
        let led = |led_by: fn(&RunIndex, &Hold) -> Vec<Span>| {
            let spans: Vec<Span> = holds().flat_map(|hold| led_by(run, hold)).collect();
            wanted.without(&union(spans), within)
        };
        let (least, most) = (led(may_lead), led(leads));
        let length = |span: &Span| span.1 - span.0;
        longest.at_least_ns = least.iter().map(length).fold(longest.at_least_ns, u64::max);
        let Some(most) = most.into_iter().max_by_key(length) else { continue };
        if length(&most) > longest.at_most_ns {
            (longest.from_ns, longest.at_most_ns) = (most.0, length(&most));
        }
    }
    longest
}

/// Until when processes began to campaign: near the end of a run each ends what it is in the middle of.
fn last_campaign_ns(run: &RunIndex) -> u64 {
    let Some(heal) = run.phase(RunPhase::Heal) else { return run.end_ns };
    let close_ns = run.phase(RunPhase::Closing).map_or(run.end_ns, |phase| phase.from_ns);
    let began = run.acquires().map(|acquire| acquire.invoke.time).filter(|began_ns| *began_ns < close_ns);
    began.fold(heal.from_ns, u64::max)
}

fn leads(run: &RunIndex, hold: &Hold) -> Vec<Span> {
    let until_ns = if hold.ends.how == HoldEnd::Open { hold.until_ns } else { hold.ends.let_go_ns };
    let stopped = stops(run, hold, |fault| (fault.inject_ns, fault.healed_ns));
    difference(&[(hold.from_ns, until_ns)], &stopped, (0, u64::MAX))
}

fn may_lead(run: &RunIndex, hold: &Hold) -> Vec<Span> {
    let until_ns = if hold.ends.how == HoldEnd::Open { hold.end_latest_ns() } else { hold.ends.let_go_ns };
    let stopped = stops(run, hold, |fault| (fault.injected_ns.unwrap_or(u64::MAX), fault.heal_ns));
    difference(&[(hold.granted.earliest.ns, until_ns)], &stopped, (0, u64::MAX))
}

/// When the client of a hold was stopped. One that was killed does not come back.
fn stops(run: &RunIndex, hold: &Hold, span: impl Fn(&Fault) -> (u64, Option<u64>)) -> Vec<Span> {
    let own = run.nodes.client_of(hold.process);
    let of_own = run.faults.iter().filter(|fault| {
        let is_later = fault.inject_ns >= hold.invoke_ns || fault.in_force(hold.from_ns, u64::MAX);
        is_later && fault.effective && own.is_some_and(|own| fault.targets.contains(&own))
    });
    let spans = of_own.filter_map(|fault| {
        let (from_ns, until_ns) = span(fault);
        match (fault.can(FaultEffect::Kills), fault.can(FaultEffect::Stops)) {
            (true, _) => Some((from_ns, u64::MAX)),
            (false, true) => Some((from_ns, until_ns.unwrap_or(u64::MAX))),
            (false, false) => None,
        }
    });
    union(spans.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::events;

    fn longest(text: &str) -> [u64; 3] {
        let events = events(text);
        let Leaderless { from_ns, at_least_ns, at_most_ns } =
            longest_without_leader(&RunIndex::new(&events).unwrap());
        [from_ns, at_least_ns, at_most_ns].map(|ns| ns / 1_000_000)
    }

    const NODES: &str = "0 nemesis info nodes - {slots:[\"c1\",\"c2\",\"c3\"]}\n";
    const LEADS: &str = "100 1 invoke acquire a {ttl_ms:2000}\n110 1 ok acquire a\n";

    #[test]
    fn it_lasts_from_the_end_of_a_leadership_to_the_next_grant() {
        let handed_over = format!(
            "{LEADS}200 2 invoke acquire a {{ttl_ms:2000}}\n900 1 invoke release a\n910 1 ok release a {{believed:true}}\n\
             1500 2 ok acquire a"
        );
        // The next one may have led from its question on; it certainly did from the answer on.
        assert_eq!(longest(&handed_over), [900, 0, 600]);
        let refused = handed_over.replace(
            "1500 2 ok acquire a",
            "1000 2 fail acquire a null taken\n1400 2 invoke acquire a {ttl_ms:2000}\n1500 2 ok acquire a",
        );
        assert_eq!(longest(&refused), [900, 500, 600]);
    }

    #[test]
    fn the_end_of_a_run_in_which_processes_stop_does_not_count() {
        let run = |next: &str| {
            format!(
                "{LEADS}200 2 invoke acquire a {{ttl_ms:2000}}\n500 nemesis info phase - \"heal\"\n600 1 invoke release a
                 610 1 ok release a {{believed:true}}\n{next}1900 2 fail acquire a null taken\n2000 nemesis info phase - \"closing\""
            )
        };
        assert_eq!(longest(&run(""))[2], 10, "before the first");
        assert_eq!(longest(&run("1500 1 invoke acquire a\n1700 1 fail acquire a null taken\n"))[2], 900);
    }

    #[test]
    fn no_time_counts_in_which_no_process_campaigned() {
        let idle = format!(
            "{LEADS}900 1 invoke release a\n910 1 ok release a {{believed:true}}\n5000 2 invoke acquire a\n5001 2 ok acquire a"
        );
        assert_eq!(longest(&idle)[2], 10, "before the first");
    }

    /// A leader whose client is killed at 0.5 s, and one that is stopped from then until 4.5 s.
    #[test]
    fn a_process_that_is_stopped_or_killed_does_not_lead() {
        let hit = |effect: &str| {
            format!(
                "{NODES}{LEADS}200 2 invoke acquire a {{ttl_ms:2000}}
                 500 nemesis invoke x - {{id:1,stage:\"inject\",targets:[\"c2\"],description:{{effects:[\"{effect}\"],sentence:\"x\"}}}}
                 510 nemesis ok x - {{id:1,stage:\"inject\",targets:[\"c2\"],effective:true}}
                 2400 2 fail acquire a null taken\n2500 2 invoke acquire a {{ttl_ms:2000}}\n2600 2 ok acquire a
                 4500 nemesis invoke x - {{id:1,stage:\"heal\"}}\n4510 nemesis ok x - {{id:1,stage:\"heal\"}}
                 4600 1 invoke release a\n4610 1 ok release a {{believed:true}}"
            )
        };
        assert_eq!(longest(&hit("stops")), [500, 1990, 2100]);
        assert_eq!(longest(&hit("kills")), [500, 1990, 2100]);
        assert_eq!(longest(&hit("delays"))[2], 10);
    }
}
