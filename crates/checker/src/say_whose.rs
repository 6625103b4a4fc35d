//! Whose failure a finding shows. A run shows events and faults, not the code. So this goes by what can have
//! done it, and names both causes where two remain: of two holds that overlap by how the earlier grant can
//! have ended ([`judgement`]), else by what faults explain. The tables are in docs/checking.md.

use crate::ledger::judgement::{self, Class};
use crate::properties::{Blame, Checker, Overlap, stuck_by_the_service};
use crate::run_index::RunIndex;
use crate::story::overlap_among;
use crate::verdict::{Finding, Verdict};
use crate::whose::{Attribution, OtherCause, Whose};

/// Says of every finding of a checker whose failure it shows. `overlaps` are those of the run.
pub(crate) fn say_whose(run: &RunIndex, overlaps: &[Overlap], checker: &Checker, verdict: &mut Verdict) {
    verdict.say_whose(checker.harm, |finding| attribution(run, overlaps, checker.blame, finding));
}

fn attribution(run: &RunIndex, overlaps: &[Overlap], blame: Blame, finding: &Finding) -> Attribution {
    let service_if = |is_service: bool| if is_service { Whose::Service } else { Whose::Library };
    let overlap = || overlap_among(run, overlaps, finding);
    let (whose, class) = match (blame, (blame == Blame::ByHolders).then(overlap).flatten()) {
        (Blame::Library, _) => (Whose::Library, None),
        (Blame::Service, _) => (Whose::Service, None),
        (Blame::ByAnswers, _) => (service_if(stuck_by_the_service(run, finding)), None),
        (Blame::ByMemory, _) => (service_if(forgot_meanwhile(run, finding)), None),
        (Blame::ByHolders, Some(overlap)) => {
            let (a, b) = (&run.holds[overlap.first], &run.holds[overlap.second]);
            (judgement::whose(run, overlap.class, a, b).0, Some(overlap.class))
        }
        (Blame::ByHolders, None) if run.setting().any_fault(0, finding.time) => (Whose::NoFence, None),
        (Blame::ByHolders, None) if stalled_meanwhile(run, finding) => (Whose::Machine, None),
        (Blame::ByHolders, None) => (Whose::Library, None),
    };
    let is_open = match whose {
        Whose::Service => run.unreadable().is_none(),
        // A session that nothing dates may have lived on.
        Whose::NoFence => class == Some(Class::CutOff),
        Whose::Library | Whose::Machine => false,
    };
    // A lock that is built in is the reference itself.
    let or = (is_open && !run.lock.client.is_empty()).then(|| by_the_client(blame));
    Attribution { whose, or }
}

/// What a fault explains, a mistake of the client's side may have done as well.
fn by_the_client(blame: Blame) -> OtherCause {
    let decides = match blame {
        // Without the fault there is nothing that the lock has to survive.
        Blame::Service => "the reference under the same faults (`--against`)",
        _ => "the same run without that fault, or the reference (`--against`)",
    };
    OtherCause { whose: Whose::Library, decides: decides.to_owned() }
}

/// Whether the machine stalled between the first cited grant and the finding: that may have made it late.
fn stalled_meanwhile(run: &RunIndex, finding: &Finding) -> bool {
    let cited = run.holds.iter().filter(|hold| finding.events.contains(&hold.from));
    let first_ns = cited.map(|hold| hold.from_ns).min().unwrap_or(0);
    run.stalls.within((first_ns, finding.time)) > 0
}

/// Whether anything can have made the servers forget their grants, from the first cited one to the finding.
fn forgot_meanwhile(run: &RunIndex, finding: &Finding) -> bool {
    let mut cited = run.holds.iter().filter(|hold| finding.events.contains(&hold.from));
    // In the order of their answers.
    let Some(first) = cited.next() else { return false };
    let setting = run.setting();
    setting.on_service(first.invoke_ns, first.granted.earliest.ns, finding.time).is_some()
        || cited.any(|later| setting.new_leader(first, later).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_run;
    use crate::testing::literal::events;

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
    fn a_holder_that_was_answered_that_it_prolonged_what_was_anothers_is_not_late() {
        let whose = |prolong: &str| {
            let verdict = check_run(&events(&format!(
                "0    nemesis info lock - {{name:\"x\",lease:\"ttl\",can:[\"prolong\"]}}
                 0    1 invoke acquire a {{ttl_ms:1000}}
                 10   1 ok     acquire a
                 1100 2 invoke acquire a {{ttl_ms:1000}}
                 1110 2 ok     acquire a
                 1200 2 invoke release a
                 1210 2 ok     release a {{believed:true}}
                 {prolong}
                 1500 1 invoke holds a
                 1510 1 ok     holds a true"
            )));
            let exclusion = verdict.verdicts.iter().find(|each| each.checker == "exclusion").unwrap();
            let finding = &exclusion.findings[0];
            (finding.class.clone(), finding.whose.unwrap())
        };
        let prolonged = whose("1400 1 invoke prolong a\n1410 1 ok prolong a");
        assert_eq!(prolonged, ("overstayed".to_owned(), Whose::Library));
        assert_ne!(whose("").1, Whose::Library);
    }

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

    /// Of each checker the first finding: whose failure it shows, and what else it may be.
    fn attributed(checker: &str, lock: &str, text: &str) -> String {
        let facts =
            format!("0 nemesis info lock - {{name:\"x\",{lock}}}\n0 nemesis info servers - [\"n1\"]\n");
        let verdict = check_run(&events(&format!("{facts}{text}")));
        verdict.of_checker(checker).unwrap().findings[0].attribution().unwrap().to_string()
    }

    const OWN: &str = "client:[\"my-client\"]";

    #[test]
    fn where_a_fault_or_the_client_may_have_done_it_both_are_named() {
        let fault = |effect: &str| {
            format!(
                "5 nemesis invoke x - {{id:1,stage:\"inject\",targets:[\"n1\"],description:{{effects:[\"{effect}\"],sentence:\"x\"}}}}
                 6 nemesis ok x - {{id:1,stage:\"inject\",targets:[\"n1\"],effective:true}}
                 7 nemesis ok x - {{id:1,stage:\"heal\"}}"
            )
        };
        let overlap = |effect: &str| {
            format!(
                "0  1 invoke acquire a {{ttl_ms:2000}}
                 1  1 ok     acquire a {{token:7}}
                 {}
                 10 2 invoke acquire a {{ttl_ms:2000}}
                 11 2 ok     acquire a {{token:5}}
                 20 1 invoke write   a 1
                 21 1 ok     write   a 1",
                fault(effect)
            )
        };
        let lease = |lease: &str| format!("{OWN},lease:\"{lease}\"");
        for (checker, lock, effect, expected) in [
            ("exclusion", lease("ttl"), "kills", "the service or the library"),
            ("fencing", lease("ttl"), "kills", "the service or the library"),
            ("exclusion", lease("session"), "parts", "no fence or the library"),
            ("exclusion", lease("ttl"), "refuses", "the library"),
            // The lock that is built in is the reference itself.
            ("exclusion", "lease:\"ttl\"".to_owned(), "kills", "the service"),
            ("exclusion", "lease:\"session\"".to_owned(), "parts", "no fence"),
        ] {
            assert_eq!(attributed(checker, &lock, &overlap(effect)), expected, "{checker}, {lock}, {effect}");
        }
    }

    #[test]
    fn a_grant_by_another_leader_is_the_services_also_when_the_fault_is_over() {
        let overlap = |leads: bool, (first, second): (&str, &str)| {
            format!(
                "0    nemesis info servers - [\"n1\",\"n2\"]
                 0    nemesis info nodes - {{slots:[\"c1\",\"c2\",\"c3\"],leader:{leads}}}
                 100  nemesis invoke x - {{id:1,stage:\"inject\",targets:[\"n1\"],description:{{effects:[\"stops\"],sentence:\"x\"}}}}
                 200  nemesis ok x - {{id:1,stage:\"inject\",targets:[\"n1\"],effective:true}}
                 1500 nemesis ok x - {{id:1,stage:\"heal\"}}
                 1590 1 invoke read    a
                 1591 1 ok     read    a 0
                 1600 1 invoke acquire a {{ttl_ms:2000,hold_ms:1500}}
                 1601 1 ok     acquire a {{granted_by:[\"{first}\"]}}
                 1700 2 invoke acquire a {{ttl_ms:2000}}
                 1701 2 ok     acquire a {{granted_by:[\"{second}\"]}}
                 1800 1 invoke write   a 1
                 1801 1 ok     write   a 1"
            )
        };
        let whose = |leads, by| attributed("exclusion", "lease:\"ttl\"", &overlap(leads, by));
        assert_eq!(whose(true, ("n1", "n2")), "the service");
        assert_eq!(whose(true, ("n1", "n1")), "the library");
        assert_eq!(whose(false, ("n1", "n2")), "the library");
        // Its lease may have run from 1.6 s or from 4.6 s on.
        let waited = |by| overlap(true, by).replace("1601 1", "4600 1").replace("1700 2", "4700 2");
        let waited = |by| {
            waited(by).replace("1701 2", "4701 2").replace("1800 1", "4800 1").replace("1801 1", "4801 1")
        };
        let whose = |by| attributed("exclusion", "lease:\"ttl\"", &waited(by));
        assert_eq!([whose(("n1", "n2")), whose(("n1", "n1"))], ["the service", "the library"]);
    }

    #[test]
    fn a_write_that_came_late_on_a_machine_that_stalled_is_the_machines() {
        let whose = |machine: &str| {
            let text = format!(
                "0  1 invoke acquire a {{ttl_ms:10}}
                 1  1 ok     acquire a {{token:1}}
                 2  1 invoke write   a 5
                 15 2 invoke acquire a {{ttl_ms:10}}
                 16 2 ok     acquire a {{token:2}}
                 17 2 invoke read    a
                 18 2 ok     read    a 4
                 19 2 invoke write   a 6
                 20 2 ok     write   a 6
                 25 1 info   write   a null timeout: no answer
                 {machine}
                 40 nemesis info storage-log - [[\"a\",2,\"read\",null],[\"a\",2,\"write\",6],[\"a\",1,\"write\",5]]"
            );
            attributed("stale-writes", "lease:\"ttl\"", &text)
        };
        assert_eq!(whose(""), "the library");
        assert_eq!(whose("30 nemesis info stalled - {node:\"c1\",for_ms:20}"), "the machine");
        assert_eq!(whose("39 nemesis info stalled - {node:\"c1\",for_ms:9}"), "the library", "it came later");
    }

    #[test]
    fn one_crowd_has_one_cause_whichever_of_its_holders_is_cited() {
        // The server's clock ends the permit of process 1 early; process 3 gets it, beside process 2.
        let text = "
            0    1 invoke acquire a {ttl_ms:5000,capacity:2}
            1    1 ok     acquire a
            5    nemesis invoke x - {id:1,stage:\"inject\",targets:[\"n1\"],description:{moves_clocks:true}}
            6    nemesis ok x - {id:1,stage:\"inject\",targets:[\"n1\"],effective:true}
            7    nemesis ok x - {id:1,stage:\"heal\"}
            10   2 invoke acquire a {ttl_ms:5000,capacity:2}
            11   2 ok     acquire a
            20   3 invoke acquire a {ttl_ms:5000,capacity:2}
            21   3 ok     acquire a
            50   3 invoke read    a
            60   3 ok     read    a [\"users\",1,2,3]
            70   1 invoke write   a [\"leave\",1]
            71   1 ok     write   a 1
            72   2 invoke write   a [\"leave\",2]
            73   2 ok     write   a 1
            74   3 invoke write   a [\"leave\",3]
            75   3 ok     write   a 1";
        for checker in ["exclusion", "users"] {
            assert_eq!(
                attributed(checker, "lease:\"ttl\",kind:\"semaphore\"", text),
                "the service",
                "{checker}"
            );
        }
    }

    #[test]
    fn the_verdict_has_both_and_what_decides() {
        let hit = "100 nemesis invoke x - {id:1,stage:\"inject\",targets:[\"n1\"]}
                   200 nemesis ok x - {id:1,stage:\"inject\",effective:true,description:{moves_clocks:true}}
                   2000 nemesis ok x - {id:1,stage:\"heal\"}";
        let text = GRANTED_TWICE.replace("HIT", hit).replace("name:", &format!("{OWN},name:"));
        let verdict = serde_json::to_string(&check_run(&events(&text))).unwrap();
        let both = "\"whose\":\"service\",\"or\":{\"whose\":\"library\",\"decides\":\"the same run without that fault, or the \
                    reference (`--against`)\"}";
        assert!(verdict.contains(both), "{verdict}");
    }
}
