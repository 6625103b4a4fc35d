//! Jobs that run once a tick. In the workload `tick` a process that was granted the lock for a tick writes
//! that it ran the job, and keeps the lock for so long that the tick has passed for all others, however much
//! their clocks differ; none runs a tick for which it was granted the lock later. So two runs of one tick are
//! two grants of which the second came while the first lasted. That shows also where the first process has
//! ended meanwhile, or learned that its lock was gone: the job ran twice all the same.
//!
//! - *Violation*, `ran-twice`: two processes ran one tick, both writes were acknowledged, the first process
//!   had not begun to release when the second was granted the lock, and neither a lease that ran out nor a
//!   session or a connection that a fault can have ended explains the second grant.
//! - *Violation*, `missed`: without faults, no process ran a tick, all that asked for the lock for it were
//!   refused, and while they asked, for half of the time that each was given, no process can have held it.
//! - What ran twice or never and is explained is counted.

use super::checker::{Blame, Checker, FindingClass, NotJudged};
use super::under_holds::holds_of_operations;
use crate::figures::figures;
use crate::ledger::judgement::{Class, class};
use crate::prose::{lock, seconds};
use crate::run_index::{Hold, Operation, RunIndex};
use crate::verdict::{Finding, Verdict};
use crate::wants::{View, WantsByKey, wants};
use crate::whose::Harm;
use fencepost_history::{Kind, Tick, f};
use std::collections::BTreeMap;

figures! {
    /// How often jobs ran.
    TicksFigures of "ticks" {
        /// Those for which a process asked for the lock.
        ticks: u64,
        ran: u64,
        /// Ran more than once, also where that is explained.
        twice: u64,
        missed: u64,
    }
}

const RAN_TWICE: &str = "ran-twice";
const MISSED: &str = "missed";

/// A lock that is free must be given within this part of the time that an acquire has.
const FREE_TIME: f64 = 0.5;

pub(super) const TICKS: Checker = Checker {
    classes: &[
        FindingClass {
            name: RAN_TWICE,
            meaning: "A job that must run once per tick ran twice in one tick, under a lock that was granted twice.",
            advice: "Let one clock decide when a lock ends, that of its servers, and make the job safe to repeat, or let the storage \
                     refuse a tick that it has.",
        },
        FindingClass {
            name: MISSED,
            meaning: "A job did not run in a tick: each process that was to run it was refused the lock, which no process held.",
            advice: "Look at what an earlier acquire or release left behind at the servers.",
        },
    ],
    claim: Some("exclusion"),
    harm: Harm::GrantedTwice,
    blame: Blame::ByHolders,
    ..Checker::of::<TicksFigures>("jobs: each runs once a tick", check)
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let jobs = jobs(run);
    if jobs.is_empty() {
        return Err(NotJudged::OTHER_WORKLOAD);
    }
    let keys = wants(run, (0, u64::MAX), View::Benefit);
    let twice = jobs.iter().filter(|(_, job)| job.runs.len() > 1);
    let ran_twice = twice.clone().filter_map(|(tick, job)| ran_twice(run, *tick, job));
    let missed: Vec<_> = jobs.iter().filter(|(_, job)| job.is_missed()).collect();
    let in_vain = missed.iter().filter_map(|(tick, job)| in_vain(run, &keys, **tick, job));
    let mut findings: Vec<Finding> = ran_twice.chain(in_vain).collect();
    findings.sort_by_key(|finding| finding.time);
    let figures = TicksFigures {
        ticks: jobs.len() as u64,
        ran: jobs.values().filter(|job| !job.runs.is_empty()).count() as u64,
        twice: twice.count() as u64,
        missed: missed.len() as u64,
    };
    let TicksFigures { ticks, ran, twice, missed } = figures;
    let rest = [(twice, "ran more than once"), (missed, "ran never")];
    let rest = rest.iter().filter(|(count, _)| *count > 0);
    let rest: String = rest.map(|(count, what)| format!(", {count} {what}")).collect();
    let valid = format!("{ran} of {ticks} ticks had their job run{rest}");
    Ok(checker.judged_by_first(valid, &figures, findings))
}

/// What became of one tick of a job.
#[derive(Default)]
struct Job<'r, 'a> {
    acquires: Vec<&'r Operation<'a>>,
    /// The holds under which it ran, in order, each with the write that says so.
    runs: Vec<(&'r Hold<'a>, &'r Operation<'a>)>,
    /// A write of it may have happened.
    may_have_run: bool,
}

impl Job<'_, '_> {
    /// A lock that was granted too late, too, was one that others held.
    fn is_missed(&self) -> bool {
        let is_refused = |acquire: &&Operation| acquire.did_not_happen();
        self.runs.is_empty() && !self.may_have_run && self.acquires.iter().all(is_refused)
    }
}

type TickOf<'a> = (&'a str, u64);

fn jobs<'r, 'a>(run: &'r RunIndex<'a>) -> BTreeMap<TickOf<'a>, Job<'r, 'a>> {
    let mut jobs: BTreeMap<TickOf, Job> = BTreeMap::new();
    for acquire in run.acquires() {
        if let Some(tick) = acquire.asked().tick {
            jobs.entry((acquire.key, tick)).or_default().acquires.push(acquire);
        }
    }
    if jobs.is_empty() {
        return jobs;
    }
    let holds = holds_of_operations(run);
    for write in run.calls(f::WRITE) {
        let Some(tick) = Tick::of(&write.invoke.value) else { continue };
        let job = jobs.entry((write.key, tick.number)).or_default();
        match (write.ok(), holds.get(&write.invoke.index)) {
            (Some(_), Some(&hold)) => job.runs.push((&run.holds[hold], write)),
            _ => job.may_have_run |= write.completion.is_none_or(|end| end.kind != Kind::Fail),
        }
    }
    jobs.values_mut().for_each(|job| job.runs.sort_by_key(|(hold, _)| hold.from));
    jobs
}

fn ran_twice(run: &RunIndex, (key, number): TickOf, job: &Job) -> Option<Finding> {
    let is_twice = |first: &Hold, second: &Hold| {
        first.from != second.from
            && first.ends.let_go_ns > second.granted.latest.ns
            && class(run, first, second) == Class::GrantedTwice
    };
    let pair = job.runs.windows(2).find(|pair| is_twice(pair[0].0, pair[1].0))?;
    let [(first, first_run), (second, second_run)] = [pair[0], pair[1]];
    let ends = [first_run, second_run].map(|write| write.completion.unwrap_or(write.invoke));
    let sentence = format!(
        "the job of tick {number} ran twice: {} and ran it, and process {} was granted it at {} and \
         ran it, too, before the first one had released it",
        first.was_granted(),
        second.process,
        seconds(second.from_ns),
    );
    Some(Finding::new(
        RAN_TWICE,
        key,
        ends[1].time,
        vec![first.from, ends[0].index, second.from, ends[1].index],
        sentence,
    ))
}

fn in_vain(run: &RunIndex, keys: &WantsByKey, (key, number): TickOf, job: &Job) -> Option<Finding> {
    let ends = || job.acquires.iter().filter_map(|acquire| acquire.completion);
    let span = (job.acquires.first()?.invoke.time, ends().map(|end| end.time).max()?);
    let given_ns = job.acquires.iter().filter_map(|acquire| acquire.timeout_ns()).max()?;
    let idle = keys.get(key)?.idle(span).into_iter().max_by_key(|span| run.stalls.rest_of(*span))?;
    let rest_ns = run.stalls.rest_of(idle);
    let is_so = rest_ns as f64 >= FREE_TIME * given_ns as f64 && !run.setting().any_fault(0, span.1);
    let (count, lock, from, to) = (job.acquires.len(), lock(key), seconds(idle.0), seconds(idle.1));
    let sentence = format!(
        "the job of tick {number} did not run: {count} acquires of {lock} were refused, although no process held it from {from} to {to}"
    );
    is_so.then(|| Finding::new(MISSED, key, span.1, ends().map(|end| end.index).collect(), sentence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{maybe_verdict, verdict};
    use crate::verdict::Outcome;

    const LOCK: &str = "0 nemesis info lock - {name:\"x\",lease:\"ttl\"}\n";

    /// Process 1 runs tick 3 and releases at this moment; process 2 asks as well, and is answered later.
    fn second(released_ms: u64, asked_ms: u64, answer: &str, runs: &str) -> String {
        let release = |at: u64, process| {
            format!("{at} {process} invoke release a\n{} {process} ok release a {{believed:true}}\n", at + 1)
        };
        let second = format!(
            "{asked_ms} 2 invoke acquire a {{ttl_ms:2000,timeout_ms:500,tick:3}}\n{} 2 {answer} acquire a {}\n{runs}",
            asked_ms + 5,
            if answer == "ok" { "{validity_ms:1995}" } else { "null taken: another holds it" }
        );
        let mut parts = [(released_ms, release(released_ms, 1)), (asked_ms, second)];
        parts.sort_by_key(|(at, _)| *at);
        let [one, two] = parts.map(|(_, text)| text);
        let after = if answer == "ok" { release(2900, 2) } else { String::new() };
        format!(
            "{LOCK}100 1 invoke acquire a {{ttl_ms:2000,timeout_ms:500,tick:3}}\n110 1 ok acquire a {{validity_ms:1990}}\n\
             111 1 invoke write a [\"tick\",3,1]\n112 1 ok write a 3\n{one}{two}{after}"
        )
    }

    fn run_at(at_ms: u64, end: &str) -> String {
        format!("{at_ms} 2 invoke write a [\"tick\",3,2]\n{} 2 {end}\n", at_ms + 1)
    }

    #[test]
    fn accepts_a_tick_that_ran_once_and_was_refused_to_others() {
        let verdict = verdict(&TICKS, &second(1100, 200, "fail", ""));
        assert_eq!((verdict.outcome, &verdict.stats["ran"]), (Outcome::Valid, &1.into()));
        assert_eq!(verdict.summary, "1 of 1 ticks had their job run");
    }

    #[test]
    fn rejects_a_tick_that_ran_twice() {
        let verdict = verdict(&TICKS, &second(1100, 200, "ok", &run_at(206, "ok write a 3")));
        assert_eq!(verdict.outcome, Outcome::Violation);
        assert_eq!(verdict.findings[0].class, RAN_TWICE);
        assert_eq!(
            verdict.findings[0].sentence,
            "the job of tick 3 ran twice: process 1 was granted a at 0.110 s and ran it, and process 2 was granted it at 0.205 s and \
             ran it, too, before the first one had released it"
        );
    }

    #[test]
    fn what_is_released_or_over_before_is_no_grant_made_twice() {
        let released = second(150, 200, "ok", &run_at(206, "ok write a 3"));
        let over = second(2800, 2200, "ok", &run_at(2206, "ok write a 3"));
        for text in [released, over] {
            let verdict = verdict(&TICKS, &text);
            assert_eq!(
                (verdict.outcome, &verdict.stats["twice"]),
                (Outcome::Valid, &1.into()),
                "{}",
                verdict.summary
            );
        }
    }

    #[test]
    fn a_run_that_was_not_acknowledged_is_none() {
        for end in ["info write a null timeout: no answer", "fail write a null rejected: stale-token: 1 < 2"]
        {
            let verdict = verdict(&TICKS, &second(1100, 200, "ok", &run_at(206, end)));
            assert_eq!((verdict.outcome, &verdict.stats["twice"]), (Outcome::Valid, &0.into()), "{end}");
        }
    }

    /// Two processes are refused a lock for tick 4, one after the other, from 3 s on.
    fn refused(why: &str, fault: &str) -> String {
        format!(
            "{}{fault}3000 3 invoke acquire a {{ttl_ms:2000,timeout_ms:500,tick:4}}\n3100 4 invoke acquire a {{ttl_ms:2000,timeout_ms:500,tick:4}}\n\
             3500 3 fail acquire a null {why}\n3600 4 fail acquire a null {why}\n",
            second(1100, 200, "fail", "")
        )
    }

    #[test]
    fn rejects_a_tick_that_a_free_lock_was_refused_for() {
        let verdict = verdict(&TICKS, &refused("taken: another holds it", ""));
        assert_eq!(verdict.outcome, Outcome::Violation);
        assert_eq!(
            verdict.findings[0].sentence,
            "the job of tick 4 did not run: 2 acquires of a were refused, although no process held it from 3.000 s to 3.600 s"
        );
    }

    #[test]
    fn a_tick_that_errors_or_faults_explain_is_not_missed() {
        let errors = verdict(&TICKS, &refused("refused-by-library: acquire returned false", ""));
        assert_eq!((errors.outcome, &errors.stats["missed"]), (Outcome::Valid, &0.into()));
        let fault = "2000 nemesis invoke pause - {id:1,stage:\"inject\",targets:[\"n1\"]}\n";
        let faulty = verdict(&TICKS, &refused("taken: another holds it", fault));
        assert_eq!((faulty.outcome, &faulty.stats["missed"]), (Outcome::Valid, &1.into()));
    }

    #[test]
    fn other_workloads_have_no_ticks() {
        assert_eq!(maybe_verdict(&TICKS, "10 1 invoke acquire a\n20 1 ok acquire a"), None);
    }
}
