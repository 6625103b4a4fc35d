//! Whether the run tested anything: processes competed for a lock, and the faults took effect. Two processes
//! compete when one begins to acquire a key while another is acquiring it or holds it. Faults took effect
//! when one injected fault was observed to change something; a run without faults needs none. Where a server
//! ended and no fault did that, it is not known what the run tested. A holder that abandons its section,
//! because its lease is over before it could do anything, tests nothing.

use super::checker::{Checker, NotJudged};
use crate::figures::figures;
use crate::prose::times;
use crate::run_index::{HoldEnd, RunIndex};
use crate::verdict::{Outcome, Verdict};
use fencepost_history::f;
use rustc_hash::FxHashMap;

figures! {
    /// What the run tested.
    VacuousFigures of "vacuous" {
        /// How often processes competed for a lock.
        contended: u64,
        faults: u64,
        effective: u64,
    }
}

pub(super) const VACUOUS: Checker = Checker {
    claim: None,
    ..Checker::of::<VacuousFigures>(
        "the test itself: processes competed for a lock, and the faults took effect",
        check,
    )
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let contended = contended(run);
    let (faults, effective) = (run.faults.len(), run.faults.iter().filter(|fault| fault.effective).count());
    let (outcome, summary) = if run.ended_unexplained().is_some() {
        (Outcome::Unknown, run.why_its_end_says_nothing().unwrap_or_default())
    } else if contended == 0 {
        (Outcome::Vacuous, "no two processes ever competed for a lock: nothing was tested".to_owned())
    } else if let Some(summary) = abandoned(run) {
        (Outcome::Vacuous, summary)
    } else if faults > 0 && effective == 0 {
        (
            Outcome::Vacuous,
            format!("none of {faults} faults had an effect that could be observed: nothing was tested"),
        )
    } else if let Some(name) = without_effect(run) {
        let summary = match run.faults.iter().any(|fault| fault.name == name) {
            true => format!("no fault of the nemesis {name} took effect"),
            false => format!("the nemesis {name} injected no fault: a longer run leaves it the time to"),
        };
        (Outcome::Vacuous, summary)
    } else if faults == 0 {
        (Outcome::Valid, format!("processes competed for a lock {}, without faults", times(contended as u64)))
    } else {
        let summary = format!(
            "processes competed for a lock {}; {effective} of {faults} faults took effect",
            times(contended as u64)
        );
        (Outcome::Valid, summary)
    };
    let [contended, faults, effective] = [contended, faults, effective].map(|count| count as u64);
    let figures = VacuousFigures { contended, faults, effective };
    Ok(Verdict::new(checker.name, outcome, summary).with_figures(&figures))
}

/// Says so where nine of ten holders, or more, gave up before they used the lock.
fn abandoned(run: &RunIndex) -> Option<String> {
    let abandoned = run.holds.iter().filter(|hold| hold.ends.abandoned_ns.is_some()).count();
    let holds = run.holds.len();
    (abandoned > 0 && abandoned * 10 >= holds * 9).then(|| {
        format!(
            "{abandoned} of {holds} holders gave up, since their lease was over, or nearly, before they could use the lock: \
             nothing was tested; compare the validity that the client reports (in milliseconds) with the TTL"
        )
    })
}

fn without_effect<'a>(run: &RunIndex<'a>) -> Option<&'a str> {
    let requested = run.nemeses.iter().copied();
    let took_effect = |name: &&str| run.faults.iter().any(|fault| fault.name == *name && fault.effective);
    let mut missing = requested.filter(|name| !took_effect(name));
    missing.next()
}

fn contended(run: &RunIndex) -> usize {
    // Of each key, the latest time until which anybody so far wants or has it, and the same for anybody but
    // that process, so that a process is not counted against itself.
    let mut claims: FxHashMap<&str, [(u64, u64); 2]> = FxHashMap::default();
    let ends: FxHashMap<usize, u64> = run
        .holds
        .iter()
        .map(|hold| {
            (hold.acquire, if hold.ends.how == HoldEnd::Open { u64::MAX } else { hold.ends.let_go_ns })
        })
        .collect();
    let mut count = 0;
    for (at, acquire) in
        run.operations.iter().enumerate().filter(|(_, operation)| operation.f() == f::ACQUIRE)
    {
        let completed = acquire.completion.map_or(u64::MAX, |event| event.time);
        let claim = (acquire.process, ends.get(&at).copied().unwrap_or(completed));
        let [best, second] = claims.entry(acquire.key).or_insert([(acquire.process, 0); 2]);
        let other = if best.0 == acquire.process { &*second } else { &*best };
        count += usize::from(other.0 != acquire.process && other.1 > acquire.invoke.time);
        if best.0 == claim.0 {
            best.1 = best.1.max(claim.1);
        } else if claim.1 > best.1 {
            (*second, *best) = (*best, claim);
        } else if claim.1 > second.1 || second.0 == best.0 {
            *second = claim;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::verdict;

    const COMPETING: &str = "
        0  1 invoke acquire a
        10 1 ok     acquire a
        20 2 invoke acquire a
        30 1 invoke release a
        31 1 ok     release a
        40 2 ok     acquire a";

    #[test]
    fn a_nemesis_none_of_whose_faults_took_effect_is_noticed() {
        let asked = |names: &str| format!("0 nemesis info nemeses - {names}{COMPETING}");
        assert_eq!(verdict(&VACUOUS, &asked("[]")).outcome, Outcome::Valid);
        assert_eq!(verdict(&VACUOUS, &asked("[\"pause\"]")).outcome, Outcome::Vacuous);
    }

    fn with_fault(effective: bool) -> String {
        format!(
            "0 nemesis invoke pause - {{id:1,stage:\"inject\",targets:[\"c1\"]}}
             0 nemesis ok     pause - {{id:1,stage:\"inject\",effective:{effective}}}{COMPETING}"
        )
    }

    #[test]
    fn accepts_competition_and_an_effective_fault() {
        assert_eq!(verdict(&VACUOUS, COMPETING).outcome, Outcome::Valid);
        let verdict = verdict(&VACUOUS, &with_fault(true));
        assert_eq!(verdict.summary, "processes competed for a lock once; 1 of 1 faults took effect");
    }

    #[test]
    fn rejects_what_tested_nothing() {
        assert_eq!(verdict(&VACUOUS, &with_fault(false)).outcome, Outcome::Vacuous);
        // One after the other, and a process against itself.
        let apart = COMPETING.replace("20 2 invoke", "35 2 invoke");
        assert_eq!(verdict(&VACUOUS, &apart).outcome, Outcome::Vacuous);
        let alone = COMPETING.replace("20 2 invoke acquire a", "").replace("40 2 ok     acquire a", "");
        assert_eq!(verdict(&VACUOUS, &alone).outcome, Outcome::Vacuous);
        assert_eq!(verdict(&VACUOUS, "").outcome, Outcome::Vacuous);
    }

    #[test]
    fn rejects_a_run_whose_holders_all_gave_up() {
        let gave_up = |process: u8| {
            format!("\n50 nemesis info section-abandoned - {{process:{process},key:\"a\",late_ms:0}}")
        };
        let all = verdict(&VACUOUS, &format!("{COMPETING}{}{}", gave_up(1), gave_up(2)));
        assert_eq!(all.outcome, Outcome::Vacuous);
        assert!(all.summary.starts_with("2 of 2 holders gave up"), "{}", all.summary);
        assert_eq!(verdict(&VACUOUS, &format!("{COMPETING}{}", gave_up(2))).outcome, Outcome::Valid);
    }

    #[test]
    fn each_key_is_competed_for_by_itself() {
        let apart = COMPETING
            .replace("2 invoke acquire a", "2 invoke acquire b")
            .replace("2 ok     acquire a", "2 ok acquire b");
        assert_eq!(verdict(&VACUOUS, &apart).outcome, Outcome::Vacuous);
    }
}
