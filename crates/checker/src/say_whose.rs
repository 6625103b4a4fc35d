//! Whose failure a finding shows.
//!
//! A run by itself shows what happened, and which faults were there; it does not show the code. So it goes by
//! what can have done it: of two holds that overlap by how the earlier grant can have ended
//! ([`judgement`]), of other findings by what faults explain. docs/checking.md has the tables.

use crate::ledger::judgement;
use crate::properties::{Blame, Checker, Overlap, stuck_by_the_service};
use crate::run_index::RunIndex;
use crate::story::overlap_among;
use crate::verdict::{Finding, Verdict};
use crate::whose::Whose;

/// Says of every finding of a checker whose failure it shows. `overlaps` are those of the run.
pub(crate) fn say_whose(run: &RunIndex, overlaps: &[Overlap], checker: &dyn Checker, verdict: &mut Verdict) {
    verdict.say_whose(checker.harm(), |finding| whose(run, overlaps, checker.blame(), finding));
}

fn whose(run: &RunIndex, overlaps: &[Overlap], blame: Blame, finding: &Finding) -> Whose {
    let service_if = |is_service: bool| if is_service { Whose::Service } else { Whose::Library };
    match blame {
        Blame::Library => Whose::Library,
        Blame::Service => Whose::Service,
        Blame::ByAnswers => service_if(stuck_by_the_service(run, finding)),
        Blame::ByMemory => service_if(forgot_meanwhile(run, finding)),
        Blame::ByHolders => match overlap_among(run, overlaps, finding) {
            Some(overlap) => {
                let (a, b) = (&run.holds[overlap.first], &run.holds[overlap.second]);
                judgement::whose(run, overlap.class, a, b).0
            }
            None if run.setting().any_fault(0, finding.time) => Whose::NoFence,
            None => Whose::Library,
        },
    }
}

/// Whether anything can have made the servers forget what they had granted, between the first of the cited
/// grants and the finding.
fn forgot_meanwhile(run: &RunIndex, finding: &Finding) -> bool {
    let cited = run.holds.iter().filter(|hold| finding.events.contains(&hold.from));
    let Some(first) = cited.min_by_key(|hold| hold.from) else { return false };
    run.setting().on_service(first.invoke_ns, first.granted.earliest.ns, finding.time).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_run;
    use crate::literal::events;

    /// Process 2 gets the lock although process 1 got it for 0.5 s no more than 0.4 s ago, after a long wait.
    const GRANTED_TWICE: &str = "
        0    nemesis info lock - {name:\"x\",lease:\"ttl\"}
        0    nemesis info servers - [\"n1\",\"n2\"]
        0    nemesis info nodes - {slots:[\"c1\",\"c2\",\"c3\"]}
        0    1 invoke acquire a {ttl_ms:500}
        HIT
        2010 1 ok     acquire a {validity_ms:490,waited_ms:2008}
        2300 2 invoke acquire a {ttl_ms:500}
        2400 2 ok     acquire a {validity_ms:400,waited_ms:99}
        2500 1 invoke release a
        2510 1 ok     release a {believed:true}";

    #[test]
    fn a_clock_that_was_right_again_excuses_no_library() {
        let whose = |until_ms: u64, description: &str| {
            let hit = format!(
                "100 nemesis invoke x - {{id:1,stage:\"inject\",targets:[\"n1\"]}}
                 200 nemesis ok x - {{id:1,stage:\"inject\",effective:true,description:{{{description}}}}}
                 {until_ms} nemesis ok x - {{id:1,stage:\"heal\"}}"
            );
            let verdict = check_run(&events(&GRANTED_TWICE.replace("HIT", &hit)));
            let exclusion = verdict.verdicts.iter().find(|each| each.checker == "exclusion").unwrap();
            assert_eq!(exclusion.findings[0].class, "granted-twice");
            exclusion.findings[0].whose.unwrap()
        };
        assert_eq!(whose(1500, "moves_clocks:true"), Whose::Library);
        assert_eq!(whose(2000, "moves_clocks:true"), Whose::Service);
        assert_eq!(whose(1500, "takes_down:true"), Whose::Service, "a failover may go on");
    }
}
